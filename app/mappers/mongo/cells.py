"""Routing of people's data: which replica set holds what belongs to a person.

Without ``EVENTR_CELLS`` everyone lives in the home store, and nothing is looked up. With it, ``places`` says
where each person lives. A process keeps places for :data:`KEPT_SECONDS`, and forgets them when the epoch in
Redis rises.
"""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pymongo.collection import Collection as Table
from pymongo.database import Database

from app import logs
from app.errors import CellError, CellMismatchError, MovingError, StartupError, StoreError
from app.mappers.mongo import errors, ids
from app.mappers.mongo.cell_identity import (
    check_identity,
    claim_database,
    find_collection,
    find_process,
    has_accounts,
)
from app.mappers.mongo.cell_store import CellStore
from app.mappers.mongo.cell_watch import PATIENCE
from app.mappers.mongo.indexes import ensure_cell_indexes
from app.mappers.mongo.store import Doc, Session, Store
from app.mappers.operations.places import PlaceMapper
from app.models.operations.cells import HOME, Place, PlaceState

T = TypeVar("T")
_log = logs.get(__name__)

#: Seconds for which a place that was read holds.
KEPT_SECONDS = 10.0
#: Places in the cache; when it is full, it is emptied.
KEPT_PLACES = 50_000
#: Seconds after which a process looks again whether people live in a cell that it doesn't know.
LOOK_SECONDS = 30.0


class PersonTable(Table[Doc]):
    """A person's collection: each write finds out anew whether the person still lives there.

    So a mapper that keeps a table for several writes sends none to a cell that the person has left.
    """

    _check: Callable[[], None]
    #: Epoch of the place that this collection was chosen by.
    epoch = 0

    def check_with(self, check: Callable[[], None], epoch: int) -> PersonTable:
        """Call ``check`` before each write; it raises MovingError."""
        self._check, self.epoch = check, epoch
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


def _refuse_group_writes() -> None:
    raise TypeError("Write with PeopleTable.write_groups: some of these people may be moving.")


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
        place = self._cells.find_place(user_id)
        table = PersonTable(self._cells.get_store(place.cell).database, self.name, **self._options)
        return table.check_with(functools.partial(self._cells.check_place, user_id, place.cell), place.epoch)

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
        """How many stores there are, with the home store; one more if there are cells that aren't known."""
        return len(self._cells.names) + self._cells.has_unknown()

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
            found += self._read_if_up(cell, read)
        return found

    def read_groups(self, user_ids: Collection[int], read: Callable[[Table[Any], list[int]], T]) -> list[T]:
        """Return the result of ``read`` for each store that holds documents of these people, with them.

        Cells that aren't responding are left out.

        Raises:
            StoreError: the home store isn't responding.
        """
        if not self._cells.is_spread:
            return [read(self._home, list(user_ids))]
        found = list[T]()
        for cell, places in self._cells.group_places(user_ids).items():
            people = [place.user_id for place in places]
            found += self._read_if_up(cell, functools.partial(_read_people, read, people))
        return found

    def _read_if_up(self, cell: str, read: Callable[[Table[Any]], T]) -> list[T]:
        try:
            store = self._cells.get_store(cell)
            try:
                return [read(self._open(store.database))]
            except errors.UNAVAILABLE as e:
                raise store.make_error(e) from e
        except CellError:
            _log.warning("cell_left_out", cell=cell, collection=self.name)
            return []

    def group_by_people(self, user_ids: Collection[int]) -> Iterator[tuple[Table[Any], list[int]]]:
        """Yield each collection that holds documents of these people, with these people; only to read.

        Raises:
            CellError: the cell of some isn't responding.
        """
        if not self._cells.is_spread:
            yield self._home, list(user_ids)
            return
        for cell, places in self._cells.group_places(user_ids).items():
            table = PersonTable(self._cells.get_store(cell).database, self.name, **self._options)
            yield table.check_with(_refuse_group_writes, 0), [place.user_id for place in places]

    def write_groups(
        self, user_ids: Collection[int], write: Callable[[Table[Any], list[int]], object]
    ) -> set[int]:
        """Call ``write`` with each collection that holds documents of these people, and with these people.

        It is called with people who can be written to, and its writes must be safe to repeat.

        Returns:
            Those whose writes may be missing, because they move or their cell isn't responding.

        Raises:
            StoreError: the home store isn't responding.
        """
        if not self._cells.is_spread:
            write(self._home, list(user_ids))
            return set()
        missed = set[int]()
        for cell, places in self._cells.group_places(user_ids).items():
            staying = [place.user_id for place in places if place.state is not PlaceState.MIGRATING]
            missed.update(place.user_id for place in places if place.state is PlaceState.MIGRATING)
            try:
                if staying:
                    self._write_group(cell, staying, write)
            except (MovingError, CellError) as e:
                _log.info("people_not_written", cell=cell, collection=self.name, why=e.word)
                missed.update(staying)
        return missed

    def _write_group(
        self, cell: str, user_ids: list[int], write: Callable[[Table[Any], list[int]], object]
    ) -> None:
        store = self._cells.get_store(cell)
        table = PersonTable(store.database, self.name, **self._options)
        try:
            write(table.check_with(functools.partial(self._cells.check_places, user_ids, cell), 0), user_ids)
        except errors.UNAVAILABLE as e:
            raise store.make_error(e) from e

    def with_options(self, **options: Any) -> PeopleTable:
        """Return the same collection with other options."""
        return PeopleTable(self._cells, self.name, **self._options, **options)


class Cells:
    """The home store and all cells.

    Args:
        home: the store of everything that people share, and of people without a place.
        addresses: name → URI of the cells; empty: everyone lives in the home store.
        name: name of the database, in all of them.
        read_epoch: returns a number that changes with each change of ``places``; None: only time counts.
        get_slot: returns the slot of this process for ids; None: ids are unique per collection only.
        patience: seconds for which requests wait for a cell that has just stopped responding.
    """

    def __init__(
        self,
        home: Store,
        addresses: Mapping[str, str],
        name: str,
        read_epoch: Callable[[], int] | None = None,
        get_slot: Callable[[], int] | None = None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.home = home
        #: Whether this process knows cells beside the home store.
        self.is_configured = bool(addresses)
        self._has_unknown, self._next_look = False, time.monotonic() + LOOK_SECONDS
        self.places = PlaceMapper(home.database)
        self._stores: dict[str, Store] = {HOME: home}
        self._stores |= {
            cell: CellStore(uri, name, cell, home.log, is_used=self.places.is_used, patience=patience)
            for cell, uri in addresses.items()
        }
        self._read_epoch, self._get_slot = read_epoch, get_slot
        self._kept: dict[int, tuple[Place, float]] = {}
        self._epoch = 0

    @property
    def is_spread(self) -> bool:
        """Whether people may live elsewhere than in the home store."""
        return self.is_configured or self.has_unknown()

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
            raise MovingError(user_id=user_id)
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
        kept = self._get_kept()
        place, until = kept.get(user_id, (None, 0.0))
        if place is None or now >= until:
            place = self.places.read_place(user_id) or Place(user_id, HOME)
            _keep(kept, [place], now)
        return place

    def _find_places(self, user_ids: Collection[int]) -> list[Place]:
        """Return where these people live, with one command for those who aren't in the cache."""
        now = time.monotonic()
        kept = self._get_kept()
        found = {i: one[0] for i in user_ids if (one := kept.get(i)) and now < one[1]}
        if missing := [i for i in user_ids if i not in found]:
            placed = self.places.find_many(missing)
            new = [placed.get(i) or Place(i, HOME) for i in missing]
            _keep(kept, new, now)
            found |= {place.user_id: place for place in new}
        return list(found.values())

    def _get_kept(self) -> dict[int, tuple[Place, float]]:
        """Return the places in the cache, none if some have changed.

        Another thread may forget all places while this one reads. What this one has read must not be kept
        then, so it keeps it in what was returned.
        """
        if self._read_epoch is not None and (epoch := self._read_epoch()) != self._epoch:
            self.forget_places()
            self._epoch = epoch
        return self._kept

    def place_new(self, user_id: int) -> None:
        """Place a new person by the weights of the cells that respond; if none does, in the home store.

        Nothing of theirs is stored yet.
        """
        if not self.is_spread:
            return
        weights = {cell: n for cell, n in self.places.find_weights().items() if cell in self._stores and n}
        # Without weights, everyone stays at home until an administrator has set them.
        while weights:
            cell = random.choices(list(weights), list(weights.values()))[0]  # noqa: S311
            if self._is_usable(cell):
                break
            del weights[cell]
        else:
            cell = HOME
        if cell != HOME:
            self.places.add(user_id, cell)

    def _is_usable(self, cell: str) -> bool:
        try:
            self.get_store(cell)
        except CellError:
            _log.warning("nobody_placed", cell=cell)
            return False
        return True

    def is_home(self, user_id: int) -> bool:
        """Return whether a person lives in the home store."""
        return not self.is_spread or self.find_place(user_id).cell == HOME

    def check_place(self, user_id: int, cell: str) -> None:
        """Raise MovingError unless a person lives in a cell and isn't being moved."""
        _require_place(self.find_place(user_id), cell)

    def check_places(self, user_ids: Collection[int], cell: str) -> None:
        """Raise MovingError unless all these people live in a cell and none of them is being moved."""
        for place in self._find_places(user_ids):
            _require_place(place, cell)

    def forget_places(self) -> None:
        """Read places again at their next use."""
        self._kept = {}

    def get_store(self, cell: str) -> Store:
        """Return the store of a cell.

        Raises:
            CellError: the cell didn't respond a moment ago, isn't prepared, or isn't configured.
        """
        store = self._stores.get(cell)
        if store is None:
            raise CellError(cell=cell)
        if isinstance(store, CellStore):
            store.check_pause()
            store.require_prepared()
        return store

    def get_store_of(self, session: Session) -> Store:
        """Return the store that a session belongs to."""
        return next(s for s in self._stores.values() if s.database.client is session.client)

    def iterate_stores(self) -> Iterator[Store]:
        """Yield the home store and all cells.

        Raises:
            CellError: people live in a cell that this process doesn't know, or a cell isn't responding.
        """
        self.require_all()
        return map(self.get_store, self._stores)

    def group_places(self, user_ids: Collection[int]) -> dict[str, list[Place]]:
        """Return the places of these people by cell."""
        grouped = defaultdict[str, list[Place]](list)
        for place in self._find_places(user_ids):
            grouped[place.cell].append(place)
        return grouped

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

    # -- are the cells those that EVENTR_CELLS names?

    def has_unknown(self) -> bool:
        """Return whether people live in a cell that this process doesn't know; looks from time to time.

        Such a process must not take them for people of the home store, nor count without them.
        """
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            with contextlib.suppress(StoreError):  # the caller needs the home store, too
                self._has_unknown = self.places.has_others(self._stores)
                if self._has_unknown:
                    _log.error("cells_unknown", known=self.names)
        return self._has_unknown

    def require_all(self) -> None:
        """Check that no people live in a cell that this process doesn't know, before it counts in all.

        Raises:
            CellError: some do.
        """
        if self.has_unknown():
            raise CellError

    def check_start(self) -> None:
        """Check before a process starts that it knows all cells in which people live, and their databases.

        Nothing is written. A cell that isn't responding is left out.

        Raises:
            StartupError: it doesn't know a cell, or an address leads to the database of another one.
            StoreError: the home store isn't responding.
        """
        self._require_known()
        with _refusing_start():
            check_identity(self.home.database, HOME, self.places.is_used)
            if self.is_configured:
                cells = self._get_cells()
                named = dict(zip(cells, _call_each(_has_identity, cells), strict=True))
                responding = [cell for cell, is_named in named.items() if is_named is not None]
                self._require_distinct(responding)
                for cell in responding:
                    if not named[cell]:
                        _require_no_accounts(cell)

    def _require_distinct(self, cells: Sequence[CellStore]) -> None:
        """Check that no two addresses lead to the same database, before anything is written to one."""
        found = dict[object, str]()
        for name, database in [(HOME, self.home.database), *((cell.name, cell.database) for cell in cells)]:
            try:
                keys = [find_process(database), find_collection(database)]
            except CellError:
                continue  # it has just gone
            for key in keys:
                if key is not None and found.setdefault(key, name) != name:
                    raise _make_twin_error(found[key], name)

    def _require_known(self) -> None:
        unknown = sorted(set(self.places.list_cells()) - set(self._stores))
        if unknown:
            raise StartupError(
                "People live in cells that EVENTR_CELLS doesn't name: %(cells)s. Add each as NAME=URI, then"
                " start Eventr again.",
                cells=", ".join(unknown),
            )

    def verify(self, cells: Collection[str]) -> None:
        """Check now that the address of each of these cells leads to its database.

        Raises:
            CellMismatchError: one leads to another cell's.
            CellError: one isn't responding, or isn't configured.
        """
        claim_database(self.home.database, HOME, self.places.is_used)  # before a cell can take it for its own
        for cell in cells:
            if cell != HOME:
                self._find_store(cell).claim(self.names)

    def ping_all(self) -> dict[str, bool]:
        """Return for each cell whether it is responding; all are asked at the same time."""
        stores = self._get_cells()
        return dict(zip((store.name for store in stores), _call_each(_is_responding, stores), strict=True))

    def prepare(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Upgrade all cells to this program's schema and create their indexes; safe to repeat.

        A cell that isn't responding is left out: its people are refused until the updater has prepared it.

        Raises:
            StartupError: a newer program has upgraded a cell, this process should stop, or what
                :meth:`check_start` finds.
            StoreError: the home store isn't responding.
        """
        self.check_start()
        if self.is_configured:
            ensure_cell_indexes(self.home.database, ())
            self._prepare(self._get_cells(), cancelled)

    def prepare_missing(self) -> None:
        """Prepare the cells that this process hasn't found prepared yet; raises as :meth:`prepare` does."""
        unknown = [store for store in self._get_cells() if not store.is_prepared]
        found = _call_each(_is_prepared, unknown)
        missing = [store for store, is_prepared in zip(unknown, found, strict=True) if not is_prepared]
        if missing:
            self.check_start()
            self._prepare(missing)

    def _prepare(self, stores: Sequence[CellStore], cancelled: Callable[[], bool] = lambda: False) -> None:
        def prepare_one(store: CellStore) -> None:
            try:
                store.prepare(cancelled)
                self.places.record_used(store.name)
            except StoreError as e:
                _log.warning("cell_not_prepared", cell=store.name, error=e.word)

        with _refusing_start():
            # The home store first, and one after the other: the name that comes first gets a database.
            claim_database(self.home.database, HOME, self.places.is_used)
            claimed = dict[str, CellStore]()
            for store in stores:
                if _claim_if_up(store, claimed):
                    claimed[store.name] = store
        # Without those that are down: one that is back doesn't wait for them.
        _call_each(prepare_one, list(claimed.values()))

    def _get_cells(self) -> list[CellStore]:
        return [store for store in self._stores.values() if isinstance(store, CellStore)]

    def _find_store(self, cell: str) -> CellStore:
        store = self._stores.get(cell)
        if not isinstance(store, CellStore):
            raise CellError(cell=cell)
        return store

    def close(self) -> None:
        """Close the connections to all cells; the home store stays open."""
        for store in self._stores.values():
            if store is not self.home:
                store.close()


def _keep(kept: dict[int, tuple[Place, float]], places: Sequence[Place], now: float) -> None:
    if len(kept) + len(places) > KEPT_PLACES:
        kept.clear()
    kept |= {place.user_id: (place, now + KEPT_SECONDS) for place in places[:KEPT_PLACES]}


def _read_people(read: Callable[[Table[Any], list[int]], T], user_ids: list[int], table: Table[Any]) -> T:
    return read(table, user_ids)


def _require_place(place: Place, cell: str) -> None:
    if place.state is PlaceState.MIGRATING or place.cell != cell:
        raise MovingError(user_id=place.user_id)


def _call_each(call: Callable[[CellStore], T], stores: Sequence[CellStore]) -> list[T]:
    """Call a function with each cell, all at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(stores))) as pool:
        return list(pool.map(call, stores))


def _is_responding(store: CellStore) -> bool:
    try:
        store.check_pause()
        store.ping()
    except StoreError:
        return False
    return True


def _is_prepared(store: CellStore) -> bool:
    try:
        store.check_pause()
        return store.check_prepared()
    except StoreError:
        return False


def _has_identity(store: CellStore) -> bool | None:
    """Return whether a cell's database has its identity; None: it isn't responding."""
    try:
        return store.check_identity()
    except CellMismatchError:
        raise
    except StoreError:
        _log.warning("cell_silent", cell=store.name)
        return None


def _claim_if_up(store: CellStore, taken: Collection[str]) -> bool:
    try:
        store.claim(taken)
    except CellMismatchError:
        raise
    except StoreError:
        _log.warning("cell_silent", cell=store.name)
        return False
    return True


@contextlib.contextmanager
def _refusing_start() -> Iterator[None]:
    try:
        yield
    except CellMismatchError as e:
        raise StartupError(e.sentence, **e.ids) from e


def _require_no_accounts(store: CellStore) -> None:
    try:
        if not has_accounts(store.database):
            return
    except CellError:
        return  # it has just gone
    raise StartupError(
        "The address of the cell %(cell)s leads to a database with accounts, so it is a home store."
        " Correct EVENTR_CELLS or EVENTR_MONGODB_URI, then start Eventr again.",
        cell=store.name,
    )


def _make_twin_error(one: str, other: str) -> StartupError:
    if one == HOME:
        return StartupError(
            "The address of the cell %(cell)s leads to the home store, EVENTR_MONGODB_URI."
            " Correct EVENTR_CELLS, then start Eventr again.",
            cell=other,
        )
    return StartupError(
        "The addresses of the cells %(cell)s and %(other)s lead to the same database."
        " Correct EVENTR_CELLS, then start Eventr again.",
        cell=one,
        other=other,
    )


def get_epoch(table: Table[Any]) -> int:
    """Return the epoch of the place that a person's collection was chosen by; without cells 0."""
    return table.epoch if isinstance(table, PersonTable) else 0


def get_own_session(database: Database[Doc], session: Session | None) -> Session | None:
    """Return a session if it belongs to this database's client, else None.

    A session belongs to one client. Home's numbers of people in other cells are settled by the outbox.
    """
    return session if session is not None and session.client is database.client else None
