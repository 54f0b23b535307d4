"""The connection to MongoDB: lazy, with journaled majority writes, and transactions."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import pymongo
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from app.errors import NoSpaceError, StoreError
from app.mappers.mongo import refusals
from app.mappers.mongo.errors import UNAVAILABLE, is_disk_full, translate_errors
from app.mappers.mongo.shared_cache import SharedCache
from app.mappers.mongo.write_listener import WriteListener
from app.models.transactions import TRANSACTION_SECONDS
from app.ports import ChangeLog
from app.runtime import identity_map

T = TypeVar("T")
Doc = dict[str, Any]
Session = ClientSession

#: Time limit of each statement of requests and jobs (W15); index builds are exempt.
TIMEOUT_MS = 5000
#: Documents per reply: by default, the driver needs a second request after the first hundred.
BATCH = 10_000
#: The server's code of a duplicate key.
DUPLICATE_KEY = 11000
#: Pipelines per command; the server accepts a thousand stages.
PARTS = 500


class Store:
    """A database, to which nothing connects before the first use.

    Args:
        uri: address of a replica set or cluster.
        name: name of the database.
        log: where processes report what they write; None: nothing outlasts a request.
    """

    def __init__(self, uri: str, name: str, log: ChangeLog | None = None) -> None:
        self.log = log
        self.cache = None if log is None else SharedCache(log)
        self._listener = WriteListener(log)
        # connect=False: a process may fork after building this, and MongoClient is not fork-safe.
        self._client = self._open_client(
            uri,
            connect=False,
            tz_aware=True,
            w="majority",
            journal=True,
            retryWrites=True,
            appname="eventr",
            serverSelectionTimeoutMS=TIMEOUT_MS,
            timeoutMS=TIMEOUT_MS,
            event_listeners=[self._listener],
        )
        self.database: Database[Doc] = self._client[name]

    def _open_client(self, uri: str, **options: Any) -> MongoClient[Doc]:
        return MongoClient(uri, **options)

    def run_in_transaction(self, operation: Callable[[Session], T]) -> T:
        """Run ``operation`` in a transaction and return its value; it runs again after a write conflict.

        Raises:
            StoreError: conflicts continued until the time limit, or the store does not answer.
        """
        try:
            with (
                identity_map.bypass(),
                pymongo.timeout(TRANSACTION_SECONDS),
                self._client.start_session() as session,
            ):
                is_over = True
                try:
                    return session.with_transaction(
                        _mark_repeats(operation),
                        read_concern=ReadConcern("snapshot"),
                        write_concern=WriteConcern(w="majority", j=True),
                        read_preference=ReadPreference.PRIMARY,
                    )
                except UNAVAILABLE:
                    is_over = False
                    raise
                finally:
                    self._listener.end_transaction(session, is_over=is_over)
        except UNAVAILABLE as e:
            # Its transient label was for the driver, which has given up retrying.
            raise self.make_error(e) from e
        except OperationFailure as e:
            if is_disk_full(e):
                raise NoSpaceError from e
            if e.has_error_label("TransientTransactionError"):
                raise self.make_error(e) from e
            raise

    def make_error(self, error: PyMongoError) -> StoreError:
        """Return the error for people, for a temporary error of the driver."""
        return StoreError()

    @translate_errors
    def ping(self) -> None:
        """Raise StoreError when MongoDB doesn't answer, or Eventr can't use it (the sentence says why)."""
        try:
            problem = refusals.find_problem(self._client.admin.command("hello"))
        except OperationFailure as e:
            problem = refusals.describe_refusal(e)
            if problem is None:
                raise
        if problem is not None:
            raise StoreError(problem)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


class Part(NamedTuple):
    """A pipeline on a collection; ``hint``: the index to use if the pipeline is the first of a command."""

    collection: Collection[Doc]
    pipeline: list[Doc]
    hint: str


@translate_errors
def run_parts(parts: Sequence[Part]) -> list[Doc]:
    """Return the results of pipelines in order, with a single command unless there are many.

    Each pipeline has its own limit, since a limit on the whole would be shared. Only the first pipeline of a
    command can have a hint, so the queries of the others must clearly imply their index.
    """
    found: list[Doc] = []
    for start in range(0, len(parts), PARTS):
        first, *others = parts[start : start + PARTS]
        union = [{"$unionWith": {"coll": o.collection.name, "pipeline": o.pipeline}} for o in others]
        found += first.collection.aggregate([*first.pipeline, *union], hint=first.hint, batchSize=BATCH)
    return found


def run_pipelines(collection: Collection[Doc], pipelines: Sequence[list[Doc]], *, hint: str) -> list[Doc]:
    """Return the results of pipelines on one collection, as :func:`run_parts` does."""
    return run_parts([Part(collection, pipeline, hint) for pipeline in pipelines])


#: Sessions whose transaction is repeated after a write conflict.
_repeated: weakref.WeakSet[Session] = weakref.WeakSet()


def _mark_repeats(operation: Callable[[Session], T]) -> Callable[[Session], T]:
    """Return an operation that remembers from its second run on that its transaction is repeated."""
    runs = itertools.count()

    def run(session: Session) -> T:
        if next(runs):
            _repeated.add(session)
        return operation(session)

    return run


@translate_errors
def find_and_update(
    collection: Collection[Doc],
    query: Doc,
    update: Doc | list[Doc],
    session: Session,
    *,
    projection: Doc | None = None,
    after: bool = False,
    upsert: bool = False,
) -> Doc | None:
    """Update a document in a transaction and return it as it was before, or after the update.

    mongod logs a warning of a kilobyte for each conflict of findAndModify, and none for those of other
    commands. So a transaction that is repeated after a conflict, perhaps many times, uses two of those.

    Args:
        upsert: insert the document if there is none; then None is returned.
    """
    if session not in _repeated:
        return collection.find_one_and_update(
            query, update, projection=projection, return_document=after, upsert=upsert, session=session
        )
    before = collection.find_one(query, projection, session=session)
    if before is None:
        if upsert:
            collection.update_one(query, update, upsert=True, session=session)
        return None
    one = {"_id": before["_id"]}
    collection.update_one(one, update, session=session)
    return collection.find_one(one, projection, session=session) if after else before


def is_duplicate(error: DuplicateKeyError, field: str) -> bool:
    """Return whether a duplicate-key error is about an index that contains ``field``."""
    return field in (error.details or {}).get("keyPattern", {})
