"""The rules of accounts, sessions and invitations, over their mappers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app import clock
from app.config import Settings
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.users import UserMapper
from app.mappers.mongo.store import Store
from app.models.accounts.actor import Role
from app.models.accounts.user import Credentials, NewUser, Notice, Session, User

#: How exact ``Session.seen`` is: one write in so long, not one per request.
TOUCH_EVERY = dt.timedelta(minutes=5)
INVITE_LIFE = dt.timedelta(days=14)


def hash_token(token: str) -> bytes:
    """Return what is stored of a token: its sha256, so that a copy of the store opens no session (W01)."""
    return hashlib.sha256(token.encode()).digest()


class AccountGateway:
    """Users, their sessions and invitations."""

    def __init__(
        self,
        store: Store,
        users: UserMapper,
        sessions: SessionMapper,
        invites: InviteMapper,
        resets: ResetMapper,
        settings: Settings,
    ) -> None:
        self._store, self._users = store, users
        self._sessions = sessions
        self._invites, self._resets = invites, resets
        self._idle = dt.timedelta(seconds=settings.session_idle)
        self._max = dt.timedelta(seconds=settings.session_max)
        self._keep, self._names = dt.timedelta(days=settings.name_days), settings.names_kept

    # -- users
    def has_users(self) -> bool:
        """Return whether the server has an account yet."""
        return self._users.has_users()

    def add_first(self, new: NewUser) -> User | None:
        """Store the very first user, who is admin; None when somebody else came first."""
        return self._users.add(new, Role.ADMIN, first=True, vouched=True)

    def add_user(self, new: NewUser, role: Role = Role.USER, *, vouched: bool = False) -> User:
        """Store a user; ``vouched``: somebody who may say so says that the address is his.

        Raises:
            ExistsError: the name is taken, or the address vouched for.
        """
        user = self._users.add(new, role, vouched=vouched)
        assert user is not None  # noqa: S101 — None is answered to add(first=True) only
        return user

    def find_user(self, user_id: int) -> User | None:
        """Return a user by id."""
        return self._users.find(user_id)

    def find_by_name(self, name: str) -> int | None:
        """Return the account of this name, in whatever case; one who leaves is gone already."""
        return self._users.find_by_name(name)

    def find_by_former_name(self, name: str) -> int | None:
        """Return the account that had this name, for as long as that is kept for it."""
        return self._users.find_by_former_name(name, clock.now())

    def filter_names_of(self, user_id: int, names: Iterable[str]) -> set[str]:
        """Return which of these names lead to an account: its own and those kept for it, in any case."""
        return self._users.filter_names_of(user_id, names, clock.now())

    def find_names(self, user_ids: Sequence[int]) -> dict[int, str]:
        """Return names by account."""
        return self._users.find_names(user_ids)

    def find_credentials(self, login: str) -> Credentials | None:
        """Return the user with this name, or with this address that is vouched for, and his password hash."""
        return self._users.find_credentials(login)

    def find_password_hash(self, user_id: int) -> str | None:
        """Return the password hash of a user."""
        return self._users.find_password_hash(user_id)

    def set_password(self, user_id: int, password_hash: str) -> None:
        """Replace the password hash; links for another password are good no more."""
        self._resets.revoke_all(user_id)
        self._users.set_password(user_id, password_hash)

    def replace_hash(self, user_id: int, old_hash: str, password_hash: str) -> None:
        """Replace a password's hash by another one of it, unless the password is another one by now."""
        self._users.set_password(user_id, password_hash, old_hash)

    def set_identity(self, user_id: int, name: str, email: str) -> None:
        """Replace a user's name and address; the name of before is kept for him for a while.

        Raises:
            ExistsError: the name is taken, or kept for who had it.
        """
        self._store.run_in_transaction(
            lambda session: self._users.set_identity(user_id, name, email, self._keep, self._names, session)
        )

    def set_preferences(self, user_id: int, changes: Mapping[str, Any]) -> None:
        """Store some settings of a user, as models/preferences.py reads them; the others stay."""
        self._users.set_preferences(user_id, changes)

    # -- sessions
    def open_session(self, user_id: int, *, agent: str, address: str) -> str:
        """Start a session and return the 256-bit id for the cookie; only its sha256 is stored."""
        token = secrets.token_urlsafe(32)
        now = clock.now()
        session = Session(hash_token(token), user_id, now, now, agent[:200], address)
        self._sessions.add(session, self._expires(session, now))
        return token

    def find_session(self, token: str) -> tuple[Session, User] | None:
        """Return a living session and its user, or None; notes the use."""
        session = self._sessions.find(hash_token(token))
        if session is None or not self._alive(session, clock.now()):
            return None
        user = self._users.find(session.user_id)
        if user is None or user.disabled:
            self._sessions.remove(session.key)
            return None
        return self._touched(session, clock.now()), user

    def _alive(self, session: Session, now: dt.datetime) -> bool:
        return now - session.seen < self._idle and now - session.created < self._max

    def _expires(self, session: Session, now: dt.datetime) -> dt.datetime:
        return min(now + self._idle, session.created + self._max)

    def _touched(self, session: Session, now: dt.datetime) -> Session:
        if now - session.seen < TOUCH_EVERY:
            return session
        self._sessions.touch(session.key, now, self._expires(session, now))
        return dataclasses.replace(session, seen=now)

    def list_sessions(self, user_id: int) -> list[Session]:
        """Return a user's living sessions, the last used first."""
        now = clock.now()
        return [s for s in self._sessions.find_by_user(user_id) if self._alive(s, now)]

    def is_session_alive(self, key: bytes, user_id: int) -> bool:
        """Return whether a session of a user lives; asking is no use of it."""
        session = self._sessions.find(key)
        if session is None or session.user_id != user_id or not self._alive(session, clock.now()):
            return False
        user = self._users.find(user_id)
        return user is not None and not user.disabled

    def end_session(self, key: bytes) -> None:
        """End one session."""
        self._sessions.remove(key)

    def end_sessions(
        self, user_id: int, *, except_key: bytes | None = None, prefix: bytes | None = None
    ) -> int:
        """End a user's sessions: all, all ``but`` one, or the one whose key starts with ``prefix``."""
        return self._sessions.remove_by_user(user_id, except_key=except_key, prefix=prefix)

    def add_notice(self, key: bytes, notice: Notice) -> None:
        """Keep a message for the next page of a session."""
        self._sessions.add_notice(key, notice)

    def clear_notices(self, key: bytes) -> None:
        """Drop the messages that a page has shown."""
        self._sessions.clear_notices(key)

    # -- invitations
    def create_invite(self, by: int) -> str:
        """Make an invitation and return its token, which is shown once."""
        token = secrets.token_urlsafe(32)
        self._invites.add(hash_token(token), by, clock.now() + INVITE_LIFE)
        return token

    def consume_invite(self, token: str) -> bool:
        """Use an invitation up; False when it is not good."""
        return self._invites.consume(hash_token(token), clock.now())

    def restore_invite(self, token: str) -> None:
        """Make an invitation good again whose sign-up failed."""
        self._invites.restore(hash_token(token))
