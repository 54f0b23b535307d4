"""Stories: the collection ``twins``, one document per story or entry that waits for its first copy.

    {_id, keys[], bands[8], text, words, language, members[{entry_id, feed_id, seq, at}], many?, expires}

``_id`` is the id of the first entry; ``text`` holds the signatures of its text and of its first words. Only
the job that updates the search index writes here, so there are no concurrent writes. A document says which
entries are copies; whether they are still there, and where, is read from the entries themselves. So no
deletion of an entry has to change a story.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import DESCENDING, InsertOne, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc
from app.mappers.reading.entry_keys import from_millis, to_millis
from app.models.reading.entry import EntryKey
from app.models.reading.story import (
    CANDIDATES_MAX,
    KEEP,
    LEAD_VALUES,
    VALUES,
    WAIT,
    Fingerprint,
    StoredStory,
    Story,
    TextPrint,
)
from app.runtime import identity_map

#: Stories that an address key or a band has at most, as a rule.
USUAL = 4
_TEXT = struct.Struct(f"<{VALUES + LEAD_VALUES}I")


class TwinMapper:
    """Document ↔ :class:`StoredStory` and :class:`Story`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._twins: Collection[Doc] = database["twins"]
        self._entries_name = "entries"

    # -- for the job that finds copies
    @translate_errors
    def find_recorded(self, entry_ids: Sequence[int]) -> set[int]:
        """Return which of these entries are members of a story, or wait for a copy."""
        wanted = set(entry_ids)
        alone = self._twins.find({"_id": {"$in": list(wanted)}}, {"_id": 1})
        found = {doc["_id"] for doc in alone}
        query = {"many": True, "members.entry_id": {"$in": list(wanted - found)}}
        for doc in self._twins.find(query, {"members.entry_id": 1}).hint("member"):
            found |= {member["entry_id"] for member in doc["members"]} & wanted
        return found

    @translate_errors
    def find_candidates(self, pages: Sequence[int], bands: Sequence[int]) -> list[StoredStory]:
        """Return the stories with one of these address keys or bands, by id.

        Of a key or band that more than :data:`CANDIDATES_MAX` stories have, at least that many newest ones.
        """
        found: dict[int, Doc] = {}
        for field, values in (("keys", pages), ("bands", bands)):
            for doc in self._find_newest(field, [Int64(value) for value in values]):
                found[doc["_id"]] = doc
        return [_stored(found[story_id]) for story_id in sorted(found)]

    def _find_newest(self, field: str, values: Sequence[Int64]) -> Iterator[Doc]:
        if not values:
            return
        # Almost always one command has all: few values are of several stories. Else, the values are parted.
        most = max(CANDIDATES_MAX, USUAL * len(values))
        if len(values) == 1:
            yield from self._twins.find({field: values[0]}).hint(field).sort("_id", DESCENDING).limit(most)
            return
        docs = list(self._twins.find({field: {"$in": values}}, batch_size=BATCH).hint(field).limit(most))
        if len(docs) < most:
            yield from docs
            return
        middle = len(values) // 2
        yield from self._find_newest(field, values[:middle])
        yield from self._find_newest(field, values[middle:])

    @translate_errors
    def write(
        self, alone: Sequence[Fingerprint], joined: Sequence[tuple[int, Fingerprint]], now: dt.datetime
    ) -> None:
        """Store entries that wait for a copy, and new members of stories (by id); repeating it is safe."""
        writes: list[InsertOne[Doc] | UpdateOne] = [InsertOne(_make_document(new, now)) for new in alone]
        for story_id, new in joined:
            member = _make_member(new.key)
            change: Doc = {
                "$push": {"members": member},
                "$set": {"many": True, "expires": now + KEEP},
            }
            if new.page is not None:
                change["$addToSet"] = {"keys": Int64(new.page)}
            query = {"_id": story_id, "members.entry_id": {"$ne": new.key.id}}
            writes.append(UpdateOne(query, change))
        if writes:
            self._twins.bulk_write(writes, ordered=True)

    # -- for readers
    @translate_errors
    def find_stories(self, entry_ids: Sequence[int]) -> dict[int, Story]:
        """Return the stories of these entries, by entry; entries without copies are left out.

        One command, which looks each member up among the entries of its feed.
        """

        def _fetch(missing: Sequence[int]) -> dict[int, Story]:
            found: dict[int, list[EntryKey]] = {}
            for doc in self._twins.aggregate(self._make_pipeline(missing), hint="member"):
                entry = doc["entry"]
                key = EntryKey(entry["_id"], entry["feed_id"], entry["seq"], to_millis(entry["at"]))
                found.setdefault(doc["_id"], []).append(key)
            stories = [
                Story(story_id, tuple(sorted(members)))
                for story_id, members in found.items()
                if len(members) > 1
            ]
            return {member.id: story for story in stories for member in story.members}

        return identity_map.find_each("twins", "story", entry_ids, _fetch)

    def _make_pipeline(self, entry_ids: Sequence[int]) -> list[Doc]:
        # A cluster finds the shard by the feed; by the id alone, it would ask all of them.
        stored: Doc = {
            "from": self._entries_name,
            "localField": "entry_id",
            "foreignField": "_id",
            "let": {"feed": "$feed_id"},
            "pipeline": [
                {"$match": {"$expr": {"$eq": ["$feed_id", "$$feed"]}}},
                {"$project": {"feed_id": 1, "seq": 1, "at": 1}},
            ],
            "as": "entry",
        }
        return [
            {"$match": {"many": True, "members.entry_id": {"$in": list(entry_ids)}}},
            {"$project": {"members.entry_id": 1, "members.feed_id": 1}},
            {"$unwind": "$members"},
            {"$project": {"entry_id": "$members.entry_id", "feed_id": "$members.feed_id"}},
            {"$lookup": stored},
            {"$unwind": "$entry"},
        ]


def _make_document(new: Fingerprint, now: dt.datetime) -> Doc:
    doc: Doc = {
        "_id": Int64(new.key.id),
        "members": [_make_member(new.key)],
        "expires": min(from_millis(new.key.at), now) + WAIT,
    }
    if new.page is not None:
        doc["keys"] = [Int64(new.page)]
    if new.text is not None:
        doc["bands"] = [Int64(band) for band in new.text.bands]
        doc["text"], doc["words"] = Binary(_TEXT.pack(*new.text.signature, *new.text.lead)), new.text.words
    if new.language:
        doc["language"] = new.language
    return doc


def _make_member(key: EntryKey) -> Doc:
    return {
        "entry_id": Int64(key.id),
        "feed_id": Int64(key.feed_id),
        "seq": key.seq,
        "at": from_millis(key.at),
    }


def _stored(doc: Any) -> StoredStory:
    text = None
    if "text" in doc:
        values = _TEXT.unpack(doc["text"])
        text = TextPrint(doc["words"], values[:VALUES], values[VALUES:], tuple(doc["bands"]))
    return StoredStory(
        id=doc["_id"],
        pages=frozenset(doc.get("keys", ())),
        text=text,
        language=doc.get("language", ""),
        members=tuple(
            EntryKey(one["entry_id"], one["feed_id"], one["seq"], to_millis(one["at"]))
            for one in doc["members"]
        ),
    )
