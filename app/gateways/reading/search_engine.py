"""The search in the index of words of earlier versions, until the first index on disk is complete.

Which word's index entries to scan, and how far back:

The rarest of the wanted words is scanned, and the others are tested. All entries with a rare word are read
and sorted here. A common word is read in time windows, newest first, until they fill a page. Each window is
one pass over the index with one jump per feed, regardless of the other contents of the server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from app.errors import SearchUnavailableError, SearchUnsupportedError
from app.mappers.reading.entry_keys import TimeRange
from app.mappers.reading.index_queue import IndexQueueMapper
from app.mappers.reading.search_index import MARKS, IndexScan, SearchIndexMapper
from app.models.reading.entry import EntryKey
from app.models.reading.search import SearchRequest, SearchResult, Term
from app.ports import SearchPort

#: A word in at most so many entries is rare: they are all read.
FEW = 4000
#: Most keys per window; a fuller window is shortened.
BUSY = 1500
#: Words that are counted to find the rarest, and the limit of the counts.
COUNTED, COUNT_MOST = 4, 20_000
#: Length of the first window, and the factor by which windows grow or shrink.
FIRST_MS, GROWTH = 86_400_000, 8
#: Documents read per call.
PATIENCE = 8000


class FallbackSearch:
    """Searches with the engine, or in the old index while the engine has none."""

    def __init__(self, engine: SearchPort, old: OldSearchEngine, queue: IndexQueueMapper) -> None:
        self._engine, self._old, self._queue = engine, old, queue

    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` matching entries; none while a new server has no index yet.

        Raises:
            SearchUnsupportedError: the engine isn't installed.
            SearchUnavailableError: neither answers; the writer is asked to check the index.
        """
        if not wanted.feeds:
            return SearchResult([])
        try:
            return self._engine.find(wanted, limit)
        except SearchUnavailableError as e:
            if self._queue.has_old_index():
                return self._old.find(wanted, limit)
            if isinstance(e, SearchUnsupportedError):
                raise
            if self._queue.get_state().is_new:
                return SearchResult([], is_partial=True)
            self._queue.request_check()
            raise


class OldSearchEngine:
    """Implements :class:`app.ports.SearchPort` on the index of words."""

    def __init__(self, search_index: SearchIndexMapper) -> None:
        self._searchables = search_index

    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` matching entries."""
        if not wanted.feeds:
            return SearchResult([])
        look = _look(wanted)
        if wanted.ids is not None:
            return SearchResult(_sorted(wanted, self._searchables.find_among(sorted(wanted.ids), look)))
        look, number = self._with_rarest(look)
        if number <= FEW:
            keys, _ = self._searchables.find(look, FEW + 1)
            return SearchResult(_sorted(wanted, keys))
        return self._by_windows(wanted, look, limit)

    def _with_rarest(self, scan: IndexScan) -> tuple[IndexScan, int]:
        """Return the scan along the rarest of the longest words, and the number of its entries."""
        best, least = scan.word, COUNT_MOST
        for word in sorted(scan.others, key=len, reverse=True)[:COUNTED]:
            number = self._searchables.count_matches(dataclasses.replace(scan, word=word), least)
            if number < least:
                best, least = word, number
            if not number:
                break  # nothing can be found
        if best == scan.word:
            # All words are common, or the query has only terms that every entry matches.
            best = max(scan.others, key=len, default="")
            least = least if best else self._searchables.count_matches(scan, FEW + 1)
        others = tuple(w for w in scan.others if w != best)
        return dataclasses.replace(scan, word=best, others=others), least

    def _by_windows(self, wanted: SearchRequest, scan: IndexScan, limit: int) -> SearchResult:
        keys: list[EntryKey] = []
        seen = 0
        for within, found, number in self._windows(wanted, scan):
            keys += _sorted(wanted, found)
            seen += number
            if len(keys) >= limit or seen >= PATIENCE:
                edge = within.low if wanted.newest_first else within.high
                return SearchResult(keys, _edge(wanted, keys, edge))
        return SearchResult(keys)

    def _windows(
        self, wanted: SearchRequest, scan: IndexScan
    ) -> Iterator[tuple[TimeRange, list[EntryKey], int]]:
        """Yield one time window after the other, with its keys and their number; the last is open-ended."""
        down = wanted.newest_first
        bounds = scan.within
        low = 0 if bounds.low is None else bounds.low
        high = wanted.newest if bounds.high is None else min(bounds.high, wanted.newest)
        span = FIRST_MS if down else max(FIRST_MS, high - low)
        while low <= high:
            first, last = (max(low, high - span), high) if down else (low, min(high, low + span))
            # The open end includes dates before 1970.
            within = TimeRange(None if bounds.low is None and first == 0 else first, last)
            limit = BUSY if span > 1 else 1 << 20
            keys, number = self._searchables.find(dataclasses.replace(scan, within=within), limit)
            if number == limit and span > 1:
                span = max(1, span // GROWTH)
                continue
            yield within, keys, number
            low, high = (low, first - 1) if down else (last + 1, high)
            span *= GROWTH if number < BUSY // GROWTH else 1


def _look(wanted: SearchRequest) -> IndexScan:
    """Return a scan along the empty word, with everything else as conditions."""
    low, high = wanted.since, wanted.until
    if wanted.after is not None and wanted.newest_first:
        high = wanted.after[0] if high is None else min(high, wanted.after[0])
    elif wanted.after is not None:
        low = wanted.after[0] if low is None else max(low, wanted.after[0])
    return IndexScan(
        word="",
        feed_ids=list(wanted.feeds),
        within=TimeRange(low, high),
        others=_marked(wanted.terms),
        without=_marked(t for t in wanted.without if len(t.words) == 1),
        phrases=tuple(t for t in wanted.terms if len(t.words) > 1),
        no_phrases=tuple(t for t in wanted.without if len(t.words) > 1),
    )


def _marked(terms: Collection[Term] | Iterator[Term]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(MARKS[t.where] + word for t in terms for word in t.words))


def _sorted(wanted: SearchRequest, keys: Sequence[EntryKey]) -> list[EntryKey]:
    return sorted((k for k in keys if wanted.is_match(k)), key=wanted.make_sort_key)


def _edge(wanted: SearchRequest, keys: Sequence[EntryKey], edge: int | None) -> tuple[int, int] | None:
    """Return the position up to which all entries were scanned."""
    if edge is None:
        return None
    # Entries at the edge itself were read, so the next scan starts beyond all ids at that time.
    return (edge, 0) if wanted.newest_first else (edge, 1 << 53)
