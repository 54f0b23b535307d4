"""Entries to index for the search: those of feeds with news, as plain text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from app.feeds.html import text
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.store import Store
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.index_queue import IndexQueueMapper
from app.models.feeds.feed import UnindexedFeed
from app.models.reading.entry import Entry
from app.models.reading.search import SearchDocument

#: Entries read per batch.
BATCH = 100


class IndexingGateway(IndexQueueMapper):
    """The index queue, to which the gateway adds nothing, and the entries to index.

    Args:
        max_text: characters of an entry's text that are indexed.
    """

    def __init__(self, store: Store, entries: EntryMapper, *, max_text: int) -> None:
        super().__init__(store.database)
        self._entries = entries
        self._most = max_text

    def read_entries(self, feed: UnindexedFeed) -> Iterator[list[SearchDocument]]:
        """Yield a feed's new and changed entries in batches.

        A feed that isn't indexed at all also has entries below its first number, which are kept for their
        marks.
        """
        after = max(feed.upto, feed.first_seq - 1) if feed.upto else 0
        while batch := self._entries.find_range(feed.id, after, feed.last_seq, BATCH):
            yield [self._searchable(entry, feed.language) for entry in batch]
            after = batch[-1].seq
        if feed.since is not None:
            for seq in self._entries.find_revised(feed.id, feed.since, feed.upto):
                changed = self._entries.find_range(feed.id, seq - 1, seq, 1)
                yield [self._searchable(entry, feed.language) for entry in changed]

    def _searchable(self, entry: Entry, language: str) -> SearchDocument:
        body = text.flatten_html(text.cut_html(entry.content or entry.summary, self._most))
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

    def begin_rebuild(self, now: dt.datetime) -> int:
        """Request a new index of all feeds; return their number."""
        self.request_rebuild(now)
        return self.count_feeds()
