"""Routing of people's data: which replica set holds what belongs to a person.

Without ``EVENTR_CELLS`` everyone lives in the home store, and nothing is looked up. With it, ``places`` says
where each person lives. A process keeps places for :data:`KEPT_SECONDS`, and forgets them when the epoch in
Redis rises.
"""

from __future__ import annotations

import functools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from pymongo import MongoClient
from pymongo.collection import Collection as Table
from pymongo.database import Database
from pymongo.errors import ConnectionFailure, PyMongoError

from app import logs
from app.errors import CellError, MovingError, StoreError
from app.mappers.mongo import errors, ids
from app.mappers.mongo.cell_client import open_client
from app.mappers.mongo.indexes import ensure_cell_indexes
from app.mappers.mongo.placement import PLACEMENTS, Home
from app.mappers.mongo.store import Doc, Session, Store
from app.mappers.operations.places import PlaceMapper
from app.models.operations.cells import HOME, Place, PlaceState
from app.ports import ChangeLog

T = TypeVar("T")
_log = logs.get(__name__)

#: Seconds for which a place that was read holds.
KEPT_SECONDS = 10.0
#: Places in the cache; when it is full, it is emptied.
KEPT_PLACES = 50_000
#: Seconds for which a cell that didn't respond isn't asked again: its people must not occupy all threads.
PAUSE_SECONDS = 2.0


class PersonTable(Table[Doc]):
    """A person's collection: each write finds out anew whether the person still lives there.

    So a mapper that keeps a table for several writes sends none to a cell that the person has left.
    """

    _check: Callable[[], None]

    def check_with(self, check: Callable[[], None]) -> PersonTable:
        """Call ``check`` before each write; it raises MovingError."""
        self._check = check
        return self


def _refuse_after_moves(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def write(self: PersonTable, *args: Any, **kwargs: Any) -> Any:
        self._check()
        return method(self, *args, **kwargs)

    return write


#: The methods of collections that write.
WRITES = (
    *("insert_one", "insert_many", "update_one", "update_many", "replace_one", "delete_one", "delete_many"),
    *("bulk_write", "find_one_and_update", "find_one_and_replace", "find_one_and_delete"),
)
for _name in WRITES:
    setattr(PersonTable, _name, _refuse_after_moves(getattr(Table, _name)))


class PeopleTable:
    """A collection of people's data, spread over cells.

    Args:
        options: of the driver's collection, such as its write concern.
    """

    def __init__(self, cells: Cells, name: str, **options: Any) -> None:
        self.name = name
        self._cells, self._options = cells, options
        self._home = self._open(cells.home.database)

    def _open(self, database: Database[Doc]) -> Table[Any]:
        return database.get_collection(self.name, **self._options)

    def get(self, user_id: int, session: Session | None = None) -> Table[Any]:
        """Return the collection that holds a person's documents; writes are refused while they are moved.

        Args:
            user_id: the person.
            session: of a transaction, which stays in the store in which it began.

        Raises:
            CellError: the person's cell didn't respond a moment ago.
        """
        if not self._cells.is_spread:
            return self._home
        if session is not None:
            return self._open(self._cells.get_store_of(session).database)
        cell = self._cells.find_place(user_id).cell
        table = PersonTable(self._cells.get_store(cell).database, self.name, **self._options)
        return table.check_with(functools.partial(self._cells.check_place, user_id, cell))

    def iterate_tables(self) -> Iterator[Table[Any]]:
        """Yield the collection of the home store, and those of all cells."""
        return map(self._open, (store.database for store in self._cells.iterate_stores()))

    @property
    def is_spread(self) -> bool:
        """Whether there are cells beside the home store."""
        return self._cells.is_spread

    def reserve_id(self) -> int:
        """Return a new id; see :meth:`reserve_ids`."""
        return self._cells.reserve_ids(1)[0]

    def reserve_ids(self, count: int) -> range:
        """Return new ids that are unique in all stores.

        Raises:
            StoreError: this process has no slot, because Redis isn't responding.
        """
        return self._cells.reserve_ids(count)

    @property
    def store_count(self) -> int:
        """How many stores there are, with the home store."""
        return len(self._cells.names)

    @property
    def home(self) -> Database[Doc]:
        """The database of the home store."""
        return self._home.database

    def get_database(self, user_id: int, *, write: bool = False) -> Database[Doc]:
        """Return the database of this collection for a person; see :meth:`Cells.get_database`."""
        return self._cells.get_database(user_id, write=write)

    def get_joined(self, user_id: int, session: Session | None) -> tuple[Table[Any], Session | None]:
        """Return a person's collection, and the session if its transaction can include it."""
        if session is None or self._cells.is_home(user_id) is (session.client is self._home.database.client):
            return self.get(user_id, session), session
        return self.get(user_id), None

    def read_each(self, read: Callable[[Table[Any]], T]) -> list[T]:
        """Return the result of ``read`` for each store; leave out cells that aren't responding.

        Raises:
            StoreError: the home store isn't responding.
        """
        found = [read(self._home)]
        for cell in self._cells.names[1:]:
            try:
                store = self._cells.get_store(cell)
                try:
                    found.append(read(self._open(store.database)))
                except errors.UNAVAILABLE as e:
                    raise store.make_error(e) from e
            except CellError:
                _log.warning("cell_left_out", cell=cell, collection=self.name)
        return found

    def group_by_people(self, user_ids: Collection[int]) -> Iterator[tuple[Table[Any], list[int]]]:
        """Yield each collection that holds documents of these people, with these people."""
        if not self._cells.is_spread:
            yield self._home, list(user_ids)
            return
        for store, found in self._cells.group_people(user_ids):
            yield self._open(store.database), found

    def with_options(self, **options: Any) -> PeopleTable:
        """Return the same collection with other options."""
        return PeopleTable(self._cells, self.name, **self._options, **options)


class CellStore(Store):
    """The replica set of a cell. After a failed connection it is left alone for a moment."""

    def __init__(self, uri: str, database: str, name: str, log: ChangeLog | None = None) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._failed_until = 0.0
        super().__init__(uri, database, log)

    def _open_client(self, uri: str, **options: Any) -> MongoClient[Doc]:
        return open_client(self, uri, **options)

    def check_pause(self) -> None:
        """Raise CellError if the cell didn't respond a moment ago; one call at a time may try again."""
        if not self._failed_until:
            return
        with self._lock:
            now = time.monotonic()
            if now < self._failed_until:
                raise CellError
            # This call tries; until it has ended, others are refused. A success ends the pause.
            self._failed_until = now + PAUSE_SECONDS * 3

    def note_failure(self) -> None:
        """Record that a connection failed."""
        with self._lock:
            self._failed_until = time.monotonic() + PAUSE_SECONDS

    def note_success(self) -> None:
        """Record that the cell responds."""
        if self._failed_until:
            self._failed_until = 0.0

    def make_error(self, error: PyMongoError) -> StoreError:
        """Return the error for people, after recording a failed connection."""
        if isinstance(error, ConnectionFailure):
            self.note_failure()
        return CellError(cell=self.name)


class Cells:
    """The home store and all cells.

    Args:
        home: the store of everything that people share, and of people without a place.
        addresses: name → URI of the cells; empty: everyone lives in the home store.
        name: name of the database, in all of them.
        read_epoch: returns a number that changes with each change of ``places``; None: only time counts.
        get_slot: returns the slot of this process for ids; None: ids are unique per collection only.
    """

    def __init__(
        self,
        home: Store,
        addresses: Mapping[str, str],
        name: str,
        read_epoch: Callable[[], int] | None = None,
        get_slot: Callable[[], int] | None = None,
    ) -> None:
        self.home = home
        self.is_spread = bool(addresses)
        self.places = PlaceMapper(home.database)
        self._stores: dict[str, Store] = {HOME: home}
        self._stores |= {cell: CellStore(uri, name, cell, home.log) for cell, uri in addresses.items()}
        self._read_epoch, self._get_slot = read_epoch, get_slot
        self._kept: dict[int, tuple[Place, float]] = {}
        self._epoch = 0

    @property
    def names(self) -> list[str]:
        """The names of all cells, the home store first."""
        return list(self._stores)

    def get_database(self, user_id: int, *, write: bool = False) -> Database[Doc]:
        """Return the database that holds a person's data.

        Args:
            write: the caller will write.

        Raises:
            MovingError: the person is being moved, and ``write``.
            CellError: the person's cell didn't respond a moment ago.
        """
        if not self.is_spread:
            return self.home.database
        place = self.find_place(user_id)
        if write and place.state is PlaceState.MIGRATING:
            raise MovingError
        return self.get_store(place.cell).database

    def get_table(self, name: str, **options: Any) -> PeopleTable:
        """Return a collection of people's data; ``options`` are those of the driver's collection."""
        return PeopleTable(self, name, **options)

    def reserve_ids(self, count: int) -> range:
        """Return new ids for documents of people; see :meth:`PeopleTable.reserve_ids`."""
        if self._get_slot is not None:
            return ids.reserve_slot_ids(self._get_slot(), count)
        first = ids.reserve_ids(count)
        return range(first, first + count)

    def find_place(self, user_id: int) -> Place:
        """Return where a person lives, from the cache if possible."""
        now = time.monotonic()
        if self._read_epoch is not None and (epoch := self._read_epoch()) != self._epoch:
            self.forget_places()
            self._epoch = epoch
        # Another thread may forget all places while this one reads; its old place must not be kept then.
        kept = self._kept
        place, until = kept.get(user_id, (None, 0.0))
        if place is None or now >= until:
            place = self.places.read_place(user_id) or Place(user_id, HOME)
            if len(kept) >= KEPT_PLACES:
                kept.clear()
            kept[user_id] = place, now + KEPT_SECONDS
        return place

    def place_new(self, user_id: int) -> None:
        """Place a new person in a cell, by the weights of the cells; nothing of theirs is stored yet."""
        if not self.is_spread:
            return
        weights = {cell: n for cell, n in self.places.find_weights().items() if cell in self._stores and n}
        # Without weights, everyone stays at home until an administrator has set them.
        cell = random.choices(list(weights), list(weights.values()))[0] if weights else HOME  # noqa: S311
        if cell != HOME:
            self.places.add(user_id, cell)

    def is_home(self, user_id: int) -> bool:
        """Return whether a person lives in the home store."""
        return not self.is_spread or self.find_place(user_id).cell == HOME

    def check_place(self, user_id: int, cell: str) -> None:
        """Raise MovingError unless a person lives in a cell and isn't being moved."""
        place = self.find_place(user_id)
        if place.state is PlaceState.MIGRATING or place.cell != cell:
            raise MovingError(user_id=user_id)

    def forget_places(self) -> None:
        """Read places again at their next use."""
        self._kept = {}

    def get_store(self, cell: str) -> Store:
        """Return the store of a cell.

        Raises:
            CellError: the cell didn't respond a moment ago, or isn't configured.
        """
        store = self._stores.get(cell)
        if store is None:
            raise CellError(cell=cell)
        if isinstance(store, CellStore):
            store.check_pause()
        return store

    def get_store_of(self, session: Session) -> Store:
        """Return the store that a session belongs to."""
        return next(s for s in self._stores.values() if s.database.client is session.client)

    def iterate_stores(self) -> Iterator[Store]:
        """Yield the home store and all cells.

        Raises:
            CellError: at a cell that didn't respond a moment ago.
        """
        return map(self.get_store, self._stores)

    def group_people(self, user_ids: Collection[int]) -> Iterator[tuple[Store, list[int]]]:
        """Yield each store with those of these people who live in it."""
        now = time.monotonic()
        places = {i: kept[0] for i in user_ids if (kept := self._kept.get(i)) and now < kept[1]}
        missing = [i for i in user_ids if i not in places]
        if missing:
            places |= self.places.find_many(missing)
        grouped = defaultdict[str, list[int]](list)
        for user_id in user_ids:
            place = places.get(user_id)
            grouped[place.cell if place else HOME].append(user_id)
        for cell, found in grouped.items():
            yield self.get_store(cell), found

    def run_in_transaction(self, user_id: int, operation: Callable[[Session], T]) -> T:
        """Run ``operation`` in a transaction of a person's store; see :meth:`Store.run_in_transaction`.

        Raises:
            MovingError: the person is being moved.
            CellError: the person's cell isn't responding.
            StoreError: conflicts continued until the time limit, or the home store isn't responding.
        """
        if not self.is_spread:
            return self.home.run_in_transaction(operation)
        cell = self.find_place(user_id).cell

        def run_unless_moving(session: Session) -> T:
            # At each attempt: it may repeat for seconds, and the mover only waits for open transactions.
            self.check_place(user_id, cell)
            return operation(session)

        return self.get_store(cell).run_in_transaction(run_unless_moving)

    def prepare(self) -> None:
        """Create the indexes of people's data in all cells; safe to repeat.

        Raises:
            CellError: a cell isn't responding.
        """
        owned = {name for name, (home, _) in PLACEMENTS.items() if home in (Home.CELL, Home.EACH)}
        if self.is_spread:
            ensure_cell_indexes(self.home.database, ())
        for cell in self._stores:
            if cell != HOME:
                ensure_cell_indexes(self.get_store(cell).database, owned)

    def close(self) -> None:
        """Close the connections to all cells; the home store stays open."""
        for store in self._stores.values():
            if store is not self.home:
                store.close()


def get_own_session(database: Database[Doc], session: Session | None) -> Session | None:
    """Return a session if it belongs to this database's client, else None.

    A session belongs to one client. Home's numbers of people in other cells are settled by the outbox.
    """
    return session if session is not None and session.client is database.client else None
