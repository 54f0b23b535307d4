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
        return SignInService(g.accounts, g.sessions, self.events, self.hasher, self.limiter, self.settings)

    @lazy
    def accounts(self) -> AccountService:
        """Password, sessions, invites, messages for the next page."""
        g = self.gateways
        return AccountService(
            g.accounts,
            g.sessions,
            g.erasure,
            g.profiles,
            g.tokens,
            self.jobs,
            self.events,
            self.hasher,
            self.limiter,
        )

    @lazy
    def tokens(self) -> TokenService:
        """App passwords and access tokens."""
        g = self.gateways
        return TokenService(
            g.tokens, g.accounts, self.admin_accounts, self.events, self.limiter, self.settings
        )

    @lazy
    def admin_accounts(self) -> AdminAccountService:
        """Other people's accounts, invites."""
        g = self.gateways
        return AdminAccountService(
            g.admin_accounts,
            g.accounts,
            g.sessions,
            g.profiles,
            g.tokens,
            self.events,
            self.hasher,
            self.limiter,
            self.settings,
        )
