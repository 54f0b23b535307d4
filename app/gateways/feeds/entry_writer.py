"""Storing the results of pulls: entries first, then feed states, numbered without gaps.

One writer at a time holds a feed's claim. But a writer may not notice that its claim has expired and write
late, or may die between entries and state. These rules keep the numbering intact:

- A number belongs to the writer that inserted it first: unique (feed_id, seq) and (feed_id, guid_hash).
- Readers never read above ``last_seq``. It only rises together with the claim's token, to a number below
  which everything is stored.
- So entries above ``last_seq`` are invisible leftovers. A writer may meet one through a refused insert, or by
  taking over an expired claim. It then reconciles the feed in a transaction that locks the feed's document.
  Leftovers move down to the next free numbers, new entries follow, and the state is written last.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from app import logs
from app.errors import ConflictError, StoreError
from app.mappers.feeds.entries import EntryMapper, NumberedEntry
from app.mappers.feeds.feed_states import StateWrite
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.feed import Feed, FeedUpdate, Position, StoreResult
from app.models.reading.entry import EntryChange, NewEntry
from app.models.subscriptions.subscription import StartRule

log = logs.get(__name__)

#: Bytes that an entry takes besides its HTML, roughly.
_FRAME = 500
#: Attempts that late writers may disturb before this writer gives up.
ROUNDS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class _Settled:
    """A reconciled feed: its numbering, and the sort times and guids of entries that became visible."""

    position: Position
    last_seq: int
    ats: tuple[dt.datetime, ...]
    guids: frozenset[bytes] = frozenset()

    @classmethod
    def from_appended(cls, position: Position, ats: Sequence[dt.datetime]) -> _Settled:
        """Return the result of appending entries with these sort times."""
        return cls(position, position.last_seq + len(ats), tuple(ats))


class EntryWriter:
    """Stores batches of :class:`FeedUpdate`.

    Args:
        start: where reading starts for people who subscribed before a feed's first entries.
        keep, keep_bytes: entries kept per feed and their size, to calculate the excess.
    """

    def __init__(
        self,
        store: Store,
        feeds: FeedMapper,
        entries: EntryMapper,
        subscriptions: SubscriptionMapper,
        *,
        start: StartRule,
        keep: int,
        keep_bytes: int,
    ) -> None:
        self._store = store
        self._feeds = feeds
        self._entries = entries
        self._subscriptions = subscriptions
        self._start = start
        self._keep, self._keep_bytes = keep, keep_bytes

    def store_updates(self, updates: Sequence[FeedUpdate], now: dt.datetime) -> list[StoreResult]:
        """Store a batch, one update per feed; return the results in the order of the updates.

        Safe to run twice and to be killed anywhere: stored entries are recognized by their guids.
        """
        fresh = {u.feed_id: u for u in updates if u.new}
        grown = [(u.feed_id, u.token) for u in updates if u.new or u.changed]
        positions = self._feeds.find_positions(grown) if grown else {}
        held = [u for u in fresh.values() if u.feed_id in positions]
        torn = self._insert(held, positions)
        self._entries.update_bodies((u.feed_id, u.fetched_at, c) for u in updates for c in u.changed)
        lost = fresh.keys() - positions.keys() | torn
        results = self._finish([u for u in updates if u.feed_id not in lost], positions, now)
        results.update({feed_id: self._store_torn(fresh[feed_id], now) for feed_id in torn})
        told = [results.get(u.feed_id) or StoreResult(u.feed_id, False) for u in updates]
        # Updates that were not stored are fetched again by the next pull. A crash of the store can revert a
        # claim, and then no other pull holds the feed.
        if failed := [result.feed_id for result in told if not result.stored]:
            self._feeds.make_due(failed, now)
        return told

    def _insert(self, updates: Sequence[FeedUpdate], positions: dict[int, Position]) -> set[int]:
        """Insert all new entries; return the feeds where a number or guid was taken."""
        numbered = [
            NumberedEntry(u.feed_id, seq, entry)
            for u in updates
            for seq, entry in enumerate(sort_new_entries(u.new), positions[u.feed_id].last_seq + 1)
        ]
        return {numbered[i].feed_id for i in self._entries.add(numbered)} if numbered else set()

    def _finish(
        self, updates: Sequence[FeedUpdate], positions: dict[int, Position], now: dt.datetime
    ) -> dict[int, StoreResult]:
        """Write the states of feeds whose inserts all succeeded, or that had no new entries."""
        settled = {
            u.feed_id: _Settled.from_appended(positions[u.feed_id], [e.at for e in sort_new_entries(u.new)])
            for u in updates
            if u.new
        }
        starts = {f: self._start_of(s, now) for f, s in settled.items() if not s.position.last_seq}
        self._subscriptions.set_start(starts)
        written = self._feeds.write_states(
            [_write(u, settled.get(u.feed_id), positions.get(u.feed_id)) for u in updates]
        )
        # People who subscribed between the two writes saw an empty feed.
        self._subscriptions.set_start({f: upto for f, upto in starts.items() if f in written})
        if late := [f for f in settled if f not in written]:
            log.warning("claim_lost", feed_ids=late)
            self._feeds.mark_torn(late)
        return {
            u.feed_id: self._result(
                u, settled.get(u.feed_id), positions.get(u.feed_id), stored=u.feed_id in written
            )
            for u in updates
        }

    def reconcile(self, feed: Feed, now: dt.datetime) -> Feed:
        """Reconcile a claimed feed whose last writer died or was late; return the feed after that.

        If its first entries are stored but not numbered, a feed is left to the pull that brings its first
        ones. The start of reading can only be set once, for all these entries.

        Raises:
            StoreError: late writers disturbed every attempt.
        """
        token = feed.claim_token or ""
        if not feed.last_seq:
            if self._entries.find_above(feed.id, 0):
                return feed
            # A feed that fails from its first pull on brings no entries, and would stay torn.
            self._feeds.clear_torn(feed.id, token)
            return dataclasses.replace(feed, torn=False)
        settled = self._settle(FeedUpdate(feed.id, token, now), now, state=False)
        if settled is None:
            return feed
        self._feeds.clear_torn(feed.id, token)
        newest = max((*settled.ats, *filter(None, [feed.last_entry_at])), default=None)
        log.info("feed_reconciled", feed_id=feed.id, found=len(settled.ats))
        return dataclasses.replace(feed, last_seq=settled.last_seq, last_entry_at=newest, torn=False)

    def _store_torn(self, update: FeedUpdate, now: dt.datetime) -> StoreResult:
        # An entry listed again, often because it was edited, keeps its number and gets its new content.
        changes = self._entries.find_changes(update.feed_id, update.new, update.fetched_at)
        self._entries.update_bodies((update.feed_id, update.fetched_at, change) for change in changes)
        settled = self._settle(update, now, state=True)
        position = settled.position if settled else None
        return self._result(update, settled, position, stored=settled is not None)

    def _settle(self, update: FeedUpdate, now: dt.datetime, *, state: bool) -> _Settled | None:
        """Reconcile a feed and store its update in one transaction; return None if the claim is lost."""

        def settle_feed(session: Session) -> _Settled | None:
            position = self._feeds.lock(update.feed_id, update.token, session)
            if position is None:
                return None
            settled = self._order(update, position, now, session)
            if state:
                write = _write(_narrowed(update, settled), settled, position)
                self._feeds.write_states([write], session)
            else:
                self._feeds.write_numbering(_write(update, settled, position), session)
            return settled

        for _ in range(ROUNDS):
            try:
                settled = self._store.run_in_transaction(settle_feed)
            except ConflictError:
                continue  # a late writer inserted; the next round sees that entry
            if settled and not settled.position.last_seq:
                self._subscriptions.set_start({update.feed_id: self._start_of(settled, now)})
            return settled
        raise StoreError(feed_id=update.feed_id)

    def _order(self, update: FeedUpdate, position: Position, now: dt.datetime, session: Session) -> _Settled:
        """Close the gaps above ``last_seq``, and append the entries that are not stored yet."""
        feed_id, place = update.feed_id, position.last_seq
        leftovers = self._entries.find_above(feed_id, place, session)
        for leftover in leftovers:
            place += 1
            if leftover.seq != place:
                self._entries.change_seq(feed_id, leftover, place, session)
        if leftovers:
            self._entries.mark_revealed(feed_id, [leftover.id for leftover in leftovers], now, session)
        known = (
            self._entries.find_known_guids(feed_id, [e.guid_hash for e in update.new], session)
            if update.new
            else set()
        )
        missing = [e for e in sort_new_entries(update.new) if e.guid_hash not in known]
        numbered = [NumberedEntry(feed_id, seq, entry) for seq, entry in enumerate(missing, place + 1)]
        self._entries.add_in_transaction(numbered, session)
        ats = (*(s.at for s in leftovers), *(e.at for e in missing))
        guids = frozenset([*(s.guid_hash for s in leftovers), *(e.guid_hash for e in missing)])
        return _Settled(position, place + len(missing), ats, guids)

    def _start_of(self, settled: _Settled, now: dt.datetime) -> int:
        return self._start.calculate_upto(settled.ats[-self._start.max_unread :], settled.last_seq, now)

    def _result(
        self, update: FeedUpdate, settled: _Settled | None, position: Position | None, *, stored: bool
    ) -> StoreResult:
        too_big = stored and position is not None and self._is_too_big(update, position)
        if settled is None or not stored:
            return StoreResult(update.feed_id, stored, too_big=too_big)
        first, last = settled.position.first_seq, settled.last_seq
        excess = max(0, last - first + 1 - self._keep)
        return StoreResult(update.feed_id, True, len(settled.ats), last, excess, too_big)

    def _is_too_big(self, update: FeedUpdate, position: Position) -> bool:
        """Return whether a feed's entries may exceed the size to keep, or were never measured."""
        stored = position.stored_bytes
        return stored is None or stored + estimate_bytes(update) > self._keep_bytes


def sort_new_entries(new: Sequence[NewEntry]) -> list[NewEntry]:
    """Return new entries in the order of their numbers: ascending by ``at``, then in reverse feed order.

    Feeds list the newest entry first, so among undated entries the first gets the highest number.
    """
    return sorted(reversed(new), key=lambda entry: entry.at)


def estimate_bytes(update: FeedUpdate) -> int:
    """Return how many bytes an update's entries take at most in the store.

    Compression makes them a third of that, so the estimate is corrected once it exceeds what is kept.
    """
    entries: list[NewEntry | EntryChange] = [*update.new, *update.changed]
    return sum(len(e.content) + len(e.summary) + len(e.raw) + _FRAME for e in entries)


def _narrowed(update: FeedUpdate, settled: _Settled) -> FeedUpdate:
    """Return the update without the effects of entries that were already stored and visible."""
    added = [entry for entry in update.new if entry.guid_hash in settled.guids]
    if update.fields_of is None or len(added) == len(update.new):
        return update
    return dataclasses.replace(update, fields=update.fields_of(added))


def _write(update: FeedUpdate, settled: _Settled | None, position: Position | None) -> StateWrite:
    measured = position is not None and position.stored_bytes is not None
    added = estimate_bytes(update) if measured else None
    # Only now it is known which entries are new and which were listed before.
    new = len(settled.ats) if settled else 0
    record = update.record._replace(new=new) if update.record is not None else None
    if settled is None:
        index_at = update.fetched_at if update.changed else None
        return StateWrite(
            update.feed_id,
            update.token,
            update.fields,
            index_at=index_at,
            added_bytes=added,
            record=record,
        )
    return StateWrite(
        update.feed_id,
        update.token,
        update.fields,
        base=settled.position.last_seq,
        last_seq=settled.last_seq,
        newest=max(settled.ats, default=None),
        index_at=update.fetched_at,
        added_bytes=added,
        record=record,
    )
