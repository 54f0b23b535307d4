"""Entries: the collection ``entries``. Every query contains ``feed_id``, the shard key."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError

from app.errors import ConflictError
from app.mappers.feeds import entry_bodies
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.outbox_rows import add_entries_to_outbox, is_foreign
from app.mappers.mongo.store import BATCH, Doc, Session
from app.models.feeds.chain import Chain, Hop
from app.models.feeds.parsed import Enclosure, FileRole, Replies
from app.models.reading.entry import Entry, EntryChange, EntryKey, NewEntry
from app.models.reading.full_text import FullText
from app.models.sharing.sharing import Origin, Share
from app.runtime import identity_map

_ROW = {
    name: 1
    for name in (
        *("feed_id", "seq", "at", "arrived", "title", "published", "url", "author", "excerpt", "image"),
        *("of", "of_feed"),
    )
}
_PACKED = (
    "id",
    "categories",
    "enclosures",
    "of",
    "lost",
    "remote",
    "replies",
    "full",
    *entry_bodies.Html._fields,
)
_PLAIN = tuple(f.name for f in dataclasses.fields(Entry) if f.name not in _PACKED)
_OF = {"of": 1, "of_feed": 1}
_LENGTH = {"feed_id": 1, "length": 1, **_OF}
_HTML = {"feed_id": 1, "body": 1, "content": 1, "summary": 1, "raw": 1}
_CHANGE = tuple(f.name for f in dataclasses.fields(EntryChange))
_OUTLINE = {"_id": 0, "seq": 1, "guid_hash": 1, "at": 1, "url": 1, "title": 1}
_LINK = {"seq": 1, "guid_hash": 1, "url": 1, "title": 1, "published": 1}
#: The fields that a reader sees.
_SAYS = ("title", "url", "author", "image", "body", "enclosures", "remote")
_SAID = dict.fromkeys(("guid_hash", *_SAYS), 1)
#: Texts that are measured at once.
MEASURED = 200
#: Fields that new documents omit if they are empty.
_OPTIONAL = ("updated", "url", "author", "excerpt", "image")


@dataclasses.dataclass(frozen=True, slots=True)
class NumberedEntry:
    """A new entry with its feed and its number in the feed."""

    feed_id: int
    seq: int
    entry: NewEntry


@dataclasses.dataclass(frozen=True, slots=True)
class StoredEntry:
    """The fields of a stored entry that numbering needs."""

    id: int
    seq: int
    guid_hash: bytes
    at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class EntryOutline:
    """The fields that identify the same entry in another feed."""

    seq: int
    guid_hash: bytes
    at: dt.datetime
    url: str | None
    title: str


class EntryLink(NamedTuple):
    """The fields by which an entry of an archive is found in its feed."""

    id: int
    seq: int
    guid_hash: bytes
    url: str
    title: str = ""
    published: dt.datetime | None = None


class UniqueIndex(enum.StrEnum):
    """The unique index that refused an entry."""

    ID = "_id"
    PLACE = "seq"
    GUID = "guid_hash"


class EntryMapper:
    """Document ↔ :class:`Entry`: writing and single reads; for streams see ``EntryKeyMapper``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._entries: Collection[Doc] = database["entries"]
        #: For the current feed of a post, and its stars while it is removed.
        self._shares: Collection[Doc] = database["shares"]

    @translate_errors
    def add(self, numbered: Sequence[NumberedEntry]) -> dict[int, UniqueIndex]:
        """Insert entries of many feeds with few statements.

        Returns:
            Position in ``numbered`` → the unique index that refused it, for entries that were not inserted.
        """
        first = ids.reserve_ids(len(numbered))
        docs = [_doc(n, first + i) for i, n in enumerate(numbered)]
        places = list(range(len(docs)))
        refused: dict[int, UniqueIndex] = {}
        while docs:
            failed = self._insert(docs)
            again = [i for i, why in failed.items() if why is UniqueIndex.ID]
            refused.update({places[i]: why for i, why in failed.items() if why is not UniqueIndex.ID})
            fresh = ids.reserve_ids(len(again)) if again else 0
            docs = [{**docs[i], "_id": fresh + n} for n, i in enumerate(again)]
            places = [places[i] for i in again]
        return refused

    def _insert(self, docs: Sequence[Doc]) -> dict[int, UniqueIndex]:
        try:
            self._entries.insert_many(docs, ordered=False)
        except BulkWriteError as e:
            errors = e.details["writeErrors"]
            if any(error["code"] != 11000 for error in errors) or e.details.get("writeConcernErrors"):
                raise
            return {error["index"]: _taken(error["keyPattern"]) for error in errors}
        return {}

    @translate_errors
    def add_in_transaction(self, numbered: Sequence[NumberedEntry], session: Session) -> None:
        """Insert entries inside a transaction.

        Raises:
            ConflictError: a number, guid or id was taken meanwhile; the transaction has ended.
        """
        if not numbered:
            return
        first = ids.reserve_ids(len(numbered))
        try:
            self._entries.insert_many([_doc(n, first + i) for i, n in enumerate(numbered)], session=session)
        except BulkWriteError as e:
            if any(error["code"] != 11000 for error in e.details["writeErrors"]):
                raise
            raise ConflictError(feed_id=numbered[0].feed_id) from e

    @translate_errors
    def add_share(
        self,
        numbered: NumberedEntry,
        entry_id: int,
        origin: Origin,
        session: Session,
        *,
        stars: int = 0,
        revised: dt.datetime | None = None,
    ) -> None:
        """Insert the entry of a share, with a given id, inside a transaction.

        Args:
            stars: the stars it had before, when it is restored.
            revised: the time of a restore, since the id only contains the time of the first share.

        Raises:
            ConflictError: the number or id was taken meanwhile; the transaction has ended.
        """
        doc = {**_doc(numbered, entry_id), "of": Int64(origin.entry_id), "of_feed": Int64(origin.feed_id)}
        if stars:
            doc["stars"] = stars
        if revised:
            doc["revised"] = revised
        try:
            self._entries.insert_one(doc, session=session)
        except DuplicateKeyError as e:
            raise ConflictError(entry_id=entry_id) from e

    @translate_errors
    def update_note(
        self,
        feed_id: int,
        entry_id: int,
        html: str,
        *,
        excerpt: str | None,
        now: dt.datetime,
        session: Session,
    ) -> None:
        """Update the note in the entry of a share; ``excerpt`` None leaves the excerpt as it is."""
        length = entry_bodies.count_characters(html, "")
        changes: Doc = {"body": entry_bodies.pack(html, "", b""), "length": length, "revised": now}
        if excerpt is not None:
            changes["excerpt"] = excerpt
        update = {"$set": changes, "$inc": {"revision": 1}}
        self._entries.update_one({"feed_id": feed_id, "_id": entry_id}, update, session=session)

    @translate_errors
    def mark_revised(self, shares: Sequence[Share], now: dt.datetime) -> None:
        """Mark the entries of these shares as changed, for apps that sync."""
        query = {
            "_id": {"$in": [s.id for s in shares]},
            "feed_id": {"$in": list({s.feed_id for s in shares})},
        }
        self._entries.update_many(query, {"$set": {"revised": now}})

    @translate_errors
    def remove(self, feed_id: int, entry_id: int, session: Session) -> None:
        """Delete the entry of a removed share; the share keeps the number of its stars."""
        query = {"feed_id": feed_id, "_id": entry_id}
        doc = self._entries.find_one_and_delete(query, projection={"stars": 1}, session=session)
        if stars := (doc or {}).get("stars", 0):
            self._shares.update_one({"_id": entry_id}, {"$set": {"stars": stars}}, session=session)

    @translate_errors
    def find_origins(self, keys: Sequence[EntryKey]) -> dict[int, Origin]:
        """Return the origins of those entries that are shares, by id."""
        wanted, among = [k.id for k in keys], list({k.feed_id for k in keys})

        def _fetch() -> dict[int, Origin]:
            query: Doc = {"_id": {"$in": wanted}, "feed_id": {"$in": among}, "of": {"$exists": True}}
            return {d["_id"]: Origin(d["of"], d["of_feed"]) for d in self._entries.find(query, _OF)}

        key = frozenset(wanted), frozenset(among)
        return dict(identity_map.find_once("entries", "origins", key, _fetch))

    @translate_errors
    def update_bodies(self, changes: Iterable[tuple[int, dt.datetime, EntryChange]]) -> None:
        """Update the bodies of stored entries, unless a later fetch already did.

        Args:
            changes: tuples of feed id, time of the fetch, and change.
        """
        operations = [
            UpdateOne(
                {
                    "feed_id": feed_id,
                    "guid_hash": Binary(change.guid_hash),
                    "revised": {"$not": {"$gt": fetched_at}},
                },
                {"$set": {**_NOTHING, **_body(change), "revised": fetched_at}, "$inc": {"revision": 1}},
            )
            for feed_id, fetched_at, change in changes
        ]
        if operations:
            self._entries.bulk_write(operations, ordered=False)

    @translate_errors
    def find_changes(
        self, feed_id: int, new: Sequence[NewEntry], fetched_at: dt.datetime
    ) -> list[EntryChange]:
        """Return the changes of those entries that are stored with a different content.

        Args:
            fetched_at: time of the fetch; entries stored later are left out. Different dates and categories
                don't count as changes, as in :func:`app.feeds.entry_hashes.hash_content`.
        """
        query = {
            "feed_id": feed_id,
            "guid_hash": {"$in": [Binary(entry.guid_hash) for entry in new]},
            "arrived": {"$lte": fetched_at},
        }
        stored = {bytes(d["guid_hash"]): _said(d) for d in self._entries.find(query, _SAID)}
        return [
            EntryChange(**{name: getattr(entry, name) for name in _CHANGE})
            for entry in new
            if entry.guid_hash in stored and _said(_body(entry)) != stored[entry.guid_hash]
        ]

    @translate_errors
    def update_clean_body(self, entry: Entry, old_version: int) -> None:
        """Store an entry's HTML as cleaned by a newer sanitizer, unless the entry changed meanwhile.

        Args:
            entry: the entry with its new HTML.
            old_version: ``cleaned_by`` of the stored entry.
        """
        body = entry_bodies.pack(entry.content, entry.summary, entry.raw)
        self._entries.update_one(
            {
                "feed_id": entry.feed_id,
                "_id": entry.id,
                "revision": entry.revision,
                "cleaned_by": old_version or {"$in": [0, None]},
            },
            {
                "$set": {
                    "body": body,
                    "length": entry_bodies.count_characters(entry.content, entry.summary),
                    "excerpt": entry.excerpt,
                    "cleaned_by": entry.cleaned_by,
                }
            },
        )

    @translate_errors
    def store_full(
        self, entry: Entry, full: FullText, *, excerpt: str = "", session: Session | None = None
    ) -> bool:
        """Store the text of an entry's page; return False if the entry changed meanwhile.

        Args:
            excerpt: for lists, in the place of the feed's; empty: the feed's stays.
        """
        same = {"feed_id": entry.feed_id, "_id": entry.id, "revision": entry.revision}
        change: Doc = {"full": _full_doc(full), **({"excerpt": excerpt} if excerpt else {})}
        return bool(self._entries.update_one(same, {"$set": change}, session=session).matched_count)

    @translate_errors
    def store_page_text(
        self, entry: Entry, change: EntryChange, full: FullText | None, now: dt.datetime, session: Session
    ) -> bool:
        """Store what a saved page says as the entry's own, unless the entry changed meanwhile.

        Args:
            full: when the page was fetched, with its text if that isn't the entry's own; None: the person has
                brought the text along.
        """
        same = {"feed_id": entry.feed_id, "_id": entry.id, "revision": entry.revision}
        update: Doc = {"$set": {**_body(change), "revised": now}, "$inc": {"revision": 1}}
        if full is None:
            update["$set"]["brought"] = True
        else:
            update["$set"]["full"] = _full_doc(full)
            update["$unset"] = {"brought": ""}
        return bool(self._entries.update_one(same, update, session=session).matched_count)

    @translate_errors
    def store_page_title(
        self, entry: Entry, title: str, full: FullText, now: dt.datetime, session: Session
    ) -> bool:
        """Store the title of a saved page and the failure of its text, unless the entry changed meanwhile."""
        same = {"feed_id": entry.feed_id, "_id": entry.id, "revision": entry.revision}
        change = {"title": title, "revised": now, "full": {"at": full.at, "error": full.error}}
        update = {"$set": change, "$inc": {"revision": 1}}
        return bool(self._entries.update_one(same, update, session=session).matched_count)

    @translate_errors
    def find_above(self, feed_id: int, seq: int, session: Session | None = None) -> list[StoredEntry]:
        """Return entries with numbers above ``seq``, ascending."""
        found = self._entries.find(
            {"feed_id": feed_id, "seq": {"$gt": seq}},
            {"seq": 1, "guid_hash": 1, "at": 1},
            session=session,
        ).sort("seq")
        return [StoredEntry(d["_id"], d["seq"], bytes(d["guid_hash"]), d["at"]) for d in found]

    @translate_errors
    def find_known_guids(
        self, feed_id: int, guids: Sequence[bytes], session: Session | None = None
    ) -> set[bytes]:
        """Return which of these guids are stored."""
        query = {"feed_id": feed_id, "guid_hash": {"$in": [Binary(g) for g in guids]}}
        found = self._entries.find(query, {"_id": 0, "feed_id": 1, "guid_hash": 1}, session=session)
        return {bytes(d["guid_hash"]) for d in found}

    @translate_errors
    def change_seq(self, feed_id: int, stored: StoredEntry, seq: int, session: Session) -> None:
        """Change the number of an entry that no reader has seen yet.

        Raises:
            ConflictError: the number was taken meanwhile, or the entry was moved.
        """
        try:
            result = self._entries.update_one(
                {"feed_id": feed_id, "_id": stored.id, "seq": stored.seq},
                {"$set": {"seq": seq}},
                session=session,
            )
        except DuplicateKeyError as e:
            raise ConflictError(feed_id=feed_id) from e
        if not result.matched_count:
            raise ConflictError(feed_id=feed_id)

    @translate_errors
    def mark_revealed(self, feed_id: int, ids: Sequence[int], now: dt.datetime, session: Session) -> None:
        """Mark entries that become visible as changed: sync apps go by ids, and these are older."""
        query = {"feed_id": feed_id, "_id": {"$in": list(ids)}}
        self._entries.update_many(query, {"$set": {"revised": now}}, session=session)

    @translate_errors
    def find(self, entry_id: int, feed_ids: Sequence[int]) -> Entry | None:
        """Return an entry if it belongs to one of these feeds."""
        doc = self._entries.find_one({"_id": entry_id, "feed_id": {"$in": list(feed_ids)}})
        return parse_entry(doc) if doc else None

    @translate_errors
    def find_feed(self, entry_id: int, feed_ids: Sequence[int]) -> int | None:
        """Return which of these feeds an entry is in; None: in none of them, or shared from elsewhere."""
        query = {"_id": entry_id, "feed_id": {"$in": list(feed_ids)}, "of": {"$in": [None, entry_id]}}
        doc = self._entries.find_one(query, {"feed_id": 1})
        return doc["feed_id"] if doc else None

    @translate_errors
    def find_remote_chain(self, origin: Origin) -> Chain | None:
        """Return the chain of an entry on other servers; None: there is none, or the entry is gone."""
        doc = self._entries.find_one({"_id": origin.entry_id, "feed_id": origin.feed_id}, {"remote": 1})
        return _remote(doc.get("remote")) if doc else None

    @translate_errors
    def find_rows(self, keys: Sequence[EntryKey]) -> dict[int, Entry]:
        """Return the fields of these entries that lists show, without bodies, by id."""

        def _fetch(missing: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Entry]:
            entry_ids, feed_ids = zip(*missing, strict=True)
            query = {"_id": {"$in": entry_ids}, "feed_id": {"$in": list(set(feed_ids))}}
            found = self._entries.find(query, _ROW, batch_size=BATCH)
            return {(d["_id"], d["feed_id"]): parse_entry(d) for d in found}

        found = identity_map.find_each("entries", "row", [(k.id, k.feed_id) for k in keys], _fetch)
        return {entry_id: entry for (entry_id, _), entry in found.items()}

    @translate_errors
    def find_lengths(self, keys: Sequence[EntryKey]) -> dict[int, int]:
        """Return the lengths of these entries' texts, by id; of a share, that of the shared entry.

        Entries from before lengths were stored get theirs now.
        """
        docs = {d["_id"]: d for d in self._find_by_keys(keys, _LENGTH)}
        roots = {
            doc["of"]: EntryKey(doc["of"], doc["of_feed"], 0, 0)
            for doc in docs.values()
            if "of" in doc and doc["of"] not in docs
        }
        docs |= {d["_id"]: d for d in self._find_by_keys(list(roots.values()), _LENGTH)}
        self._add_lengths([doc for doc in docs.values() if "length" not in doc])
        sources = {key.id: docs[key.id].get("of", key.id) for key in keys if key.id in docs}
        return {i: docs[source]["length"] for i, source in sources.items() if source in docs}

    def _find_by_keys(self, keys: Sequence[EntryKey], shown: Doc) -> Iterator[Doc]:
        query = {"_id": {"$in": [k.id for k in keys]}, "feed_id": {"$in": list({k.feed_id for k in keys})}}
        return iter(self._entries.find(query, shown, batch_size=BATCH)) if keys else iter(())

    def _add_lengths(self, docs: Sequence[Doc]) -> None:
        """Measure these entries' texts, and store the lengths."""
        by_id = {doc["_id"]: doc for doc in docs}
        for start in range(0, len(docs), MEASURED):
            part = docs[start : start + MEASURED]
            keys = [EntryKey(doc["_id"], doc["feed_id"], 0, 0) for doc in part]
            operations = []
            for doc in self._find_by_keys(keys, _HTML):
                html = entry_bodies.read_html(doc)
                length = entry_bodies.count_characters(html.content, html.summary)
                by_id[doc["_id"]]["length"] = length
                same = {"feed_id": doc["feed_id"], "_id": doc["_id"], "length": None}
                operations.append(UpdateOne(same, {"$set": {"length": length}}))
            if operations:
                self._entries.bulk_write(operations, ordered=False)
        for doc in docs:
            doc.setdefault("length", 0)  # deleted meanwhile

    @translate_errors
    def find_range(self, feed_id: int, after: int, upto: int, limit: int) -> list[Entry]:
        """Return the first entries with numbers above ``after`` up to ``upto``, ascending, with bodies."""
        query = {"feed_id": feed_id, "seq": {"$gt": after, "$lte": upto}}
        return [parse_entry(d) for d in self._entries.find(query).sort("seq").limit(limit)]

    @translate_errors
    def find_ranges(self, ranges: Sequence[tuple[int, int, int]]) -> list[Entry]:
        """Return the entries of several feeds by one statement, with bodies, ascending by number per feed.

        Args:
            ranges: tuples of feed id, number before the first one, and last number.
        """
        if not ranges:
            return []
        parts = [{"feed_id": feed, "seq": {"$gt": after, "$lte": upto}} for feed, after, upto in ranges]
        most = sum(upto - after for _, after, upto in ranges) + 1
        found = self._entries.find({"$or": parts}, batch_size=most).hint("seq")
        return sorted(map(parse_entry, found), key=lambda entry: entry.seq)

    @translate_errors
    def find_revised(self, since: Mapping[int, dt.datetime]) -> list[tuple[int, int]]:
        """Return feed and number of entries whose texts changed since a time of their feed, ascending.

        So do texts of pages that were found since then; for readers, these entries haven't changed.
        """
        if not since:
            return []
        earliest, feeds = min(since.values()), {"$in": list(since)}
        revised = self._entries.find(
            {"feed_id": feeds, "revised": {"$gte": earliest}},
            {"_id": 0, "feed_id": 1, "seq": 1, "revised": 1},
            hint="revised",
        )
        found = [(d["feed_id"], d["seq"], d["revised"]) for d in revised]
        texts = self._entries.find(
            {"feed_id": feeds, "full.at": {"$gte": earliest}, "full.cleaned_by": {"$exists": True}},
            {"_id": 0, "feed_id": 1, "seq": 1, "full.at": 1},
            hint="full_text",
        )
        found += [(d["feed_id"], d["seq"], d["full"]["at"]) for d in texts]
        return sorted({(feed_id, seq) for feed_id, seq, at in found if at >= since[feed_id]})

    @translate_errors
    def find_kept_below(self, feed_id: int, seq: int) -> list[int]:
        """Return the ids of entries with numbers below ``seq``, which retention keeps."""
        query = {"feed_id": feed_id, "seq": {"$lt": seq}}
        return [d["_id"] for d in self._entries.find(query, {"_id": 1})]

    @translate_errors
    def find_with_bodies(self, keys: Sequence[EntryKey]) -> list[Entry]:
        """Return these entries with their bodies, in no order."""
        query = {"_id": {"$in": [k.id for k in keys]}, "feed_id": {"$in": list({k.feed_id for k in keys})}}
        return [parse_entry(d) for d in self._entries.find(query)]

    @translate_errors
    def find_revisions(self, keys: Sequence[EntryKey]) -> dict[int, tuple[int, int]]:
        """Return the revision and the sanitizer version of these entries, by id."""
        query = {"_id": {"$in": [k.id for k in keys]}, "feed_id": {"$in": list({k.feed_id for k in keys})}}
        found = self._entries.find(query, {"revision": 1, "cleaned_by": 1})
        return {d["_id"]: (d.get("revision", 1), d.get("cleaned_by", 0)) for d in found}

    @translate_errors
    def find_times(self, feed_id: int, first_seq: int, last_seq: int) -> list[dt.datetime]:
        """Return the sort times of the entries ``first_seq`` … ``last_seq``, ascending by number."""
        query = {"feed_id": feed_id, "seq": {"$gte": first_seq, "$lte": last_seq}}
        return [d["at"] for d in self._entries.find(query, {"_id": 0, "at": 1}).sort("seq")]

    @translate_errors
    def find_outlines(self, feed_id: int, first_seq: int, last_seq: int) -> list[EntryOutline]:
        """Return the identifying fields of the entries ``first_seq`` … ``last_seq``, ascending by number."""
        query = {"feed_id": feed_id, "seq": {"$gte": first_seq, "$lte": last_seq}}
        found = self._entries.find(query, _OUTLINE).sort("seq")
        return [
            EntryOutline(d["seq"], bytes(d["guid_hash"]), d["at"], d.get("url"), d.get("title", ""))
            for d in found
        ]

    @translate_errors
    def find_last_seq(self, feed_id: int, arrived_before: dt.datetime) -> int:
        """Return the number of a feed's last entry that arrived before a time; 0: none."""
        # Ids are microseconds.
        border = {"$lt": int(arrived_before.timestamp()) * 1_000_000}
        query = {"feed_id": feed_id, "_id": border}
        found = self._entries.find(query, {"_id": 0, "seq": 1}).hint("arrival").sort("_id", -1).limit(1)
        return next((int(d["seq"]) for d in found), 0)

    @translate_errors
    def find_without_full(self, feed_id: int, limit: int, since: dt.datetime | None = None) -> list[int]:
        """Return the ids of entries whose pages weren't fetched, newest first.

        Args:
            limit: of the feed's newest entries, only so many are looked at.
            since: entries that arrived earlier are left out.
        """
        shown = {"url": 1, "full.at": 1, "arrived": 1}
        found = self._entries.find({"feed_id": feed_id}, shown).sort("seq", -1).limit(limit)
        bare = (d for d in found if d.get("url") and not d.get("full"))
        return [d["_id"] for d in bare if since is None or d["arrived"] >= since]

    @translate_errors
    def find_unfetched(self, ids: Sequence[int], feed_ids: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return feed and address by id for the entries among these whose pages weren't fetched."""
        query = {"_id": {"$in": list(ids)}, "feed_id": {"$in": list(feed_ids)}, "full": None}
        found = self._entries.find(query, {"feed_id": 1, "url": 1}, batch_size=BATCH)
        return {doc["_id"]: (doc["feed_id"], doc.get("url") or "") for doc in found}

    @translate_errors
    def find_links(self, feed_id: int) -> list[EntryLink]:
        """Return the identifying fields of all entries of a feed, ascending by number."""
        found = self._entries.find({"feed_id": feed_id}, _LINK, batch_size=BATCH).sort("seq")
        return [_read_link(doc) for doc in found]

    @translate_errors
    def find_newest_links(self, feed_id: int, limit: int) -> list[EntryLink]:
        """Return the identifying fields of the newest entries of a feed, the newest first."""
        found = self._entries.find({"feed_id": feed_id}, _LINK).sort("seq", -1).limit(limit)
        return [_read_link(doc) for doc in found]

    @translate_errors
    def find_links_by_seq(self, feed_id: int, seqs: Sequence[int]) -> list[EntryLink]:
        """Return the identifying fields of those of these entries that exist, ascending by number."""
        found = self._entries.find({"feed_id": feed_id, "seq": {"$in": list(seqs)}}, _LINK, batch_size=BATCH)
        return [_read_link(doc) for doc in found.sort("seq")]

    @translate_errors
    def change_star_count(self, feed_id: int, entry_id: int, delta: int, session: Session) -> bool:
        """Change an entry's count of stars, which retention uses; return False if the entry is gone."""
        query, count = {"feed_id": feed_id, "_id": entry_id}, {"$inc": {"stars": delta}}
        if is_foreign(self._entries.database, session):
            add_entries_to_outbox(self._entries.database, [(feed_id, entry_id)], session)
            return self._entries.find_one(query, {"_id": 1}) is not None
        if self._entries.update_one(query, count, session=session).matched_count:
            return True
        if delta < 0:
            self._uncount(entry_id, delta, session)
        return False

    @translate_errors
    def change_star_counts(self, keys: Sequence[EntryKey], delta: int, session: Session) -> bool:
        """Change the counts of stars of many entries; return False if one of them is gone or has moved."""
        query = {"feed_id": {"$in": list({k.feed_id for k in keys})}, "_id": {"$in": [k.id for k in keys]}}
        count = {"$inc": {"stars": delta}}
        if is_foreign(self._entries.database, session):
            add_entries_to_outbox(self._entries.database, [(k.feed_id, k.id) for k in keys], session)
            return self._entries.count_documents(query) == len(keys)
        return self._entries.update_many(query, count, session=session).matched_count == len(keys)

    def _uncount(self, entry_id: int, delta: int, session: Session) -> None:
        """Reduce the stars of a post that moved to another feed, or was removed and may be restored."""
        share = self._shares.find_one({"_id": entry_id}, {"feed_id": 1, "live": 1}, session=session) or {}
        if share.get("live"):
            query = {"feed_id": share["feed_id"], "_id": entry_id}
            self._entries.update_one(query, {"$inc": {"stars": delta}}, session=session)
        elif share:
            self._shares.update_one({"_id": entry_id}, {"$inc": {"stars": delta}}, session=session)

    @translate_errors
    def set_star_count(self, entry_id: int, count: int, session: Session) -> None:
        """Set an entry's count of stars after a recount."""
        change = {"$set": {"stars": count}}
        if not self._entries.update_one({"_id": entry_id}, change, session=session).matched_count:
            # A post that was removed and may be restored.
            removed = {"_id": entry_id, "live": {"$ne": True}}
            self._shares.update_one(removed, change, session=session)

    @translate_errors
    def find_sizes(self, feed_id: int, first_seq: int) -> Iterator[tuple[int, int]]:
        """Yield number and stored size of a feed's entries from ``first_seq`` on, newest first, in bytes."""
        pipeline: list[Doc] = [
            {"$match": {"feed_id": feed_id, "seq": {"$gte": first_seq}}},
            {"$sort": {"seq": -1}},
            {"$project": {"_id": 0, "seq": 1, "size": {"$bsonSize": "$$ROOT"}}},
        ]
        with self._entries.aggregate(pipeline, hint="seq", batchSize=BATCH) as found:
            for doc in found:
                yield doc["seq"], doc["size"]

    @translate_errors
    def delete_below(self, feed_id: int, seq: int, spared: Sequence[int] = ()) -> int:
        """Delete the unstarred entries with numbers below ``seq`` except ``spared``; return how many."""
        others: Doc = {"_id": {"$nin": list(spared)}} if spared else {}
        query = {"feed_id": feed_id, "seq": {"$lt": seq}, "stars": {"$not": {"$gt": 0}}, **others}
        return self._entries.delete_many(query).deleted_count


def _read_link(doc: Doc) -> EntryLink:
    return EntryLink(
        doc["_id"],
        doc["seq"],
        bytes(doc["guid_hash"]),
        doc.get("url") or "",
        doc.get("title") or "",
        doc.get("published"),
    )


def _taken(pattern: Doc) -> UniqueIndex:
    return next(why for why in UniqueIndex if why in pattern)


#: The defaults of fields that a body may omit; a change overwrites all of them.
_NOTHING: Doc = {"updated": None, "url": None, "author": "", "excerpt": "", "image": None, "body": None}
# The page of an entry that has changed says something else, too.
_NOTHING |= {"categories": [], "enclosures": [], "remote": None, "replies": None, "full": None}


def _body(entry: NewEntry | EntryChange) -> Doc:
    """Return the fields that change with an entry's text, without empty ones."""
    doc: Doc = {"title": entry.title, "cleaned_by": entry.cleaned_by}
    doc["length"] = entry_bodies.count_characters(entry.content, entry.summary)
    for name in _OPTIONAL:
        if value := getattr(entry, name):
            doc[name] = value
    if body := entry_bodies.pack(entry.content, entry.summary, entry.raw):
        doc["body"] = body
    if entry.categories:
        doc["categories"] = entry.categories
    if entry.enclosures:
        doc["enclosures"] = [_file(enclosure) for enclosure in entry.enclosures]
    if entry.remote:
        doc["remote"] = _remote_doc(entry.remote)
    if entry.replies:
        doc["replies"] = {k: v for k, v in entry.replies._asdict().items() if v is not None}
    return doc


def _file(file: Enclosure) -> Doc:
    doc: Doc = {"url": file.url, "type": file.type, "length": file.length}
    role = file.role.value if file.role else None
    return doc | {k: v for k, v in (("text", file.text), ("duration", file.duration), ("role", role)) if v}


def _read_file(doc: Doc) -> Enclosure:
    return Enclosure(**doc | {"role": FileRole(doc["role"])}) if "role" in doc else Enclosure(**doc)


def _said(doc: Doc) -> list[Any]:
    return [doc.get(name) or None for name in _SAYS]


def _remote_doc(chain: Chain) -> Doc:
    hops = [{k: v for k, v in hop._asdict().items() if v} for hop in chain.hops]
    return {**chain._asdict(), "hops": hops}


def _remote(doc: Doc | None) -> Chain | None:
    return Chain(tuple(Hop(**hop) for hop in doc["hops"]), doc["url"], doc["title"]) if doc else None


def _full(doc: Doc | None) -> FullText | None:
    if not doc:
        return None
    html = entry_bodies.unpack(doc.get("body"))
    return FullText(
        doc["at"], html.content, html.raw, doc.get("cleaned_by", 0), doc.get("error"), doc.get("title", "")
    )


def _full_doc(full: FullText) -> Doc:
    doc: Doc = {"at": full.at}
    if body := entry_bodies.pack(full.html, "", full.raw):
        doc |= {"body": body, "cleaned_by": full.cleaned_by}
    return doc | {name: value for name, value in (("error", full.error), ("title", full.title)) if value}


def _doc(numbered: NumberedEntry, entry_id: int) -> Doc:
    entry = numbered.entry
    doc: Doc = {
        "_id": entry_id,
        "feed_id": numbered.feed_id,
        "seq": numbered.seq,
        "guid_hash": entry.guid_hash,
        "at": entry.at,
        "arrived": entry.arrived,
        "revision": 1,
        **_body(entry),
    }
    if entry.published:
        doc["published"] = entry.published
    if entry.brought:
        doc["brought"] = True
    return doc


def parse_entry(doc: Doc) -> Entry:
    plain: dict[str, Any] = {name: doc[name] for name in _PLAIN if name in doc}
    return Entry(
        id=doc["_id"],
        categories=tuple(doc.get("categories", ())),
        enclosures=tuple(map(_read_file, doc.get("enclosures", ()))),
        of=Origin(doc["of"], doc["of_feed"]) if "of" in doc else None,
        remote=_remote(doc.get("remote")),
        replies=Replies(**doc["replies"]) if doc.get("replies") else None,
        full=_full(doc.get("full")),
        **entry_bodies.read_html(doc)._asdict(),
        **plain,
    )
