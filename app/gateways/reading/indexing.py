"""What the search has still to read: entries of feeds with news, as plain words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from app.feeds.html import text
from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.entry_keys import millis
from app.mappers.reading.index_queue import IndexMarkMapper
from app.models.feeds.feed import Unindexed
from app.models.reading.entry import Entry
from app.models.reading.search import Searchable

#: Entries read at once.
BATCH = 100


class IndexingGateway:
    """Reads entries for the search and notes what it knows.

    Args:
        text_most: characters of an entry's text that are searched.
    """

    def __init__(self, feeds: IndexMarkMapper, entries: EntryMapper, *, text_most: int) -> None:
        self._feeds = feeds
        self._entries = entries
        self._most = text_most

    def due(self, now: dt.datetime, limit: int) -> list[Unindexed]:
        """Return feeds with news, the longest waiting first."""
        return self._feeds.unindexed(now, limit)

    def entries(self, feed: Unindexed) -> Iterator[list[Searchable]]:
        """Yield a feed's new and changed entries by the hundred."""
        after = max(feed.upto, feed.first_seq - 1)
        while batch := self._entries.run(feed.id, after, feed.last_seq, BATCH):
            yield [self._searchable(entry) for entry in batch]
            after = batch[-1].seq
        if feed.since is not None:
            for seq in self._entries.revised(feed.id, feed.since, feed.upto):
                changed = self._entries.run(feed.id, seq - 1, seq, 1)
                yield [self._searchable(entry) for entry in changed]

    def _searchable(self, entry: Entry) -> Searchable:
        body = text.flat(text.cut(entry.content or entry.summary, self._most))
        more = " ".join((body, *entry.categories))
        return Searchable(
            id=entry.id,
            feed_id=entry.feed_id,
            seq=entry.seq,
            at=millis(entry.at),
            title=entry.title,
            author=entry.author,
            text=more,
        )

    def kept(self, feed: Unindexed) -> Sequence[int]:
        """Return the entries below a feed's first number that are kept: starred and tagged ones."""
        return self._entries.left_below(feed.id, feed.first_seq) if feed.first_seq > 1 else ()

    def done(self, feed: Unindexed) -> None:
        """Note that the search knows these entries."""
        self._feeds.indexed(feed)

    def later(self, feed: Unindexed, at: dt.datetime) -> None:
        """Let a feed wait until then, unless there is news again."""
        self._feeds.postpone(feed, at)

    def again(self, now: dt.datetime) -> int:
        """Let all feeds be read anew; return how many."""
        return self._feeds.unindex(now)
