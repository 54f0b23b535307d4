"""The search index of earlier versions, for reading: the collection ``searchables``.

One document per entry with its words:

    {_id: entry, feed_id, at, seq, words: ["", "sea", "t:sea", …], text: compressed}

Every word is a key of the index (words, feed_id, at, _id, seq). So a word in a time window of any number of
feeds is read in one pass, without documents. Every entry has the empty word; ``t:`` and ``a:`` precede words
of the title and the author. ``text`` holds the words in their order, for phrases.

A text index of MongoDB has no order by time. So a page of a common word would read and sort every entry with
it, of all feeds on the server (``docs/performance.md``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from isal import isal_zlib
from pymongo.collection import Collection as Table
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.mappers.reading.entry_keys import TimeRange, to_millis
from app.models.reading.entry import EntryKey
from app.models.reading.search import Term, TermField

INDEX = "words"
#: Prefixes of words in a certain field.
MARKS = {TermField.ANY: "", TermField.TITLE: "t:", TermField.AUTHOR: "a:"}
_KEY = {"_id": 1, "feed_id": 1, "seq": 1, "at": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class IndexScan:
    """A pass over the index.

    Attributes:
        word: the word that is scanned, with its prefix.
        others, without: words that an entry must also have, and must not have.
        phrases, no_phrases: terms of several words that an entry must have, and must not have.
    """

    word: str
    feed_ids: Sequence[int]
    within: TimeRange
    others: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    phrases: tuple[Term, ...] = ()
    no_phrases: tuple[Term, ...] = ()

    @property
    def index_query(self) -> Doc:
        """The query that the index alone can answer."""
        return {"words": self.word, "feed_id": {"$in": list(self.feed_ids)}, **self.within.to_query()}

    @property
    def full_query(self) -> Doc:
        """The query that needs the documents."""
        words: Doc = {"$all": [self.word, *self.others]}
        if self.without:
            words["$nin"] = list(self.without)
        return {**self.index_query, "words": words}

    @property
    def is_plain(self) -> bool:
        """Whether the index alone can answer the scan."""
        return not (self.others or self.without or self.phrases or self.no_phrases)

    def is_match(self, doc: Doc) -> bool:
        """Return whether a document matches the scan's phrases."""
        if not (self.phrases or self.no_phrases):
            return True
        text = isal_zlib.decompress(doc["text"]).decode()
        return all(_stands(term, text) for term in self.phrases) and not any(
            _stands(term, text) for term in self.no_phrases
        )


class SearchIndexMapper:
    """Documents of the old index → :class:`EntryKey`. Every query contains ``feed_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._table: Table[Doc] = database["searchables"]

    @translate_errors
    def count_matches(self, scan: IndexScan, limit: int) -> int:
        """Return how many entries have the scan's word, counted up to ``limit``; from the index alone."""
        return self._table.count_documents(scan.index_query, limit=limit, hint=INDEX)

    @translate_errors
    def find(self, scan: IndexScan, limit: int) -> tuple[list[EntryKey], int]:
        """Check up to ``limit`` entries with the scan's word, and return the keys of those that match the
        scan.

        Returns:
            The keys, in no order, and the number of checked entries: if that is ``limit``, there may be more.
        """
        docs = list(self._table.find(scan.index_query, _KEY, limit=limit, batch_size=limit).hint(INDEX))
        if scan.is_plain or not docs:
            return [_key(d) for d in docs], len(docs)
        return self.find_among([d["_id"] for d in docs], scan), len(docs)

    @translate_errors
    def find_among(self, ids: Sequence[int], scan: IndexScan) -> list[EntryKey]:
        """Return the keys of those of these entries that match the scan."""
        shown = {**_KEY, "text": 1} if scan.phrases or scan.no_phrases else _KEY
        docs = self._table.find({**scan.full_query, "_id": {"$in": list(ids)}}, shown)
        return [_key(d) for d in docs.hint("_id_") if scan.is_match(d)]


def _stands(term: Term, text: str) -> bool:
    phrase = f" {' '.join(term.words)} "
    if term.where is TermField.ANY:
        return phrase in text
    return phrase in text.split("\n", 2)[0 if term.where is TermField.TITLE else 1]


def _key(doc: Doc) -> EntryKey:
    return EntryKey(doc["_id"], doc["feed_id"], doc["seq"], to_millis(doc["at"]))
