"""Entries to index for the search: those of feeds with news, as plain text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from app.feeds.html import text
from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.index_queue import IndexQueueMapper
from app.models.feeds.feed import UnindexedFeed
from app.models.reading.entry import Entry
from app.models.reading.search import SearchDocument

#: Entries read per batch.
BATCH = 100


class IndexingGateway:
    """Reads entries for the search index, and records what is indexed.

    Args:
        max_text: characters of an entry's text that are indexed.
    """

    def __init__(self, feeds: IndexQueueMapper, entries: EntryMapper, *, max_text: int) -> None:
        self._feeds = feeds
        self._entries = entries
        self._most = max_text

    def find_unindexed(self, now: dt.datetime, limit: int) -> list[UnindexedFeed]:
        """Return feeds with news, longest waiting first."""
        return self._feeds.find_unindexed(now, limit)

    def read_entries(self, feed: UnindexedFeed) -> Iterator[list[SearchDocument]]:
        """Yield a feed's new and changed entries in batches."""
        after = max(feed.upto, feed.first_seq - 1)
        while batch := self._entries.find_range(feed.id, after, feed.last_seq, BATCH):
            yield [self._searchable(entry) for entry in batch]
            after = batch[-1].seq
        if feed.since is not None:
            for seq in self._entries.find_revised(feed.id, feed.since, feed.upto):
                changed = self._entries.find_range(feed.id, seq - 1, seq, 1)
                yield [self._searchable(entry) for entry in changed]

    def _searchable(self, entry: Entry) -> SearchDocument:
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
        )

    def find_kept_below(self, feed: UnindexedFeed) -> Sequence[int]:
        """Return the entries below a feed's first number that are kept: starred and tagged ones."""
        return self._entries.find_kept_below(feed.id, feed.first_seq) if feed.first_seq > 1 else ()

    def mark_indexed(self, feed: UnindexedFeed) -> None:
        """Record that these entries are indexed."""
        self._feeds.mark_indexed(feed)

    def postpone_indexing(self, feed: UnindexedFeed, at: dt.datetime) -> None:
        """Postpone the indexing of a feed, unless there is more news."""
        self._feeds.postpone_indexing(feed, at)

    def unindex_all(self, now: dt.datetime) -> int:
        """Schedule a new index of all feeds; return their number."""
        return self._feeds.unindex_all(now)
