"""Accounts and invitations, for administrators; every change is in the log (W20)."""

from __future__ import annotations

import datetime as dt
import secrets

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
#: Wrong passwords of one admin, and uses of links of one network, per window of seconds.
TRIES, WINDOW = 5, 900
_VOID = "This link isn't valid anymore. Ask the person who sent it to you for a new one."


class AdminAccountService:
    """What an administrator does with others' accounts.

    Methods with an actor raise:
        ForbiddenError: he is no admin.
    """

    def __init__(
        self,
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
        """Return accounts by name, those whose name or address holds ``text``."""
        require_permission(actor, Permission.USER_MANAGE)
        text = check_text(text, "text", limit=254, empty=True)
        return self._people.list_accounts(text, check_text(after, "after", limit=64, empty=True), PAGE)

    def get_account(self, actor: Actor, user_id: int) -> AccountRow:
        """Return one account.

        Raises:
            NotFoundError: there is none.
        """
        require_permission(actor, Permission.USER_MANAGE)
        return self._people.get_account(check_id(user_id, "user"))

    # -- W11
    def is_proved(self, session: Session) -> bool:
        """Whether the password of this session was entered within the last minutes."""
        return clock.now() - (session.proved or session.created) <= self._proof

    def verify_password(self, actor: Actor, session: Session, password: str) -> None:
        """Let a session change who may what, for some minutes.

        Raises:
            InvalidError: this is not the actor's password; field ``proof``.
            RateLimitedError: too many wrong ones.
        """
        if self.is_proved(session):
            return
        if not password:
            raise InvalidError("Confirm your password to change someone's access.", field="proof")
        who = f"proof:{actor.user_id}"
        throttle(self._limiter, who, limit=TRIES, window=WINDOW)
        if not self._hasher.verify(self._accounts.find_password_hash(actor.user_id), password):
            raise InvalidError("The password is incorrect. Try again.", field="proof")
        self._limiter.reset(who)
        self._people.set_proved(session.key)
        log.info("password_proved", user_id=actor.user_id)

    # -- who may what
    def set_role(self, actor: Actor, session: Session, user_id: int, role: Role, proof: str = "") -> None:
        """Make somebody else an admin or a user.

        Raises, as :meth:`set_disabled` and :meth:`reset_link`:
            InvalidError: it is the actor himself, or his password is wanted and wrong.
            NotFoundError: there is no such account.
            ConflictError: nobody would be left who may change anything.
        """
        self._check(actor, session, user_id, proof)
        self._people.set_role(user_id, role)
        log.info("role_changed", user_id=user_id, role=role.value, by=actor.user_id)

    def set_disabled(
        self, actor: Actor, session: Session, user_id: int, disabled: bool, proof: str = ""
    ) -> None:
        """Close somebody's account, which ends his sessions, or open it again."""
        self._check(actor, session, user_id, proof)
        self._people.set_disabled(user_id, disabled)
        if disabled:
            self._events.end_streams(user_id)
        self._profiles.apply_account_state(user_id)
        log.info("user_disabled" if disabled else "user_enabled", user_id=user_id, by=actor.user_id)

    def create_reset_link(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> str:
        """Return the token of a link with which somebody chooses a new password; it is shown this once."""
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
        """End all sessions of somebody; return how many."""
        require_permission(actor, Permission.USER_MANAGE)
        count = self._people.end_sessions(check_id(user_id, "user"))
        self._events.end_streams(user_id)
        log.info("sessions_ended", user_id=user_id, count=count, by=actor.user_id)
        return count

    def create_account(
        self, actor: Actor, session: Session, email: str, name: str, role: Role, proof: str = ""
    ) -> tuple[User, str]:
        """Make an account; return it and the token of a link with which its owner chooses his password.

        Raises:
            InvalidError: a field does not fit.
            ExistsError: the name is taken, or the address vouched for.
        """
        require_permission(actor, Permission.USER_CREATE)
        check_identity(name, email)
        self.verify_password(actor, session, proof)
        # Nobody knows this one: the first password is chosen by the link.
        new = NewUser(email, name, self._hasher.hash(secrets.token_urlsafe(32)))
        user = self._accounts.add_user(new, role, vouched=True)
        log.info("user_created", user_id=user.id, role=role.value, by=actor.user_id)
        return user, self._people.create_reset_link(user.id)

    # -- invitations
    def list_invites(self, actor: Actor) -> list[Invite]:
        """Return the invitations that have not expired, the youngest first."""
        require_permission(actor, Permission.USER_CREATE)
        return self._people.list_invites()

    def create_invite(self, actor: Actor) -> str:
        """Make an invitation and return its token, which is shown this once."""
        require_permission(actor, Permission.USER_CREATE)
        token = self._accounts.create_invite(actor.user_id)
        log.info("invite_made", by=actor.user_id)
        return token

    def revoke_invite(self, actor: Actor, invite_id: str) -> None:
        """Take an unused invitation back.

        Raises:
            NotFoundError: there is none.
        """
        require_permission(actor, Permission.USER_CREATE)
        self._people.revoke_invite(invite_id)
        log.info("invite_revoked", by=actor.user_id)

    # -- whoever holds a link
    def get_reset_user(self, token: str) -> User:
        """Return whose new password a link is for.

        Raises:
            ForbiddenError: the link is not good (any more).
        """
        user = self._people.find_reset_user(token)
        if user is None:
            raise ForbiddenError(_VOID)
        return user

    def count_tokens(self, owner: User) -> int:
        """Return how many apps and tokens work for whose link was looked at."""
        return len(self._tokens.find_by_user(owner.id))

    def choose_password(self, token: str, password: str, client: Client, *, programs: bool = False) -> str:
        """Use a link up: set the password, end all sessions, and log in; return the id of the new session.

        Args:
            programs: end all apps and tokens, too.

        Raises:
            ForbiddenError: the link is not good (any more).
            InvalidError: the password is too weak; the link stays good.
            RateLimitedError: too many tries from one network.
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
