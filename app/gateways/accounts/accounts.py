"""Accounts and invites: names, credentials, identity and invite tokens."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app import clock
from app.config import Settings
from app.errors import StaleSaveError
from app.gateways.accounts.sessions import hash_token
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.users import UserMapper
from app.mappers.mongo import ids
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Store
from app.models.accounts.actor import Role
from app.models.accounts.page_save import PageSave
from app.models.accounts.preferences import APART_MAX, HIDDEN_MAX, MEDIA_SITES_MAX
from app.models.accounts.user import Credentials, NewUser, User

INVITE_LIFE = dt.timedelta(days=14)


class AccountGateway:
    """Reads and changes users and invites."""

    def __init__(
        self,
        store: Store,
        users: UserMapper,
        invites: InviteMapper,
        resets: ResetMapper,
        settings: Settings,
        *,
        cells: Cells,
    ) -> None:
        self._store, self._cells, self._users = store, cells, users
        self._invites, self._resets = invites, resets
        self._keep, self._names = dt.timedelta(days=settings.name_days), settings.names_kept

    # -- users
    def has_users(self) -> bool:
        """Return whether the server has any account."""
        return self._users.has_users()

    def add_first(self, new: NewUser) -> User | None:
        """Store the first user, who becomes admin; return None if another user came first."""
        user = self._users.add(new, Role.ADMIN, first=True, vouched=True)
        if user is not None:
            self._cells.place_new(user.id)
        return user

    def add_user(self, new: NewUser, role: Role = Role.USER, *, vouched: bool = False) -> User:
        """Store a user; ``vouched``: an authorized person vouches for the email address.

        Raises:
            ExistsError: the name is taken, or another account has this address as vouched for.
        """
        user = self._users.add(new, role, vouched=vouched)
        assert user is not None  # noqa: S101 — None is answered to add(first=True) only
        self._cells.place_new(user.id)
        return user

    def find_user(self, user_id: int) -> User | None:
        """Return a user by id."""
        return self._users.find(user_id)

    def find_by_name(self, name: str) -> int | None:
        """Return the account with this name, in any case; an account being deleted isn't found."""
        return self._users.find_by_name(name)

    def find_by_former_name(self, name: str) -> int | None:
        """Return the account that had this name, while the name is still reserved for it."""
        return self._users.find_by_former_name(name, clock.now())

    def filter_names_of(self, user_id: int, names: Iterable[str]) -> set[str]:
        """Return which of these names lead to an account: its name and its reserved former names, in any
        case.
        """
        return self._users.filter_names_of(user_id, names, clock.now())

    def find_names(self, user_ids: Sequence[int]) -> dict[int, str]:
        """Return names by account."""
        return self._users.find_names(user_ids)

    def find_credentials(self, login: str) -> Credentials | None:
        """Return the user with this name or vouched-for email address, and the password hash."""
        return self._users.find_credentials(login)

    def find_password_hash(self, user_id: int) -> str | None:
        """Return the password hash of a user."""
        return self._users.find_password_hash(user_id)

    def set_password(self, user_id: int, password_hash: str) -> None:
        """Replace the password hash, and revoke all reset links."""
        self._resets.revoke_all(user_id)
        self._users.set_password(user_id, password_hash)

    def replace_hash(self, user_id: int, old_hash: str, password_hash: str) -> None:
        """Replace the hash with a newer one of the same password, unless the password has changed."""
        self._users.set_password(user_id, password_hash, old_hash)

    def set_identity(self, user_id: int, name: str, email: str) -> None:
        """Replace a user's name and email address; the old name stays reserved for the user for a while.

        Raises:
            ExistsError: the name is taken, or reserved for its former owner.
        """
        self._store.run_in_transaction(
            lambda session: self._users.set_identity(
                user_id, name, email, keep_for=self._keep, limit=self._names, session=session
            )
        )

    def set_preferences(self, user_id: int, changes: Mapping[str, Any], save: PageSave | None = None) -> None:
        """Store some preferences of a user, in the form of the preferences model; the others stay.

        If stories are switched on again, store that copies until now were apart.

        Raises:
            StaleSaveError: a later save of the same page came first.
        """
        if changes.get("stories") and (user := self._users.find(user_id)) and not user.preferences.stories:
            changes = {**changes, "stories_since": ids.reserve_ids()}
        if not self._users.set_preferences(user_id, changes, save) and save:
            raise StaleSaveError

    def store_media_site(self, user_id: int, site: str, *, is_allowed: bool) -> None:
        """Store whether recordings of a site play without a question; of many sites, keep the last ones."""
        if is_allowed:
            self._users.add_media_site(user_id, site, MEDIA_SITES_MAX)
        else:
            self._users.remove_media_site(user_id, site)

    def store_story_apart(self, user_id: int, story_id: int, *, is_apart: bool) -> None:
        """Store whether the copies of a story stay apart; of many stories, keep the last ones.

        If they were apart, store that copies until now were. One moment for all stories is enough: copies of
        others that arrived before it stay unread, unless a list has shown them.
        """
        if is_apart:
            self._users.add_story_apart(user_id, story_id, APART_MAX)
        else:
            self._users.remove_story_apart(user_id, story_id, ids.reserve_ids())

    def store_story_hidden(self, user_id: int, story_id: int, *, is_hidden: bool) -> None:
        """Store whether a story is hidden; of many stories, keep the last ones."""
        if is_hidden:
            self._users.add_story_hidden(user_id, story_id, HIDDEN_MAX)
        else:
            self._users.remove_story_hidden(user_id, story_id)

    # -- invites
    def create_invite(self, by: int) -> str:
        """Create an invite and return its token, which is shown only once."""
        token = secrets.token_urlsafe(32)
        self._invites.add(hash_token(token), by, clock.now() + INVITE_LIFE)
        return token

    def consume_invite(self, token: str) -> bool:
        """Consume an invite; return False if it's invalid."""
        return self._invites.consume(hash_token(token), clock.now())

    def restore_invite(self, token: str) -> None:
        """Make a consumed invite valid again, after its sign-up failed."""
        self._invites.restore(hash_token(token))
