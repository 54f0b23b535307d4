"""Administration of accounts, invites and password reset links; every change is logged (W20)."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Sequence

from app import clock, logs
from app.config import Settings
from app.errors import ForbiddenError, InvalidError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.admin_accounts import AdminAccountGateway
from app.gateways.accounts.sessions import SessionGateway
from app.gateways.accounts.tokens import TokenGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.models.accounts.actor import Actor, Permission, Role
from app.models.accounts.admin_accounts import AccountPage, AccountRow, Invite
from app.models.accounts.user import NewUser, Session, User
from app.ports import EventPort
from app.services.access import Limiter, require_permission, throttle
from app.services.accounts import passwords
from app.services.accounts.passwords import Hasher
from app.services.accounts.sign_in import Client, check_identity
from app.services.validation import check_id, check_text

log = logs.get(__name__)

PAGE = 50
#: Wrong passwords per admin and window in seconds; each network gets four times as many reset link uses.
TRIES, WINDOW = 5, 900
_VOID = "This link isn't valid anymore. Ask the person who sent it to you for a new one."


class AdminAccountService:
    """Manages other users' accounts, for admins.

    Methods with an actor raise: ForbiddenError: the actor isn't an admin.
    """

    def __init__(
        self,
        *,
        people: AdminAccountGateway,
        accounts: AccountGateway,
        sessions: SessionGateway,
        profiles: ProfileGateway,
        tokens: TokenGateway,
        events: EventPort,
        hasher: Hasher,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._people, self._accounts, self._profiles = people, accounts, profiles
        self._sessions = sessions
        self._tokens = tokens
        self._events, self._hasher, self._limiter = events, hasher, limiter
        self._proof = dt.timedelta(seconds=settings.proof_ttl)

    def list_accounts(self, actor: Actor, text: str = "", after: str = "") -> AccountPage:
        """Return a page of the accounts whose name or email address contains ``text``, sorted by name."""
        require_permission(actor, Permission.USER_MANAGE)
        text = check_text(text, "text", limit=254, empty=True)
        return self._people.list_accounts(text, check_text(after, "after", limit=64, empty=True), PAGE)

    def get_account(self, actor: Actor, user_id: int) -> AccountRow:
        """Return one account.

        Raises:
            NotFoundError: the account doesn't exist.
        """
        require_permission(actor, Permission.USER_MANAGE)
        return self._people.get_account(check_id(user_id, "user"))

    def find_names(self, actor: Actor, user_ids: Sequence[int]) -> dict[int, str]:
        """Return the names of these accounts by id; deleted ones are left out."""
        require_permission(actor, Permission.USER_MANAGE)
        return self._accounts.find_names(user_ids)

    # -- W11
    def is_proved(self, session: Session) -> bool:
        """Return whether the session's user entered their password within the last ``proof_ttl`` seconds."""
        return clock.now() - (session.proved or session.created) <= self._proof

    def verify_password(self, actor: Actor, session: Session, password: str) -> None:
        """Check the password again, and let the session change access rights for ``proof_ttl`` seconds.

        Raises:
            InvalidError: this is not the actor's password; field ``proof``.
            RateLimitedError: too many wrong passwords.
        """
        if self.is_proved(session):
            return
        if not password:
            raise InvalidError("Confirm your password to change someone's access.", field="proof")
        self.check_password(actor, password, "proof")
        self._people.set_proved(session.key)
        log.info("password_proved", user_id=actor.user_id)

    def check_password(self, actor: Actor, password: str, field: str = "password") -> None:
        """Check the password for this one request, which may be a program's.

        Sessions and programs share the tries, so that a stolen token gives no more of them.

        Raises:
            InvalidError: this is not the actor's password; the error names ``field``.
            RateLimitedError: too many wrong passwords.
        """
        who = f"proof:{actor.user_id}"
        throttle(self._limiter, who, limit=TRIES, window=WINDOW)
        if not self._hasher.verify(self._accounts.find_password_hash(actor.user_id), password):
            raise InvalidError("The password is incorrect. Try again.", field=field)
        self._limiter.reset(who)

    # -- access rights
    def set_role(self, actor: Actor, session: Session, user_id: int, role: Role, proof: str = "") -> None:
        """Make another account an admin or a user.

        Raises, like :meth:`set_disabled` and :meth:`create_reset_link`: InvalidError: the account is the
            actor's own, or the password is required and wrong. NotFoundError: there is no such account.
            ConflictError: the server would have no admin left.
        """
        self._check(actor, session, user_id, proof)
        self._people.set_role(user_id, role)
        log.info("role_changed", user_id=user_id, role=role.value, by=actor.user_id)

    def set_disabled(
        self, actor: Actor, session: Session, user_id: int, disabled: bool, proof: str = ""
    ) -> None:
        """Disable an account and end its sessions, or enable the account again."""
        self._check(actor, session, user_id, proof)
        self._people.set_disabled(user_id, disabled)
        if disabled:
            self._events.end_streams(user_id)
        self._profiles.apply_account_state(user_id)
        log.info("user_disabled" if disabled else "user_enabled", user_id=user_id, by=actor.user_id)

    def confirm_email(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> None:
        """Vouch for the email address of another account, so that its owner can log in with it (W07).

        Raises, like :meth:`set_role`; ExistsError: another account has this address as vouched for.
        """
        self._check(actor, session, user_id, proof)
        self._people.confirm_email(user_id)
        log.info("email_confirmed", user_id=user_id, by=actor.user_id)

    def create_reset_link(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> str:
        """Return the token of a link for choosing a new password; the token is shown only once."""
        self._check(actor, session, user_id, proof)
        self._people.get_account(user_id)
        token = self._people.create_reset_link(user_id)
        log.info("reset_link_made", user_id=user_id, by=actor.user_id)
        return token

    def _check(self, actor: Actor, session: Session, user_id: int, proof: str) -> None:
        require_permission(actor, Permission.USER_MANAGE)
        if check_id(user_id, "user") == actor.user_id:
            raise InvalidError(
                "This is your own account. Change it in Settings, or ask another admin to change it here."
            )
        self.verify_password(actor, session, proof)

    def end_sessions(self, actor: Actor, user_id: int) -> int:
        """End all sessions of an account; return how many ended."""
        require_permission(actor, Permission.USER_MANAGE)
        count = self._people.end_sessions(check_id(user_id, "user"))
        self._events.end_streams(user_id)
        log.info("sessions_ended", user_id=user_id, count=count, by=actor.user_id)
        return count

    def create_account(
        self, actor: Actor, session: Session, email: str, *, name: str, role: Role, proof: str = ""
    ) -> tuple[User, str]:
        """Create an account; return it and the token of the link where its owner chooses a password.

        Raises:
            InvalidError: a field is invalid.
            ExistsError: the name is taken, or another account has this address as vouched for.
        """
        require_permission(actor, Permission.USER_CREATE)
        check_identity(name, email)
        self.verify_password(actor, session, proof)
        # Nobody knows this random password: the owner chooses the first one through the link.
        new = NewUser(email, name, self._hasher.hash(secrets.token_urlsafe(32)))
        user = self._accounts.add_user(new, role, vouched=True)
        log.info("user_created", user_id=user.id, role=role.value, by=actor.user_id)
        return user, self._people.create_reset_link(user.id)

    # -- invites
    def list_invites(self, actor: Actor) -> list[Invite]:
        """Return the invites that have not expired, newest first."""
        require_permission(actor, Permission.USER_CREATE)
        return self._people.list_invites()

    def create_invite(self, actor: Actor) -> str:
        """Create an invite and return its token, which is shown only once."""
        require_permission(actor, Permission.USER_CREATE)
        token = self._accounts.create_invite(actor.user_id)
        log.info("invite_made", by=actor.user_id)
        return token

    def revoke_invite(self, actor: Actor, invite_id: str) -> None:
        """Revoke an unused invite.

        Raises:
            NotFoundError: there is no such invite.
        """
        require_permission(actor, Permission.USER_CREATE)
        self._people.revoke_invite(invite_id)
        log.info("invite_revoked", by=actor.user_id)

    # -- reset links: anyone who has the link
    def get_reset_user(self, token: str) -> User:
        """Return the user whose password a reset link changes.

        Raises:
            ForbiddenError: the link is invalid, used or expired.
        """
        user = self._people.find_reset_user(token)
        if user is None:
            raise ForbiddenError(_VOID)
        return user

    def count_tokens(self, owner: User) -> int:
        """Return how many app passwords and access tokens the owner of a reset link has."""
        return len(self._tokens.find_by_user(owner.id))

    def choose_password(self, token: str, password: str, client: Client, *, programs: bool = False) -> str:
        """Consume a reset link: set the password, end all sessions and log in; return the new session's id.

        Args:
            programs: revoke all app passwords and access tokens too.

        Raises:
            ForbiddenError: the link is invalid, used or expired.
            InvalidError: the password is too weak; the link stays valid.
            RateLimitedError: too many attempts from one network.
        """
        throttle(self._limiter, f"reset:{client.network}", limit=TRIES * 4, window=WINDOW)
        user = self.get_reset_user(token)
        passwords.check(password, name=user.name, email=user.email)
        hashed = self._hasher.hash(password)
        if self._people.consume_reset_link(token) is None:
            raise ForbiddenError(_VOID)
        self._accounts.set_password(user.id, hashed)
        self._people.end_sessions(user.id)
        gone = self._tokens.remove_by_user(user.id) if programs else 0
        self._events.end_streams(user.id)
        log.info("password_reset", user_id=user.id, tokens_ended=gone)
        return self._sessions.open_session(user.id, agent=client.agent, address=client.network)
