"""Merges a feed into another that turned out to be the same: subscribers and what they have read."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from app.errors import ConflictError, ExistsError
from app.feeds.identity import hash_name
from app.mappers.feeds.entries import EntryMapper, EntryOutline
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.feed import Feed
from app.models.subscriptions.read_state import ReadState, make_state
from app.models.subscriptions.subscription import Subscription

#: Unread entries per subscriber that are looked up in the other feed; older ones count as read.
CARRIED = 1000
#: Newest entries of each feed among which they are.
COMPARED = 10_000
BATCH = 100
_NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class _Pairs:
    """A feed's entries (``mine``), their numbers in its heir, and what the heir alone has.

    ``begun`` is the time of the heir's oldest entry, ``ended`` that of the feed's newest one.
    """

    mine: Sequence[EntryOutline]
    same: dict[int, int]
    only_theirs: Sequence[EntryOutline]
    begun: dt.datetime
    ended: dt.datetime


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
        pairs: _Pairs | None = None
        while not self._store.run_in_transaction(lambda session: self._retire(source, target, session)):
            pairs = pairs or self._pairs(source, target)
            for subscription in self._subscriptions.find_by_feed(source.id, BATCH):
                self._move(subscription, source, target, pairs)

    def _retire(self, source: Feed, target: Feed, session: Session) -> bool:
        """Retire a feed that nobody reads any more; False: somebody does, maybe since a moment ago.

        Who subscribes writes the feed too, so of the two transactions one sees the other.
        """
        if self._subscriptions.find_by_feed(source.id, 1, session):
            return False
        self._feeds.retire_merged(source.id, target.id, session)
        return True

    def _move(self, subscription: Subscription, source: Feed, target: Feed, pairs: _Pairs) -> None:
        def move_subscription(session: Session) -> None:
            # As it is now: he may have left, paused or read something since it was looked up.
            mine = self._subscriptions.remove(subscription.user_id, source.id, session)
            if mine is None:
                return
            readers, state = 0 if mine.paused else 1, _translated(mine.state, pairs, target.last_seq)
            self._feeds.change_subscriber_count(source.id, -readers, session)
            position = self._feeds.change_subscriber_count(target.id, readers, session)
            if position is None:
                raise ConflictError(feed_id=target.id)  # it was merged itself; the next pull tries again
            moved = mine._replace(feed_id=target.id, state=state)
            self._subscriptions.add(moved, pending=not position.last_seq, session=session)

        try:
            self._store.run_in_transaction(move_subscription)
        except ExistsError:
            # He reads the other one too: that one's state stays, this subscription only goes.
            self._store.run_in_transaction(lambda session: self._leave(subscription, session))

    def _leave(self, subscription: Subscription, session: Session) -> None:
        gone = self._subscriptions.remove(subscription.user_id, subscription.feed_id, session)
        if gone and not gone.paused:
            self._feeds.change_subscriber_count(subscription.feed_id, -1, session)

    def carry_state(self, state: ReadState, source: Feed, target: Feed, upto: int) -> ReadState:
        """Return the state of somebody who goes on with ``target`` in the place of ``source``.

        What was unread is unread there too; of its younger entries, above ``upto``, so are those that
        ``source`` does not have.
        """
        pairs = self._pairs(source, target)
        unread, _ = _unread(state, pairs)
        return _unread_only(unread | {e.seq for e in pairs.only_theirs if e.seq > upto}, target.last_seq)

    def _pairs(self, source: Feed, target: Feed) -> _Pairs:
        """Return which entries are the same: those with one guid, else those of one link and title."""
        mine, theirs = (
            self._entries.find_outlines(
                feed.id, max(feed.first_seq, feed.last_seq - COMPARED + 1), feed.last_seq
            )
            for feed in (source, target)
        )
        by_guid = {entry.guid_hash: entry.seq for entry in theirs}
        same = {e.seq: by_guid[e.guid_hash] for e in mine if e.guid_hash in by_guid}
        # Twins often differ in their guids alone, as the RSS and the Atom feed of a blog do.
        by_name = _by_name(_without(theirs, same.values()))
        for name, seq in _by_name(_without(mine, same)).items():
            if name in by_name:
                same[seq] = by_name[name]
        begun = min((entry.at for entry in theirs), default=_NEVER)
        ended = max((entry.at for entry in mine), default=_NEVER)
        return _Pairs(mine, same, _without(theirs, same.values()), begun, ended)


def _without(entries: Sequence[EntryOutline], seqs: Iterable[int]) -> list[EntryOutline]:
    known = set(seqs)
    return [entry for entry in entries if entry.seq not in known]


def _by_name(entries: Sequence[EntryOutline]) -> dict[bytes, int]:
    """Return link and title → number; what several entries share identifies none of them."""
    names = {entry.seq: hash_name(entry.url, entry.title) for entry in entries if entry.url or entry.title}
    counts = Counter(names.values())
    return {name: seq for seq, name in names.items() if counts[name] == 1}


def _unread(state: ReadState, pairs: _Pairs) -> tuple[set[int], list[dt.datetime]]:
    """Return the heir's numbers of what is unread, and the times of what is unread and not there."""
    mine = pairs.mine
    numbers = set(state.find_seqs(mine[0].seq, mine[-1].seq)[-CARRIED:]) if mine else set()
    there = {pairs.same[seq] for seq in numbers if seq in pairs.same}
    return there, [entry.at for entry in mine if entry.seq in numbers and entry.seq not in pairs.same]


def _translated(state: ReadState, pairs: _Pairs, last: int) -> ReadState:
    """Return the state in which the same entries are unread.

    Where the heir does not have all of them, some may stand there under other names: so what it alone has is
    unread too if it is as young as the oldest of those, and among the newest. Those that are older than all
    that the heir has stand there under no name: for them there is what came after all that the feed had.
    """
    unread, lost = _unread(state, pairs)
    if lost:
        since = min((at for at in lost if at >= pairs.begun), default=pairs.ended)
        young = sorted((entry.at, entry.seq) for entry in pairs.only_theirs if entry.at >= since)
        unread.update(seq for _, seq in young[-CARRIED:])
    return _unread_only(unread, last)


def _unread_only(seqs: Collection[int], last: int) -> ReadState:
    """Return the state in which these numbers alone are unread."""
    if not seqs:
        return ReadState(last)
    read = (1 << last + 1) - 1
    for seq in seqs:
        read &= ~(1 << seq)
    return make_state(min(seqs) - 1, read, 0, ())
