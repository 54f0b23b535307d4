"""Copies of read states that are kept for a day: stream snapshots and undos of mass marks."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import WriteConcern
from pymongo.collection import Collection as Table

from app.errors import MovingError
from app.mappers.mongo.cells import Cells, get_epoch
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.mappers.reading import read_state_packing
from app.models.reading.entry import EntryKey
from app.models.reading.history import ActionKind, HistoryCursor, MassAction
from app.models.reading.stream import Show, Snapshot, Sort, SourceFeed, StreamRef
from app.models.subscriptions.read_state import ReadState
from app.runtime.weighted_cache import WeightedCache

#: A key of a ranking: id, feed, number, time.
_KEY = struct.Struct("<4q")


#: Time within which a snapshot with the same content is used again: a page costs a write of up to 100 KB.
REPEAT = dt.timedelta(minutes=10)


class SnapshotMapper:
    """Document ↔ :class:`Snapshot`. Every query contains ``user_id``.

    Args:
        repeats_max: users and streams whose last snapshot is used again while its content is the same.
    """

    def __init__(self, cells: Cells, *, repeats_max: int = 0) -> None:
        last = WeightedCache[tuple[int, str], tuple[tuple[bytes, int], str, dt.datetime]](repeats_max)
        self._last = last  # user and stream → digest and epoch of the place, token, time
        # Losing a snapshot only costs a reload, so writes don't wait for the journal.
        self._snapshots = cells.get_table("snapshots", write_concern=WriteConcern(w=1))

    @translate_errors
    def add(self, snapshot: Snapshot, expires: dt.datetime) -> str:
        """Store a snapshot until ``expires``, or find that it was stored within REPEAT; return its token."""
        content = {
            "user_id": snapshot.user_id,
            "stream": str(snapshot.ref),
            "sort": snapshot.sort.value,
            "show": snapshot.show.value,
            **read_state_packing.pack(snapshot.feeds.values()),
            **_pack_ranking(snapshot.ranking),
        }
        table, key = self._snapshots.get(snapshot.user_id), (snapshot.user_id, str(snapshot.ref))
        digest = _digest(content), get_epoch(table)  # one that isn't awaited may not survive a move
        last = self._last.get(key)
        if last is not None and last[0] == digest and last[2] <= snapshot.at < last[2] + REPEAT:
            return last[1]
        doc = {**content, "token": snapshot.token, "at": snapshot.at, "expires": expires}
        try:
            table.insert_one(doc)
        except MovingError:
            return snapshot.token  # reading goes on while a person moves
        self._last.add(key, (digest, snapshot.token, snapshot.at), 1)
        return snapshot.token

    @translate_errors
    def find(self, user_id: int, token: str, now: dt.datetime) -> Snapshot | None:
        """Return a user's snapshot that has not expired."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._snapshots.get(user_id).find_one(query)
        return _snapshot(doc) if doc else None

    @translate_errors
    def find_last_seqs(
        self, user_id: int, token: str, now: dt.datetime
    ) -> tuple[StreamRef, dict[int, int]] | None:
        """Return the stream of a snapshot and its feeds' last numbers, without their read states."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._snapshots.get(user_id).find_one(query, {"stream": 1, "rows": 1})
        if doc is None:
            return None
        return StreamRef.parse(doc["stream"]), read_state_packing.unpack_last_seqs(doc["rows"])


def _digest(content: Mapping[str, object]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, value in content.items():
        part = value if isinstance(value, bytes) else str(value).encode()
        digest.update(f"{name}:{len(part)}:".encode())
        digest.update(part)
    return digest.digest()


#: In place of a mass mark: the undo of entries doesn't depend on later mass marks.
ANY_MASS: Final = ""


class FoundEntries(NamedTuple):
    """Numbers of a feed's entries that an action marked as read one by one.

    Attributes:
        mass: the feed's last mass mark at that time; None: it had none. ANY_MASS: it doesn't matter.
    """

    feed_id: int
    seqs: tuple[int, ...]
    mass: str | None = ANY_MASS


@dataclasses.dataclass(frozen=True, slots=True)
class Undo:
    """The read states that a mass mark replaced, by feed, each with the token of the mass mark before.

    Attributes:
        job_at: when a job last marked copies as a part of the mass mark; None: no job has to.
    """

    token: str
    user_id: int
    before: Mapping[int, tuple[ReadState, str | None]]
    job_at: dt.datetime | None = None


_NOT_UNDONE: Final[Doc] = {"undone": {"$exists": False}}


class HiddenEntries(NamedTuple):
    """What hiding entries changes: feed → numbers that weren't hidden before, and those that were unread.

    Attributes:
        token: empty: it can't be undone, because it changed nothing.
        story_id: of their story; 0: copies that arrive later are shown.
        masses: each feed's last mass mark at that time, as in :class:`FoundEntries`.
    """

    token: str
    story_id: int
    hidden: Mapping[int, Sequence[int]]
    unread: Mapping[int, Sequence[int]]
    masses: Mapping[int, str | None]

    def list_found(self) -> list[FoundEntries]:
        """Return the entries that were unread, by feed."""
        return [FoundEntries(f, tuple(seqs), self.masses[f]) for f, seqs in self.unread.items() if seqs]


class UndoMapper:
    """Documents ↔ :class:`Undo`. Every query contains ``user_id``.

    An undo is written before its action, in one document. Feeds whose state changed before it could be
    replaced are written again in a further document, and the last state of a feed counts.

    While a job marks copies, the first document has the field ``copies``. An undo of such an action is marked
    as ``undone`` and then belongs to the job, which undoes what it has marked since. Both are changed in
    one command each, so whichever is first decides.
    """

    def __init__(self, cells: Cells) -> None:
        self._undos = cells.get_table("undos")

    @translate_errors
    def add(self, undo: Undo, expires: dt.datetime) -> None:
        """Store an undo until ``expires``."""
        masses = sorted({mass for _, mass in undo.before.values() if mass is not None})
        places = {mass: place for place, mass in enumerate(masses, 1)}
        # The earlier mass mark is packed as its position in ``masses``, in a column that is unused here.
        packed = read_state_packing.pack(
            SourceFeed(f, places.get(mass or "", 0), 0, 0, state, 0)
            for f, (state, mass) in undo.before.items()
        )
        doc = {"token": undo.token, "user_id": undo.user_id, "expires": expires, "masses": masses, **packed}
        if undo.job_at is not None:
            doc["copies"] = undo.job_at
        self._undos.get(undo.user_id).insert_one(doc)

    @translate_errors
    def find(self, user_id: int, token: str, now: dt.datetime) -> Undo | None:
        """Return a user's undo that has not expired."""
        before: dict[int, tuple[ReadState, str | None]] = {}
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}, "rows": {"$exists": True}}
        docs = list(self._undos.get(user_id).find({**query, **_NOT_UNDONE}).sort("_id"))
        for doc in docs:
            masses = [None, *doc["masses"]]
            before.update({f.feed_id: (f.state, masses[f.first_seq]) for f in read_state_packing.unpack(doc)})
        at = next((doc["copies"] for doc in docs if "copies" in doc), None)
        return Undo(token, user_id, before, at) if docs else None

    @translate_errors
    def add_entries(
        self, user_id: int, token: str, found: Sequence[FoundEntries], expires: dt.datetime
    ) -> None:
        """Store single entries that an action marked as read.

        An action may store several times, also together with :meth:`add`.
        """
        self._undos.get(user_id).insert_one(
            {"token": token, "user_id": user_id, "expires": expires, "found": _pack_found(found)}
        )

    @translate_errors
    def add_to_mass_mark(
        self, user_id: int, token: str, found: Sequence[FoundEntries], job_at: dt.datetime | None = None
    ) -> bool:
        """Add single entries to a mass mark, unless it was undone or has expired; return whether it wasn't.

        Args:
            job_at: the time, if a job does this; it may only until :meth:`end_job`.
        """
        query: Doc = {"user_id": user_id, "token": token, "rows": {"$exists": True}, **_NOT_UNDONE}
        update: Doc = {"$push": {"found": {"$each": _pack_found(found)}}}
        if job_at is not None:
            query["copies"], update["$set"] = {"$exists": True}, {"copies": job_at}
        return bool(self._undos.get(user_id).update_one(query, update).matched_count)

    @translate_errors
    def end_job(self, user_id: int, token: str) -> bool:
        """Store that all copies are marked; return False if the mass mark was undone or has expired."""
        query = {"user_id": user_id, "token": token, "copies": {"$exists": True}, **_NOT_UNDONE}
        return bool(self._undos.get(user_id).update_one(query, {"$unset": {"copies": ""}}).matched_count)

    @translate_errors
    def find_waiting(self, before: dt.datetime) -> list[tuple[int, str]]:
        """Return (user, token) of the mass marks whose copies no job has marked since a time."""

        def _read_cell(undos: Table[Doc]) -> list[tuple[int, str]]:
            found = undos.find({"copies": {"$lt": before}}, {"user_id": 1, "token": 1}, hint="copies")
            return [(doc["user_id"], doc["token"]) for doc in found]

        return [row for rows in self._undos.read_each(_read_cell) for row in rows]

    @translate_errors
    def leave_to_job(self, user_id: int, token: str, expires: dt.datetime) -> bool:
        """Mark an action as undone, and keep its entries for the job that marks copies.

        Returns:
            False if no job marks copies. Then nothing has changed.
        """
        table = self._undos.get(user_id)
        query = {"user_id": user_id, "token": token, "copies": {"$exists": True}}
        update = {"$set": {"undone": True}, "$unset": {"action": ""}, "$max": {"expires": expires}}
        if not table.update_one(query, update).matched_count:
            return False
        table.delete_many({"user_id": user_id, "token": token, "copies": {"$exists": False}})
        return True

    @translate_errors
    def find_undone(self, user_id: int, token: str) -> list[FoundEntries]:
        """Return the entries of an action that was undone while a job marked copies; empty for others."""
        doc = self._undos.get(user_id).find_one(
            {"user_id": user_id, "token": token, "undone": True}, {"found": 1}
        )
        return _read_found(doc) if doc else []

    @translate_errors
    def find_entries(self, user_id: int, token: str, now: dt.datetime) -> list[FoundEntries]:
        """Return all single entries stored for an action."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}, "found": {"$exists": True}}
        docs = self._undos.get(user_id).find({**query, **_NOT_UNDONE}, {"found": 1})
        return [found for doc in docs for found in _read_found(doc)]

    @translate_errors
    def add_hidden(self, user_id: int, done: HiddenEntries, expires: dt.datetime, action: MassAction) -> None:
        """Store what hiding entries changes until ``expires``, and its line of the history."""
        rows = [
            {
                "feed_id": f,
                "seqs": list(done.hidden.get(f, ())),
                "unread": list(done.unread.get(f, ())),
                "mass": done.masses[f],
            }
            for f in dict.fromkeys((*done.hidden, *done.unread))
        ]
        doc = {"token": done.token, "user_id": user_id, "expires": expires}
        doc |= {"story": Int64(done.story_id), "hidden": rows, "action": _write_action(action)}
        self._undos.get(user_id).insert_one(doc)

    @translate_errors
    def find_hidden(self, user_id: int, token: str, now: dt.datetime) -> HiddenEntries | None:
        """Return what hiding entries has changed, unless that has expired."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}, "hidden": {"$exists": True}}
        doc = self._undos.get(user_id).find_one(query)
        if doc is None:
            return None
        hidden = {row["feed_id"]: row["seqs"] for row in doc["hidden"]}
        unread = {row["feed_id"]: row["unread"] for row in doc["hidden"]}
        masses = {row["feed_id"]: row.get("mass", ANY_MASS) for row in doc["hidden"]}
        return HiddenEntries(token, doc["story"], hidden, unread, masses)

    @translate_errors
    def forget_hidden(self, user_id: int, seqs: Mapping[int, Sequence[int]], story_id: int) -> None:
        """Take entries out of all undos of hiding, and delete those that undo nothing anymore.

        Args:
            seqs: feed → numbers that are shown again.
            story_id: of a story that is shown again; 0: none.
        """
        table = self._undos.get(user_id)
        mine: Doc = {"user_id": user_id, "hidden": {"$exists": True}}
        for feed_id, numbers in seqs.items():
            among = {"$in": list(numbers)}
            table.update_many(
                {**mine, "hidden.feed_id": feed_id},
                {"$pull": {"hidden.$[row].seqs": among, "hidden.$[row].unread": among}},
                array_filters=[{"row.feed_id": feed_id}],
            )
        is_left = {"$elemMatch": {"$or": [{"seqs.0": {"$exists": True}}, {"unread.0": {"$exists": True}}]}}
        # Hiding that has changed nothing but its story has no rows.
        told = [{"hidden.0": {"$exists": True}}, *([{"story": story_id}] if story_id else [])]
        table.delete_many({**mine, "hidden": {"$exists": True, "$not": is_left}, "$or": told})

    @translate_errors
    def set_action(self, user_id: int, token: str, action: MassAction) -> None:
        """Add the action to a stored undo, which puts it into the history."""
        update = {"$set": {"action": _write_action(action)}}
        self._undos.get(user_id).update_one({"user_id": user_id, "token": token}, update)

    @translate_errors
    def remove_undone(self, user_id: int, token: str) -> None:
        """Delete what :meth:`leave_to_job` has kept."""
        self._undos.get(user_id).delete_many({"user_id": user_id, "token": token, "undone": True})

    @translate_errors
    def find_actions(
        self, user_id: int, now: dt.datetime, limit: int, after: HistoryCursor | None
    ) -> list[MassAction]:
        """Return a user's mass actions, newest first; ``after``: the cursor to continue after."""
        query: Doc = {"user_id": user_id, "expires": {"$gt": now}, "action": {"$exists": True}}
        if after is not None:
            same = {"action.at": after.at, "token": {"$lt": after.token}}
            query["$or"] = [{"action.at": {"$lt": after.at}}, same]
        found = self._undos.get(user_id).find(query, {"_id": 0, "action": 1})
        said = [doc["action"] for doc in found.sort([("action.at", -1), ("token", -1)]).limit(limit)]
        return [MassAction(**{**one, "kind": ActionKind(one["kind"])}) for one in said]

    @translate_errors
    def remove(self, user_id: int, token: str) -> None:
        """Delete an undo."""
        self._undos.get(user_id).delete_many({"user_id": user_id, "token": token})


def _snapshot(doc: Doc) -> Snapshot:
    return Snapshot(
        token=doc["token"],
        user_id=doc["user_id"],
        ref=StreamRef.parse(doc["stream"]),
        sort=Sort(doc["sort"]),
        at=doc["at"],
        feeds={f.feed_id: f for f in read_state_packing.unpack(doc)},
        show=Show(doc.get("show", Show.ALL)),
        ranking=tuple(map(EntryKey._make, _KEY.iter_unpack(doc["ranking"]))) if "ranking" in doc else None,
    )


def _write_action(action: MassAction) -> Doc:
    return {**dataclasses.asdict(action), "kind": action.kind.value}


def _pack_found(found: Sequence[FoundEntries]) -> list[Doc]:
    return [
        {"feed_id": f.feed_id, "seqs": list(f.seqs), **({} if f.mass == ANY_MASS else {"mass": f.mass})}
        for f in found
    ]


def _read_found(doc: Doc) -> list[FoundEntries]:
    return [
        FoundEntries(row["feed_id"], tuple(row["seqs"]), row.get("mass", ANY_MASS))
        for row in doc.get("found", ())
    ]


def _pack_ranking(keys: Sequence[EntryKey] | None) -> Doc:
    return {} if keys is None else {"ranking": Binary(b"".join(_KEY.pack(*key) for key in keys))}
