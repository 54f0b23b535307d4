"""Orders of a stream that no index has: the page "Today", the shortest entries, what is popular here.

Such an order is made once, with a list's first page, from a limited number of keys. The snapshot keeps it, so
that later pages neither repeat nor lose a row while read states, shares and entries change.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence

from app.gateways.reading.stream_merge import KeyMerger, KeyRequest
from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.entry_keys import EntryKeyMapper, TimeRange, to_millis
from app.mappers.sharing.shares import ShareMapper
from app.mappers.sharing.trends import TrendMapper
from app.models.reading.entry import EntryKey
from app.models.reading.stream import Show, Sort, SourceFeed
from app.models.reading.today import Section

#: Newest entries of a stream among which the shortest come first.
SHORTEST_OF = 1000
#: Popular entries that come first.
POPULAR_MAX = 500
#: Entries of "Today": age in hours, tried until there are at most BUSY; shares of people are rarer.
HOURS, PEOPLE_HOURS, BUSY = (24, 6, 1), 72, 5000
#: Rows of "Today": altogether, and at least and at most per section.
TODAY_ROWS, LEAST, MOST = 60, 6, 24
#: Entries of one feed that a section of "Today" prefers.
PER_FEED = 2


class RankingGateway:
    """Makes the orders that snapshots keep."""

    def __init__(
        self,
        *,
        merger: KeyMerger,
        keys: EntryKeyMapper,
        entries: EntryMapper,
        shares: ShareMapper,
        trends: TrendMapper,
    ) -> None:
        self._merger, self._keys, self._entries = merger, keys, entries
        self._shares, self._trends = shares, trends

    def rank(
        self,
        sort: Sort,
        show: Show,
        feeds: Mapping[int, SourceFeed],
        people: Collection[int],
        now: dt.datetime,
    ) -> tuple[EntryKey, ...] | None:
        """Return the first keys of a stream in this order; None: the order needs no ranking.

        Args:
            people: those of the feeds that hold people's shares.
        """
        read = False if show is Show.UNREAD else None
        if sort is Sort.SHORTEST:
            return self._rank_shortest(feeds, read)
        if sort is Sort.POPULAR:
            return self._rank_popular(feeds, read, people, now)
        return None

    def _rank_shortest(self, feeds: Mapping[int, SourceFeed], read: bool | None) -> tuple[EntryKey, ...]:
        keys = self._merger.merge_keys(feeds.values(), KeyRequest(SHORTEST_OF, read=read))
        lengths = self._entries.find_lengths(keys)
        return tuple(sorted(keys, key=lambda key: (lengths.get(key.id, 0), -key.at, -key.id)))

    def _rank_popular(
        self, feeds: Mapping[int, SourceFeed], read: bool | None, people: Collection[int], now: dt.datetime
    ) -> tuple[EntryKey, ...]:
        """Return the most shared entries of these feeds, and their shares by these people."""
        ranks = {origin.entry_id: n for n, origin in enumerate(self._trends.find_top(POPULAR_MAX, now))}
        if not ranks:
            return ()
        found = [(ranks[key.id], key) for key in self._keys.find_by_ids(list(ranks), list(feeds))]
        if people:
            found += [
                (ranks[s.of.entry_id], EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at)))
                for s in self._shares.find_among(list(ranks), list(people))
                if s.id not in ranks
            ]
        wanted = KeyRequest(0, read=read)
        listed = [(rank, key) for rank, key in found if _is_listed(feeds, key, wanted)]
        return tuple(key for _, key in sorted(listed, key=lambda one: (one[0], -one[1].at, -one[1].id)))

    def rank_today(
        self, feeds: Mapping[int, SourceFeed], sections: Sequence[Section], now: dt.datetime
    ) -> tuple[EntryKey, ...]:
        """Return the latest unread entries by section, each beginning with the newest that has a picture."""
        people = {f for section in sections if _is_of_people(section) for f in section.feed_ids}
        keys = self._find_latest({f: feed for f, feed in feeds.items() if f not in people}, HOURS, now)
        keys += self._find_latest({f: feeds[f] for f in people if f in feeds}, (PEOPLE_HOURS,), now)
        places = {f: n for n, section in enumerate(sections) for f in section.feed_ids}
        groups: dict[int, list[EntryKey]] = {}
        for key in sorted(keys, key=lambda key: (key.at, key.id), reverse=True):
            if key.feed_id in places:
                groups.setdefault(places[key.feed_id], []).append(key)
        most = min(MOST, max(LEAST, TODAY_ROWS // max(1, len(groups))))
        chosen = [choose_varied(groups[n], most) for n in sorted(groups)]
        rows = self._entries.find_rows([key for some in chosen for key in some])
        pictured = {i for i, entry in rows.items() if entry.image}
        return tuple(key for some in chosen for key in put_picture_first(some, pictured))

    def _find_latest(
        self, feeds: Mapping[int, SourceFeed], hours: Iterable[int], now: dt.datetime
    ) -> list[EntryKey]:
        """Return the unread entries of the last hours, of fewer hours if they are too many."""
        found: list[EntryKey] = []
        for age in hours:
            since = to_millis(now - dt.timedelta(hours=age))
            live = [f for f, feed in feeds.items() if feed.unread and feed.newest >= since]
            rows = list(self._keys.find_window(live, TimeRange(since, None), BUSY)) if live else []
            wanted = KeyRequest(0, read=False)
            keys = (EntryKey(ident, feed_id, seq, at) for feed_id, at, ident, seq in rows)
            found = [key for key in keys if _is_listed(feeds, key, wanted)]
            if len(rows) < BUSY:
                break
        return found


def choose_varied(keys: Sequence[EntryKey], limit: int) -> list[EntryKey]:
    """Return the first keys, at most :data:`PER_FEED` of a feed as long as there are others."""
    counts: dict[int, int] = {}
    first, others = list[EntryKey](), list[EntryKey]()
    for key in keys:
        counts[key.feed_id] = counts.get(key.feed_id, 0) + 1
        (first if counts[key.feed_id] <= PER_FEED else others).append(key)
    chosen = {key.id for key in (first + others)[:limit]}
    return [key for key in keys if key.id in chosen]


def put_picture_first(keys: Sequence[EntryKey], pictured: Collection[int]) -> list[EntryKey]:
    """Return the keys with the first one that has a picture at the front."""
    lead = next((n for n, key in enumerate(keys) if key.id in pictured), 0)
    return [*keys[lead : lead + 1], *keys[:lead], *keys[lead + 1 :]]


def _is_of_people(section: Section) -> bool:
    return section.ref is not None and section.ref.id is None


def _is_listed(feeds: Mapping[int, SourceFeed], key: EntryKey, wanted: KeyRequest) -> bool:
    feed = feeds.get(key.feed_id)
    return feed is not None and feed.first_seq <= key.seq <= feed.last_seq and wanted.is_match(feed, key.seq)
