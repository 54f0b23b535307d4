"""A user's own account: password, identity, preferences, sessions and deletion."""

from __future__ import annotations

from collections.abc import Mapping

from app import clock, logs
from app.errors import ConflictError, EventrError, InvalidError, NotFoundError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.sessions import SessionGateway
from app.gateways.accounts.tokens import TokenGateway
from app.gateways.privacy.erasure import ErasureGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.models.accounts import preferences
from app.models.accounts.actor import Actor, Permission, Role
from app.models.accounts.page_save import PageSave
from app.models.accounts.preferences import Preferences
from app.models.accounts.user import NewUser, Notice, Session, User
from app.ports import EventPort, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.accounts import passwords
from app.services.accounts.passwords import Hasher
from app.services.accounts.sign_in import Client, check_identity
from app.services.privacy.erasure import make_erasure_job

log = logs.get(__name__)

#: Wrong passwords per account and window in seconds: a stolen session must not allow guessing.
TRIES, WINDOW = 5, 900


class AccountService:
    """Changes the account of the actor, and creates accounts for admins and the command line."""

    def __init__(
        self,
        *,
        accounts: AccountGateway,
        sessions: SessionGateway,
        erasure: ErasureGateway,
        profiles: ProfileGateway,
        tokens: TokenGateway,
        jobs: JobPort,
        events: EventPort,
        hasher: Hasher,
        limiter: Limiter,
    ) -> None:
        self._accounts, self._sessions = accounts, sessions
        self._erasing = erasure
        self._profiles = profiles
        self._tokens = tokens
        self._jobs, self._events = jobs, events
        self._hasher = hasher
        self._limiter = limiter

    def change_password(
        self, actor: Actor, old: str, new: str, client: Client, *, programs: bool = False
    ) -> str:
        """Replace the password and end all sessions of the account.

        Args:
            programs: revoke all app passwords and access tokens too.

        Returns:
            The id of a new session for the browser that sent the request (W01).

        Raises:
            InvalidError: the old password is wrong, or the new one too weak.
            RateLimitedError: too many wrong passwords.
        """
        user = self._confirmed(actor, old, "old")
        passwords.check(new, name=user.name, email=user.email)
        self._accounts.set_password(user.id, self._hasher.hash(new))
        ended = self._sessions.end_sessions(user.id)
        gone = self._tokens.remove_by_user(user.id) if programs else 0
        self._events.end_streams(user.id)
        log.info("password_changed", user_id=user.id, sessions_ended=ended, tokens_ended=gone)
        return self._sessions.open_session(user.id, agent=client.agent, address=client.network)

    def _confirmed(self, actor: Actor, password: str, field: str) -> User:
        """Return the actor's account if the password is correct: an open session isn't enough (W11)."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        user = self._user(actor)
        who = f"password:{actor.user_id}"
        throttle(self._limiter, who, limit=TRIES, window=WINDOW)
        if not self._hasher.verify(self._accounts.find_password_hash(user.id), password):
            raise InvalidError("The password is incorrect. Try again.", field=field)
        self._limiter.reset(who)
        return user

    def change_identity(self, actor: Actor, name: str, email: str, password: str) -> None:
        """Change the account's name and email address. Other accounts' addresses make no difference (W07).

        Raises:
            InvalidError: the password is wrong, or a field is invalid.
            ExistsError: the name is taken.
            RateLimitedError: too many wrong passwords.
        """
        user = self._confirmed(actor, password, "confirm")
        check_identity(name, email, current_name=user.name)
        self._accounts.set_identity(user.id, name, email)
        if profile := self._profiles.find(user.id):
            self._profiles.rename_feeds(profile)
        log.info("identity_changed", user_id=user.id)

    def delete_account(self, actor: Actor, password: str) -> None:
        """Close the account immediately and permanently, and queue a job that deletes all its data.

        Raises:
            InvalidError: the password is wrong.
            ConflictError: the user is the only admin of this server.
            RateLimitedError: too many wrong passwords.
            StoreError: MongoDB does not answer. Without Redis the account is still deleted.
        """
        user = self._confirmed(actor, password, "confirm")
        try:
            self._erasing.begin(user.id, clock.now())
        except ConflictError as e:
            words = "You're the only admin of this server. Make someone else an admin first."
            raise ConflictError(words) from e
        self._sessions.end_sessions(user.id)
        self._events.end_streams(user.id)
        log.info("user_leaves", user_id=user.id)
        try:
            self._jobs.enqueue(make_erasure_job(user.id))
        except EventrError as e:
            # The request is stored, so the updater queues the job later.
            log.warning("erasing_not_queued", user_id=user.id, error=e.word)

    def _user(self, actor: Actor) -> User:
        user = self._accounts.find_user(actor.user_id)
        if user is None:
            raise NotFoundError(user_id=actor.user_id)
        return user

    def set_preferences(
        self, actor: Actor, changes: Mapping[str, object], save: PageSave | None = None
    ) -> Preferences:
        """Change some of the actor's settings, all or none; return the settings after the change.

        Args:
            save: which save of an open page it is.

        Raises:
            InvalidError: a name or value is invalid; the error names the field.
            StaleSaveError: a later save of the same page came first.
        """
        require_permission(actor, Permission.PREFERENCE_EDIT)
        checked = {name: preferences.check(name, value) for name, value in changes.items()}
        if checked or save:
            self._accounts.set_preferences(actor.user_id, checked, save)
            log.info("preferences_changed", user_id=actor.user_id, fields=sorted(checked))
        return self._user(actor).preferences

    def undo_keys(self, actor: Actor) -> None:
        """Undo the actor's last change of keyboard shortcuts; a second call redoes the change."""
        require_permission(actor, Permission.PREFERENCE_EDIT)
        now = self._user(actor).preferences
        self.set_preferences(actor, {"keys": now.keys_before, "keys_before": now.keys})

    def list_sessions(self, actor: Actor) -> list[Session]:
        """Return the actor's sessions, most recently used first."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        return self._sessions.list_sessions(actor.user_id)

    def end_session(self, actor: Actor, prefix: str) -> None:
        """End one of the actor's sessions, named by the first 16 hex digits of its key.

        Raises:
            NotFoundError: the actor has no such session.
        """
        require_permission(actor, Permission.USER_EDIT_SELF)
        try:
            key = bytes.fromhex(prefix)
        except ValueError as e:
            raise NotFoundError(session=prefix) from e
        if len(key) != 8 or not self._sessions.end_sessions(actor.user_id, prefix=key):
            raise NotFoundError(session=prefix)
        self._events.end_streams(actor.user_id)
        log.info("session_ended", user_id=actor.user_id)

    def end_other_sessions(self, actor: Actor, current: Session) -> int:
        """End all of the actor's sessions except the current one; return how many ended."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        count = self._sessions.end_sessions(actor.user_id, except_key=current.key)
        if count:
            self._events.end_streams(actor.user_id)
        return count

    def create_user(self, actor: Actor, email: str, name: str, password: str, role: Role = Role.USER) -> User:
        """Create an account for someone else (admins, command line), who may also log in by email address.

        Raises:
            InvalidError: a field is invalid.
            ExistsError: the name is taken, or another account has this address as vouched for.
        """
        require_permission(actor, Permission.USER_CREATE)
        check_identity(name, email)
        passwords.check(password, name=name, email=email)
        user = self._accounts.add_user(NewUser(email, name, self._hasher.hash(password)), role, vouched=True)
        log.info("user_created", user_id=user.id, role=role.value, by=actor.user_id)
        return user

    def add_notice(self, actor: Actor, session: Session, notice: Notice) -> None:
        """Store a message for the next page of this session."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        self._sessions.add_notice(session.key, notice)

    def pop_notices(self, actor: Actor, session: Session) -> tuple[Notice, ...]:
        """Return the waiting messages of a session and clear them."""
        require_permission(actor, Permission.USER_EDIT_SELF)
        if session.notices:
            self._sessions.clear_notices(session.key)
        return session.notices
