"""The words by which feeds are found: the collection ``feedwords``, one document per feed.

    {_id: feed, t, h, f, a, e, words, starts, score, headlines_at, folders_at}

``t`` … ``e`` are the words of its title, host, folders, description and headlines, joined by spaces.
``words`` holds them all, ``starts`` the beginnings of the first three. It is derived from other collections
and may be dropped at any time.
"""

from __future__ import annotations

import re
from collections.abc import Collection as Items
from collections.abc import Mapping, Sequence
from typing import Final

from bson.int64 import Int64
from bson.regex import Regex
from pymongo import DESCENDING, ReplaceOne
from pymongo.collection import Collection

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.feed import FeedKind
from app.models.feeds.feed_search import (
    PREFIX_LONGEST,
    WEAK_PREFIX,
    FeedWords,
    FindableFeed,
    make_prefixes,
)
from app.models.media.icon import build_icon_path

#: The names of the parts in a document, and in :class:`FeedWords`.
_PARTS: Final = {"t": "title", "h": "host", "f": "folders", "a": "about", "e": "headlines"}
_SHOWN: Final = {"words": 0, "starts": 0}
#: Feeds that anyone may find, as far as their documents tell: nobody's own copy, none that its publisher
#: wants in no directory. Their addresses may still be secrets.
_OPEN: Final[Doc] = {
    "kind": FeedKind.WEB.value,
    "private_to": None,
    "owner": None,
    "unlisted": {"$ne": True},
    "merged_into": None,
}
_FEED: Final = dict.fromkeys(
    (
        *("url", "url_key", "title", "site_url", "description", "subscribers", "error", "changed_at"),
        *("last_entry_at", "icon_blob", "last_seq", "history", *_OPEN),
    ),
    1,
)


class FeedWordsMapper:
    """Document ↔ :class:`FeedWords`, and what it is made of."""

    def __init__(self, cells: Cells) -> None:
        self._words: Collection[Doc] = cells.home.database["feedwords"]
        self._feeds: Collection[Doc] = cells.home.database["feeds"]
        self._entries: Collection[Doc] = cells.home.database["entries"]
        self._subscriptions = cells.get_table("subscriptions")
        self._folders = cells.get_table("folders")

    @translate_errors
    def find_next_feeds(self, after: int, readers: int, limit: int) -> tuple[list[FindableFeed], int | None]:
        """Return the next feeds that may be found and have so many subscribers, by ascending id.

        The second value is the last id that was looked at; None: there are no more feeds.
        """
        query = _OPEN | {"_id": {"$gt": Int64(after)}, "subscribers": {"$gte": readers}}
        found = [_parse_feed(doc) for doc in self._feeds.find(query, _FEED).sort("_id").limit(limit)]
        return found, found[-1].id if len(found) == limit else None

    @translate_errors
    def find_open_feeds(
        self, feed_ids: Sequence[int], url_keys: Sequence[str] = ()
    ) -> dict[str, FindableFeed]:
        """Return those of these feeds that may be found now with any number of readers, by address key."""
        query = _OPEN | {"$or": [{"_id": {"$in": list(feed_ids)}}, {"url_key": {"$in": list(url_keys)}}]}
        return {doc["url_key"]: _parse_feed(doc) for doc in self._feeds.find(query, _FEED)}

    @translate_errors
    def find_feeds(self, url_keys: Sequence[str]) -> dict[str, FindableFeed]:
        """Return the feeds with these address keys, by key, also those that may not be found."""
        return {
            doc["url_key"]: _parse_feed(doc)
            for doc in self._feeds.find({"url_key": {"$in": list(url_keys)}}, _FEED)
        }

    @translate_errors
    def find_titles(self, feed_id: int, limit: int) -> list[str]:
        """Return the titles of a feed's last entries, the newest first."""
        found = self._entries.find({"feed_id": feed_id}, {"_id": 0, "title": 1})
        return [doc.get("title") or "" for doc in found.sort("seq", DESCENDING).limit(limit)]

    @translate_errors
    def find_headlines(self, last_seqs: Mapping[int, int], limit: int) -> dict[int, list[str]]:
        """Return the headlines of feeds' last entries by one statement, by feed, the newest first.

        Args:
            last_seqs: feed → number of its last entry.
            limit: numbers per feed; the entries of some may be gone.
        """
        ranges = [{"feed_id": f, "seq": {"$gt": last - limit, "$lte": last}} for f, last in last_seqs.items()]
        if not ranges:
            return {}
        fields = {"_id": 0, "feed_id": 1, "seq": 1, "title": 1, "excerpt": 1}
        found: dict[int, list[str]] = {}
        entries = self._entries.find({"$or": ranges}, fields, batch_size=limit * len(ranges) + 1).hint("seq")
        for doc in sorted(entries, key=lambda doc: -doc["seq"]):
            if line := doc.get("title") or doc.get("excerpt"):
                found.setdefault(doc["feed_id"], []).append(line)
        return found

    @translate_errors
    def find_open_readers(self, feed_ids: Sequence[int]) -> dict[int, set[int]]:
        """Return the subscribers of feeds who don't keep them private, by feed."""
        readers: dict[int, set[int]] = {}
        query = {"feed_id": {"$in": list(feed_ids)}, "private": None}

        def _read_cell(subscriptions: Collection[Doc]) -> None:
            # Someone who is being moved is in two cells.
            for doc in subscriptions.find(query, {"_id": 0, "feed_id": 1, "user_id": 1}):
                readers.setdefault(doc["feed_id"], set()).add(doc["user_id"])

        if feed_ids:
            self._subscriptions.read_each(_read_cell)
        return readers

    @translate_errors
    def find_folder_names(self, feed_id: int, limit: int) -> dict[str, set[int]]:
        """Return the names of folders that hold a feed, each with the people who named them.

        Subscriptions that people keep private don't count.

        Args:
            limit: most subscriptions that are read in each store.
        """
        people: dict[str, set[int]] = {}
        query = {"feed_id": feed_id, "private": None, "folder_ids.0": {"$exists": True}}

        def _read_cell(subscriptions: Collection[Doc]) -> None:
            shown = {"_id": 0, "user_id": 1, "folder_ids": 1}
            placed = list(subscriptions.find(query, shown).limit(limit))
            owners = list({doc["user_id"] for doc in placed})
            chosen = list({folder_id for doc in placed for folder_id in doc["folder_ids"]})
            wanted = {"user_id": {"$in": owners}, "_id": {"$in": chosen}}
            folders = subscriptions.database[self._folders.name].find(wanted, {"user_id": 1, "name": 1})
            for doc in folders.hint("_id_") if placed else ():
                people.setdefault(doc["name"], set()).add(doc["user_id"])

        self._subscriptions.read_each(_read_cell)
        return people

    @translate_errors
    def find_by_feeds(self, first: int, last: int) -> dict[int, FeedWords]:
        """Return what is stored of the feeds with these ids or one in between."""
        found = self._words.find({"_id": {"$gte": first, "$lte": last}}, _SHOWN)
        return {doc["_id"]: _parse(doc) for doc in found}

    @translate_errors
    def store_words(self, feeds: Sequence[FeedWords]) -> None:
        """Store the words of feeds, replacing older ones."""
        if feeds:
            rows = [ReplaceOne({"_id": Int64(f.feed_id)}, _build(f), upsert=True) for f in feeds]
            self._words.bulk_write(rows, ordered=False)

    @translate_errors
    def remove_others(self, after: int, last: int | None, kept: Items[int]) -> int:
        """Remove the feeds above ``after``, except these; return how many.

        Args:
            last: the last id that may be removed; None: all above.
        """
        ids: Doc = {"$gt": Int64(after), "$nin": list(kept)}
        if last is not None:
            ids["$lte"] = Int64(last)
        return self._words.delete_many({"_id": ids}).deleted_count

    @translate_errors
    def find_best(self, query: Sequence[str], limit: int) -> list[FeedWords]:
        """Return the feeds of best score whose title, host or folders have the last word of a query.

        The other words may stand anywhere. The last word may be the beginning of a word.
        """
        *whole, last = query
        wanted: Doc = {"starts": last[:PREFIX_LONGEST]}
        # The best hundred of "electronic" may all lack "electronically".
        longer = [_make_start(last)] if len(last) > PREFIX_LONGEST else []
        if whole or longer:
            wanted["words"] = {"$all": [*whole, *longer]}
        found = self._words.find(wanted, _SHOWN).sort("score", DESCENDING).limit(limit)
        return [_parse(doc) for doc in found]

    @translate_errors
    def find_whole(self, query: Sequence[str], limit: int) -> list[FeedWords]:
        """Return the feeds of best score that have all words of a query, whole, anywhere."""
        found = self._words.find({"words": {"$all": list(query)}}, _SHOWN)
        return [_parse(doc) for doc in found.sort("score", DESCENDING).limit(limit)]

    @translate_errors
    def find_longer(self, query: Sequence[str], limit: int) -> list[FeedWords]:
        """Return feeds that have all words of a query anywhere, the last one as the beginning of a word.

        That is so from :data:`WEAK_PREFIX` letters on. Not always those of best score are found.
        """
        *whole, last = query
        if len(last) < WEAK_PREFIX:
            return []
        wanted = {"words": {"$all": [*whole, _make_start(last)]}}
        found = self._words.find(wanted, _SHOWN).limit(limit)
        return [_parse(doc) for doc in found]


def _make_start(text: str) -> Regex[str]:
    """Return a pattern of words that begin with a text."""
    # Not re.compile: its flag for Unicode would make MongoDB read the whole index.
    return Regex("^" + re.escape(text))


def _build(words: FeedWords) -> Doc:
    parts = {name: getattr(words, part) for name, part in _PARTS.items()}
    strong = [*words.title, *words.host, *words.folders]
    return {
        "_id": Int64(words.feed_id),
        **{name: " ".join(part) for name, part in parts.items()},
        "words": sorted({word for part in parts.values() for word in part}),
        "starts": make_prefixes(strong),
        "score": words.score,
        "headlines_at": words.headlines_at,
        "folders_at": words.folders_at,
    }


def _parse(doc: Doc) -> FeedWords:
    return FeedWords(
        feed_id=int(doc["_id"]),
        score=doc["score"],
        headlines_at=doc.get("headlines_at"),
        folders_at=doc.get("folders_at"),
        **{part: tuple(doc[name].split()) for name, part in _PARTS.items()},
    )


def _parse_feed(doc: Doc) -> FindableFeed:
    icon = doc.get("icon_blob")
    return FindableFeed(
        id=int(doc["_id"]),
        url=doc["url"],
        url_key=doc["url_key"],
        title=doc.get("title", ""),
        site_url=doc.get("site_url"),
        about=doc.get("description", ""),
        readers=doc.get("subscribers", 0),
        is_failing=doc.get("error") is not None,
        changed_at=doc.get("changed_at"),
        newest=doc.get("last_entry_at"),
        icon=build_icon_path(icon) if icon else None,
        last_seq=doc.get("last_seq", 0),
        history=doc.get("history"),
        is_open=doc.get("kind") == _OPEN["kind"]
        and not any(doc.get(name) for name in ("private_to", "owner", "unlisted", "merged_into")),
        merged_into=doc.get("merged_into"),
    )
