"""Following, asking to, letting, muting and blocking. Who follows has a subscription like any other."""

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
    """Ties between people, with the subscriptions that go with them."""

    def __init__(
        self,
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
        """Read what somebody shares, or ask to where he wants to be asked; return what they are then.

        Raises:
            NotFoundError: he shares with nobody, or does not want to be seen by this person.
            ForbiddenError: it is himself, or somebody he blocks.
            TooLargeError: he has as many subscriptions as he may.
        """
        tie = self._sight.find_relationship(user_id, target)
        free = self._sight.can_follow_directly(target, tie)
        if tie.follows:
            return tie
        if not free:
            self._ties.add(user_id, RelationshipKind.REQUEST, target.user_id, now)
            # A block that was laid down in between has found nothing to end.
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
        # Whatever was laid down before this, or in between, has found nothing to end or to mute.
        tie = self._sight.find_relationship(user_id, recipient)
        if tie.blocked:
            self._drop(user_id, feed.id, now)
            raise NotFoundError(user_id=recipient.user_id)
        if tie.muted:
            self._mapper.set_muted(user_id, feed.id, True)

    def unfollow(self, user_id: int, target: Profile, expires: dt.datetime) -> str | None:
        """Stop, or stop asking.

        Returns:
            A token that brings the subscription back, "" when he had only asked, None: there was nothing.
        """
        asked = self._ties.remove(user_id, RelationshipKind.REQUEST, target.user_id)
        try:
            return self._subscriptions.remove(user_id, target.feed_id, expires)
        except NotFoundError:
            return "" if asked else None

    def answer_request(self, target: Profile, user_id: int, yes: bool, now: dt.datetime) -> bool:
        """Let somebody follow who has asked, or not; False: he does not ask any more.

        Raises:
            TooLargeError: he has as many subscriptions as he may; he goes on asking.
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
        """Leave somebody out of the stream of those one follows, or take him in again."""
        if on:
            self._ties.add(user_id, RelationshipKind.MUTE, target.user_id, now)
        else:
            self._ties.remove(user_id, RelationshipKind.MUTE, target.user_id)
        self._mapper.set_muted(user_id, target.feed_id, on)

    def block(self, user_id: int, target_id: int, now: dt.datetime) -> list[int]:
        """Neither sees the other from now on; return the feeds that each of them no longer reads.

        The block is written first: whoever follows at this moment is found by the next step, or refused.
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
        """Let the other see again what everybody sees; False: he was not blocked."""
        return self._ties.remove(user_id, RelationshipKind.BLOCK, target_id)

    def remove_follower(self, target: Profile, follower_id: int, now: dt.datetime) -> bool:
        """Take a follower away; False: he was none."""
        return self._drop(follower_id, target.feed_id, now)

    def find_followed(self, user_id: int) -> list[Subscription]:
        """Return the subscriptions to people."""
        return self._mapper.find_people(user_id)

    def list_followers(self, target: Profile, after: int, limit: int) -> list[tuple[int, int]]:
        """Return (place, person) of those who follow, the last ones first; ``after``: the place before."""
        return self._mapper.find_followers(target.feed_id, after, limit)

    def list_requests(self, target_id: int, limit: int) -> list[int]:
        """Return who asks to follow, the last ones first."""
        return self._ties.find_initiators(target_id, RelationshipKind.REQUEST, limit)

    def list_by_kind(self, user_id: int, kind: RelationshipKind, limit: int) -> list[int]:
        """Return whom somebody mutes or blocks."""
        return self._ties.find_targets(user_id, kind, limit)

    def count_followers(self, profiles: Sequence[Profile]) -> dict[int, int]:
        """Return how many follow each of these people, by person."""
        found = {p.user_id: self._feeds.find(p.feed_id) for p in profiles}
        return {user_id: feed.subscribers for user_id, feed in found.items() if feed}
