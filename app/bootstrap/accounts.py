"""Builds the services of accounts."""

from __future__ import annotations

from app.bootstrap.base import Base
from app.runtime.lazy import lazy
from app.services.accounts.accounts import AccountService
from app.services.accounts.admin_accounts import AdminAccountService
from app.services.accounts.passwords import Hasher
from app.services.accounts.sign_in import SignInService
from app.services.accounts.tokens import TokenService


class AccountServices(Base):
    """The services of accounts."""

    @lazy
    def hasher(self) -> Hasher:
        """Password hashes; one per process, because it limits their memory."""
        return Hasher(self.settings)

    @lazy
    def sign_in(self) -> SignInService:
        """Sign up, log in, resume a session, log out."""
        g = self.gateways
        return SignInService(
            accounts=g.accounts,
            sessions=g.sessions,
            events=self.events,
            hasher=self.hasher,
            limiter=self.limiter,
            settings=self.settings,
        )

    @lazy
    def accounts(self) -> AccountService:
        """Password, sessions, invites, messages for the next page."""
        g = self.gateways
        return AccountService(
            accounts=g.accounts,
            sessions=g.sessions,
            erasure=g.erasure,
            profiles=g.profiles,
            tokens=g.tokens,
            jobs=self.jobs,
            events=self.events,
            hasher=self.hasher,
            limiter=self.limiter,
        )

    @lazy
    def tokens(self) -> TokenService:
        """App passwords and access tokens."""
        g = self.gateways
        return TokenService(
            tokens=g.tokens,
            accounts=g.accounts,
            people=self.admin_accounts,
            events=self.events,
            limiter=self.limiter,
            settings=self.settings,
        )

    @lazy
    def admin_accounts(self) -> AdminAccountService:
        """Other people's accounts, invites."""
        g = self.gateways
        return AdminAccountService(
            people=g.admin_accounts,
            accounts=g.accounts,
            sessions=g.sessions,
            profiles=g.profiles,
            tokens=g.tokens,
            events=self.events,
            hasher=self.hasher,
            limiter=self.limiter,
            settings=self.settings,
        )
