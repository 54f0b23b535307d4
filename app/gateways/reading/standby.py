"""The news of a standby index: by time, and without taking it from the first index.

Its place in the news is the time ``news_at`` of the last feed that it has committed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app.gateways.reading.indexing import IndexingGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.store import Store
from app.mappers.reading.index_queue import STANDBY_FOR
from app.models.feeds.feed import IndexRemoval, UnindexedFeed

#: A pull stores its news after the time that the news has, and ids are reserved before a transaction ends. So
#: this much before its place is read again; no pull and no transaction takes longer.
OVERLAP = dt.timedelta(minutes=10)
#: Time between two looks for such news.
LOOK_BACK_EVERY = dt.timedelta(minutes=1)
#: Feeds with recent news that a comparison leaves out, at most.
RECENT = 100_000
_OVERLAP_US = OVERLAP // dt.timedelta(microseconds=1)
_FIRST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class StandbyGateway(IndexingGateway):
    """Has the methods of the queue, but records only the place of the standby index.

    Call :meth:`begin` before each run.
    """

    def __init__(self, store: Store, entries: EntryMapper, *, max_text: int) -> None:
        super().__init__(store, entries, max_text=max_text)
        self._now = self._place = self._complete = self._looked = _FIRST
        self._seen: dict[int, dt.datetime] = {}  # feed → the news that is committed
        self._removed, self._gone = 0, set[int]()  # place in the removals, and those that are committed
        self._again = set[int]()  # feeds to index as if nothing of them were

    def begin(self, identity: str, now: dt.datetime) -> None:
        """Read the place of this server's standby index."""
        self.use_standby_state(identity)
        state = self.get_state()
        if state.held_at is not None and state.held_at < now - STANDBY_FOR:
            self.request_rebuild(now)  # removals since then may be forgotten
        news_at, complete, self._removed = self.get_place()
        if news_at is None:
            news_at = now  # a new index walks all feeds, and so has all news until now
            self.record_place(news_at=news_at, complete_at=now)
        self._now, self._place, self._complete = now, news_at, complete or news_at
        if now >= self._looked + LOOK_BACK_EVERY:
            self._looked, self._place = now, news_at - OVERLAP
            self._seen = {feed_id: at for feed_id, at in self._seen.items() if at >= self._place}
            self._gone = {number for number in self._gone if number > self._removed - _OVERLAP_US}

    def find_unindexed(self, now: dt.datetime, limit: int) -> list[UnindexedFeed]:
        """Return feeds with news for this index, in the order of the news."""
        wanted = sorted(self._again)[:limit]
        again = [feed for number in wanted for feed in self.find_feeds(number - 1, 1) if feed.id == number]
        self._again -= set(wanted) - {feed.id for feed in again}  # these feeds are gone
        repeated = sum(at >= self._place for at in self._seen.values())
        rows = self.find_news(self._place, limit + repeated)
        news = [feed._replace(index_at=at) for feed, at in rows if self._seen.get(feed.id) != at]
        if not news and not again and self._complete < self._place:
            self._complete = self._place
            self.record_place(complete_at=self._complete)
        return [*again, *(feed for feed in news if feed.id not in self._again)]

    def is_again(self, feed_id: int) -> bool:
        """Return whether a feed is to be indexed as if nothing of it were."""
        return feed_id in self._again

    def get_unindexed(self, feed: UnindexedFeed, upto: int) -> UnindexedFeed:
        """Return a feed of which this index has the numbers up to ``upto``."""
        # Not since its place: a feed's earlier changes wait as well when it has news again.
        return feed._replace(upto=upto, since=self._complete - OVERLAP if upto else None)

    def mark_indexed(self, *feeds: UnindexedFeed) -> None:
        """Record this index's place in the news."""
        times = {feed.id: feed.index_at for feed in feeds if feed.index_at and feed.id not in self._again}
        self._again -= {feed.id for feed in feeds}
        if times:
            self._seen |= times
            self._place = max(self._place, *times.values())
            self.record_place(news_at=self._place)

    def postpone_indexing(self, feed: UnindexedFeed, at: dt.datetime) -> None:
        """Leave out a feed that can't be indexed; the comparison of numbers finds it later."""
        self.mark_indexed(feed)

    def unindex_feeds(self, feed_ids: Sequence[int], at: dt.datetime) -> None:
        """Schedule a new index of all entries of these feeds."""
        self._again |= set(feed_ids)

    def find_indexed(self, after: int, limit: int) -> list[UnindexedFeed]:
        """Return feeds by id; of those with recent news, this index needn't have any entries yet."""
        recent = self._find_recent()
        found = super().find_indexed(after, limit)
        return [feed._replace(upto=feed.first_seq - 1) if feed.id in recent else feed for feed in found]

    def find_lacking_feeds(self, entry_ids: Sequence[int]) -> list[int]:
        """Return the feeds of stored entries that this index should have, given entries that it lacks."""
        found = super().find_lacking_feeds(entry_ids)
        recent = self._find_recent() if found else set()
        return [feed_id for feed_id in found if feed_id not in recent]

    def _find_recent(self) -> set[int]:
        return {feed.id for feed, _ in self.find_news(self._now - OVERLAP, RECENT)}

    def find_removals(self, limit: int) -> list[IndexRemoval]:
        """Return entries to remove from this index."""
        found = self.find_all_removals(self._removed - _OVERLAP_US, limit + len(self._gone))
        return [removal for removal in found if removal.id not in self._gone][:limit]

    def forget_removals(self, removals: Sequence[IndexRemoval]) -> None:
        """Record this index's place in the removals."""
        if removals:
            self._gone |= {removal.id for removal in removals}
            self.record_place(removed=max(removal.id for removal in removals))

    def has_old_index(self) -> bool:
        """Return False: the index of an earlier version is the first index's business."""
        return False

    def drop_old_index(self) -> None:
        """Leave it to the first index."""
