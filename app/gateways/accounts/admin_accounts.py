"""Administration of accounts: roles, closed accounts, password reset links and invites."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Any

from app import clock
from app.errors import ConflictError, InvalidError, NotFoundError
from app.gateways.accounts.accounts import INVITE_LIFE
from app.gateways.accounts.sessions import hash_token
from app.mappers.accounts.admin_accounts import AdminAccountMapper, SessionUsage
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.users import UserMapper, make_name_key
from app.mappers.mongo.store import Session, Store
from app.models.accounts.actor import Role
from app.models.accounts.admin_accounts import AccountPage, AccountRow, Invite
from app.models.accounts.user import User

#: Most invites that are listed.
INVITES_MOST = 200


class AdminAccountGateway:
    """Lists accounts, changes their roles and state, and manages reset links and invites.

    Args:
        reset_ttl: seconds for which a reset link is valid.
    """

    def __init__(
        self,
        *,
        store: Store,
        people: AdminAccountMapper,
        users: UserMapper,
        sessions: SessionMapper,
        invites: InviteMapper,
        resets: ResetMapper,
        reset_ttl: int,
    ) -> None:
        self._store, self._people, self._users = store, people, users
        self._sessions, self._invites, self._resets = sessions, invites, resets
        self._reset_life = dt.timedelta(seconds=reset_ttl)

    def list_accounts(self, text: str, after: str, limit: int) -> AccountPage:
        """Return a page of the accounts whose name or email address contains ``text``, sorted by name."""
        users = self._people.list_accounts(text, after, limit + 1)
        more = len(users) > limit
        users = users[:limit]
        return AccountPage(tuple(self._persons(users)), make_name_key(users[-1].name) if more else "")

    def get_account(self, user_id: int) -> AccountRow:
        """Return one account.

        Raises:
            NotFoundError: there is no such account.
        """
        user = self._users.find(user_id)
        if user is None:
            raise NotFoundError(user_id=user_id)
        return self._persons([user])[0]

    def _persons(self, users: list[User]) -> list[AccountRow]:
        ids = [user.id for user in users]
        uses, counts = (
            self._people.find_session_usage(ids, clock.now()),
            self._people.count_subscriptions(ids),
        )
        none = SessionUsage(None, 0)
        return [AccountRow(user, *uses.get(user.id, none), counts.get(user.id)) for user in users]

    def set_role(self, user_id: int, role: Role) -> None:
        """Make an account an admin or a user.

        Raises, like :meth:`set_disabled`: NotFoundError: there is no such account. ConflictError: the server
            would have no admin left.
        """
        self._change(user_id, {"role": role.value})

    def set_disabled(self, user_id: int, disabled: bool) -> None:
        """Close or open an account; closing it ends its sessions."""
        self._change(user_id, {"disabled": disabled})
        if disabled:
            self._sessions.remove_by_user(user_id)

    def confirm_email(self, user_id: int) -> None:
        """Vouch for the account's email address, so that its owner can log in with it.

        Raises:
            NotFoundError: there is no such account, or its address has just changed.
            ExistsError: another account has this address as vouched for.
        """
        user = self._users.find(user_id)
        if user is None or not self._users.confirm_email(user_id, user.email):
            raise NotFoundError(user_id=user_id)

    def mark_leaving(self, user_id: int, now: dt.datetime) -> None:
        """Record that an account is being deleted.

        Raises:
            As :meth:`set_role`.
        """
        self._change(user_id, {"leaving": now})

    def find_leaving(self, limit: int, before: dt.datetime) -> list[int]:
        """Return accounts whose deletion began before a time."""
        return self._people.find_leaving(limit, before)

    def is_active(self, user_id: int) -> bool:
        """Return whether the account exists and isn't being deleted."""
        return self._people.is_active(user_id)

    def _change(self, user_id: int, changes: dict[str, Any]) -> None:
        def update_account(session: Session) -> None:
            was = self._people.update(user_id, changes, session)
            if was is None:
                raise NotFoundError(user_id=user_id)
            if was.role is Role.ADMIN and not self._people.count_admins(session):
                raise ConflictError("This is the only admin. Make someone else an admin first.")

        self._store.run_in_transaction(update_account)

    def end_sessions(self, user_id: int) -> int:
        """End all sessions of an account; return how many ended."""
        return self._sessions.remove_by_user(user_id)

    # -- reset links
    def create_reset_link(self, user_id: int) -> str:
        """Return the token of a new reset link; older links of the account become invalid."""
        token = secrets.token_urlsafe(32)
        self._resets.add(hash_token(token), user_id, clock.now() + self._reset_life)
        return token

    def find_reset_user(self, token: str) -> User | None:
        """Return the owner of a reset link, or None if the link is invalid."""
        user_id = self._resets.find_user_id(hash_token(token), clock.now())
        user = None if user_id is None else self._users.find(user_id)
        return None if user is None or user.disabled else user

    def consume_reset_link(self, token: str) -> int | None:
        """Consume a reset link; return its owner's id, or None if the link is invalid."""
        return self._resets.consume(hash_token(token), clock.now())

    def set_proved(self, key: bytes) -> None:
        """Record that the user of a session has just entered their password."""
        self._sessions.set_proved(key, clock.now())

    # -- invites
    def list_invites(self) -> list[Invite]:
        """Return the invites that have not expired, newest first."""
        rows = self._invites.list_invites(INVITES_MOST)
        names = self._people.find_names([by for _, by, _, _ in rows])
        return [
            Invite(key[:8].hex(), names.get(by, ""), expires - INVITE_LIFE, expires, used)
            for key, by, expires, used in rows
        ]

    def revoke_invite(self, invite_id: str) -> None:
        """Revoke an unused invite.

        Raises:
            NotFoundError: there is no such invite.
        """
        try:
            key = bytes.fromhex(invite_id)
        except ValueError as e:
            raise InvalidError("This isn't a valid ID.", field="invite") from e
        if len(key) != 8 or not self._invites.revoke(key):
            raise NotFoundError(invite=invite_id)
