"""Profiles: created at a person's first share, with the two feeds for their shares."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from app import clock
from app.errors import NotFoundError
from app.mappers.mongo.store import Session, Store
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shared_feeds import SharedFeedMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.accounts.user import User
from app.models.sharing.sharing import Audience, Profile


class ProfileGateway:
    """Creates, finds and changes profiles.

    Args:
        origin: this server's own address, without a trailing slash.
        audience: the audience of a new stream.
    """

    def __init__(
        self,
        store: Store,
        profiles: ProfileMapper,
        feeds: SharedFeedMapper,
        shares: ShareMapper,
        *,
        origin: str,
        audience: Audience,
    ) -> None:
        self._store, self._profiles, self._feeds, self._shares = store, profiles, feeds, shares
        self._origin, self._audience = origin, audience

    def preview_profile(self, user: User) -> Profile:
        """Return a person's profile, or the one that would be created; stores nothing."""
        planned = Profile(
            user_id=user.id,
            feed_id=0,
            private_feed_id=0,
            handle=user.name,
            audience=self._audience,
            avatar=user.avatar_version,
        )
        return self._profiles.find(user.id) or planned

    @property
    def origin(self) -> str:
        """This server's own address, without a trailing slash."""
        return self._origin

    def get_or_create_profile(self, user: User, now: dt.datetime) -> Profile:
        """Return a person's profile, creating it if needed.

        Raises:
            NotFoundError: the account is just being deleted.
        """
        if found := self._profiles.find(user.id):
            return found
        url, avatar = self.build_page_url(user.name), user.avatar_version
        feed_id, closet_id = (
            self._feeds.get_or_create(user.id, key, url, user.name, now, avatar=avatar)
            for key in ("shared", "private")
        )
        self._profiles.add(user.id, feed_id, closet_id, self._audience, now)
        made = self._profiles.find(user.id)
        if made is None:
            raise NotFoundError(user_id=user.id)
        return made

    def build_page_url(self, handle: str) -> str:
        """Return the address of a person's page."""
        return f"{self._origin}/@{handle}"

    def find(self, user_id: int) -> Profile | None:
        """Return a person's profile, or None if there is none."""
        return self._profiles.find(user_id)

    def find_many(self, user_ids: Sequence[int]) -> dict[int, Profile]:
        """Return profiles by user id."""
        return self._profiles.find_many(user_ids)

    def get_audience(self, user_id: int) -> Audience:
        """Return the audience of a person's stream, or the default if there is no profile yet."""
        found = self._profiles.find(user_id)
        return found.audience if found else self._audience

    def get_by_name(self, handle: str) -> Profile:
        """Return the profile of the person with this name.

        Raises:
            NotFoundError: there is no such person, or they have no profile.
        """
        found = self._profiles.find_by_name(handle)
        if found is None:
            raise NotFoundError(handle=handle[:64])
        return found

    def find_owner(self, feed_id: int) -> int | None:
        """Return the id of the person whose stream a feed is, or None."""
        return self._profiles.find_owner(feed_id)

    def find_owners(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return the ids of the people whose streams these feeds are, by feed; other feeds are left out."""
        return self._profiles.find_owners(feed_ids)

    def find_suspended(self, limit: int) -> list[int]:
        """Return the ids of suspended people."""
        return self._profiles.find_suspended(limit)

    def update(self, profile: Profile, changes: Mapping[str, Any]) -> Profile:
        """Store checked changes of a profile, and return the changed profile.

        Raises:
            NotFoundError: the account was deleted meanwhile.
        """
        return self._changed(profile.user_id, changes)

    def set_suspended(self, user_id: int, hidden: bool) -> Profile:
        """Hide a person and all their shares, or show them again to their own audience.

        Raises:
            NotFoundError: the person has no profile.
        """
        return self._changed(user_id, {"hidden": hidden})

    def apply_account_state(self, user_id: int) -> None:
        """Hide the shares of a closed account, or show them again; do nothing without a profile."""
        if self._profiles.find(user_id):
            self._changed(user_id, {})

    def _changed(self, user_id: int, changes: Mapping[str, Any]) -> Profile:
        found = self._store.run_in_transaction(lambda session: self._change(user_id, changes, session))
        # The profile decides what is shown. The copies in the many shares only serve to count them.
        self._shares.set_stream_audience(user_id, found.visible_to)
        self.apply_audience_changes(found)
        return found

    def apply_audience_changes(self, profile: Profile) -> None:
        """Update the shares' copies of the audience if the profile was changed meanwhile."""
        find = partial(self._profiles.find, profile.user_id, fresh=True)
        while (now := find()) and now.visible_to is not profile.visible_to:
            self._shares.set_stream_audience(now.user_id, now.visible_to)
            profile = now

    def _change(self, user_id: int, changes: Mapping[str, Any], session: Session) -> Profile:
        # Write first, so that of two concurrent changes one waits for the other. So widening the audience
        # never shows a stream that was just suspended.
        self._profiles.update(user_id, changes, session)
        found = self._profiles.find_many([user_id], session).get(user_id)
        if found is None:
            raise NotFoundError(user_id=user_id)
        self.rename_feeds(found, session)
        self._feeds.set_hidden(found.feed_id, found.visible_to is Audience.PRIVATE, clock.now(), session)
        return found

    def rename_feeds(self, profile: Profile, session: Session | None = None) -> None:
        """Rename a person's feeds to their current name."""
        feeds = [profile.feed_id, profile.private_feed_id]
        self._feeds.rename(feeds, self.build_page_url(profile.handle), profile.name, session)
