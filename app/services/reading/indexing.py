"""Updates of the search index, as a job separate from pulls. There is no actor.

The mark that a feed has news is stored together with the news, so a crash loses nothing. The mark is removed
when all news is committed to the index, unless more has arrived since.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from app import clock, logs
from app.errors import StoreError
from app.gateways.reading.indexing import IndexingGateway
from app.gateways.reading.standby import StandbyGateway
from app.models.feeds.feed import IndexRemoval, IndexState, UnindexedFeed
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.search import IndexPart, SearchDocument
from app.models.reading.story import Fingerprint
from app.ports import SearchIndexPort

log = logs.get(__name__)

#: Delay before a feed that could not be indexed is retried.
LATER = dt.timedelta(hours=1)
#: Time between two checks of an index without news.
CHECK_EVERY = dt.timedelta(hours=1)
#: Time between two statements of a server that it has the index, and after which another one may have it.
HELD_EVERY, HELD_FOR = dt.timedelta(minutes=10), dt.timedelta(hours=2)
#: Feeds read per batch, and removals.
FEEDS, REMOVALS = 50, 1000
#: Feeds compared per check.
COMPARED = 20_000
#: Entries per check that are looked for both in the index and in the store, and read at once.
SWEPT, SWEPT_AT_ONCE = 50_000, 5000
#: A commit costs the same whatever is in it, and small ones are merged more often. So there is one after so
#: many seconds, or so many entries.
COMMIT_SECONDS, COMMIT_ENTRIES = 5.0, 10_000
#: Entries whose copies are looked for at once.
COMPARED_AT_ONCE = 500


@dataclasses.dataclass
class _Batch:
    """Changes that aren't committed.

    Attributes:
        feeds: with news; their marks are removed after the commit.
        position: the last feed that the new index has completely.
        built: number of feeds that it has completely since the last commit.
        fingerprints: of entries whose copies aren't recorded yet.
        since: when the first change was made.
    """

    feeds: dict[int, UnindexedFeed] = dataclasses.field(default_factory=dict)
    removals: list[IndexRemoval] = dataclasses.field(default_factory=list)
    position: int | None = None
    built: int = 0
    entries: int = 0
    fingerprints: list[Fingerprint] = dataclasses.field(default_factory=list)
    since: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def is_empty(self) -> bool:
        return not (self.feeds or self.removals or self.entries) and self.position is None

    def clear(self) -> None:
        self.feeds, self.removals, self.position, self.built, self.entries = {}, [], None, 0, 0
        self.fingerprints = []
        self.since = time.monotonic()

    @property
    def is_due(self) -> bool:
        return self.entries >= COMMIT_ENTRIES or (
            not self.is_empty and time.monotonic() >= self.since + COMMIT_SECONDS
        )


class IndexService:
    """Finds feeds with news, and passes their entries to the index."""

    def __init__(self, gateway: IndexingGateway, index: SearchIndexPort) -> None:
        self._gateway = gateway
        self._index = index
        self._built = self._total = 0  # feeds of a new index
        self._committed = -COMMIT_SECONDS
        self._now = clock.now()

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that updates the index, if there is work; it always has the same identity."""
        gateway = self._gateway
        is_due = gateway.find_unindexed(now, 1) or gateway.find_removals(1) or self._is_check_due(now)
        return [Job(Task.INDEX, {}, Queue.INDEX)] if is_due else []

    def _is_check_due(self, now: dt.datetime) -> bool:
        state = self._gateway.get_state()
        return (
            state.wanted_at is not None or state.checked_at is None or state.checked_at + CHECK_EVERY <= now
        )

    def get_wait(self) -> float:
        """Return the seconds until the next commit may follow the last one."""
        return max(0.0, self._committed + COMMIT_SECONDS - time.monotonic())

    def run(
        self, now: dt.datetime, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Index new entries for at most ``seconds``; the next run indexes the rest."""
        end, done, self._now = time.monotonic() + seconds, {"feeds": 0, "entries": 0}, now
        if not self._index.is_supported or not self._is_ours(now):
            return done
        try:
            self._open(now)
            self._work(now, done, lambda: time.monotonic() >= end or is_stopping())
        except StoreError:
            self._index.close()  # what is not committed is read again
            raise
        log.info("indexed", **done)
        return done

    def _is_ours(self, now: dt.datetime) -> bool:
        """Return whether this server has the index; two would each get a part of the news."""
        identity, state = self._index.get_identity(), self._gateway.get_state()
        is_recent = state.held_at is not None and state.held_at + HELD_EVERY > now
        if state.holder == identity and is_recent:
            return True
        if self._gateway.claim_index(identity, now, now - HELD_FOR):
            if state.holder and state.holder != identity:
                # This server's own index may be as old as the turn of the other server.
                self._gateway.begin_rebuild(now)
                return self._gateway.claim_index(identity, now, now - HELD_FOR)
            return True
        log.warning("search_index_elsewhere", holder=state.holder)
        return False

    def _open(self, now: dt.datetime) -> None:
        state = self._gateway.get_state()
        if state.checked_at is None and not state.total:
            self._index.close()  # a search has failed: opening it finds what is wrong
        unfinished = self._index.open(answer_early=not self._gateway.has_old_index())
        if unfinished:
            # The last writer was killed between commit and marks.
            log.warning("index_batch_repeated", feeds=len(unfinished))
            self._gateway.unindex_feeds(unfinished, now)
            self._index.finish_batch()
        if state.wanted_at is not None:
            self._index.begin_build()
        if (position := self._index.position) is not None:
            self._built, self._total = self._gateway.count_feeds(position), self._gateway.count_feeds()
            self._gateway.record_progress(self._built, self._total)

    def _work(self, now: dt.datetime, done: dict[str, int], is_over: Callable[[], bool]) -> None:
        batch = self._remove_gone()
        for feed, found, part in self._walk(now, batch):
            done["entries"] += self._add(feed, found, now, batch, part)
            done["feeds"] += 1
            if batch.is_due:
                self._commit(batch)
            if is_over():
                self._commit(batch)
                return
        self._commit(batch)
        if self._index.position is None and self._is_check_due(now):
            compared, swept = self._compare(now), self._sweep(now, batch, is_over)
            self._commit(batch)
            self._gateway.record_check(now, compared, swept)

    def _compare(self, now: dt.datetime) -> int:
        """Schedule feeds anew of which the index lacks entries; return the last compared feed.

        That happens after a restore, or when an earlier version of Eventr ran meanwhile.
        """
        feeds = self._gateway.find_indexed(self._gateway.get_state().compared, COMPARED)
        # Entries below the first number, which are kept for their marks, would hide that others are missing.
        counts = self._index.count_entries({feed.id: (feed.first_seq, feed.upto) for feed in feeds})
        lacking = [feed.id for feed in feeds if counts[feed.id] < feed.upto - feed.first_seq + 1]
        if lacking:
            log.warning("search_index_lacks_entries", feeds=len(lacking))
            self._gateway.unindex_feeds(lacking, now)
        return feeds[-1].id if len(feeds) == COMPARED else 0

    def _sweep(self, now: dt.datetime, batch: _Batch, is_over: Callable[[], bool]) -> int:
        """Compare the next entries of the index with the stored ones, by id; return the last compared id.

        After a restore of an older backup, the index has entries that the store lacks, and they hide from
        the comparison of numbers that others are missing.
        """
        after = self._gateway.get_state().swept
        for _ in range(SWEPT // SWEPT_AT_ONCE):
            indexed = self._index.list_entries(after, SWEPT_AT_ONCE)  # first: what is indexed was stored
            stored = self._gateway.find_entry_ids(after, SWEPT_AT_ONCE)
            ends = [rows[-1] for rows in ([i for i, _ in indexed], stored) if len(rows) == SWEPT_AT_ONCE]
            end = min(ends, default=None)
            self._mend(now, batch, _upto(dict(indexed), end), _upto(dict.fromkeys(stored, 0), end))
            if end is None:
                return 0  # the next sweep begins anew
            after = end
            if is_over():
                break
        return after

    def _mend(self, now: dt.datetime, batch: _Batch, indexed: dict[int, int], stored: dict[int, int]) -> None:
        """Remove entries that aren't stored, and schedule feeds anew whose entries the index lacks."""
        gone: defaultdict[int, list[int]] = defaultdict(list)
        for entry_id in indexed.keys() - stored.keys():
            gone[indexed[entry_id]].append(entry_id)
        for feed_id, entry_ids in gone.items():
            self._index.remove_entries(feed_id, entry_ids)
            batch.entries += len(entry_ids)
        lacking = self._gateway.find_lacking_feeds(sorted(stored.keys() - indexed.keys()))
        if lacking:
            self._gateway.unindex_feeds(lacking, now)
        if gone or lacking:
            log.warning("search_index_swept", removed=sum(map(len, gone.values())), feeds=len(lacking))

    def _walk(
        self, now: dt.datetime, batch: _Batch
    ) -> Iterator[tuple[UnindexedFeed, Iterator[list[SearchDocument]], IndexPart]]:
        """Yield feeds with news and their documents, then feeds that a new index lacks.

        A new index gets the news of a feed that it doesn't have yet together with the feed's other entries.
        """
        while True:
            news = [
                feed
                for feed in self._gateway.find_unindexed(now, FEEDS + len(batch.feeds))
                if batch.feeds.get(feed.id) != feed
            ]
            position = self._index.position if batch.position is None else batch.position
            if position is not None and not self._index.is_replacing:
                self._gateway.mark_indexed(*(feed for feed in news if feed.id > position))
            located = [
                self._locate(feed)
                for feed in news
                if position is None or self._index.is_replacing or feed.id <= position
            ]
            for feed, (known, found) in zip(located, self._gateway.read_news(located, now), strict=True):
                is_ahead = position is not None and feed.id > position
                part = IndexPart.PRESENT if is_ahead else IndexPart.BOTH
                yield feed, self._clear(known, found, part), part
            if news:
                continue
            if position is None:
                return
            lacking = self._gateway.find_feeds(position, FEEDS)
            if not lacking:
                self._commit(batch)
                self._finish_build()
                return
            for feed, found in self._gateway.read_news(lacking, now):
                yield feed, self._clear(feed, found, IndexPart.NEW), IndexPart.NEW

    def _add(
        self,
        feed: UnindexedFeed,
        found: Iterator[list[SearchDocument]],
        now: dt.datetime,
        batch: _Batch,
        part: IndexPart,
    ) -> int:
        number, is_build = 0, part is IndexPart.NEW
        try:
            for documents in found:
                self._index.add(documents, part)
                number += len(documents)
                batch.entries += len(documents)
                batch.fingerprints += (one.fingerprint for one in documents if one.fingerprint)
                if len(batch.fingerprints) >= COMPARED_AT_ONCE:
                    self._record_stories(batch)
                if batch.is_due:
                    self._commit(batch)
        except StoreError:
            raise
        except Exception:  # a bug of ours; the feeds behind this one must not wait
            log.error("index_failed", feed_id=feed.id, exc_info=True)
            self._postpone(feed, now, is_build=is_build)
        else:
            if not is_build:
                batch.feeds[feed.id] = feed
        if is_build:
            batch.position = feed.id
            batch.built += 1
        return number

    def _clear(
        self, feed: UnindexedFeed, found: Iterator[list[SearchDocument]], part: IndexPart
    ) -> Iterator[list[SearchDocument]]:
        """Yield the entries to index, after the entries to remove are removed."""
        first = next(found, [])  # nothing is removed if nothing can be read
        if feed.upto and feed.first_seq <= 1:
            pass  # nothing is below the first entry
        elif feed.upto:
            self._index.remove(feed.id, feed.first_seq, self._gateway.find_kept_below(feed))
        else:
            self._index.remove_feed(feed.id, part)
        yield first
        yield from found

    def _locate(self, feed: UnindexedFeed) -> UnindexedFeed:
        """Return a feed with what the index has of it."""
        return feed

    def _postpone(self, feed: UnindexedFeed, now: dt.datetime, *, is_build: bool) -> None:
        if is_build:
            self._gateway.unindex_feeds([feed.id], now + LATER)
        else:
            self._gateway.postpone_indexing(feed, now + LATER)

    def _remove_gone(self) -> _Batch:
        """Remove entries and feeds that were deleted."""
        batch = _Batch()
        batch.removals = self._gateway.find_removals(REMOVALS)
        for removal in batch.removals:
            if removal.entry_id is None:
                self._index.remove_feed(removal.feed_id)
            else:
                self._index.remove_entries(removal.feed_id, [removal.entry_id])
        return batch

    def _commit(self, batch: _Batch) -> None:
        """Commit, and only then remove the marks: a crash between the two repeats work and loses nothing."""
        if batch.fingerprints:
            self._record_stories(batch)
        if not batch.is_empty:
            self._index.commit_batch(batch.feeds, batch.position)
            self._gateway.mark_indexed(*batch.feeds.values())
            self._gateway.forget_removals(batch.removals)
            self._index.finish_batch()
            if batch.position is not None:
                self._built += batch.built
                self._gateway.record_progress(self._built, self._total)
            self._committed = time.monotonic()
        batch.clear()

    def _record_stories(self, batch: _Batch) -> None:
        """Record the copies of these entries, before their feeds count as indexed."""
        fingerprints, batch.fingerprints = batch.fingerprints, []
        self._gateway.record_stories(fingerprints, self._now)

    def _finish_build(self) -> None:
        self._index.finish_build()
        self._gateway.drop_old_index()
        log.info("search_index_built", feeds=self._total)

    def close(self) -> None:
        """Release the index for another process; changes since the last commit are read again."""
        self._index.close()

    def rebuild(self, now: dt.datetime) -> int:
        """Request a new index of all feeds, also on standby servers; return their number."""
        self._gateway.request_standby_rebuilds(now)
        return self._gateway.begin_rebuild(now)

    def get_state(self) -> IndexState:
        """Return the state of the index."""
        return self._gateway.get_state()


def _upto(rows: Mapping[int, int], end: int | None) -> dict[int, int]:
    """Return the rows with ids up to ``end``; None: all."""
    return {number: row for number, row in rows.items() if end is None or number <= end}


class StandbyService(IndexService):
    """Keeps a second index, on another server, which reads the news without taking it from the first one."""

    def __init__(self, gateway: StandbyGateway, index: SearchIndexPort) -> None:
        super().__init__(gateway, index)
        self._standby = gateway

    def run(
        self, now: dt.datetime, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Index what is new for this index, for at most ``seconds``."""
        self._standby.begin(self._index.get_identity(), now)
        return super().run(now, seconds, is_stopping)

    def _locate(self, feed: UnindexedFeed) -> UnindexedFeed:
        """Return a feed with its last number in this index; its own fields tell what the first index has."""
        upto = 0 if self._standby.is_again(feed.id) else self._index.find_last_number(feed.id)
        return self._standby.get_unindexed(feed, upto)
