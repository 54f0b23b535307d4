"""Numbers of the home store that include people of other cells: settled from each outbox, and recounted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

from app import logs
from app.errors import ConflictError, EventrError, StoreError
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.operations.outbox import OutboxMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.operations.cells import HOME, PlaceState

_log = logs.get(__name__)

#: Rows that are settled at a time.
BATCH = 500
#: Time until the numbers of a person whose old cell isn't cleaned yet are counted again.
AGAIN = dt.timedelta(seconds=30)
#: Time until a row is settled again that couldn't be, because another store isn't responding.
RETRY = dt.timedelta(seconds=5)
#: Time for which numbers that are 0 are kept; no relay takes that long.
ZEROS_FOR = dt.timedelta(hours=1)
#: Attempts to set a number that another relay sets at the same time.
ROUNDS = 5


class RecountResult(NamedTuple):
    """How many numbers were checked, and how many of them were wrong."""

    feeds: int
    wrong_feeds: int
    entries: int
    wrong_entries: int


class OutboxGateway:
    """Sets readers of feeds and keepers of entries to what the cells count.

    Every step sets a number and can be repeated, so a row is deleted only after it is settled.
    """

    def __init__(
        self,
        *,
        cells: Cells,
        outbox: OutboxMapper,
        feeds: FeedMapper,
        entries: EntryMapper,
        subscriptions: SubscriptionMapper,
        subscribing: SubscriptionGateway,
        merger: FeedMerger,
    ) -> None:
        self._cells, self._outbox = cells, outbox
        self._feeds, self._entries, self._subscriptions = feeds, entries, subscriptions
        self._subscribing, self._merger = subscribing, merger

    @property
    def is_needed(self) -> bool:
        """Whether there are cells beside the home store."""
        return self._cells.is_spread

    def settle_rows(self, now: dt.datetime) -> int:
        """Settle the rows of all cells; return how many. A cell that isn't responding keeps its rows."""
        if self._cells.has_unknown():
            return 0  # rows of the home store are for all cells
        return sum(self._try_cell(cell, now) for cell in self._cells.names)

    def _try_cell(self, cell: str, now: dt.datetime) -> int:
        try:
            return self._settle_cell(cell, now)
        except StoreError as e:
            _log.warning("outbox_not_settled", cell=cell, error=e.word)
            return 0

    def _settle_cell(self, cell: str, now: dt.datetime) -> int:
        if cell == HOME and self.is_needed:
            self._outbox.remove_zeros(now - ZEROS_FOR)
        rows = self._outbox.list_rows(cell, BATCH, now)
        failed = {key for key in {row.key for row in rows} if not self._try_row(cell, *key, now)}
        done = [row for row in rows if row.key not in failed]
        places = self._cells.places.find_many({row.user_id for row in done if row.user_id})
        moving = {i for i, place in places.items() if place.state is not PlaceState.NORMAL}
        self._outbox.remove_rows(cell, [row.id for row in done if row.user_id not in moving])
        self._outbox.postpone_rows(cell, [row.id for row in done if row.user_id in moving], now + AGAIN)
        # Otherwise, they would be the first of each batch, and nothing else would be settled.
        self._outbox.postpone_rows(cell, [row.id for row in rows if row.key in failed], now + RETRY)
        return len(done)

    def _try_row(self, cell: str, feed_id: int, entry_id: int, now: dt.datetime) -> bool:
        """Settle what a row is about; return False if a store that this needs isn't responding."""
        if entry_id:
            return self._try(partial(self.settle_entry, cell, entry_id), cell, entry_id)
        # Rows of the home store are for all cells: one of them missed the start of a feed.
        others = self._cells.names[1:] if cell == HOME else [cell]
        return all(
            [self._try(partial(self.settle_feed, other, feed_id, now), other, feed_id) for other in others]
        )

    def _try(self, settle: Callable[[], None], cell: str, subject: int) -> bool:
        try:
            settle()
        except EventrError as e:
            _log.warning("outbox_row_not_settled", cell=cell, subject=subject, error=e.word)
            return False
        return True

    def settle_feed(self, cell: str, feed_id: int, now: dt.datetime) -> None:
        """Count a cell's readers of a feed, and what follows from that: merges and first pulls they missed.

        Raises:
            StoreError: a store isn't responding, or other relays were faster each time.
        """

        def set_count() -> None:
            was = self._outbox.find_readers(cell, feed_id)
            count = self._outbox.count_readers(cell, feed_id)

            def write_count(session: Session) -> None:
                # Even if it is the same: a relay that counted before this one must not set its number.
                if cell != HOME:
                    self._outbox.set_readers(cell, feed_id, was, count, session)
                total = self._outbox.count_readers(HOME, feed_id, session)
                total += self._outbox.sum_readers(feed_id, session)
                self._feeds.set_subscriber_count(feed_id, total, session)

            self._cells.home.run_in_transaction(write_count)

        _repeat(set_count)
        feed = self._feeds.find(feed_id)
        if feed is None:
            return
        if feed.merged_into is not None:
            target = self._feeds.find(feed.merged_into)
            if target is not None and self._outbox.count_readers(cell, feed_id):
                self._merger.merge(feed, target)
        elif feed.last_seq and self._outbox.has_pending(cell, feed_id):
            self._subscriptions.set_start({feed_id: self._subscribing.calculate_start(feed, now)})

    def settle_entry(self, cell: str, entry_id: int) -> None:
        """Count a cell's keepers of an entry; those of other cells count as the home store has them.

        Raises:
            StoreError: a store isn't responding, or other relays were faster each time.
        """
        _repeat(partial(self._recount_entry, entry_id, [cell], [cell]))

    # -- moves

    def request_recount(self, user_id: int, cells: Sequence[str], now: dt.datetime) -> None:
        """Let everything be counted again that a person is counted in, after they moved between cells.

        What they leave meanwhile must be counted once the old cell is cleaned, so the rows stay until then.
        """
        feeds, entries = set[int](), set[tuple[int, int]]()
        for cell in cells:
            more_feeds, more_entries = self._outbox.find_counted(cell, user_id)
            feeds |= more_feeds
            entries |= more_entries
        for cell in cells:
            if cell != HOME:
                self._outbox.add_rows(cell, feeds, entries, user_id=user_id, due=now)

    # -- recount

    def recount(self, now: dt.datetime) -> RecountResult:
        """Count all readers and keepers again, in all cells.

        Raises:
            StoreError: a store isn't responding; run it again.
        """
        self._cells.require_all()
        feeds = wrong_feeds = after = 0
        while feed_ids := self._feeds.list_ids(after, BATCH):
            after = feed_ids[-1]
            feeds += len(feed_ids)
            wrong_feeds += self._recount_feeds(feed_ids, now)
        entries, wrong_entries = self._recount_entries()
        return RecountResult(feeds, wrong_feeds, entries, wrong_entries)

    def _recount_feeds(self, feed_ids: Sequence[int], now: dt.datetime) -> int:
        said = self._feeds.find_subscriber_counts(feed_ids)
        real = {cell: self._outbox.count_all_readers(cell, feed_ids) for cell in self._cells.names}
        wrong: set[int] = set()
        for feed_id in feed_ids:
            if said.get(feed_id, 0) != sum(counts.get(feed_id, 0) for counts in real.values()):
                wrong.add(feed_id)
        for cell in self._cells.names[1:]:
            kept = self._outbox.find_all_readers(cell, feed_ids)
            wrong |= {f for f in feed_ids if kept.get(f, 0) != real[cell].get(f, 0)}
        for feed_id in wrong:
            for cell in self._cells.names[1:] or [HOME]:
                self.settle_feed(cell, feed_id, now)
        return len(wrong)

    def _recount_entries(self) -> tuple[int, int]:
        entries = wrong = 0
        for row in self._outbox.iterate_keepers(self._cells.names):
            entries += 1
            if row.stars == row.shares + sum(row.keepers.values()) and row.keepers_match:
                continue
            wrong += 1
            _repeat(partial(self._recount_entry, row.entry_id, self._cells.names[1:], ()))
        return entries, wrong

    def _recount_entry(self, entry_id: int, cells: Collection[str], changed: Collection[str]) -> None:
        """Count the keepers of an entry in these cells, and set its number.

        Args:
            changed: cells whose number is written even if it is the same: a relay that counted before this
                one must not set its number.
        """
        kept = {cell: self._outbox.find_keepers(cell, entry_id) for cell in cells if cell != HOME}
        real = {cell: self._outbox.count_keepers(cell, entry_id) for cell in kept}

        def write_counts(session: Session) -> None:
            for cell, was in kept.items():
                if real[cell] != was.number or cell in changed:
                    self._outbox.set_keepers(cell, entry_id, was, real[cell], session)
            total = self._outbox.sum_keepers(entry_id, session)
            total += self._outbox.count_keepers(HOME, entry_id, session)
            total += self._outbox.count_shares(entry_id, session)
            self._entries.set_star_count(entry_id, total, session)

        self._cells.home.run_in_transaction(write_counts)


def _repeat(work: Callable[[], None]) -> None:
    for _ in range(ROUNDS):
        try:
            return work()
        except ConflictError:
            continue
    raise StoreError
