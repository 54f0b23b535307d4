"""What the search has still to read: entries of feeds with news, as plain words."""

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

#: Entries read at once.
BATCH = 100


class IndexingGateway:
    """Reads entries for the search and notes what it knows.

    Args:
        text_most: characters of an entry's text that are searched.
    """

    def __init__(self, feeds: IndexQueueMapper, entries: EntryMapper, *, max_text: int) -> None:
        self._feeds = feeds
        self._entries = entries
        self._most = max_text

    def find_unindexed(self, now: dt.datetime, limit: int) -> list[UnindexedFeed]:
        """Return feeds with news, the longest waiting first."""
        return self._feeds.find_unindexed(now, limit)

    def read_entries(self, feed: UnindexedFeed) -> Iterator[list[SearchDocument]]:
        """Yield a feed's new and changed entries by the hundred."""
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
        """Note that the search knows these entries."""
        self._feeds.mark_indexed(feed)

    def postpone_indexing(self, feed: UnindexedFeed, at: dt.datetime) -> None:
        """Let a feed wait until then, unless there is news again."""
        self._feeds.postpone_indexing(feed, at)

    def unindex_all(self, now: dt.datetime) -> int:
        """Let all feeds be read anew; return how many."""
        return self._feeds.unindex_all(now)
