"""Entries in the order of their arrival, which is the order of their ids.

Apps page through thousands of ids again and again, and what arrives late must come first, whatever its date.
The id of an entry never changes, and a site's feed only gets new entries with higher numbers. So a process
caches the ids of feeds in the order of their numbers: the read state's bitmap then selects the unread ones
without a step of Python for each entry. People's shares can be removed and restored, so they are read anew.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from app import clock
from app.errors import StoreError
from app.gateways.reading.stream_merge import SEEK
from app.mappers.reading.arrivals import ArrivalMapper, ArrivalRow
from app.mappers.reading.entry_keys import CHUNK, EntryKeyMapper
from app.models.reading.entry import EntryKey
from app.models.reading.stream import MAX_ID, SourceFeed

#: Ids in the cache, 8 bytes each.
PLACES = 1_000_000
#: Places that the objects of a feed take.
FEED_PLACES = 30
#: Most rows per load. A user whose feeds hold more entries gets the ids of the last days only.
ROWS = PLACES // 2
#: Rows per command: half a million at once can take longer than a command may.
COMMAND_ROWS = 50_000
#: Rows to load from which on only one thread loads; the others wait, and find most of what they need.
SHARED_ROWS = 10_000
#: Seconds for which they wait.
SHARED_SECONDS = 5.0
#: Ages of the oldest ids to load then, in turn; an older page is walked along the index.
AGES = tuple(days * 86_400_000_000 for days in (1, 8, 64, 512))
#: Seconds until a feed's ids are read again. After a failover, MongoDB may have lost the newest entries.
KEPT = 6 * 3600
#: Microseconds by which the clocks of two servers may differ.
SKEW = 600_000_000
#: Ids per feed from which the border of a page is estimated, and most entries that are simply sorted.
SAMPLES, SORTED = 8, 4000
#: Keys per step of a walk along the index.
STRIDE = 2000
_SELECTORS = bytes.maketrans(b"01", b"\0\1")


@dataclasses.dataclass(frozen=True, slots=True)
class ArrivalRequest:
    """A request for entries in the order of their arrival.

    Attributes:
        read: only read or only unread entries; None: all.
        above, below: only ids between these two.
    """

    count: int
    newest_first: bool = True
    read: bool | None = None
    above: int = 0
    below: int = MAX_ID

    def continue_after(self, entry_id: int) -> ArrivalRequest:
        """Return the request for what follows an entry."""
        if self.newest_first:
            return dataclasses.replace(self, below=min(self.below, entry_id))
        return dataclasses.replace(self, above=max(self.above, entry_id))

    def is_inside(self, entry_id: int) -> bool:
        """Return whether an id is between ``above`` and ``below``."""
        return self.above < entry_id < self.below

    def is_match(self, feed: SourceFeed, seq: int) -> bool:
        """Return whether an entry exists for readers and has the wanted read state."""
        inside = feed.first_seq <= seq <= feed.last_seq
        return inside and (self.read is None or feed.state.is_read(seq) is self.read)

    def count_entries(self, feed: SourceFeed) -> int:
        """Return how many entries of a feed have the wanted read state."""
        if self.read is None:
            return feed.total
        return feed.total - feed.unread if self.read else feed.unread


class FeedIds(NamedTuple):
    """Ids of a feed's entries, by number.

    Attributes:
        last_seq: the feed's last number when they were read.
        low: all entries with this id or a later one are included.
        until: when they must be read again, on the monotonic clock.
        read_at: when they were read, as an id.
        base: the number of the first place.
        present: bit n is set if place n has an entry.
        ids: 0 for places without one.
        tops: the highest id up to each place; the same as ``ids`` if ids rise with numbers.
    """

    last_seq: int
    low: int
    until: float
    read_at: int
    base: int = 1
    present: int = 0
    ids: Sequence[int] = ()
    tops: Sequence[int] = ()


class _Part(NamedTuple):
    """A feed's places with the wanted read state."""

    feed_id: int
    keys: FeedIds
    bits: int

    def count_ids(self, low: int, high: int) -> int:
        """Return how many of them have an id from ``low`` to below ``high``."""
        ids = self.keys.ids
        if self.keys.tops is not ids:
            return sum(1 for _ in self.list_ids(low, high))
        first = bisect_left(ids, low)
        bits = self.bits >> first
        if high < MAX_ID:
            bits &= (1 << max(0, bisect_left(ids, high) - first)) - 1
        return bits.bit_count()

    def list_ids(self, low: int, high: int) -> Iterable[int]:
        """Return the ids from ``low`` to below ``high``."""
        first, end, selectors = self._cut(low, high)
        found = itertools.compress(self.keys.ids[first:end], selectors)
        return found if self.keys.tops is self.keys.ids else [i for i in found if low <= i < high]

    def list_places(self, low: int, high: int) -> Iterable[tuple[int, int, int]]:
        """Return (id, feed id, number) as :meth:`list_ids` does."""
        first, end, selectors = self._cut(low, high)
        numbers = itertools.count(self.keys.base + first)
        places = zip(self.keys.ids[first:end], itertools.repeat(self.feed_id), numbers)
        found = itertools.compress(places, selectors)
        return found if self.keys.tops is self.keys.ids else [p for p in found if low <= p[0] < high]

    def _cut(self, low: int, high: int) -> tuple[int, int, bytes]:
        ids, tops = self.keys.ids, self.keys.tops
        first = bisect_left(tops, low)
        end = bisect_left(ids, high) if tops is ids else len(ids)
        return first, end, bin(self.bits >> first)[:1:-1].encode().translate(_SELECTORS)


class ArrivalOrder:
    """Finds the first entries in the order of arrival; the cache is shared by all users of this process."""

    def __init__(self, arrivals: ArrivalMapper, keys: EntryKeyMapper) -> None:
        self._arrivals, self._keys = arrivals, keys
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._known: dict[int, FeedIds] = {}
        self._places = 0

    def find_ids(
        self, feeds: Iterable[SourceFeed], wanted: ArrivalRequest, volatile: Collection[int] = ()
    ) -> list[int]:
        """Return the first ``wanted.count`` ids of these feeds.

        Args:
            volatile: feeds whose entries can disappear, such as those of people; they aren't cached.
        """
        chosen = self._choose(feeds, wanted, volatile)
        if isinstance(chosen, list):
            return [key.id for key in chosen]
        parts, low, high = chosen
        found = list(itertools.chain.from_iterable(part.list_ids(low, high) for part in parts))
        found.sort(reverse=wanted.newest_first)
        return found[: wanted.count]

    def find_keys(
        self, feeds: Iterable[SourceFeed], wanted: ArrivalRequest, volatile: Collection[int] = ()
    ) -> list[EntryKey]:
        """Return the keys of :meth:`find_ids`; ``at`` is the time of arrival."""
        chosen = self._choose(feeds, wanted, volatile)
        if isinstance(chosen, list):
            return chosen
        parts, low, high = chosen
        found = sorted(
            itertools.chain.from_iterable(part.list_places(low, high) for part in parts),
            reverse=wanted.newest_first,
        )
        return [build_arrival_key(i, feed_id, seq) for i, feed_id, seq in found[: wanted.count]]

    # -- selection
    def _choose(
        self, feeds: Iterable[SourceFeed], wanted: ArrivalRequest, volatile: Collection[int]
    ) -> tuple[list[_Part], int, int] | list[EntryKey]:
        """Return the feeds' places, and the range of ids that holds a page; or the page's keys."""
        sources = [feed for feed in feeds if wanted.count_entries(feed)]
        number = sum(map(wanted.count_entries, sources))
        is_page = wanted.newest_first and wanted.count > 0 and number > max(SORTED, 2 * wanted.count)
        for low in _propose_lows(sources, wanted):
            known = self._load(sources, low, volatile)
            if known is None:
                break
            if is_page:
                newest = _find_newest(sources, known, wanted, low)
                if newest is not None:
                    return newest
                if low:
                    continue
            parts = [part for f in sources if (part := _select_places(f, known[f.feed_id], wanted)).bits]
            first, end = max(low, wanted.above + 1), wanted.below
            number = sum(part.count_ids(first, end) for part in parts)
            if low and number < wanted.count:
                continue
            if number > max(SORTED, 2 * wanted.count):
                first, end = _narrow(parts, wanted, first, end)
            return parts, first, end
        return self._walk(sources, wanted)

    def _walk(self, feeds: Sequence[SourceFeed], wanted: ArrivalRequest) -> list[EntryKey]:
        """Read a page from the database, for users with more entries than the cache holds."""
        number, total = sum(map(wanted.count_entries, feeds)), sum(feed.total for feed in feeds)
        if wanted.read is not None and number * SEEK < total:
            found = self._find_by_number(feeds, wanted)
        elif number <= wanted.count:
            found = self._find_all(feeds, wanted)
        else:
            return self._walk_index(feeds, wanted)
        return sorted(found, key=_id, reverse=wanted.newest_first)[: wanted.count]

    def _find_by_number(self, feeds: Sequence[SourceFeed], wanted: ArrivalRequest) -> list[EntryKey]:
        """Return the keys of all wanted entries, by the numbers in the bitmaps."""
        found: list[EntryKey] = []
        for start in range(0, len(feeds), CHUNK):
            numbers = {
                f.feed_id: f.state.find_seqs(f.first_seq, f.last_seq, read=bool(wanted.read))
                for f in feeds[start : start + CHUNK]
            }
            found += [key for key in self._keys.find_by_seqs(numbers) if wanted.is_inside(key.id)]
        return found

    def _find_all(self, feeds: Sequence[SourceFeed], wanted: ArrivalRequest) -> list[EntryKey]:
        """Return the keys of all wanted entries, by one pass over the index."""
        by_id = {feed.feed_id: feed for feed in feeds}
        rows = self._arrivals.find_rows(list(by_id), wanted.above + 1) if feeds else ()
        return [
            build_arrival_key(i, feed_id, seq)
            for feed_id, i, seq in rows
            if i < wanted.below and wanted.is_match(by_id[feed_id], seq)
        ]

    def _walk_index(self, feeds: Sequence[SourceFeed], wanted: ArrivalRequest) -> list[EntryKey]:
        by_id = {feed.feed_id: feed for feed in feeds}
        found: list[EntryKey] = []
        rest = wanted
        while len(found) < wanted.count:
            some = self._arrivals.find_between(
                list(by_id), rest.above, rest.below, STRIDE, newest_first=wanted.newest_first
            )
            found += [key for key in some if wanted.is_match(by_id[key.feed_id], key.seq)]
            if len(some) < STRIDE:
                break
            rest = rest.continue_after(some[-1].id)
        return found[: wanted.count]

    # -- the cache
    def _load(
        self, feeds: Sequence[SourceFeed], low: int, volatile: Collection[int]
    ) -> Mapping[int, FeedIds] | None:
        """Return the ids of these feeds from ``low`` on; None: they are too many.

        Raises:
            StoreError: another thread has been loading a lot for :data:`SHARED_SECONDS`.
        """
        known, missing = self._look(feeds, low)
        if not missing:
            return known  # type: ignore[return-value]  # none is missing
        now = time.monotonic()
        cached = [feed for feed in missing if feed.feed_id not in volatile]
        if sum(_count_new(known[feed.feed_id], feed, low, now) for feed in cached) < SHARED_ROWS:
            return self._fetch(feeds, low, volatile)
        if not self._loading.acquire(timeout=SHARED_SECONDS):
            raise StoreError
        try:
            return self._fetch(feeds, low, volatile)
        finally:
            self._loading.release()

    def _look(
        self, feeds: Sequence[SourceFeed], low: int
    ) -> tuple[dict[int, FeedIds | None], list[SourceFeed]]:
        """Return what the cache has of these feeds, and the feeds of which it lacks something."""
        now = time.monotonic()
        known = {feed.feed_id: self._known.get(feed.feed_id) for feed in feeds}
        return known, [feed for feed in feeds if not _covers(known[feed.feed_id], feed, low, now)]

    def _fetch(
        self, feeds: Sequence[SourceFeed], low: int, volatile: Collection[int]
    ) -> Mapping[int, FeedIds] | None:
        """Read what the cache lacks."""
        now = time.monotonic()
        known, missing = self._look(feeds, low)
        if not missing:
            return known  # type: ignore[return-value]  # none is missing
        grown = {
            feed.feed_id: (feed, before)
            for feed in missing
            if (before := known[feed.feed_id]) is not None and _can_grow(before, low, now)
        }
        fresh = self._append(grown) if grown else {}
        self._remember({f: keys for f, keys in fresh.items() if f not in volatile})
        read = self._read([f for f in missing if f.feed_id not in fresh], low, volatile)
        return None if read is None else known | fresh | read  # type: ignore[return-value]  # as above

    def _read(
        self, feeds: Sequence[SourceFeed], low: int, volatile: Collection[int]
    ) -> dict[int, FeedIds] | None:
        """Read the ids of feeds from ``low`` on, and keep each part at once; None: they are too many."""
        if not low and sum(feed.total for feed in feeds) > ROWS:
            return None
        found: dict[int, FeedIds] = {}
        number = 0
        for some in _split(feeds):
            read_at = _now_as_id()
            rows = list(self._arrivals.find_rows([feed.feed_id for feed in some], low, ROWS - number))
            if (number := number + len(rows)) >= ROWS:
                return None
            by_feed = {f: list(group) for f, group in itertools.groupby(rows, itemgetter(0))}
            empty = FeedIds(0, low, time.monotonic() + KEPT, read_at)
            part = {f.feed_id: add_ids(empty, f, by_feed.get(f.feed_id, ())) for f in some}
            found |= part
            if sum(len(keys.ids) for keys in found.values()) > PLACES:
                return None  # numbers far apart would waste memory
            self._remember({f: keys for f, keys in part.items() if f not in volatile})
        return found

    def _append(self, grown: Mapping[int, tuple[SourceFeed, FeedIds]]) -> dict[int, FeedIds]:
        """Read only what arrived since; leave out feeds where that doesn't give all new numbers."""
        since, read_at = min(before.read_at for _, before in grown.values()) - SKEW, _now_as_id()
        rows = self._arrivals.find_rows(list(grown), since, ROWS)
        found = {}
        for feed_id, some in itertools.groupby(rows, itemgetter(0)):
            feed, before = grown[feed_id]
            new = [row for row in some if before.last_seq < row[2] <= feed.last_seq]
            if len(new) == feed.last_seq - before.last_seq:
                found[feed_id] = add_ids(before._replace(read_at=read_at), feed, new)
        return found

    def _remember(self, found: Mapping[int, FeedIds]) -> None:
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


def _now_as_id() -> int:
    return int(clock.now().timestamp() * 1_000_000)


def _id(key: EntryKey) -> int:
    return key.id


def _split(feeds: Sequence[SourceFeed]) -> Iterator[list[SourceFeed]]:
    """Yield groups of feeds with at most :data:`COMMAND_ROWS` entries, or a single one with more."""
    some: list[SourceFeed] = []
    for feed in feeds:
        if some and sum(f.total for f in some) + feed.total > COMMAND_ROWS:
            yield some
            some = []
        some.append(feed)
    if some:
        yield some


def _weigh(keys: FeedIds) -> int:
    return FEED_PLACES + len(keys.ids)


def _can_grow(known: FeedIds, low: int, now: float) -> bool:
    return known.low <= low and now < known.until


def _count_new(known: FeedIds | None, feed: SourceFeed, low: int, now: float) -> int:
    """Return how many entries of a feed have to be read."""
    return feed.last_seq - known.last_seq if known is not None and _can_grow(known, low, now) else feed.total


def _covers(known: FeedIds | None, feed: SourceFeed, low: int, now: float) -> bool:
    return known is not None and known.last_seq >= feed.last_seq and known.low <= low and now < known.until


def _propose_lows(feeds: Sequence[SourceFeed], wanted: ArrivalRequest) -> Iterator[int]:
    """Yield ids from which on to load: 0 for everything, unless that is too much."""
    if sum(feed.total for feed in feeds) <= ROWS:
        yield 0
    elif wanted.newest_first and sum(map(wanted.count_entries, feeds)) > wanted.count:
        start = min(wanted.below, _now_as_id())
        yield from (max(1, start - age) for age in AGES)


def add_ids(before: FeedIds, feed: SourceFeed, rows: Sequence[ArrivalRow]) -> FeedIds:
    """Return a feed's ids with those of rows added, whose numbers are above all known ones."""
    last = feed.last_seq
    # Below the first number are only starred entries that retention kept.
    new = sorted((seq, i) for _, i, seq in rows if feed.first_seq <= seq <= last)
    if not new:
        return before._replace(last_seq=last)
    base = before.base if before.ids else new[0][0]
    ids = array("q", before.ids)
    ids.extend(itertools.repeat(0, new[-1][0] - base + 1 - len(ids)))
    present = bytearray(len(ids))
    for seq, i in new:
        ids[seq - base], present[seq - base] = i, 1
    bits = before.present | int(bytes(present[::-1]).translate(_DIGITS), 2)
    is_ordered = all(map(int.__lt__, ids, ids[1:]))
    tops = ids if is_ordered else array("q", itertools.accumulate(ids, max))
    return before._replace(last_seq=last, base=base, present=bits, ids=ids, tops=tops)


_DIGITS = bytes.maketrans(b"\0\1", b"01")


def _select_places(feed: SourceFeed, keys: FeedIds, wanted: ArrivalRequest) -> _Part:
    """Return the feed's places with the wanted read state, whose ids are in the wanted range."""
    size = min(len(keys.ids), feed.last_seq - keys.base + 1)
    if size <= 0:
        return _Part(feed.feed_id, keys, 0)
    bits = keys.present & (1 << size) - 1
    if wanted.read is not None:
        unread = feed.state.build_unread_bits(keys.base, keys.base + size - 1)
        bits &= ~unread if wanted.read else unread
    skipped = max(0, feed.first_seq - keys.base)
    if wanted.above:
        skipped = max(skipped, bisect_left(keys.tops, wanted.above + 1))
    if wanted.below < MAX_ID and keys.tops is keys.ids:
        bits &= (1 << bisect_left(keys.ids, wanted.below)) - 1
    return _Part(feed.feed_id, keys, bits >> skipped << skipped)


def _find_newest(
    feeds: Sequence[SourceFeed], known: Mapping[int, FeedIds], wanted: ArrivalRequest, low: int
) -> tuple[list[_Part], int, int] | None:
    """Return the feeds with entries of the newest page, and the range of ids that holds it; None: too few.

    Takes a few entries at a time from the feed with the newest one left. So feeds and entries that are older
    than the page cost one comparison.
    """
    low = max(low, wanted.above + 1)
    rows = [(feed, known[feed.feed_id]) for feed in feeds]
    # The newest id of a feed, and how many of its places are left.
    heap = [(-keys.tops[-1], n, len(keys.ids)) for n, (_, keys) in enumerate(rows) if keys.ids]
    heapq.heapify(heap)
    places = sum(size for *_, size in heap)
    wished = sum(wanted.count_entries(feed) for feed in feeds)
    step = max(1, 2 * wanted.count * places // max(1, wished * len(heap)))
    parts: dict[int, _Part] = {}
    found: list[int] = []
    while heap and len(found) < wanted.count and -heap[0][0] >= low:
        _, n, end = heap[0]
        part = parts.get(n)
        if part is None:
            part = parts[n] = _select_places(*rows[n], wanted)
        keys = part.keys
        if keys.tops is not keys.ids:
            found += part.list_ids(low, wanted.below)
            heapq.heappop(heap)
            continue
        if wanted.below < MAX_ID:
            end = min(end, bisect_left(keys.ids, wanted.below))
        start = max(0, end - step)
        digits = bin(part.bits >> start & (1 << end - start) - 1)[:1:-1].encode().translate(_SELECTORS)
        found += itertools.compress(keys.ids[start:end], digits)
        if start:
            heapq.heapreplace(heap, (-keys.ids[start - 1], n, start))
        else:
            heapq.heappop(heap)
    if len(found) < wanted.count:
        return None
    found.sort(reverse=True)
    border = found[wanted.count - 1]
    if border < low:
        return None
    newer = (n for n, (_, keys) in enumerate(rows) if keys.ids and keys.tops[-1] >= border)
    chosen = [parts.get(n) or _select_places(*rows[n], wanted) for n in newer]
    return [part for part in chosen if part.bits], border, wanted.below


def _narrow(parts: Sequence[_Part], wanted: ArrivalRequest, low: int, high: int) -> tuple[int, int]:
    """Return a range of ids that holds a page and little more, so that little has to be sorted."""
    ids = sorted(
        itertools.chain.from_iterable(p.keys.ids[:: max(1, len(p.keys.ids) // SAMPLES)] for p in parts)
    )
    borders = ids[bisect_left(ids, low + 1) : bisect_left(ids, high)]
    if not wanted.newest_first:
        borders.reverse()
    # The page lies beyond the border before ``far``, and not beyond the border at ``near``.
    far, near, found = 0, len(borders), (low, high)
    while far < near:
        middle = (far + near) // 2
        within = (borders[middle], high) if wanted.newest_first else (low, borders[middle])
        number = sum(part.count_ids(*within) for part in parts)
        if number < wanted.count:
            near = middle
            continue
        far, found = middle + 1, within
        if number <= 2 * wanted.count:
            break
    return found


def build_arrival_key(entry_id: int, feed_id: int, seq: int) -> EntryKey:
    """Return a key whose sort time is the time of arrival."""
    return EntryKey(entry_id, feed_id, seq, entry_id // 1000)
