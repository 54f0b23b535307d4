"""Follows, follow requests, mutes and blocks. A follower has an ordinary subscription."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence

from app.errors import ExistsError, NotFoundError, StoreError, TooLargeError
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.sharing.profiles import ProfileMapper, RelationshipMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.sharing.sharing import Profile, Relationship, RelationshipKind
from app.models.subscriptions.subscription import Subscription


class FollowGateway:
    """Changes relationships between people, and the subscriptions that belong to them."""

    def __init__(
        self,
        *,
        subscriptions: SubscriptionGateway,
        mapper: SubscriptionMapper,
        feeds: FeedMapper,
        users: UserMapper,
        profiles: ProfileMapper,
        relationships: RelationshipMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._subscriptions, self._mapper, self._feeds = subscriptions, mapper, feeds
        self._users = users
        self._profiles, self._ties, self._sight = profiles, relationships, visibility

    def follow(self, user_id: int, target: Profile, now: dt.datetime) -> Relationship:
        """Follow a person, or send a follow request if they approve followers; return the relationship after
        that.

        Raises:
            NotFoundError: the person is private or suspended, or blocks the user.
            ForbiddenError: the person is the user, or blocked by the user.
            TooLargeError: the user has the maximum number of subscriptions.
        """
        tie = self._sight.find_relationship(user_id, target)
        free = self._sight.can_follow_directly(target, tie)
        if tie.follows:
            return tie
        if not free:
            self._ties.add(user_id, RelationshipKind.REQUEST, target.user_id, now)
            # A concurrent block has found no request to end.
            if self._sight.find_relationship(user_id, target).blocked:
                self._ties.remove(user_id, RelationshipKind.REQUEST, target.user_id)
                raise NotFoundError(user_id=target.user_id)
            return tie._replace(requested=True)
        self._subscribe(user_id, target, now)
        return tie._replace(follows=True, requested=False)

    def _subscribe(self, user_id: int, recipient: Profile, now: dt.datetime) -> None:
        feed = self._feeds.find(recipient.feed_id)
        if feed is None:
            raise NotFoundError(user_id=recipient.user_id)
        self._users.set_social(user_id)
        with contextlib.suppress(ExistsError):
            self._subscriptions.add(Subscription(0, user_id, feed.id, person=True), feed, now)
        self._ties.remove(user_id, RelationshipKind.REQUEST, recipient.user_id)
        # A concurrent block or mute has found no subscription to end or to mute.
        tie = self._sight.find_relationship(user_id, recipient)
        if tie.blocked:
            self._drop(user_id, feed.id, now)
            raise NotFoundError(user_id=recipient.user_id)
        if tie.muted:
            self._mapper.set_muted(user_id, feed.id, True)

    def unfollow(self, user_id: int, target: Profile, expires: dt.datetime) -> str | None:
        """Unfollow a person, or withdraw a follow request.

        Returns:
            A token that restores the subscription; "": only a request was withdrawn; None: there was neither.
        """
        asked = self._ties.remove(user_id, RelationshipKind.REQUEST, target.user_id)
        try:
            return self._subscriptions.remove(user_id, target.feed_id, expires)
        except NotFoundError:
            return "" if asked else None

    def answer_request(self, target: Profile, user_id: int, yes: bool, now: dt.datetime) -> bool:
        """Accept or decline a follow request; return False if there is no such request anymore.

        Raises:
            TooLargeError: the follower has the maximum number of subscriptions; the request stays.
        """
        if not self._ties.remove(user_id, RelationshipKind.REQUEST, target.user_id):
            return False
        if yes:
            try:
                self._subscribe(user_id, target, now)
            except (StoreError, TooLargeError):
                self._ties.add(user_id, RelationshipKind.REQUEST, target.user_id, now)
                raise
        return True

    def set_muted(self, user_id: int, target: Profile, on: bool, now: dt.datetime) -> None:
        """Mute or unmute a person in the user's combined streams."""
        if on:
            self._ties.add(user_id, RelationshipKind.MUTE, target.user_id, now)
        else:
            self._ties.remove(user_id, RelationshipKind.MUTE, target.user_id)
        self._mapper.set_muted(user_id, target.feed_id, on)

    def block(self, user_id: int, target_id: int, now: dt.datetime) -> list[int]:
        """Block a person, so that neither sees the other; return the feeds that either no longer reads.

        The block is written first, so that a concurrent follow is found by the next step or refused.
        """
        self._ties.add(user_id, RelationshipKind.BLOCK, target_id, now)
        profiles = self._profiles.find_many([user_id, target_id])
        left = []
        for reader, other in ((target_id, user_id), (user_id, target_id)):
            self._ties.remove(reader, RelationshipKind.REQUEST, other)
            if other in profiles and self._drop(reader, profiles[other].feed_id, now):
                left.append(profiles[other].feed_id)
        return left

    def _drop(self, reader: int, feed_id: int, now: dt.datetime) -> bool:
        try:
            self._subscriptions.remove(reader, feed_id, now)
        except NotFoundError:
            gone = False
        else:
            gone = True
        self._subscriptions.prevent_restore(reader, feed_id)
        return gone

    def unblock(self, user_id: int, target_id: int) -> bool:
        """Unblock a person; return False if they were not blocked."""
        return self._ties.remove(user_id, RelationshipKind.BLOCK, target_id)

    def remove_follower(self, target: Profile, follower_id: int, now: dt.datetime) -> bool:
        """Remove a follower; return False if the person didn't follow."""
        return self._drop(follower_id, target.feed_id, now)

    def find_followed(self, user_id: int) -> list[Subscription]:
        """Return a user's subscriptions to people."""
        return self._mapper.find_people(user_id)

    def list_followers(self, target: Profile, after: int, limit: int) -> list[tuple[int, int]]:
        """Return (cursor, user id) of followers, latest first; ``after``: the cursor to continue after."""
        return self._mapper.find_followers(target.feed_id, after, limit)

    def list_requests(self, target_id: int, limit: int) -> list[int]:
        """Return the ids of users with a pending follow request, latest first."""
        return self._ties.find_initiators(target_id, RelationshipKind.REQUEST, limit)

    def list_by_kind(self, user_id: int, kind: RelationshipKind, limit: int) -> list[int]:
        """Return the ids of the people in a user's relationships of this kind."""
        return self._ties.find_targets(user_id, kind, limit)

    def count_followers(self, profiles: Sequence[Profile]) -> dict[int, int]:
        """Return the number of followers of these people, by user id."""
        counts = self._feeds.count_subscribers([p.feed_id for p in profiles])
        return {p.user_id: counts[p.feed_id] for p in profiles if p.feed_id in counts}
