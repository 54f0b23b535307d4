"""One index on disk. The only module that knows Tantivy.

Documents hold words that are split and folded already, separated by spaces. Title, author and text are three
values of one field, and Tantivy leaves a gap between values, so no phrase crosses them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from app.adapters.search.generations import META
from app.errors import SearchUnavailableError
from app.models.reading import stems
from app.models.reading.entry import EntryKey
from app.models.reading.languages import BEGINNING
from app.models.reading.search import (
    RANKED_MAX,
    SearchDocument,
    SearchRequest,
    SearchResult,
    Term,
    TermField,
    format_prefix,
)
from app.models.reading.tokenizer import split_text, split_words

try:
    import tantivy
except ImportError:  # no wheel for this platform
    tantivy = None  # type: ignore[assignment]

#: Memory for documents that aren't committed yet, in bytes.
HEAP: Final = 50_000_000
#: Words that a prefix stands for, at most; and the last word of a phrase, which costs more.
EXPANSIONS: Final = 200
PHRASE_EXPANSIONS: Final = 20
#: Entries that are read beyond a page, so that entries of the same time rarely cost a second search.
_BEYOND, _GROWTH = 16, 8
#: Reserve of entries of any feed that are read for a page, and the entries of the wanted feeds that cost the
#: engine as much as one that is read.
_MARGIN, _PER_HIT = 1.25, 10
_FIELDS = {TermField.ANY: "words", TermField.TITLE: "title", TermField.AUTHOR: "author"}
#: The end of each file: the length of the footer, and Tantivy's mark.
_TAIL, _MAGIC, _BLOCK = struct.Struct("<II"), 1337, 1 << 20
#: An exact word counts this much more than another form of it, in the order by relevance.
_EXACT = 2.0


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn the errors of Tantivy, of the disk, and panics at damaged files into ours."""
    try:
        yield
    except (ValueError, LookupError, OSError, OverflowError, struct.error) as e:
        raise SearchUnavailableError from e
    except BaseException as e:
        if type(e).__name__ != "PanicException":  # the bindings export no name for it
            raise
        raise SearchUnavailableError from e


def _build_schema() -> Any:
    builder = tantivy.SchemaBuilder()
    # Signed: the bindings take every number in delete_documents_by_term for a signed one, so that a deletion
    # by an unsigned field would delete nothing.
    for name in ("id", "feed"):
        builder.add_integer_field(name, indexed=True, fast=True)
    for name in ("seq", "at"):
        builder.add_integer_field(name, fast=True)
    for name in ("words", "title", "author"):
        builder.add_text_field(name, tokenizer_name="whitespace")
    builder.add_text_field("stems", tokenizer_name="whitespace", index_option="basic")
    return builder.build()


class IndexWriter:
    """Adds and deletes entries. Nothing is visible or durable before :meth:`commit_batch`.

    Tantivy's lock admits one writer per index, and a killed process loses the lock. All methods raise
    SearchUnavailableError; afterwards only :meth:`close` is useful.

    Args:
        folder: of the index; an empty one becomes a new index.
        max_words: most different words indexed per entry.
    """

    def __init__(self, folder: Path, *, max_words: int) -> None:
        if tantivy is None:
            raise SearchUnavailableError
        self.folder, self._most = folder, max_words
        with _translated():
            folder.mkdir(parents=True, exist_ok=True)
            self._schema = _build_schema()
            self._index = tantivy.Index(self._schema, path=str(folder))
            self._writer: Any = self._index.writer(heap_size=HEAP, num_threads=1)
            self._writer.garbage_collect_files()  # files that a killed process left behind

    def add(self, entries: Iterable[SearchDocument]) -> None:
        """Add entries, or replace them."""
        with _translated():
            for entry in entries:
                self._writer.delete_documents_by_term("id", entry.id)
                self._writer.add_document(self._make(entry))

    def _make(self, entry: SearchDocument) -> Any:
        (title, of_title), (body, of_text) = split_text(entry.title), split_text(entry.text)
        author = split_words(entry.author)
        if len(body) > self._most:
            body = _cut(body, self._most)
        document = tantivy.Document()
        document.add_integer("id", entry.id)
        document.add_integer("feed", entry.feed_id)
        document.add_integer("seq", entry.seq)
        document.add_integer("at", entry.at)
        for field, words in (("title", title), ("author", author)):
            document.add_text(field, " ".join(words))
        for words in (title, author, body):
            document.add_text("words", " ".join(words))
        beginning = f"{entry.title}\n{entry.text[:BEGINNING]}"
        found = stems.make_stems(beginning, of_title | of_text, entry.language)
        document.add_text("stems", " ".join(found))
        return document

    def delete_entries(self, feed_id: int, entry_ids: Iterable[int]) -> None:
        """Delete entries of a feed; entries that have moved to another feed stay."""
        with _translated():
            for entry_id in entry_ids:
                self._delete((tantivy.Occur.Must, self._term("id", entry_id)), feed_id=feed_id)

    def delete_feed(self, feed_id: int) -> None:
        """Delete all entries of a feed."""
        with _translated():
            self._writer.delete_documents_by_term("feed", feed_id)

    def delete_below(self, feed_id: int, seq: int, keep: Collection[int]) -> None:
        """Delete a feed's entries with numbers below ``seq``, except the ids in ``keep``."""
        integer = tantivy.FieldType.Integer
        with _translated():
            below = tantivy.Query.range_query(self._schema, "seq", integer, None, seq, include_upper=False)
            kept = tantivy.Query.term_set_query(self._schema, "id", list(keep))
            self._delete((tantivy.Occur.Must, below), (tantivy.Occur.MustNot, kept), feed_id=feed_id)

    def _delete(self, *parts: Any, feed_id: int) -> None:
        query = [(tantivy.Occur.Must, self._term("feed", feed_id)), *parts]
        self._writer.delete_documents_by_query(tantivy.Query.boolean_query(query))

    def _term(self, field: str, value: int) -> Any:
        return tantivy.Query.term_query(self._schema, field, value, index_option="basic")

    def commit_batch(self) -> None:
        """Make all changes durable and visible."""
        with _translated():
            self._writer.commit()

    def close(self) -> None:
        """Release the lock; changes since the last commit are lost."""
        self._writer = None


def check_files(folder: Path) -> None:
    """Compare the files of an index with their checksums; this reads all of them.

    Raises:
        SearchUnavailableError: a file is damaged.
    """
    with _translated():
        meta = json.loads((folder / META).read_text("utf-8"))
        for segment in meta["segments"]:
            for path in folder.glob(f"{segment['segment_id'].replace('-', '')}.*"):
                _check_file(path)


def _check_file(path: Path) -> None:
    """Check a file, which ends with a footer in JSON, the footer's length and a fixed number."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL.size))
        length, magic = _TAIL.unpack(file.read())
        end = size - _TAIL.size - length
        if magic != _MAGIC or end < 0:
            raise ValueError(path.name)
        file.seek(end)
        expected = json.loads(file.read(length))["crc"]
        file.seek(0)
        found, left = 0, end
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:
                raise ValueError(path.name)
            found, left = zlib.crc32(block, found), left - len(block)
    if found != expected:
        raise ValueError(path.name)


def _cut(words: list[str], limit: int) -> list[str]:
    """Return the words before the first one that would be one different word too many."""
    seen: set[str] = set()
    for at, word in enumerate(words):
        seen.add(word)
        if len(seen) > limit:
            return words[:at]
    return words


class IndexReader:
    """Finds entries. It sees the last commit before its last :meth:`reload`.

    Raises:
        SearchUnavailableError: the folder has no readable index.
    """

    def __init__(self, folder: Path) -> None:
        if tantivy is None:
            raise SearchUnavailableError
        self.folder = folder
        self._version: object = None
        with _translated():
            self._index = tantivy.Index.open(str(folder))
            self._index.config_reader("manual")
            self._schema = self._index.schema
        self.reload()

    def reload(self) -> None:
        """Read the last commit, if there is a newer one: the writer replaces the file then."""
        with _translated():
            found = (self.folder / META).stat()
            version = (found.st_ino, found.st_mtime_ns, found.st_size)
            if version != self._version:
                self._index.reload()
                self._version = version

    def count(self) -> int:
        """Return the number of entries."""
        return int(self._index.searcher().num_docs)

    def count_feed(self, feed_id: int, first: int, last: int) -> int:
        """Return the number of a feed's entries with numbers from ``first`` to ``last``."""
        must, integer = tantivy.Occur.Must, tantivy.FieldType.Integer
        with _translated():
            feed = tantivy.Query.term_query(self._schema, "feed", feed_id, index_option="basic")
            numbers = tantivy.Query.range_query(self._schema, "seq", integer, first, last)
            query = tantivy.Query.boolean_query([(must, feed), (must, numbers)])
            return int(self._index.searcher().search(query, 1, count=True).count)  # type: ignore[attr-defined]

    def find_last_number(self, feed_id: int) -> int:
        """Return the highest number of a feed's entries; 0: there are none."""
        with _translated():
            searcher = self._index.searcher()
            query = tantivy.Query.term_query(self._schema, "feed", feed_id, index_option="basic")
            hits = searcher.search(query, 1, count=False, order_by_field="seq", order=tantivy.Order.Desc).hits
            return max((key.seq for key in _load_keys(searcher, hits)), default=0)

    def list_entries(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return the entries with ids above ``after``, ascending: pairs of id and feed."""
        integer = tantivy.FieldType.Integer
        with _translated():
            searcher = self._index.searcher()
            query = tantivy.Query.range_query(self._schema, "id", integer, after, None, include_lower=False)
            ascending = tantivy.Order.Asc
            hits = searcher.search(query, limit, count=False, order_by_field="id", order=ascending).hits
            return [(key.id, key.feed_id) for key in _load_keys(searcher, hits)]

    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` matching entries in order."""
        if not wanted.feeds:
            return SearchResult([])
        with _translated():
            searcher = self._index.searcher()
            query = _Query(self._schema, searcher, wanted)
            find = self._rank if wanted.by_relevance else self._list
            return dataclasses.replace(find(searcher, query, limit, wanted), cut=tuple(query.cut))

    def _list(self, searcher: Any, query: _Query, limit: int, wanted: SearchRequest) -> SearchResult:
        """Return a page by time.

        The engine's condition on feeds costs more the more feeds, segments and entries there are, whatever
        the words are. Where reading the matches in all feeds costs less, the unwanted ones are dropped here.
        """
        found = SearchResult([], wanted.after)
        if (most := query.estimate_hits(limit + _BEYOND)) <= query.estimate_feeds():
            keys = self._read(searcher, query.build(wanted, is_of_feeds=False), most, wanted)
            if (page := _make_page(wanted, keys, most)) is not None:
                found = page
                if len(found.keys) > limit:
                    last = found.keys[limit - 1]
                    return SearchResult(found.keys[:limit], (last.at, last.id))
                if len(found.keys) == limit or found.after is None:
                    return found
                # There are fewer than expected: the engine finds the rest.
                wanted = dataclasses.replace(wanted, after=found.after)
        most = limit - len(found.keys) + _BEYOND
        while True:
            keys = self._read(searcher, query.build(wanted), most, wanted)
            if (page := _make_page(wanted, keys, most)) is not None:
                return dataclasses.replace(page, keys=[*found.keys, *page.keys])
            most *= _GROWTH

    def _rank(self, searcher: Any, query: _Query, limit: int, wanted: SearchRequest) -> SearchResult:
        skipped = wanted.after[0] if wanted.after else 0
        if not 0 <= skipped < RANKED_MAX:
            return SearchResult([])  # the engine reserves memory for all of them
        hits = searcher.search(query.build(wanted), limit, count=False, offset=skipped).hits
        keys = [key for key in _load_keys(searcher, hits) if wanted.is_match(key)]
        is_more = len(hits) == limit and skipped + limit < RANKED_MAX
        return SearchResult(keys, (skipped + limit, 0) if is_more else None)

    def _read(self, searcher: Any, query: Any, limit: int, wanted: SearchRequest) -> list[EntryKey]:
        order = tantivy.Order.Desc if wanted.newest_first else tantivy.Order.Asc
        hits = searcher.search(query, limit, count=False, order_by_field="at", order=order).hits
        return _load_keys(searcher, hits)


def _load_keys(searcher: Any, hits: Sequence[tuple[Any, Any]]) -> list[EntryKey]:
    addresses = [address for _, address in hits]
    columns = [searcher.fast_field_values(name, addresses) for name in ("id", "feed", "seq", "at")]
    return [EntryKey(*row) for row in zip(*columns, strict=True)]


def _make_page(wanted: SearchRequest, keys: Sequence[EntryKey], limit: int) -> SearchResult | None:
    """Return a page of the keys of at most ``limit`` hits; None: none of them is certain, so read more."""
    if len(keys) < limit:
        return SearchResult(_sorted(wanted, keys))
    edge = keys[-1].at
    if keys[0].at == edge:
        return None
    # More entries may have the time of the last key, and their order is by id.
    after = _beyond(edge + (1 if wanted.newest_first else -1), wanted)
    if after == wanted.after:
        return None  # all but those have the time at which the page before ended
    return SearchResult(_sorted(wanted, [k for k in keys if k.at != edge]), after)


def _sorted(wanted: SearchRequest, keys: Sequence[EntryKey]) -> list[EntryKey]:
    return sorted((k for k in keys if wanted.is_match(k)), key=wanted.make_sort_key)


def _beyond(at: int, wanted: SearchRequest) -> tuple[int, int]:
    """Return the position after all entries on the near side of a time."""
    return (at, 0) if wanted.newest_first else (at, 1 << 53)


class _Query:
    """Builds the queries of one search.

    Attributes:
        cut: terms that stand for more words than the query has.
    """

    def __init__(self, schema: Any, searcher: Any, wanted: SearchRequest) -> None:
        self._schema, self._searcher, self._wanted = schema, searcher, wanted
        self._wanted_entries = sum(max(0, last - first + 1) for first, last in wanted.feeds.values())
        self.cut: list[str] = []
        #: At most so many entries match the rarest term, as far as it is known.
        self._most = int(searcher.num_docs)
        must, must_not = tantivy.Occur.Must, tantivy.Occur.MustNot
        self._terms = [(must, self._term(term)) for term in wanted.terms]
        self._terms += [(must_not, self._term(term, is_wanted=False)) for term in wanted.without]

    def build(self, wanted: SearchRequest, *, is_of_feeds: bool = True) -> Any:
        """Return the query, which begins at ``wanted.after``.

        Args:
            is_of_feeds: whether the engine tests the feeds; without, there must be a term.
        """
        must = tantivy.Occur.Must
        parts = list(self._terms)
        if is_of_feeds:
            parts.append((must, self._set("feed", list(wanted.feeds))))
        if wanted.ids is not None:
            parts.append((must, self._set("id", list(wanted.ids))))
        if (bounds := _bounds(wanted)) != (None, None):
            integer = tantivy.FieldType.Integer
            parts.append((must, tantivy.Query.range_query(self._schema, "at", integer, *bounds)))
        return tantivy.Query.boolean_query(parts)

    def estimate_hits(self, limit: int) -> int:
        """Return how many entries of any feed to read, so that ``limit`` of them have a wanted feed.

        If words are about as frequent in all feeds, the wanted feeds' share of all entries tells.
        """
        total = max(1, int(self._searcher.num_docs))
        number = math.ceil(limit * _MARGIN * max(1.0, total / max(1, self._wanted_entries)))
        return min(number, self._most + 1)

    def estimate_feeds(self) -> int:
        """Return how many entries can be read in about the time that the condition on feeds takes; or 0."""
        if not self._wanted.terms or self._wanted.ids is not None:
            return 0
        looks = len(self._wanted.feeds) * int(self._searcher.num_segments)
        return looks + self._wanted_entries // _PER_HIT

    def _set(self, field: str, values: list[Any]) -> Any:
        return tantivy.Query.term_set_query(self._schema, field, values)

    def _exact(self, field: str, word: str) -> Any:
        return tantivy.Query.term_query(self._schema, field, word, index_option="freq")

    def _term(self, term: Term, *, is_wanted: bool = True) -> Any:
        field = _FIELDS[term.where]
        words: list[Any] = [*term.words]
        if term.is_prefix:
            found = self._expand(field, words)
            if len(found) > (limit := _get_limit(words)):
                self.cut.append(format_prefix(term, is_wanted=is_wanted))
            return self._prefix(field, words, found[:limit])
        if len(words) > 1:
            return tantivy.Query.phrase_query(self._schema, field, words)
        exact = self._exact(field, words[0])
        number = self._searcher.doc_freq(field, words[0])
        counts = {s: self._searcher.doc_freq("stems", s) for s in stems.find_possible_stems(term.typed)}
        found = [stem for stem, count in counts.items() if count]
        if is_wanted:
            self._most = min(self._most, number + (sum(counts.values()) if term.typed else 0))
        if not term.typed or not found:
            return exact
        should = tantivy.Occur.Should
        return tantivy.Query.boolean_query(
            [(should, tantivy.Query.boost_query(exact, _EXACT)), (should, self._set("stems", found))]
        )

    def _expand(self, field: str, words: list[Any]) -> list[Any]:
        """Return the most frequent words that begin with the last one; one too many if there are more."""
        rows = self._searcher.terms_with_prefix(field, words[-1], limit=_get_limit(words) + 1)
        return [word for word, _ in rows]

    def _prefix(self, field: str, words: list[Any], found: list[Any]) -> Any:
        if len(words) == 1 or not found:
            return self._set(field, found)
        should = tantivy.Occur.Should
        phrases = [tantivy.Query.phrase_query(self._schema, field, [*words[:-1], word]) for word in found]
        return tantivy.Query.boolean_query([(should, phrase) for phrase in phrases])


def _get_limit(words: Sequence[str]) -> int:
    return EXPANSIONS if len(words) == 1 else PHRASE_EXPANSIONS


def _bounds(wanted: SearchRequest) -> tuple[int | None, int | None]:
    """Return the first and last time of the entries that remain."""
    low, high = wanted.since, wanted.until
    if wanted.by_relevance:
        return low, high
    if wanted.after is not None and wanted.newest_first:
        high = wanted.after[0] if high is None else min(high, wanted.after[0])
    elif wanted.after is not None:
        low = wanted.after[0] if low is None else max(low, wanted.after[0])
    return low, high
