"""Login sessions: their lifetime, and how they are found, renewed and ended."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import secrets

from app import clock
from app.config import Settings
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.users import UserMapper
from app.models.accounts.user import Notice, Session, User

#: Precision of ``Session.seen``: one write per interval, not one per request.
TOUCH_EVERY = dt.timedelta(minutes=5)


def hash_token(token: str) -> bytes:
    """Return the SHA-256 of a token, which is stored so that a copy of the store opens no session (W01)."""
    return hashlib.sha256(token.encode()).digest()


class SessionGateway:
    """Sessions of the web pages; each ends after ``session_idle`` without use, or after ``session_max``."""

    def __init__(self, sessions: SessionMapper, users: UserMapper, settings: Settings) -> None:
        self._sessions, self._users = sessions, users
        self._idle = dt.timedelta(seconds=settings.session_idle)
        self._max = dt.timedelta(seconds=settings.session_max)

    def open_session(self, user_id: int, *, agent: str, address: str) -> str:
        """Start a session and return the 256-bit id for the cookie; only its SHA-256 is stored."""
        token = secrets.token_urlsafe(32)
        now = clock.now()
        session = Session(hash_token(token), user_id, now, now, agent[:200], address)
        self._sessions.add(session, self._expires(session, now))
        return token

    def find_session(self, token: str) -> tuple[Session, User] | None:
        """Return a live session and its user, or None; record the use."""
        found = self._sessions.find_with_user(hash_token(token))
        if found is None or not self._alive(found[0], clock.now()):
            return None
        session, user = found
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
        """Return a user's live sessions, most recently used first."""
        now = clock.now()
        return [s for s in self._sessions.find_by_user(user_id) if self._alive(s, now)]

    def is_session_alive(self, key: bytes, user_id: int) -> bool:
        """Return whether a user's session is live now, without recording a use."""
        session = self._sessions.find(key)
        if session is None or session.user_id != user_id or not self._alive(session, clock.now()):
            return False
        return self._users.is_enabled(user_id)

    def end_session(self, key: bytes) -> None:
        """End one session."""
        self._sessions.remove(key)

    def end_sessions(
        self, user_id: int, *, except_key: bytes | None = None, prefix: bytes | None = None
    ) -> int:
        """End all of a user's sessions, except ``except_key``, or only those with a key prefix."""
        return self._sessions.remove_by_user(user_id, except_key=except_key, prefix=prefix)

    def add_notice(self, key: bytes, notice: Notice) -> None:
        """Store a message for the next page of a session."""
        self._sessions.add_notice(key, notice)

    def clear_notices(self, key: bytes) -> None:
        """Delete the messages that a page has shown."""
        self._sessions.clear_notices(key)
