"""Entries to index for the search: those of feeds with news, as plain text."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from app.errors import StoreError
from app.feeds.html import text
from app.gateways.reading.stories import StoryGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.store import Store
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.index_queue import IndexQueueMapper
from app.models.feeds.feed import UnindexedFeed
from app.models.reading.entry import Entry
from app.models.reading.search import SearchDocument
from app.models.reading.story import WAIT, Fingerprint

#: Entries read per batch.
BATCH = 100
#: Other workers store texts of pages, and their clocks differ: so much before the last news is read again.
OVERLAP = dt.timedelta(minutes=1)


class IndexingGateway(IndexQueueMapper):
    """The index queue, to which the gateway adds nothing, and the entries to index.

    Args:
        stories: records the copies of entries; None: another index does.
        max_text: characters of an entry's text that are indexed.
    """

    def __init__(
        self, store: Store, entries: EntryMapper, stories: StoryGateway | None = None, *, max_text: int
    ) -> None:
        super().__init__(store.database)
        self._entries, self._stories = entries, stories
        self._most = max_text

    def read_news(
        self, feeds: Sequence[UnindexedFeed], now: dt.datetime
    ) -> Iterator[tuple[UnindexedFeed, Iterator[list[SearchDocument]]]]:
        """Yield feeds with their new and changed entries in batches, which are converted while they are read.

        Entries that are old ``now`` aren't compared with others.

        A statement costs more than the one entry of most feeds, so entries of many feeds are read together.
        """
        for together in _group(feeds):
            found = self._read_together(together)
            for feed in together:
                yield feed, self._read(feed, found, now)

    def _read_together(self, feeds: Sequence[UnindexedFeed]) -> dict[int, list[Entry]] | None:
        """Return the new and changed entries of feeds with few of them; None: read each feed alone."""
        if len(feeds) == 1:
            return None
        revised = self._find_revised(feeds)
        if len(revised) > BATCH:
            return None
        ranges = [(feed.id, _get_start(feed), feed.last_seq) for feed in feeds]
        found: dict[int, list[Entry]] = {feed.id: [] for feed in feeds}
        try:
            for entry in self._entries.find_ranges([*ranges, *revised]):
                found[entry.feed_id].append(entry)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 — a bug of ours; read alone, only the feed with this entry fails
            return None
        return found

    def _read(
        self, feed: UnindexedFeed, found: Mapping[int, list[Entry]] | None, now: dt.datetime
    ) -> Iterator[list[SearchDocument]]:
        if found is not None:
            yield [self._convert(entry, feed, now) for entry in found[feed.id]]
            return
        after, more = _get_start(feed), True
        while more and (batch := self._entries.find_range(feed.id, after, feed.last_seq, BATCH)):
            yield [self._convert(entry, feed, now) for entry in batch]
            after, more = batch[-1].seq, len(batch) == BATCH
        revised = self._find_revised([feed])
        for at in range(0, len(revised), BATCH):
            changed = self._entries.find_ranges(revised[at : at + BATCH])
            yield [self._convert(entry, feed, now) for entry in changed]

    def _find_revised(self, feeds: Sequence[UnindexedFeed]) -> list[tuple[int, int, int]]:
        """Return the places of entries that the index has, but that have changed since, as ranges."""
        upto = {feed.id: feed.upto for feed in feeds}
        since = {feed.id: feed.since - OVERLAP for feed in feeds if feed.since is not None}
        found = self._entries.find_revised(since)
        return [(feed_id, seq - 1, seq) for feed_id, seq in found if seq <= upto[feed_id]]

    def make_document(self, entry: Entry, language: str) -> SearchDocument:
        """Return the searchable parts of an entry; ``language``: of its feed."""
        return self._make_document(entry, language, self._extract_text(entry.longest))

    def _extract_text(self, markup: str) -> str:
        return text.extract_clean_text(text.cut_html(markup, self._most))

    def _convert(self, entry: Entry, feed: UnindexedFeed, now: dt.datetime) -> SearchDocument:
        """Return the searchable parts of an entry of a feed, and what tells its copies."""
        body, own = self._extract_text(entry.longest), entry.content or entry.summary
        document = self._make_document(entry, feed.language, body)
        if self._stories is None or feed.is_owned or entry.at < now - WAIT:
            return document
        if entry.longest is not own:  # copies in other feeds are found by what the feeds say
            body = self._extract_text(own)
        return dataclasses.replace(
            document, fingerprint=self._stories.make_fingerprint(entry, body, feed.language)
        )

    def record_stories(self, fingerprints: Sequence[Fingerprint], now: dt.datetime) -> int:
        """Record entries with their copies in other feeds; return how many are copies. Safe to repeat."""
        return self._stories.record(fingerprints, now) if self._stories else 0

    def _make_document(self, entry: Entry, language: str, body: str) -> SearchDocument:
        more = " ".join((body, *entry.categories))
        return SearchDocument(
            id=entry.id,
            feed_id=entry.feed_id,
            seq=entry.seq,
            at=to_millis(entry.at),
            title=entry.title,
            author=entry.author,
            text=more,
            language=language,
        )

    def find_kept_below(self, feed: UnindexedFeed) -> Sequence[int]:
        """Return the entries below a feed's first number that are kept: starred and tagged ones."""
        return self._entries.find_kept_below(feed.id, feed.first_seq) if feed.first_seq > 1 else ()

    def find_lacking_feeds(self, entry_ids: Sequence[int]) -> list[int]:
        """Return the feeds of stored entries that the index should have, given entries that it lacks.

        It needn't have entries that are still queued, or whose numbers retention has given up.
        """
        numbers = self.find_entry_numbers(entry_ids) if entry_ids else []
        indexed = self.find_indexed_numbers([feed_id for feed_id, _ in numbers])
        ends = ((feed_id, seq, indexed.get(feed_id, (1, 0))) for feed_id, seq in numbers)
        return sorted({feed_id for feed_id, seq, (first, last) in ends if first <= seq <= last})

    def begin_rebuild(self, now: dt.datetime) -> int:
        """Request a new index of all feeds; return their number."""
        self.request_rebuild(now)
        return self.count_feeds()


def _get_start(feed: UnindexedFeed) -> int:
    """Return the number before the first entry that the index lacks.

    A feed that isn't indexed at all also has entries below its first number, which are kept for their marks.
    """
    return max(feed.upto, feed.first_seq - 1) if feed.upto else 0


def _group(feeds: Sequence[UnindexedFeed]) -> Iterator[list[UnindexedFeed]]:
    """Yield feeds in groups with at most :data:`BATCH` new entries; a feed with more is alone."""
    group: list[UnindexedFeed] = []
    room = BATCH
    for feed in feeds:
        new = feed.last_seq - _get_start(feed)
        if group and new > room:
            yield group
            group, room = [], BATCH
        group.append(feed)
        room -= new
    if group:
        yield group
