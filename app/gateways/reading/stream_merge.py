"""The merge of many feeds' keys into a stream's order, reading as few keys as possible.

Keys first, bodies last: only (at, id, feed, seq) are read, and tested against the read bitmaps in memory. The
feeds with the newest entries come first. Once there are enough rows, feeds whose newest entry is older than
the last row are skipped. There are three methods, and the cheapest is chosen (``docs/performance.md``):

- few feeds: the server merges their index scans in order, and the walk ends with the page;
- more feeds: a short time window of all feeds, unordered, estimated to hold a page; sorted here;
- few wanted entries in a long history: their numbers come from the bitmaps, and are fetched.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter

from app.mappers.reading.entry_keys import CHUNK, EntryKeyMapper, Row, TimeRange
from app.models.reading.entry import EntryKey
from app.models.reading.stream import SourceFeed

#: Cost of fetching a key by its number, in keys walked along the covering index (measured).
SEEK = 4
#: Below this number of wanted entries in a stream, fetch them by number.
FEW = 2000
#: Above this number of feeds, time windows are cheaper than a merged walk (measured).
FEEDS = 20
#: Most windows, their growth, and most keys per window (BUSY, or BUSY_EACH per wanted key if that is more). A
#: jump to a feed costs as much as a key, so a window three times too long beats one too short.
WINDOWS, GROWTH, BUSY, BUSY_EACH = 4, 3, 5000, 10
#: Safety factors of an estimated window, so that the first one usually holds a page. Pages of more than LONG
#: keys use LONG_MARGIN, because a second window, which jumps to each feed again, costs them more.
MARGIN, LONG_MARGIN, LONG = 1.3, 1.55, 2000
#: Keys walked without a match before falling back to fetching by number.
PATIENCE = 20_000
#: A key's sort position, oldest first: ``at``, then the id.
_PLACE = itemgetter(3, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRequest:
    """A request for entries: which ones, and in which order.

    Attributes:
        read: only read or only unread entries; None: all.
        after: (at in milliseconds, id) of the last row already delivered; None: from the start.
        pace: milliseconds between two rows so far, if known.
    """

    count: int
    newest_first: bool = True
    read: bool | None = None
    after: tuple[int, int] | None = None
    pace: float | None = None

    def count_entries(self, feed: SourceFeed) -> int:
        """Return how many entries of a feed have the wanted read state."""
        if self.read is None:
            return feed.total
        return feed.total - feed.unread if self.read else feed.unread

    def is_match(self, feed: SourceFeed, seq: int) -> bool:
        """Return whether an entry has the wanted read state."""
        return self.read is None or feed.state.is_read(seq) is self.read

    def make_sort_key(self, key: EntryKey) -> tuple[int, int]:
        """Return a key's sort position in this order."""
        return (-key.at, -key.id) if self.newest_first else (key.at, key.id)

    def is_after(self, key: EntryKey) -> bool:
        """Return whether a key comes after the last row already delivered."""
        if self.after is None:
            return True
        return ((key.at, key.id) < self.after) if self.newest_first else ((key.at, key.id) > self.after)

    def build_time_range(self, border: EntryKey | None) -> TimeRange:
        """Return the sort times between the last row delivered and the last row found so far."""
        near = self.after[0] if self.after else None
        far = border.at if border else None
        return TimeRange(far, near) if self.newest_first else TimeRange(near, far)


class KeyMerger:
    """Finds the first keys of a merged stream."""

    def __init__(self, keys: EntryKeyMapper) -> None:
        self._keys = keys

    def merge_keys(self, feeds: Iterable[SourceFeed], wanted: KeyRequest) -> list[EntryKey]:
        """Return at most ``wanted.count`` keys of these feeds, in the wanted order."""
        sources = [f for f in feeds if wanted.count_entries(f) > 0]
        sources.sort(key=attrgetter("newest"), reverse=True)
        few = wanted.read is not None and sum(map(wanted.count_entries, sources)) < FEW
        if len(sources) <= FEEDS or few or not wanted.newest_first:
            return self._by_chunks(sources, wanted)
        return self._by_windows(sources, wanted)

    def _by_windows(self, sources: Sequence[SourceFeed], wanted: KeyRequest) -> list[EntryKey]:
        """Read a short time window of all feeds, then longer ones, until there are enough keys."""
        feeds = {f.feed_id: f for f in sources}
        start = high = wanted.after[0] if wanted.after else sources[0].newest
        span = estimate_span(sources, wanted)
        found: list[EntryKey] = []
        busy = max(BUSY, wanted.count * BUSY_EACH)
        for _ in range(WINDOWS):
            low = high - span
            # No entry is that old (X11). For large pages of quiet feeds, the estimate goes back before the
            # year 1.
            is_all = low < 0
            live = [f.feed_id for f in sources if is_all or f.newest >= low]
            within = TimeRange(None if is_all else low, high)
            taken, some = _fitting(feeds, self._keys.find_window(live, within, busy), wanted)
            if taken == busy:
                break  # a burst: sorting by the server is cheaper
            found += some
            if is_all or len(found) >= wanted.count:
                return sorted(found, key=_PLACE, reverse=True)[: wanted.count]
            # With many rows found, an estimate of the rest is better than fixed growth.
            more = (wanted.count - len(found)) / len(found) * MARGIN if len(found) > BUSY else GROWTH
            high, span = low - 1, int((start - low) * min(more, GROWTH)) + 1000
        found.sort(key=_PLACE, reverse=True)
        # Nothing below ``high`` was read yet, so rows there come after all the found ones.
        after = wanted.after if wanted.after and wanted.after[0] <= high else (high + 1, 0)
        rest = dataclasses.replace(wanted, count=wanted.count - len(found), after=after)
        return found + self._by_chunks(sources, rest)

    def _by_chunks(self, sources: Sequence[SourceFeed], wanted: KeyRequest) -> list[EntryKey]:
        """Merge chunks of feeds sorted by the server, until all remaining feeds are older."""
        found: list[EntryKey] = []
        for start in range(0, len(sources), CHUNK):
            chunk = sources[start : start + CHUNK]
            border = found[-1] if len(found) >= wanted.count else None
            if border and wanted.newest_first and chunk[0].newest < border.at:
                break
            found += self._of_chunk(chunk, wanted, border)
            found.sort(key=wanted.make_sort_key)
            del found[wanted.count :]
        return found

    def _of_chunk(
        self, chunk: Sequence[SourceFeed], wanted: KeyRequest, border: EntryKey | None
    ) -> list[EntryKey]:
        number = sum(map(wanted.count_entries, chunk))
        total = sum(f.total for f in chunk)
        walked = min(total, wanted.count * total // number)
        if wanted.read is not None and number * SEEK < walked:
            return self._by_number(chunk, wanted)
        found = self._walk(chunk, wanted, border, batch=min(1000, walked + walked // 4 + 16))
        return self._by_number(chunk, wanted) if found is None else found

    def _walk(
        self, chunk: Sequence[SourceFeed], wanted: KeyRequest, border: EntryKey | None, *, batch: int
    ) -> list[EntryKey] | None:
        """Walk the index; return None if that takes too long and there are few wanted entries."""
        feeds = {f.feed_id: f for f in chunk}
        few = wanted.read is not None and sum(map(wanted.count_entries, chunk)) < PATIENCE
        found: list[EntryKey] = []
        keys = self._keys.walk_keys(
            list(feeds), wanted.build_time_range(border), newest_first=wanted.newest_first, batch=batch
        )
        for steps, key in enumerate(keys):
            if _fits(feeds[key.feed_id], key, wanted) and wanted.is_after(key):
                found.append(key)
                if len(found) == wanted.count:
                    break
            elif few and steps > PATIENCE:
                return None
        return found

    def _by_number(self, chunk: Sequence[SourceFeed], wanted: KeyRequest) -> list[EntryKey]:
        """Fetch the wanted entries by their numbers from the bitmaps."""
        numbers = {
            f.feed_id: f.state.find_seqs(f.first_seq, f.last_seq, read=bool(wanted.read)) for f in chunk
        }
        return [key for key in self._keys.find_by_seqs(numbers) if wanted.is_after(key)]


def estimate_span(sources: Sequence[SourceFeed], wanted: KeyRequest) -> int:
    """Return a time in milliseconds that should hold enough rows.

    The bitmaps show which feeds' newest entries are wanted; if these fill a page, their times define the
    window. If not, the estimate uses the feeds in the middle, because the last ones may have been silent for
    years.
    """
    if wanted.pace is not None:
        return int(wanted.pace * wanted.count * MARGIN) + 1000
    newest = wanted.after[0] if wanted.after else sources[0].newest
    tops = (f.newest for f in sources if f.newest <= newest and wanted.is_match(f, f.last_seq))
    border = next(itertools.islice(tops, wanted.count - 1, None), None)
    if border is not None:
        return max(1000, newest - border)
    total, number = sum(f.total for f in sources), sum(map(wanted.count_entries, sources))
    middle = len(sources) // 2
    share = wanted.count * total / number / (middle + 1)
    margin = LONG_MARGIN if wanted.count > LONG else MARGIN
    return max(1000, int((newest - sources[middle].newest) * share * margin))


def _fitting(
    feeds: Mapping[int, SourceFeed], rows: Iterable[Row], wanted: KeyRequest
) -> tuple[int, list[EntryKey]]:
    """Return the number of keys, and the wanted ones.

    A single loop that creates no objects for unwanted keys, of which there are tens of thousands.
    """
    limits = {f: (feed.first_seq, feed.last_seq, feed.state.is_read) for f, feed in feeds.items()}
    read, taken, found = wanted.read, 0, []
    for taken, (feed_id, at, ident, seq) in enumerate(rows, 1):  # noqa: B007 — their number is wanted
        first, last, is_read = limits[feed_id]
        if first <= seq <= last and (read is None or is_read(seq) is read):
            found.append(EntryKey(ident, feed_id, seq, at))
    return taken, found if wanted.after is None else [key for key in found if wanted.is_after(key)]


def _fits(feed: SourceFeed, key: EntryKey, wanted: KeyRequest) -> bool:
    # Above last_seq: entries after the snapshot, or not reconciled yet. Below first_seq: starred entries.
    return feed.first_seq <= key.seq <= feed.last_seq and wanted.is_match(feed, key.seq)
