"""Follows, follow requests, mutes and blocks. A follower has an ordinary subscription.

A person's decision about a follower's subscription must not wait for the follower's cell. So it is stored in
the home store, holds at once, and is done then or by the updater.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence

from app import logs
from app.errors import ExistsError, NotFoundError, StoreError, TooLargeError
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.sharing.profiles import ProfileMapper, RelationshipMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.sharing.sharing import FollowDecision, Profile, Relationship, RelationshipKind
from app.models.subscriptions.subscription import Subscription

_log = logs.get(__name__)

#: Time until a decision that isn't done is tried again.
RETRY = dt.timedelta(seconds=5)
#: Time after which nothing subscribes anymore because of what it has read before the subscription was ended:
#: longer than a transaction.
SETTLED = dt.timedelta(seconds=15)
#: Time until a decision that has met a bug is tried again.
FAULT_RETRY = dt.timedelta(minutes=1)
#: Decisions that are done at a time.
BATCH = 100


class FollowGateway:
    """Changes relationships between people, and the subscriptions that belong to them."""

    def __init__(
        self,
        *,
        store: Store,
        subscriptions: SubscriptionGateway,
        mapper: SubscriptionMapper,
        feeds: FeedMapper,
        users: UserMapper,
        profiles: ProfileMapper,
        relationships: RelationshipMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._store = store
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

    def _subscribe(
        self, user_id: int, recipient: Profile, now: dt.datetime, accepted: FollowDecision | None = None
    ) -> None:
        def is_allowed() -> bool:
            if accepted is not None:
                return self._ties.is_open(accepted)
            return not self._sight.reread_relationships(user_id, [recipient])[recipient.user_id].blocked

        feed = self._feeds.find(recipient.feed_id)
        if feed is None:
            raise NotFoundError(user_id=recipient.user_id)
        self._users.set_social(user_id)
        # An earlier decision must not end this subscription later.
        if not self._subscriptions.supersede_ended(user_id, recipient, is_allowed):
            raise NotFoundError(user_id=recipient.user_id)
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

    def unfollow(self, user_id: int, target: Profile, now: dt.datetime, expires: dt.datetime) -> str | None:
        """Unfollow a person, or withdraw a follow request.

        Args:
            expires: until when it can be undone.

        Returns:
            A token that restores the subscription; "": only a request was withdrawn; None: there was neither.
        """
        asked = self._ties.remove(user_id, RelationshipKind.REQUEST, target.user_id)
        # Another process may be subscribing the user, because the request was accepted.
        if self._ties.find_decision(user_id, RelationshipKind.ACCEPTED, target.user_id) is not None:
            asked |= self._end_follow(user_id, target.user_id, now)
        try:
            return self._subscriptions.remove(user_id, target.feed_id, expires)
        except NotFoundError:
            return "" if asked else None

    def answer_request(self, target: Profile, user_id: int, yes: bool, now: dt.datetime) -> bool:
        """Accept or decline a follow request; return False if there is no such request anymore.

        Raises:
            TooLargeError: the follower has the maximum number of subscriptions; the request stays.
        """
        if not yes:
            return self._ties.remove(user_id, RelationshipKind.REQUEST, target.user_id)
        if not self._ties.accept_request(user_id, target.user_id, now + RETRY):
            return False
        try:
            accepted = self._ties.find_decision(user_id, RelationshipKind.ACCEPTED, target.user_id)
            if accepted is not None:
                self._finish_accepted(accepted, target, now)
        except StoreError as e:
            # The subscription may be stored. So this is still accepted, and the updater finishes it.
            _log.info("follow_waits", user_id=user_id, why=e.word)
        return True

    def _finish_accepted(self, decision: FollowDecision, target: Profile, now: dt.datetime) -> bool:
        """Subscribe a user whose request was accepted; return False if it was withdrawn."""
        if not self._ties.is_open(decision):
            return False
        try:
            self._subscribe(decision.user_id, target, now, decision)
        except TooLargeError:
            self._ties.reopen_request(decision.user_id, target.user_id)
            raise
        except NotFoundError:
            self._ties.remove_decision(decision)
            raise
        # If it was withdrawn meanwhile, the subscription ends at once.
        return self._ties.remove_decision(decision) or not self._try_to_end(decision.user_id, target, now)

    def set_muted(self, user_id: int, target: Profile, on: bool, now: dt.datetime) -> None:
        """Mute or unmute a person in the user's combined streams."""
        if on:
            self._ties.add(user_id, RelationshipKind.MUTE, target.user_id, now)
        else:
            self._ties.remove(user_id, RelationshipKind.MUTE, target.user_id)
        self._mapper.set_muted(user_id, target.feed_id, on)

    def block(self, user_id: int, target_id: int, now: dt.datetime) -> list[int]:
        """Block a person, so that neither sees the other; return the feeds that either no longer reads.

        The block is written first, so that a concurrent follow is found by the next step or refused. A cell
        that isn't responding, or someone who moves, delays only the deletion of subscriptions.
        """
        profiles = self._profiles.find_many([user_id, target_id])
        pairs = ((target_id, user_id), (user_id, target_id))

        def write_block(session: Session) -> None:
            self._ties.add(user_id, RelationshipKind.BLOCK, target_id, now, session)
            for reader, other in pairs:
                self._ties.remove(reader, RelationshipKind.REQUEST, other, session)
                if other in profiles:
                    self._write_end(reader, other, now, session)

        self._store.run_in_transaction(write_block)
        return [
            profiles[other].feed_id
            for reader, other in pairs
            if other in profiles and self._try_to_end(reader, profiles[other], now)
        ]

    def _end_follow(self, reader: int, target_id: int, now: dt.datetime) -> bool:
        """Store that a subscription has ended; return whether a request had been accepted."""
        return self._store.run_in_transaction(lambda s: self._write_end(reader, target_id, now, s))

    def _write_end(self, reader: int, target_id: int, now: dt.datetime, session: Session) -> bool:
        return self._ties.end_follow(
            reader, target_id, now, due=now + RETRY, settles=now + SETTLED, session=session
        )

    def _try_to_end(self, reader: int, target: Profile, now: dt.datetime) -> bool:
        """Delete a subscription that has ended; return whether there was one, or may be one."""
        try:
            return self._subscriptions.finish_ended(reader, target, now)
        except StoreError as e:
            _log.info("unfollow_waits", user_id=reader, why=e.word)
            return True

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
        """Remove a follower; return False if the person didn't follow.

        The follower's cell need not respond; see :meth:`block`.
        """
        had_accepted = self._end_follow(follower_id, target.user_id, now)
        return self._try_to_end(follower_id, target, now) or had_accepted

    def finish_decisions(self, now: dt.datetime) -> list[tuple[FollowDecision, int]]:
        """Do what people have decided about subscriptions to them while a cell wasn't responding.

        Safe to repeat, also at the same time in two processes. What can't be done yet is tried again later.

        Returns:
            What was done, with the person's feed.

        Raises:
            StoreError: the home store isn't responding.
        """
        done = []
        for decision in self._ties.list_decisions(BATCH, now):
            try:
                target = self._profiles.find(decision.to)
                if target is None:
                    self._ties.remove_decision(decision)
                elif self._finish(decision, target, now):
                    done.append((decision, target.feed_id))
            except StoreError as e:
                _log.info("decision_waits", user_id=decision.user_id, kind=decision.kind.value, why=e.word)
                self._ties.postpone_decision(decision, now + RETRY)
            except Exception:  # noqa: BLE001 — a bug with one must not keep others and notifications waiting
                kind = decision.kind.value
                _log.error("decision_failed", exc_info=True, user_id=decision.user_id, kind=kind)
                self._ties.postpone_decision(decision, now + FAULT_RETRY)
        return done

    def _finish(self, decision: FollowDecision, target: Profile, now: dt.datetime) -> bool:
        if decision.kind is RelationshipKind.ENDED:
            return self._subscriptions.finish_ended(decision.user_id, target, now)
        try:
            return self._finish_accepted(decision, target, now)
        except (NotFoundError, TooLargeError):
            return False  # the person was blocked, or must ask again

    def find_followed(self, user_id: int) -> list[Subscription]:
        """Return a user's subscriptions to people."""
        return self._mapper.find_people(user_id)

    def list_followers(self, target: Profile, after: int, limit: int) -> list[tuple[int, int]]:
        """Return (cursor, user id) of followers, latest first; ``after``: the cursor to continue after."""
        return self._mapper.find_followers(target.feed_id, after, limit)

    def list_removed_followers(self, target_id: int, limit: int) -> list[int]:
        """Return the ids of users who no longer follow a person, though they still have a subscription."""
        return self._ties.find_initiators(target_id, RelationshipKind.ENDED, limit)

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
