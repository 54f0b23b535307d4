"""Merging a feed into an equal one at another address, with subscribers and read states."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from app.errors import ConflictError, ExistsError
from app.feeds.entry_hashes import hash_name
from app.mappers.feeds.entries import EntryMapper, EntryOutline
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.media.files import FileMapper
from app.mappers.media.icons import IconMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session, Store
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.feed import Feed
from app.models.media.icon import name_owner
from app.models.subscriptions.read_state import ReadState, make_state
from app.models.subscriptions.subscription import Subscription

#: Unread entries per subscriber that are carried over; older ones count as read.
CARRIED = 1000
#: Newest entries of each feed that are compared.
COMPARED = 10_000
BATCH = 100
_NEVER = dt.datetime.max.replace(tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class _Pairs:
    """A feed's entries (``mine``), their numbers in the target feed, and the entries only the target has.

    ``begun`` is the time of the target's oldest entry, ``ended`` that of the feed's newest entry.
    """

    mine: Sequence[EntryOutline]
    same: dict[int, int]
    only_theirs: Sequence[EntryOutline]
    begun: dt.datetime
    ended: dt.datetime


class FeedMerger:
    """Moves subscriptions from one feed to another."""

    def __init__(
        self,
        store: Store,
        cells: Cells,
        feeds: FeedMapper,
        entries: EntryMapper,
        subscriptions: SubscriptionMapper,
        *,
        icons: IconMapper,
        files: FileMapper,
    ) -> None:
        self._store, self._cells = store, cells
        self._feeds = feeds
        self._entries = entries
        self._subscriptions = subscriptions
        self._icons, self._files = icons, files

    def merge(self, source: Feed, target: Feed) -> None:
        """Move all subscribers of ``source`` to ``target``, then retire ``source``.

        Safe to run again after a crash: each subscription moves in its own transaction.
        """
        pairs: _Pairs | None = None
        while not self._store.run_in_transaction(lambda session: self._retire(source, target, session)):
            pairs = pairs or self._pairs(source, target)
            for subscription in self._subscriptions.find_by_feed(source.id, BATCH):
                self._move(subscription, source, target, pairs)

    def _retire(self, source: Feed, target: Feed, session: Session) -> bool:
        """Retire a feed without subscriptions; return False if there are any, even very recent ones.

        Subscribing also writes the feed's document, so one of two concurrent transactions sees the other.
        """
        if self._subscriptions.find_by_feed(source.id, 1, session):
            return False
        if self._feeds.change_subscriber_count(target.id, 0, session) is None:
            raise ConflictError(feed_id=target.id)  # merged or deleted meanwhile; the next pull retries
        self._feeds.retire_merged(source.id, target.id, session)
        # An icon that someone uploaded is for the same readers, who now read the target.
        if source.icon_uploaded and self._icons.move_uploaded(source.id, target.id, session):
            self._files.rename_owner(name_owner(source.id), name_owner(target.id), session)
        return True

    def _move(self, subscription: Subscription, source: Feed, target: Feed, pairs: _Pairs) -> None:
        def move_subscription(session: Session) -> None:
            # Read it again: the subscriber may have unsubscribed, paused or read something since.
            mine = self._subscriptions.remove(subscription.user_id, source.id, session)
            if mine is None:
                return
            readers, state = 0 if mine.paused else 1, _translated(mine.state, pairs, target.last_seq)
            self._feeds.change_subscriber_count(source.id, -readers, session)
            position = self._feeds.change_subscriber_count(target.id, readers, session)
            if position is None:
                raise ConflictError(feed_id=target.id)  # the target was merged too; the next pull retries
            moved = mine.move_to(target.id, state)
            self._subscriptions.move_rules(mine.user_id, source.id, target.id, session)
            self._subscriptions.add(moved, pending=not position.last_seq, session=session)

        try:
            self._cells.run_in_transaction(subscription.user_id, move_subscription)
        except ExistsError:
            # The user also subscribes to the target: that read state stays, and this subscription ends.
            self._cells.run_in_transaction(
                subscription.user_id, lambda session: self._leave(subscription, target, session)
            )

    def _leave(self, subscription: Subscription, target: Feed, session: Session) -> None:
        gone = self._subscriptions.remove(subscription.user_id, subscription.feed_id, session)
        self._subscriptions.move_rules(subscription.user_id, subscription.feed_id, target.id, session)
        if gone and gone.private:
            self._subscriptions.set_private(gone.user_id, target.id, True, session)
        if gone and not gone.paused:
            self._feeds.change_subscriber_count(subscription.feed_id, -1, session)

    def carry_state(self, state: ReadState, source: Feed, target: Feed, upto: int) -> ReadState:
        """Return the read state of a user who continues with ``target`` instead of ``source``.

        Entries unread in ``source`` stay unread. So are newer entries (above ``upto``) that only ``target``
        has.
        """
        pairs = self._pairs(source, target)
        unread, _ = _unread(state, pairs)
        return _unread_only(unread | {e.seq for e in pairs.only_theirs if e.seq > upto}, target.last_seq)

    def _pairs(self, source: Feed, target: Feed) -> _Pairs:
        """Return which entries are the same: those with equal guids, or else with equal link and title."""
        mine, theirs = (
            self._entries.find_outlines(
                feed.id, max(feed.first_seq, feed.last_seq - COMPARED + 1), feed.last_seq
            )
            for feed in (source, target)
        )
        by_guid = {entry.guid_hash: entry.seq for entry in theirs}
        same = {e.seq: by_guid[e.guid_hash] for e in mine if e.guid_hash in by_guid}
        # Equal feeds often differ only in their guids, such as the RSS and the Atom feed of a blog.
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
    """Return hash of link and title → number, for hashes that are unique within the feed."""
    names = {entry.seq: hash_name(entry.url, entry.title) for entry in entries if entry.url or entry.title}
    counts = Counter(names.values())
    return {name: seq for seq, name in names.items() if counts[name] == 1}


def _unread(state: ReadState, pairs: _Pairs) -> tuple[set[int], list[dt.datetime]]:
    """Return the target's numbers of unread entries, and the times of unread entries that it lacks."""
    mine = pairs.mine
    numbers = set(state.find_seqs(mine[0].seq, mine[-1].seq)[-CARRIED:]) if mine else set()
    there = {pairs.same[seq] for seq in numbers if seq in pairs.same}
    return there, [entry.at for entry in mine if entry.seq in numbers and entry.seq not in pairs.same]


def _translated(state: ReadState, pairs: _Pairs, last: int) -> ReadState:
    """Return the read state in the target in which the same entries are unread.

    If the target lacks some of them, they may exist there under other guids and titles. So the newest
    :data:`CARRIED` entries that only the target has are unread too, if they are at least as recent as the
    oldest missing entry. Missing entries older than all of the target's have no match: for them, entries
    newer than all of the feed's are unread.
    """
    unread, lost = _unread(state, pairs)
    if lost:
        since = min((at for at in lost if at >= pairs.begun), default=pairs.ended)
        young = sorted((entry.at, entry.seq) for entry in pairs.only_theirs if entry.at >= since)
        unread.update(seq for _, seq in young[-CARRIED:])
    return _unread_only(unread, last)


def _unread_only(seqs: Collection[int], last: int) -> ReadState:
    """Return the read state in which only these numbers are unread."""
    if not seqs:
        return ReadState(last)
    read = (1 << last + 1) - 1
    for seq in seqs:
        read &= ~(1 << seq)
    return make_state(min(seqs) - 1, read, 0, ())
