"""A person's documents in all collections, and a mover that is killed at a point of its run."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import signal
from collections.abc import Callable
from typing import Any

from bson import Int64, ObjectId
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.mappers.operations.person_documents import NAMES
from app.models.operations.cells import HOME, Place, PlaceState
from app.models.operations.moves import CLEAN_AFTER, MoveResult

Documents = dict[str, dict[Any, dict[str, Any]]]
#: The points at which a run can be killed, in order.
POINTS = (
    *("taken", "batch", "copied", "marked", "drained", "verified", "switched", "carried", "settled"),
    *("emptying", "cleaned", "swept", "ended"),
)
LATER = dt.timedelta(days=30)


def make_documents(database: Database[Any], user_id: int, first: int, count: int = 3) -> None:
    """Insert documents with ids and fields of all kinds into each collection of people."""
    now = clock.now()
    for place, name in enumerate(NAMES):
        docs = []
        for number in range(count if name not in ("recentreads", "rules") else 1):
            id_: Any = Int64(first + place * 1000 + number) if place % 3 else ObjectId()
            docs.append(
                {
                    "_id": id_,
                    "user_id": Int64(user_id),
                    # What the unique indexes of some collections need.
                    **{field: Int64(first + number) for field in ("feed_id", "entry_id", "part", "number")},
                    **{
                        field: f"{name}{number}"
                        for field in ("key", "name", "token", "stream", "file", "url", "day")
                    },
                    **{"kind": "k", "thing": number, "subject": number, "import_id": place, "export_id": 1},
                    "text": "x" * number * 100,
                    "expires": now + LATER,
                }
            )
        if name == "personal_exports":
            del docs[1:]
        database[name].insert_many(docs)


def load(database: Database[Any], user_id: int) -> Documents:
    """Return all documents of a person in a database, by collection and id."""
    return {name: {d["_id"]: d for d in database[name].find({"user_id": user_id})} for name in NAMES}


def count(database: Database[Any], user_id: int) -> int:
    return sum(database[name].count_documents({"user_id": user_id}) for name in NAMES)


def work(services: Services, user_id: int, after: dt.timedelta = CLEAN_AFTER) -> list[MoveResult]:
    """Run the mover as the updater does until the person isn't moved anymore."""
    results = []
    for _ in range(10):
        place = services.cells.places.read_place(user_id)
        if place is None or not place.step:
            return results
        results.append(services.mover.run(user_id, clock.now() + after))
    raise AssertionError("the move doesn't end")


def run_in_child(settings: Any, user_id: int, at: Callable[[Place, str], None]) -> int:
    """Run the mover once in a process of its own; return its signal, or 0 if it came to its end."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            services = bootstrap.build(settings)
            services.mover._at = at
            services.mover.run(user_id, clock.now() + CLEAN_AFTER)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def kill_at(point: str) -> Callable[[Place, str], None]:
    """Return what ends the process at a point."""

    def die(_: Place, reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def get_place(services: Services, user_id: int) -> Place:
    return services.cells.places.read_place(user_id) or Place(user_id, HOME, PlaceState.NORMAL)
