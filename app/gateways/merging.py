"""Merges a feed into another that turned out to be the same: subscribers and what they have read."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import ConflictError, ExistsError
from app.mappers.entries import EntryMapper
from app.mappers.feeds import FeedMapper
from app.mappers.store import Session, Store
from app.mappers.subscriptions import SubscriptionMapper
from app.models.feed import Feed
from app.models.subscription import ReadState, Subscription, make_state

#: Unread entries per subscriber that are looked up in the other feed; older ones count as read.
CARRIED = 1000
BATCH = 100


class FeedMerger:
    """Moves subscriptions from one feed to another."""

    def __init__(
        self, store: Store, feeds: FeedMapper, entries: EntryMapper, subscriptions: SubscriptionMapper
    ) -> None:
        self._store = store
        self._feeds = feeds
        self._entries = entries
        self._subscriptions = subscriptions

    def merge(self, source: Feed, target: Feed) -> None:
        """Move all subscribers of ``source`` to ``target``, then retire ``source``.

        Safe to run again after a crash: each subscriber moves in a transaction of his own.
        """
        while not self._store.transaction(lambda session: self._retire(source, target, session)):
            for subscription in self._subscriptions.of_feed(source.id, BATCH):
                self._move(subscription, source, target)

    def _retire(self, source: Feed, target: Feed, session: Session) -> bool:
        """Retire a feed that nobody reads any more; False: somebody does, maybe since a moment ago.

        Who subscribes writes the feed too, so of the two transactions one sees the other.
        """
        if self._subscriptions.of_feed(source.id, 1, session):
            return False
        self._feeds.retire(source.id, target.id, session)
        return True

    def _move(self, subscription: Subscription, source: Feed, target: Feed) -> None:
        def work(session: Session) -> None:
            # As it is now: he may have left, paused or read something since it was looked up.
            mine = self._subscriptions.remove(subscription.user_id, source.id, session)
            if mine is None:
                return
            readers, state = 0 if mine.paused else 1, self.translate(mine.state, source, target)
            self._feeds.subscribed(source.id, -readers, session)
            position = self._feeds.subscribed(target.id, readers, session)
            if position is None:
                raise ConflictError(feed_id=target.id)  # it was merged itself; the next pull tries again
            moved = mine._replace(feed_id=target.id, state=state)
            self._subscriptions.add(moved, pending=not position.last_seq, session=session)

        try:
            self._store.transaction(work)
        except ExistsError:
            # He reads the other one too: that one's state stays, this subscription only goes.
            self._store.transaction(lambda session: self._leave(subscription, session))

    def _leave(self, subscription: Subscription, session: Session) -> None:
        gone = self._subscriptions.remove(subscription.user_id, subscription.feed_id, session)
        if gone and not gone.paused:
            self._feeds.subscribed(subscription.feed_id, -1, session)

    def carry(self, state: ReadState, source: Feed, target: Feed, upto: int) -> ReadState:
        """Return the state of somebody who goes on with ``target`` in the place of ``source``.

        What was unread is unread there too; of its younger entries, above ``upto``, so are those that
        ``source`` does not have.
        """
        unread = state.seqs(source.first_seq, source.last_seq)[-CARRIED:]
        there = self._entries.places(target.id, list(self._entries.guids(source.id, unread)))
        young = self._entries.guids(target.id, range(upto + 1, target.last_seq + 1))
        known = self._entries.places(source.id, list(young))
        seqs = {*there.values(), *(seq for guid, seq in young.items() if guid not in known)}
        return _unread_only([s for s in seqs if target.first_seq <= s <= target.last_seq], target.last_seq)

    def translate(self, state: ReadState, source: Feed, target: Feed) -> ReadState:
        """Return the state in ``target`` in which the same entries (by guid) are unread."""
        unread = state.seqs(source.first_seq, source.last_seq)[-CARRIED:]
        wanted = list(self._entries.guids(source.id, unread))
        places = self._entries.places(target.id, wanted)
        seqs = [s for s in places.values() if target.first_seq <= s <= target.last_seq]
        return _unread_only(seqs, target.last_seq)


def _unread_only(seqs: Sequence[int], last: int) -> ReadState:
    """Return the state in which these numbers alone are unread."""
    if not seqs:
        return ReadState(last)
    read = (1 << last + 1) - 1
    for seq in seqs:
        read &= ~(1 << seq)
    return make_state(min(seqs) - 1, read, 0, ())
