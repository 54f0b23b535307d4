"""Profiles: made when somebody first shares, with the two feeds that hold what he shares."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import NotFoundError
from app.mappers.profiles import ProfileMapper
from app.mappers.sharedfeeds import SharedFeedMapper
from app.models.sharing import Audience, Profile
from app.models.user import User


class ProfileGateway:
    """Makes, finds and changes profiles.

    Args:
        origin: this server's own address, without a slash at its end.
        audience: of a new stream.
    """

    def __init__(
        self, profiles: ProfileMapper, feeds: SharedFeedMapper, *, origin: str, audience: Audience
    ) -> None:
        self._profiles, self._feeds = profiles, feeds
        self._origin, self._audience = origin, audience

    def ensure(self, user: User, now: dt.datetime) -> Profile:
        """Return a person's profile, which is made where he has none yet.

        Raises:
            NotFoundError: the account goes at this moment.
        """
        if found := self._profiles.get(user.id):
            return found
        feed_id = self._feeds.ensure(user.id, "shared", self.address(user.name), user.name, now)
        closet_id = self._feeds.ensure(user.id, "private", self.address(user.name), user.name, now)
        self._profiles.add(user.id, feed_id, closet_id, self._audience, now)
        made = self._profiles.get(user.id)
        if made is None:
            raise NotFoundError(user_id=user.id)
        return made

    def address(self, handle: str) -> str:
        """Return the address of somebody's page."""
        return f"{self._origin}/@{handle}"

    def get(self, user_id: int) -> Profile | None:
        """Return a person's profile, None: he has none."""
        return self._profiles.get(user_id)

    def some(self, user_ids: Sequence[int]) -> dict[int, Profile]:
        """Return profiles by person."""
        return self._profiles.some(user_ids)

    def audience(self, user_id: int) -> Audience:
        """Return for whom a person's stream is, or would be."""
        found = self._profiles.get(user_id)
        return found.audience if found else self._audience

    def named(self, handle: str) -> Profile:
        """Return the profile of who has this name.

        Raises:
            NotFoundError: nobody has, or he has none.
        """
        found = self._profiles.named(handle)
        if found is None:
            raise NotFoundError(handle=handle[:64])
        return found

    def owner(self, feed_id: int) -> int | None:
        """Return whose stream a feed is, None: it is nobody's."""
        return self._profiles.owner(feed_id)

    def change(self, profile: Profile, changes: Mapping[str, Any]) -> Profile:
        """Store what is in ``changes``, checked already, and return the profile as it is then.

        Raises:
            NotFoundError: the account went meanwhile.
        """
        self._profiles.change(profile.user_id, changes)
        found = self._profiles.get(profile.user_id)
        if found is None:
            raise NotFoundError(user_id=profile.user_id)
        self.renamed(found)
        hidden = found.hidden or found.audience is Audience.PRIVATE
        self._feeds.hide([found.feed_id], hidden)
        return found

    def renamed(self, profile: Profile) -> None:
        """Let a person's feeds go by the name he has now."""
        self._feeds.name([profile.feed_id, profile.closet_id], self.address(profile.handle), profile.name)
