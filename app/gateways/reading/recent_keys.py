"""The newest unread entries of many feeds, from keys that this process has read before.

Apps request the ids of thousands of unread entries again and again. The key of an entry never changes, and a
feed only gets new entries with higher numbers. So the keys of a feed's newest entries are cached, in the
order of their numbers: the read state's bitmap then selects the unread ones without a step of Python for each
entry. Only feeds of sites are cached, because people's shares can be removed and restored.
"""

from __future__ import annotations

import itertools
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from app.gateways.reading.stream_merge import (
    BUSY,
    BUSY_EACH,
    FEW,
    GROWTH,
    LONG,
    MARGIN,
    SEEK,
    WINDOWS,
    KeyRequest,
    estimate_span,
)
from app.mappers.reading.entry_keys import EntryKeyMapper, Row, TimeRange
from app.models.reading.entry import EntryKey
from app.models.reading.stream import SourceFeed

#: Places of keys in the cache, 24 bytes each.
PLACES = 400_000
#: Places that the objects of a feed's keys take.
FEED_PLACES = 16
#: Before any entry.
EVER = -(1 << 62)
#: Factor of the estimated time for short pages.
ROOMY = 1.4
#: Seconds until a feed's keys are read again. After a failover, MongoDB may have lost the newest entries.
KEPT = 6 * 3600
_SELECTORS = bytes.maketrans(b"01", b"\0\1")
#: (sort time, id, feed id, number): in the order of lists.
_Place = tuple[float, int, int, int]


class FeedKeys(NamedTuple):
    """Keys of a feed's newest entries, by number.

    Attributes:
        last_seq: the feed's last number when they were read.
        low: all entries with this sort time or a later one are included.
        base: the number of the first place.
        present: bit n is set if place n has a key.
        tops: the latest sort time up to each place, so that older places can be skipped.
        ordered: whether sort times rise with numbers.
    """

    last_seq: int
    low: int
    until: float
    base: int = 0
    present: int = 0
    ids: Sequence[int] = ()
    ats: Sequence[float] = ()
    tops: Sequence[float] = ()
    ordered: bool = True


class RecentKeys:
    """Finds the newest unread entries; the cache is shared by all users of this process."""

    def __init__(self, keys: EntryKeyMapper) -> None:
        self._keys = keys
        self._lock = threading.Lock()
        self._known: dict[int, FeedKeys] = {}
        self._places = 0

    def find_unread(self, feeds: Iterable[SourceFeed], wanted: KeyRequest) -> list[EntryKey] | None:
        """Return the first ``wanted.count`` unread entries of sites' feeds, newest first.

        None: another method is cheaper, because there are hardly more unread entries or they are old.
        """
        sources = sorted((f for f in feeds if f.unread), key=attrgetter("newest"), reverse=True)
        unread, total = sum(f.unread for f in sources), sum(f.total for f in sources)
        if not sources or min(unread, wanted.count) * SEEK < FEW:
            return None
        start = wanted.after[0] if wanted.after else sources[0].newest
        # A second pass over all feeds costs more than the keys of a longer time.
        span = int(estimate_span(sources, wanted) * (ROOMY if wanted.count <= LONG else 1))
        for _ in range(WINDOWS):
            low = start - span
            if low < 0 or unread < wanted.count:
                if unread * SEEK < total:
                    return None
                low = EVER
            found = self._select(sources, low, wanted)
            if found is None:
                return None
            if len(found) >= wanted.count or low == EVER:
                found.sort(reverse=True)
                return _build_keys(found[: wanted.count])
            more = wanted.count / len(found) * MARGIN if len(found) > BUSY else GROWTH
            span = int(span * min(more, GROWTH)) + 1000
        return None

    def _select(self, sources: Sequence[SourceFeed], low: int, wanted: KeyRequest) -> list[_Place] | None:
        """Return all unread entries from a sort time on; None: reading their keys would take too long."""
        live = list(itertools.takewhile(lambda feed: feed.newest >= low, sources))
        now = time.monotonic()
        known = {feed.feed_id: self._known.get(feed.feed_id) for feed in live}
        missing = [f for f in live if not _covers(known[f.feed_id], f, low, now)]
        if missing:
            fresh = self._read(missing, low, max(BUSY, wanted.count * BUSY_EACH), now)
            if fresh is None:
                return None
            known |= fresh
        found: list[_Place] = []
        for feed in live:
            if (keys := known[feed.feed_id]) is not None:
                found += _select_unread(feed, keys, low)
        return found if wanted.after is None else [place for place in found if place[:2] < wanted.after]

    def _read(
        self, feeds: Sequence[SourceFeed], low: int, limit: int, now: float
    ) -> dict[int, FeedKeys] | None:
        within = TimeRange(None if low == EVER else low)
        rows = self._keys.find_window([f.feed_id for f in feeds], within, limit)
        by_feed = {f: list(some) for f, some in itertools.groupby(rows, itemgetter(0))}
        # Numbers far apart, of old entries that a feed published late, would waste memory.
        if sum(map(len, by_feed.values())) >= limit or sum(map(_measure_span, by_feed.values())) > PLACES:
            return None
        found = {f.feed_id: build_feed_keys(f, by_feed.get(f.feed_id, ()), low, now + KEPT) for f in feeds}
        self._remember(found)
        return found

    def _remember(self, found: Mapping[int, FeedKeys]) -> None:
        size = sum(map(_weigh, found.values()))
        with self._lock:
            if self._places + size > PLACES:
                self._known.clear()
                self._places = 0
            self._places += size - sum(_weigh(self._known[f]) for f in found if f in self._known)
            self._known.update(found)

    def clear(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._known.clear()
            self._places = 0


def _weigh(keys: FeedKeys) -> int:
    return FEED_PLACES + len(keys.ids)


def _covers(known: FeedKeys | None, feed: SourceFeed, low: int, now: float) -> bool:
    return known is not None and known.last_seq >= feed.last_seq and known.low <= low and now < known.until


def _measure_span(rows: Sequence[Row]) -> int:
    """Return how many places the numbers of these rows need."""
    return max(row[3] for row in rows) - min(row[3] for row in rows) + 1


def build_feed_keys(feed: SourceFeed, rows: Sequence[Row], low: int, until: float) -> FeedKeys:
    """Return the keys of a feed from rows of the index, which come newest first."""
    first, last = feed.first_seq, feed.last_seq
    # Below the first number are only starred entries that retention kept.
    rows = [row for row in rows if first <= row[3] <= last]
    if not rows:
        return FeedKeys(last, low, until)
    _, ats, ids, seqs = zip(*reversed(rows), strict=True)
    base, size = min(seqs), max(seqs) - min(seqs) + 1
    if seqs == tuple(range(base, base + size)):
        times = array("d", ats)
        return FeedKeys(last, low, until, base, (1 << size) - 1, array("q", ids), times, times)
    placed_ids, placed_ats, present = [0] * size, [0.0] * size, bytearray(b"0" * size)
    for _, at, ident, seq in rows:
        placed_ids[seq - base], placed_ats[seq - base], present[seq - base] = ident, float(at), ord("1")
    tops = array("d", itertools.accumulate(placed_ats, max))
    bits = int(present[::-1], 2)
    return FeedKeys(
        last, low, until, base, bits, array("q", placed_ids), array("d", placed_ats), tops, ordered=False
    )


def _select_unread(feed: SourceFeed, keys: FeedKeys, low: int) -> Iterable[_Place]:
    """Return a feed's unread entries from a sort time on."""
    skipped = max(bisect_left(keys.tops, low), feed.first_seq - keys.base)
    if skipped >= len(keys.ids):
        return ()
    first = keys.base + skipped
    chosen = feed.state.build_unread_bits(first, feed.last_seq) & keys.present >> skipped
    if not chosen:
        return ()
    places = zip(
        keys.ats[skipped:], keys.ids[skipped:], itertools.repeat(feed.feed_id), itertools.count(first)
    )
    found = itertools.compress(places, bin(chosen)[:1:-1].encode().translate(_SELECTORS))
    return found if keys.ordered else [place for place in found if place[0] >= low]


def _build_keys(places: Sequence[_Place]) -> list[EntryKey]:
    ats, ids, feeds, seqs = zip(*places, strict=True) if places else ((),) * 4
    # As EntryKey._make, but without a step of Python for each key.
    return list(
        map(tuple.__new__, itertools.repeat(EntryKey), zip(ids, feeds, seqs, map(int, ats), strict=True))
    )
