"""The rules of accounts that administrators change, over their mappers."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Any

from app import clock
from app.errors import ConflictError, InvalidError, NotFoundError
from app.gateways.accounts.accounts import INVITE_LIFE, key_of
from app.mappers.accounts.admin_accounts import PeopleMapper, Use
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.users import UserMapper, fold
from app.mappers.mongo.store import Session, Store
from app.models.accounts.actor import Role
from app.models.accounts.admin_accounts import Invite, People, Person
from app.models.accounts.user import User

#: Invitations that are listed at most.
INVITES_MOST = 200


class PeopleGateway:
    """Accounts by page, who may what, links for new passwords, invitations.

    Args:
        reset_ttl: how long a link for a new password is good, seconds.
    """

    def __init__(
        self,
        store: Store,
        people: PeopleMapper,
        users: UserMapper,
        sessions: SessionMapper,
        invites: InviteMapper,
        resets: ResetMapper,
        *,
        reset_ttl: int,
    ) -> None:
        self._store, self._people, self._users = store, people, users
        self._sessions, self._invites, self._resets = sessions, invites, resets
        self._reset_life = dt.timedelta(seconds=reset_ttl)

    def page(self, text: str, after: str, limit: int) -> People:
        """Return accounts by name, those whose name or address holds ``text``."""
        users = self._people.page(text, after, limit + 1)
        more = len(users) > limit
        users = users[:limit]
        return People(tuple(self._persons(users)), fold(users[-1].name) if more else "")

    def person(self, user_id: int) -> Person:
        """Return one account.

        Raises:
            NotFoundError: there is none.
        """
        user = self._users.get(user_id)
        if user is None:
            raise NotFoundError(user_id=user_id)
        return self._persons([user])[0]

    def _persons(self, users: list[User]) -> list[Person]:
        ids = [user.id for user in users]
        uses, counts = self._people.uses(ids, clock.now()), self._people.subscriptions(ids)
        none = Use(None, 0)
        return [Person(user, *uses.get(user.id, none), counts.get(user.id, 0)) for user in users]

    def set_role(self, user_id: int, role: Role) -> None:
        """Make somebody an admin or a user.

        Raises, as :meth:`set_disabled`:
            NotFoundError: there is no such account.
            ConflictError: nobody would be left who may change anything.
        """
        self._change(user_id, {"role": role.value})

    def set_disabled(self, user_id: int, disabled: bool) -> None:
        """Close or open an account; a closed one's sessions end."""
        self._change(user_id, {"disabled": disabled})
        if disabled:
            self._sessions.remove_of_user(user_id)

    def leave(self, user_id: int, now: dt.datetime) -> None:
        """Note that an account is being deleted.

        Raises:
            As :meth:`set_role`.
        """
        self._change(user_id, {"leaving": now})

    def leaving(self, limit: int, before: dt.datetime) -> list[int]:
        """Return accounts that are being deleted since before a time."""
        return self._people.leaving(limit, before)

    def stays(self, user_id: int) -> bool:
        """Return whether there is this account, and nobody deletes it."""
        return self._people.stays(user_id)

    def _change(self, user_id: int, changes: dict[str, Any]) -> None:
        def work(session: Session) -> None:
            was = self._people.change(user_id, changes, session)
            if was is None:
                raise NotFoundError(user_id=user_id)
            if was.role is Role.ADMIN and not self._people.count_admins(session):
                raise ConflictError("This is the last admin. Make somebody else an admin first.")

        self._store.transaction(work)

    def end_sessions(self, user_id: int) -> int:
        """End all sessions of an account; return how many."""
        return self._sessions.remove_of_user(user_id)

    # -- links for new passwords
    def reset_link(self, user_id: int) -> str:
        """Return the token of a link with which its owner chooses a new password; older ones are void."""
        token = secrets.token_urlsafe(32)
        self._resets.add(key_of(token), user_id, clock.now() + self._reset_life)
        return token

    def user_of_link(self, token: str) -> User | None:
        """Return whose link this is, None when it is not good."""
        user_id = self._resets.user(key_of(token), clock.now())
        user = None if user_id is None else self._users.get(user_id)
        return None if user is None or user.disabled else user

    def take_link(self, token: str) -> int | None:
        """Use a link up; return whose it was, None when it is not good."""
        return self._resets.take(key_of(token), clock.now())

    def prove(self, key: bytes) -> None:
        """Note that the password of a session was entered now."""
        self._sessions.prove(key, clock.now())

    # -- invitations
    def invites(self) -> list[Invite]:
        """Return the invitations that have not expired, the youngest first."""
        rows = self._invites.all(INVITES_MOST)
        names = self._people.names([by for _, by, _, _ in rows])
        return [
            Invite(key[:8].hex(), names.get(by, ""), expires - INVITE_LIFE, expires, used)
            for key, by, expires, used in rows
        ]

    def revoke_invite(self, ident: str) -> None:
        """Take an unused invitation back.

        Raises:
            NotFoundError: there is none.
        """
        try:
            key = bytes.fromhex(ident)
        except ValueError as e:
            raise InvalidError("This is not an id.", field="invite") from e
        if len(key) != 8 or not self._invites.revoke(key):
            raise NotFoundError(invite=ident)
