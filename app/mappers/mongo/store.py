"""The connection to MongoDB: made lazily, majority writes, journaled, and transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pymongo
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, OperationFailure
from pymongo.read_concern import ReadConcern

from app.errors import StoreError
from app.mappers.mongo.errors import UNAVAILABLE, translate_errors
from app.models.transactions import TRANSACTION_SECONDS

T = TypeVar("T")
Doc = dict[str, Any]
Session = ClientSession

#: No statement of a request or a job runs longer (W15); index builds are exempt.
TIMEOUT_MS = 5000
#: Documents of a reply: the driver would ask for those after the first hundred once more.
BATCH = 10_000
#: Pipelines of a command; the server takes a thousand stages.
PARTS = 500


class Store:
    """One database. Nothing connects before the first use.

    Args:
        uri: of a replica set or cluster.
        name: of the database.
    """

    def __init__(self, uri: str, name: str) -> None:
        # connect=False: a process may fork after building this, and MongoClient is not fork-safe.
        self._client: MongoClient[Doc] = MongoClient(
            uri,
            connect=False,
            tz_aware=True,
            w="majority",
            journal=True,
            retryWrites=True,
            appname="eventr",
            serverSelectionTimeoutMS=TIMEOUT_MS,
            timeoutMS=TIMEOUT_MS,
        )
        self.database: Database[Doc] = self._client[name]

    def run_in_transaction(self, operation: Callable[[Session], T]) -> T:
        """Run ``work`` in a transaction and return its value; it is run again on a write conflict.

        Raises:
            StoreError: conflicts did not end, or the store does not answer.
        """
        try:
            with pymongo.timeout(TRANSACTION_SECONDS), self._client.start_session() as session:
                return session.with_transaction(
                    operation,
                    read_concern=ReadConcern("snapshot"),
                    write_concern=WriteConcern(w="majority", j=True),
                    read_preference=ReadPreference.PRIMARY,
                )
        except UNAVAILABLE as e:
            # Its label, "run it again", was for the driver, which has given up by now.
            raise StoreError from e
        except OperationFailure as e:
            if e.has_error_label("TransientTransactionError"):
                raise StoreError from e
            raise

    @translate_errors
    def ping(self) -> None:
        """Raise StoreError when MongoDB does not answer."""
        self.database.command("ping")

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


@translate_errors
def run_pipelines(collection: Collection[Doc], pipelines: Sequence[list[Doc]], *, hint: str) -> list[Doc]:
    """Return what these pipelines find in one collection, one after the other; by one command, unless many.

    Args:
        parts: a limit in each, since a limit of them all would be shared. hint: an index for the first of
            them; the others can have none, so their queries must leave no doubt.
    """
    found: list[Doc] = []
    for start in range(0, len(pipelines), PARTS):
        first, *others = pipelines[start : start + PARTS]
        union = [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in others]
        found += collection.aggregate([*first, *union], hint=hint, batchSize=BATCH)
    return found


def is_duplicate(error: DuplicateKeyError, field: str) -> bool:
    """Return whether a duplicate-key error is about an index that holds ``field``."""
    return field in (error.details or {}).get("keyPattern", {})
