"""The outbox of each cell, and the numbers in the home store that are settled from it.

    feed_readers   {feed_id, cell, n, rev, at}    people of a cell who read a feed and haven't paused it
    entry_keepers  {entry_id, cell, n, rev, at}   people of a cell who starred or tagged an entry

``rev`` rises with each change, so that a relay that counted before another one doesn't set an old number.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import heapq
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.collection import Collection as Table
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app import clock
from app.errors import ConflictError
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.outbox_rows import OUTBOX, OutboxKind
from app.mappers.mongo.store import BATCH, Doc, Session
from app.mappers.reading.marks import KEEPING
from app.models.discussion.comments import NotificationKind
from app.models.notifications.waiting import WaitingNotification
from app.models.operations.cells import HOME

#: People whose moves' rows are settled together.
PEOPLE = 20
#: People whose rows are counted, to find those with the fewest.
COUNTED = 200
#: The part of rows that failed before, of those that belong to no move.
_AGAIN_PART = 4
#: Rows of feeds and entries, not of notifications.
_ROWS: Doc = {"feed_id": {"$gt": 0}}
#: Marks that keep an entry.
_KEEPING: Doc = {"$or": KEEPING}
#: Names of other numbers among those of cells; no cell has such a name.
_SHARES, _STARS = "*shares", "*stars"


class OutboxRow(NamedTuple):
    """A number to settle.

    Attributes:
        id: of the row.
        feed_id: the feed whose readers changed, or that of the entry.
        entry_id: the entry whose keepers changed; 0: the readers of the feed.
        user_id: the row stays until this person's move has ended; 0: none.
    """

    id: ObjectId
    feed_id: int
    entry_id: int
    user_id: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """The feed and the entry that are counted."""
        return self.feed_id, self.entry_id


class KeptCount(NamedTuple):
    """A number of a cell as the home store has it; ``rev`` 0: it has none."""

    number: int
    rev: int


class KeeperCounts(NamedTuple):
    """What an entry counts, and what the stores have.

    Attributes:
        entry_id: the entry.
        stars: as the entry counts it.
        keepers: people who starred or tagged it, by cell.
        shares: shares of it.
        keepers_match: whether the home store has the same numbers of other cells.
    """

    entry_id: int
    stars: int
    keepers: dict[str, int]
    shares: int
    keepers_match: bool


class OutboxMapper:
    """Rows of the outbox, counts in cells, and counts of cells at home."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._asked = dict[str, int]()  # cell → the last person whose rows were counted
        home = cells.home.database
        self._readers: Table[Doc] = home["feed_readers"]
        self._keepers: Table[Doc] = home["entry_keepers"]
        self._entries: Table[Doc] = home["entries"]
        self._shares: Table[Doc] = home["shares"]

    def _open(self, cell: str) -> Database[Doc]:
        return self._cells.get_store(cell).database

    @translate_errors
    def list_rows(self, cell: str, limit: int, now: dt.datetime) -> list[OutboxRow]:
        """Return rows of a cell that are due, at most ``limit`` of moves and as many others, oldest first.

        A move has a row for each feed and entry of a person. They must not make everyone else wait: so the
        people with the fewest rows come first, and each gets the same part. Nothing reads all rows: of each
        person, at most ``limit`` are counted; if very many people move, each call asks other ones.
        """
        table, everyone = self._open(cell)[OUTBOX], {**_ROWS, "user_id": None}
        again = table.find({**everyone, "due": {"$lte": now}}).sort([("due", 1), ("_id", 1)])
        found = list(again.limit(limit // _AGAIN_PART))
        new = table.find({**everyone, "due": None}).sort("_id")
        found += new.limit(limit - len(found))
        people = sorted(self._count_due(cell, table, limit, now))[:PEOPLE]
        left = limit
        for place, (_, user_id) in enumerate(people):
            part = max(1, left // (len(people) - place))
            due = {**_ROWS, "user_id": user_id, "due": {"$lte": now}}
            rows = list(table.find(due).sort([("due", 1), ("_id", 1)]).limit(part))
            left -= len(rows)
            found += rows
        return [
            OutboxRow(doc["_id"], doc["feed_id"], doc.get("entry_id", 0), doc.get("user_id", 0))
            for doc in found
        ]

    def _count_due(self, cell: str, table: Table[Doc], limit: int, now: dt.datetime) -> list[tuple[int, int]]:
        """Return for people with rows of a move how many are due, at most ``limit``, and the person."""
        first, found = self._asked.get(cell, 0), list[tuple[int, int]]()
        for user_id in itertools.islice(self._iterate_people(table, first), COUNTED):
            due = {**_ROWS, "user_id": user_id, "due": {"$lte": now}}
            if count := table.count_documents(due, limit=limit, hint="rows"):
                found.append((count, user_id))
            self._asked[cell] = user_id
        return found

    def _iterate_people(self, table: Table[Doc], first: int) -> Iterator[int]:
        """Yield the people with rows of a move, those above ``first`` first."""
        for low, high in ((first, None), (0, first)):
            after: int | None = low
            while after is not None:
                some = {"$gt": after} if high is None else {"$gt": after, "$lte": high}
                query = {**_ROWS, "user_id": some}
                doc = table.find_one(query, {"user_id": 1}, sort=[("user_id", 1)], hint="rows")
                after = doc["user_id"] if doc is not None else None
                if after is not None:
                    yield after

    @translate_errors
    def find_unsettled_entries(self, feed_id: int) -> set[int]:
        """Return the entries of a feed whose keepers in cells aren't counted yet; none without cells.

        Raises:
            CellError: a cell isn't responding.
        """
        query = {"feed_id": feed_id, "entry_id": {"$gt": 0}}
        found: set[int] = set()
        self._cells.require_all()
        for cell in self._cells.names[1:]:
            found.update(doc["entry_id"] for doc in self._open(cell)[OUTBOX].find(query, {"entry_id": 1}))
        return found

    @translate_errors
    def remove_rows(self, cell: str, ids: Collection[ObjectId]) -> None:
        """Delete rows that are settled."""
        if ids:
            self._open(cell)[OUTBOX].delete_many({"_id": {"$in": list(ids)}})

    @translate_errors
    def postpone_rows(self, cell: str, ids: Collection[ObjectId], due: dt.datetime) -> None:
        """Let rows be settled again at a time."""
        if ids:
            self._open(cell)[OUTBOX].update_many({"_id": {"$in": list(ids)}}, {"$set": {"due": due}})

    @translate_errors
    def add_rows(
        self,
        cell: str,
        feed_ids: Collection[int],
        entries: Collection[tuple[int, int]],
        *,
        user_id: int,
        due: dt.datetime,
    ) -> None:
        """Add rows for feeds and entries (feed, entry), which stay until a person's move has ended."""
        shared = {"user_id": user_id, "due": due}
        rows = [{"kind": OutboxKind.FEED.value, "feed_id": f, **shared} for f in feed_ids]
        rows += [{"kind": OutboxKind.ENTRY.value, "feed_id": f, "entry_id": e, **shared} for f, e in entries]
        if rows:
            self._open(cell)[OUTBOX].insert_many(rows)

    @translate_errors
    def find_counted(
        self, cell: str, user_id: int, session: Session | None = None, *, limit: int = 0
    ) -> tuple[set[int], set[tuple[int, int]]]:
        """Return the feeds and entries (feed, entry) that count a person's documents in a cell.

        Args:
            limit: of each of both; 0: all.
        """
        database, mine = self._open(cell), {"user_id": user_id}
        found = database["subscriptions"].find(mine, {"feed_id": 1}, session=session, limit=limit)
        feeds = {doc["feed_id"] for doc in found}
        kept, fields = {**mine, **_KEEPING}, {"feed_id": 1, "entry_id": 1}
        marks = database["marks"].find(kept, fields, session=session, limit=limit)
        return feeds, {(doc["feed_id"], doc["entry_id"]) for doc in marks}

    @translate_errors
    def count_readers(self, cell: str, feed_id: int, session: Session | None = None) -> int:
        """Return how many people of a cell read a feed."""
        query = {"feed_id": feed_id, "paused": None}
        return self._open(cell)["subscriptions"].count_documents(query, session=session)

    @translate_errors
    def has_pending(self, cell: str, feed_id: int) -> bool:
        """Return whether someone in a cell waits for the first pull of a feed."""
        query = {"feed_id": feed_id, "pending": True}
        return self._open(cell)["subscriptions"].find_one(query, {"_id": 1}) is not None

    @translate_errors
    def count_keepers(self, cell: str, entry_id: int, session: Session | None = None) -> int:
        """Return how many people of a cell keep an entry."""
        query = {"entry_id": entry_id, **_KEEPING}
        return self._open(cell)["marks"].count_documents(query, session=session)

    @translate_errors
    def count_shares(self, entry_id: int, session: Session) -> int:
        """Return how many shares keep an entry."""
        return self._shares.count_documents(
            {"of": entry_id, "live": True, "_id": {"$ne": entry_id}}, session=session
        )

    # -- notifications that wait

    @property
    def is_spread(self) -> bool:
        """Whether there are cells beside the home store."""
        return self._cells.is_spread

    def make_event_id(self) -> str:
        """Return the id of an event that a person is notified of."""
        return str(ObjectId())

    @translate_errors
    def add_waiting(self, waiting: WaitingNotification, due: dt.datetime) -> None:
        """Keep a notification for someone whose data can't be written now."""
        doc = {
            **dataclasses.asdict(waiting),
            "note": waiting.kind.value,
            "kind": OutboxKind.NOTIFICATION.value,
        }
        key = ObjectId(doc.pop("id"))
        self._cells.home.database[OUTBOX].update_one(
            {"_id": key}, {"$setOnInsert": {**doc, "due": due}}, upsert=True
        )

    @translate_errors
    def list_waiting(self, limit: int, now: dt.datetime) -> list[WaitingNotification]:
        """Return the oldest notifications that are due."""
        query = {"kind": OutboxKind.NOTIFICATION.value, "due": {"$lte": now}}
        found = self._cells.home.database[OUTBOX].find(query).sort("_id").limit(limit)
        return [_parse_waiting(doc) for doc in found]

    @translate_errors
    def remove_waiting(self, ids: Collection[str]) -> None:
        """Delete notifications that were delivered."""
        self.remove_rows(HOME, list(map(ObjectId, ids)))

    @translate_errors
    def postpone_waiting(self, ids: Collection[str], due: dt.datetime) -> None:
        """Let notifications wait until a time."""
        self.postpone_rows(HOME, list(map(ObjectId, ids)), due)

    # -- the numbers at home

    @translate_errors
    def find_readers(self, cell: str, feed_id: int) -> KeptCount:
        """Return the number of a cell's readers of a feed."""
        return _kept(self._readers.find_one({"feed_id": feed_id, "cell": cell}))

    @translate_errors
    def set_readers(self, cell: str, feed_id: int, was: KeptCount, count: int, session: Session) -> None:
        """Set the number of a cell's readers of a feed.

        Raises:
            ConflictError: it isn't ``was`` anymore; the transaction has ended.
        """
        _set(self._readers, {"feed_id": feed_id, "cell": cell}, was, count, session)

    @translate_errors
    def sum_readers(self, feed_id: int, session: Session) -> int:
        """Return the readers of a feed in all cells beside the home store."""
        return sum(doc["n"] for doc in self._readers.find({"feed_id": feed_id}, {"n": 1}, session=session))

    @translate_errors
    def find_keepers(self, cell: str, entry_id: int) -> KeptCount:
        """Return the number of a cell's keepers of an entry."""
        return _kept(self._keepers.find_one({"entry_id": entry_id, "cell": cell}))

    @translate_errors
    def set_keepers(self, cell: str, entry_id: int, was: KeptCount, count: int, session: Session) -> None:
        """Set the number of a cell's keepers of an entry; raises as :meth:`set_readers` does."""
        _set(self._keepers, {"entry_id": entry_id, "cell": cell}, was, count, session)

    @translate_errors
    def sum_keepers(self, entry_id: int, session: Session) -> int:
        """Return the keepers of an entry in all cells beside the home store."""
        return sum(doc["n"] for doc in self._keepers.find({"entry_id": entry_id}, {"n": 1}, session=session))

    @translate_errors
    def remove_zeros(self, before: dt.datetime) -> None:
        """Delete numbers that have been 0 since ``before``.

        Not at once: a relay that has found none would set the number that it counted earlier.
        """
        for table in (self._readers, self._keepers):
            table.delete_many({"n": 0, "at": {"$lt": before}})

    # -- recount

    @translate_errors
    def count_all_readers(self, cell: str, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return how many people of a cell read each of these feeds; feeds without any are left out."""
        match = {"$match": {"feed_id": {"$in": list(feed_ids)}, "paused": None}}
        count = {"$group": {"_id": "$feed_id", "n": {"$sum": 1}}}
        return {doc["_id"]: doc["n"] for doc in self._open(cell)["subscriptions"].aggregate([match, count])}

    @translate_errors
    def find_all_readers(self, cell: str, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return the numbers that the home store has of a cell's readers of these feeds."""
        found = self._readers.find({"cell": cell, "feed_id": {"$in": list(feed_ids)}})
        return {doc["feed_id"]: doc["n"] for doc in found}

    @translate_errors
    def iterate_keepers(self, cells: Sequence[str]) -> Iterator[KeeperCounts]:
        """Yield the counts of each entry that someone keeps, or that counts someone, by entry."""
        streams: list[Iterator[tuple[int, str, int]]] = [self._iterate_marks(cell) for cell in cells]
        streams += [self._iterate_shares(), self._iterate_stars(), self._iterate_known()]
        for entry_id, rows in itertools.groupby(heapq.merge(*streams), key=lambda row: row[0]):
            found = [(name, n) for _, name, n in rows]
            keepers = {name: n for name, n in found if name in cells}
            known = {name[1:]: n for name, n in found if name.startswith("=")}
            others = dict(found)
            match = all(known.get(cell, 0) == keepers.get(cell, 0) for cell in cells[1:])
            if _STARS in others:  # without it the entry is gone, and nothing counts
                yield KeeperCounts(entry_id, others[_STARS], keepers, others.get(_SHARES, 0), match)

    def _iterate_marks(self, cell: str) -> Iterator[tuple[int, str, int]]:
        group: Doc = {"$group": {"_id": "$entry_id", "n": {"$sum": 1}}}
        pipeline: list[Any] = [{"$match": _KEEPING}, group, {"$sort": {"_id": 1}}]
        for doc in self._open(cell)["marks"].aggregate(pipeline, allowDiskUse=True):
            yield doc["_id"], cell, doc["n"]

    def _iterate_shares(self) -> Iterator[tuple[int, str, int]]:
        group: Doc = {"$group": {"_id": "$of", "n": {"$sum": 1}}}
        other = {"live": True, "$expr": {"$ne": ["$_id", "$of"]}}  # a post doesn't keep itself
        pipeline: list[Any] = [{"$match": other}, group, {"$sort": {"_id": 1}}]
        for doc in self._shares.aggregate(pipeline, allowDiskUse=True):
            yield doc["_id"], _SHARES, doc["n"]

    def _iterate_stars(self) -> Iterator[tuple[int, str, int]]:
        # Entries that nobody counts may be kept by someone all the same, so all are read.
        for doc in self._entries.find({}, {"stars": 1}, batch_size=BATCH).sort("_id").hint("_id_"):
            yield doc["_id"], _STARS, doc.get("stars", 0)

    def _iterate_known(self) -> Iterator[tuple[int, str, int]]:
        for doc in self._keepers.find().sort([("entry_id", 1), ("cell", 1)]):
            yield doc["entry_id"], f"={doc['cell']}", doc["n"]


def _parse_waiting(doc: Doc) -> WaitingNotification:
    return WaitingNotification(
        id=str(doc["_id"]),
        at=doc["at"],
        user_id=doc["user_id"],
        kind=NotificationKind(doc["note"]),
        subject=doc["subject"],
        by=doc["by"],
        share_id=doc["share_id"],
        target_id=doc["target_id"],
        also_id=doc["also_id"],
        count=doc["count"],
    )


def _kept(doc: Doc | None) -> KeptCount:
    return KeptCount(doc["n"], doc["rev"]) if doc else KeptCount(0, 0)


def _set(table: Table[Doc], key: Doc, was: KeptCount, count: int, session: Session) -> None:
    values = {"n": count, "at": clock.now()}
    if not was.rev:
        try:
            table.insert_one({**key, **values, "rev": 1}, session=session)
        except DuplicateKeyError as e:
            raise ConflictError from e
        return
    change = {"$set": values, "$inc": {"rev": 1}}
    if not table.update_one({**key, "rev": was.rev}, change, session=session).matched_count:
        raise ConflictError
