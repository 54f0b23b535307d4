"""All documents of one person in one cell, as bytes: for moves.

    move_fences   {_id: user, token}    in each cell: which run of the mover may write there
    move_digests  {_id: {user, part}, name, data, emptying}
                  in the cell that a person leaves: what was there when both cells were compared

Documents are read and written as MongoDB stores them, so a move can't change one. Each batch is written in a
transaction that also updates the fence. So a run that was frozen, and whose work another run has taken over,
can write nothing anymore.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import bson
from bson import Int64, MaxKey, MinKey
from bson.raw_bson import RawBSONDocument
from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure
from pymongo.read_concern import ReadConcern

from app.errors import ConflictError
from app.mappers.mongo.errors import UNAVAILABLE, translate_errors
from app.mappers.mongo.indexes import INDEXES
from app.mappers.mongo.placement import PLACEMENTS, Home
from app.mappers.mongo.store import Doc, Session, Store

#: Documents and bytes of one transaction; MongoDB ends one after 5 s.
DOCUMENTS, BYTES = 1000, 4 << 20
#: Collections of people, and those whose documents expire.
NAMES = tuple(sorted(n for n, at in PLACEMENTS.items() if at.home is Home.CELL and at.key == "user_id"))
_EXPIRING = frozenset(
    name for name in NAMES if any("expireAfterSeconds" in index.document for index in INDEXES.get(name, ()))
)
#: Bytes of a digest.
_DIGEST = 16
#: Bytes of a row of ``move_digests``, and its content: length of an id, the id, and a digest.
ROW_BYTES = 1 << 20
_LENGTH = struct.Struct(">H")
#: Kinds of writes as MongoDB reports them.
_WRITES = frozenset({"insert", "update", "remove", "command"})

Digests = dict[bytes, bytes]


class StaleRunError(ConflictError):
    """Another run of the mover has taken over."""


class Differences(NamedTuple):
    """How the documents of a collection differ in two cells; see :meth:`PersonDocuments.compute_digests`.

    Attributes:
        wanted: documents that the second cell lacks, or has with another content.
        unwanted: documents that only the second cell has, or that have another content there.
    """

    wanted: list[bytes]
    unwanted: list[bytes]


class PersonDocuments:
    """The documents of one person in one cell.

    Args:
        store: the cell.
        user_id: the person.
        token: of this run of the mover.
    """

    def __init__(self, store: Store, user_id: int, token: str) -> None:
        self._store, self._user, self._token = store, Int64(user_id), token
        options: Any = bson.CodecOptions(RawBSONDocument)
        self._database = store.database
        self._raw = store.database.with_options(codec_options=options)

    @translate_errors
    def take_fence(self) -> None:
        """Let only this run write, from now on."""
        fences = self._database.get_collection("move_fences", write_concern=WriteConcern("majority", j=True))
        fences.update_one({"_id": self._user}, {"$set": {"token": self._token}}, upsert=True)

    @translate_errors
    def drop_fence(self) -> None:
        """Let no run write anymore; does nothing if another run has taken over."""
        self._database["move_fences"].delete_one({"_id": self._user, "token": self._token})

    @translate_errors
    def compute_digests(self, name: str, now: dt.datetime) -> Digests:
        """Return the digests of all documents of a collection by their ids, both as bytes.

        Documents that have expired are left out: MongoDB may delete them at any time, and on either side.
        """
        query: Doc = {"user_id": self._user}
        if name in _EXPIRING:
            query["expires"] = {"$not": {"$lte": now}}
        found: Digests = {}
        table = self._database.get_collection(name, read_concern=ReadConcern("majority"))
        for raw in _read_raw(table.find_raw_batches(query, batch_size=10_000)):
            found[_key(raw)] = compute_digest(raw)
        return found

    @translate_errors
    def save_digests(self, digests: Mapping[str, Digests], *, emptying: bool = False) -> None:
        """Keep what is in this cell, by collection, until the move has ended.

        Args:
            emptying: from now on, documents that are missing were deleted by the mover.

        Raises:
            StaleRunError: another run has taken over.
        """
        parts = ((name, data) for name, found in digests.items() for data in _pack_digests(found))
        # The first row is empty: it says that there are digests, even of no documents.
        rows = [
            {"_id": {"user": self._user, "part": number}, "name": name, "data": data, "emptying": emptying}
            for number, (name, data) in enumerate(itertools.chain([(NAMES[0], b"")], parts))
        ]

        def _write(session: Session) -> None:
            table = self._database["move_digests"]
            table.delete_many(self._mine, session=session)
            table.insert_many(rows, session=session)

        self._write(_write)

    @translate_errors
    def load_digests(self) -> tuple[dict[str, Digests], bool] | None:
        """Return what :meth:`save_digests` has kept, and whether the mover has begun to empty this cell.

        Returns:
            None: it has kept nothing, or that is forgotten.
        """
        rows = list(self._database["move_digests"].find(self._mine))
        if not rows:
            return None
        found: dict[str, Digests] = {name: {} for name in NAMES}
        for row in rows:
            found.setdefault(row["name"], {}).update(_unpack_digests(row["data"]))
        return found, rows[0]["emptying"]

    @translate_errors
    def drop_digests(self) -> None:
        """Forget what :meth:`save_digests` has kept.

        Raises:
            StaleRunError: another run has taken over.
        """
        self._write(lambda session: self._database["move_digests"].delete_many(self._mine, session=session))

    @property
    def _mine(self) -> Doc:
        first, last = ({"user": self._user, "part": part} for part in (MinKey(), MaxKey()))
        return {"_id": {"$gt": first, "$lt": last}}

    @translate_errors
    def read(self, name: str, keys: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the documents with these ids in batches for one transaction each."""
        table = self._database.get_collection(name, read_concern=ReadConcern("majority"))
        for start in range(0, len(keys), DOCUMENTS):
            ids = [_parse_key(key) for key in keys[start : start + DOCUMENTS]]
            batch: list[bytes] = []
            size = 0
            for raw in _read_raw(table.find_raw_batches({"user_id": self._user, "_id": {"$in": ids}})):
                if batch and size + len(raw) > BYTES:
                    yield batch
                    batch, size = [], 0
                batch.append(raw)
                size += len(raw)
            if batch:
                yield batch

    @translate_errors
    def add_documents(self, name: str, batch: Sequence[bytes]) -> None:
        """Insert documents.

        Raises:
            ConflictError: the id of one belongs to another person here.
            StaleRunError: another run has taken over.
        """
        table = self._raw[name]
        ids = [_parse_key(_key(raw)) for raw in batch]

        def _write(session: Session) -> None:
            # A run before this one may have written them. What differs was deleted before.
            self._database[name].delete_many({"user_id": self._user, "_id": {"$in": ids}}, session=session)
            table.insert_many([RawBSONDocument(raw) for raw in batch], session=session)

        try:
            self._write(_write)
        except (BulkWriteError, DuplicateKeyError) as e:
            raise ConflictError("This id is taken in the other cell.", user_id=int(self._user)) from e

    @translate_errors
    def delete(self, name: str, keys: Sequence[bytes]) -> None:
        """Delete documents.

        Raises:
            StaleRunError: another run has taken over.
        """
        table = self._database[name]
        for start in range(0, len(keys), DOCUMENTS):
            ids = [_parse_key(key) for key in keys[start : start + DOCUMENTS]]
            query = {"user_id": self._user, "_id": {"$in": ids}}
            self._write(lambda session, query=query: table.delete_many(query, session=session))  # type: ignore[misc]

    @translate_errors
    def remove_all(self, name: str, keep: Callable[[list[bytes]], None] | None = None) -> int:
        """Delete all documents of a collection; return how many there were.

        Args:
            keep: called with each batch before its deletion is committed. A batch that is changed meanwhile
                is read again, so it may be called twice with the same documents.

        Raises:
            StaleRunError: another run has taken over.
        """
        table, count = self._database[name], 0

        def _remove_batch(session: Session) -> int:
            found = table.find_raw_batches({"user_id": self._user}, session=session).limit(DOCUMENTS)
            batch, size = [], 0
            for raw in _read_raw(found):
                batch.append(raw)
                size += len(raw)
                if size > BYTES:
                    break
            if batch:
                ids = [_parse_key(_key(raw)) for raw in batch]
                table.delete_many({"user_id": self._user, "_id": {"$in": ids}}, session=session)
                if keep is not None:
                    keep(batch)
            return len(batch)

        while taken := self._write(_remove_batch):
            count += taken
        return count

    @translate_errors
    def add_late(self, name: str, raw: bytes, was: bytes | None) -> bool:
        """Carry a document over that was written in the old cell after the comparison.

        Args:
            was: digest of the document as it was copied; None: it was new.

        Returns:
            Whether it is here now; False: the document here has the same unique key, or has changed since.
        """
        table = self._raw[name]
        key = {"user_id": self._user, "_id": _parse_key(_key(raw))}

        def _write(session: Session) -> bool:
            found = self._raw[name].find_one(key, session=session)
            if found is not None:
                if was is None or compute_digest(found.raw) != was:
                    return False
                self._database[name].delete_one(key, session=session)
            elif was is not None:
                return False  # the person has deleted it since
            table.insert_one(RawBSONDocument(raw), session=session)
            return True

        try:
            return bool(self._write(_write))
        except (BulkWriteError, DuplicateKeyError):
            return False

    @translate_errors
    def delete_late(self, name: str, key: bytes, was: bytes) -> bool:
        """Delete a document that was deleted in the old cell after the comparison.

        Args:
            key: its id, as in :meth:`compute_digests`.
            was: its digest as it was copied.

        Returns:
            Whether it was deleted; False: it has changed since, or is gone.
        """
        query = {"user_id": self._user, "_id": _parse_key(key)}

        def _write(session: Session) -> bool:
            found = self._raw[name].find_one(query, session=session)
            if found is None or compute_digest(found.raw) != was:
                return False
            return bool(self._database[name].delete_one(query, session=session).deleted_count)

        return bool(self._write(_write))

    @translate_errors
    def find_filled(self) -> list[str]:
        """Return the collections in which the person has documents, with one command."""

        def any_of(name: str) -> list[Doc]:
            return [
                {"$match": {"user_id": self._user}},
                {"$limit": 1},
                {"$project": {"_id": 0, "name": {"$literal": name}}},
            ]

        first, *others = NAMES
        union = [{"$unionWith": {"coll": name, "pipeline": any_of(name)}} for name in others]
        return [row["name"] for row in self._database[first].aggregate([*any_of(first), *union])]

    @translate_errors
    def has_writes_since(self, seconds: float) -> bool | None:
        """Return whether a write or transaction that began more than ``seconds`` ago is still running here.

        Returns:
            None: MongoDB's user may not ask that.
        """
        micros = int(seconds * 1_000_000)
        pipeline: list[Doc] = [
            {"$currentOp": {"allUsers": False, "idleSessions": True, "localOps": True}},
            {
                "$match": {
                    "appName": "eventr",
                    "$or": [
                        {"transaction.timeOpenMicros": {"$gte": micros}},
                        {
                            "ns": {"$regex": f"^{self._database.name}\\."},
                            "op": {"$in": sorted(_WRITES)},
                            "command.aggregate": {"$exists": False},
                            "command.getMore": {"$exists": False},
                            "command.find": {"$exists": False},
                            "microsecs_running": {"$gte": micros},
                        },
                    ],
                }
            },
            {"$limit": 1},
        ]
        try:
            return bool(list(self._database.client.admin.aggregate(pipeline)))
        except UNAVAILABLE:
            raise
        except OperationFailure:
            return None

    def _write(self, operation: Callable[[Session], Any]) -> Any:
        def _write(session: Session) -> Any:
            query = {"_id": self._user, "token": self._token}
            done = self._database["move_fences"].update_one(query, {"$inc": {"n": 1}}, session=session)
            if not done.matched_count:
                raise StaleRunError(user_id=int(self._user))
            return operation(session)

        return self._store.run_in_transaction(_write)


def compare(old: Digests, new: Digests) -> Differences:
    """Return what must be written and deleted in the second cell, so that it is like the first."""
    wanted = [key for key, digest in old.items() if new.get(key) != digest]
    unwanted = [key for key, digest in new.items() if old.get(key) != digest]
    return Differences(wanted, unwanted)


def get_key(raw: bytes) -> bytes:
    """Return the id of a document, as in :meth:`PersonDocuments.compute_digests`."""
    return _key(raw)


def compute_digest(raw: bytes) -> bytes:
    """Return the digest of a document, as in :meth:`PersonDocuments.compute_digests`."""
    return hashlib.blake2b(raw, digest_size=_DIGEST).digest()


def _pack_digests(digests: Digests) -> Iterator[bytes]:
    data = bytearray()
    for key, digest in digests.items():
        data += _LENGTH.pack(len(key)) + key + digest
        if len(data) >= ROW_BYTES:
            yield bytes(data)
            data.clear()
    if data:
        yield bytes(data)


def _unpack_digests(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        end = start + _LENGTH.size + length
        yield data[start + _LENGTH.size : end], data[end : end + _DIGEST]
        start = end + _DIGEST


def _read_raw(batches: Any) -> Iterator[bytes]:
    for batch in batches:
        yield from _split(batch)


def _split(batch: bytes) -> Iterator[bytes]:
    """Yield the documents of a raw batch: each begins with its length."""
    start, end = 0, len(batch)
    while start < end:
        size = int.from_bytes(batch[start : start + 4], "little")
        yield batch[start : start + size]
        start += size


#: Lengths of ids by BSON type: ObjectId, int32, int64.
_LENGTHS = {0x07: 12, 0x10: 4, 0x12: 8}


def _key(raw: bytes) -> bytes:
    """Return the element ``_id`` of a document, which MongoDB stores first."""
    length = _LENGTHS.get(raw[4])
    if length is not None and raw[5:9] == b"_id\0":
        return raw[4 : 9 + length]
    return bson.encode({"_id": bson.decode(raw)["_id"]})[4:-1]


def _parse_key(key: bytes) -> Any:
    return bson.decode((len(key) + 5).to_bytes(4, "little") + key + b"\0")["_id"]
