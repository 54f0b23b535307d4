"""F24, a model test of moves: people go to and fro between two real replica sets while they write and read.

Movers are killed at random points and at random moments. In the long form (``make faults``), both replica
sets are killed and started again as well, the home store and the cell. Each person has a model of their stars
and folders. In the end nothing is lost or doubled, and no read was refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import CellError, EventrError, ExistsError, MovingError, StoreError
from app.mappers.operations import person_documents
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME
from app.models.operations.moves import CLEAN_AFTER, MoveStep
from tests.faults.system import LONG
from tests.support import moves as support
from tests.support.cells import CELL, SecondCell, cell_db, running_cell, second_cell, wait_until
from tests.support.database import World, world
from tests.support.moves import POINTS, get_place

__all__ = ["cell_db", "second_cell", "world"]
pytestmark = pytest.mark.timeout(3000)

T = TypeVar("T")
#: People, how many movers are killed at least, threads in which people live, and movers at a time.
PEOPLE, KILLS, THREADS, MOVERS = (1000, 100, 3, 6) if LONG else (4, 4, 2, 2)
#: In the long form: moves between two restarts of a replica set, now the home store and now the cell.
RESTART = 100
ENTRIES = 40


@pytest.fixture(scope="module")
def own_home() -> Iterator[SecondCell | None]:
    """A home store that the long form may kill: all other tests of this process share theirs."""
    if not LONG:
        yield None
        return
    with running_cell(HOME) as store:
        yield store


@pytest.fixture
def settings(settings: Settings, second_cell: SecondCell, own_home: SecondCell | None) -> Settings:
    """Settings with the second cell, and in the long form with a home store of its own."""
    if own_home is not None:
        settings = dataclasses.replace(settings, mongodb_uri=own_home.uri, mongodb_name="moves")
    return dataclasses.replace(settings, cells=f"{CELL}={second_cell.uri}")


class Person:
    """Someone with the state that they must find."""

    def __init__(self, number: int) -> None:
        self.actor = Actor(1_800_000_000_000_000 + number)
        self.stars: set[int] = set()
        self.folders: dict[int, str] = {}
        self.made = 0


class Outcome(NamedTuple):
    """How a run of the mover ended: the person, and whether the process was killed."""

    user_id: int
    killed: bool


class Movers:
    """A process without threads that starts movers as its children, and lets some of them die."""

    def __init__(self, settings: Any, seed: int) -> None:
        theirs, self._ask = os.pipe()
        self._answers, ours = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._ask)
            os.close(self._answers)
            with contextlib.suppress(BaseException):
                _serve_moves(settings, random.Random(seed), os.fdopen(theirs), os.fdopen(ours, "w"))
            os._exit(0)
        os.close(theirs)
        os.close(ours)
        self._lines = os.fdopen(self._answers)

    def run(self, user_id: int, *, dies: bool) -> Outcome:
        os.write(self._ask, f"{user_id} {int(dies)}\n".encode())
        return Outcome(user_id, self._lines.readline() == "killed\n")

    def close(self) -> None:
        os.write(self._ask, b"end\n")  # others have inherited the pipe, so closing it doesn't end it
        os.close(self._ask)
        os.waitpid(self._pid, 0)
        self._lines.close()


def _serve_moves(settings: Any, rng: random.Random, asked: Any, answers: Any) -> None:
    for line in iter(asked.readline, "end\n"):
        user_id, dies = map(int, line.split())
        point, delay = rng.choice(POINTS), rng.uniform(0.01, 1.0)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                services = bootstrap.build(settings)
                if dies and rng.random() < 0.5:
                    # The kernel ends the process at any moment, as SIGKILL does.
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.setitimer(signal.ITIMER_REAL, delay)
                elif dies:
                    services.mover._at = support.kill_at(point)
                services.mover.run(user_id, clock.now() + CLEAN_AFTER)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        answers.write("killed\n" if os.WIFSIGNALED(status) else "ended\n")
        answers.flush()


@pytest.fixture
def movers(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Movers]]:
    monkeypatch.setattr(person_documents, "DOCUMENTS", 5)
    found = [Movers(settings, seed) for seed in range(MOVERS)]
    yield found
    for one in found:
        one.close()


class Life:
    """What people do meanwhile, in threads, each with people of its own."""

    def __init__(self, services: Services, people: list[Person], entries: list[int]) -> None:
        self.services, self.entries = services, entries
        self.stop = threading.Event()
        self.seen = Counter[str]()
        self.failed: list[str] = []
        parts = [people[n::THREADS] for n in range(THREADS)]
        self._rounds = [0] * THREADS
        self._thread_of = {p.actor.user_id: n for n, part in enumerate(parts) for p in part}
        self._threads = [threading.Thread(target=self._live, args=(part, n)) for n, part in enumerate(parts)]

    def __enter__(self) -> Life:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _live(self, people: list[Person], seed: int) -> None:
        rng = random.Random(seed)
        try:
            while not self.stop.is_set():
                person = rng.choice(people)
                self._write(person, rng)
                self.check(person)
                self._rounds[seed] += 1
                self.stop.wait(0.01 if LONG else 0.03)
        except BaseException as e:  # noqa: BLE001 — the test fails with it
            self.failed.append("".join(traceback.format_exception(e)))

    def finish_reads(self, user_id: int) -> None:
        """Wait until what a person's thread is doing now has ended, such as a read of the old cell.

        In production, that is what ``CLEAN_AFTER`` is for.
        """
        thread = self._thread_of[user_id]
        begun = self._rounds[thread]
        while self._rounds[thread] == begun and self._threads[thread].is_alive() and not self.stop.wait(0.01):
            pass

    def _write(self, person: Person, rng: random.Random) -> None:
        services, actor = self.services, person.actor
        kind, entry = rng.choice(("star", "star", "make", "rename", "delete")), rng.choice(self.entries)
        folder = rng.choice(sorted(person.folders)) if person.folders else 0
        person.made += 1
        name = f"Folder {person.made}"
        while not self.stop.is_set():
            try:
                if kind == "star":
                    on = entry not in person.stars
                    services.reading.set_starred(actor, entry, on)
                    (person.stars.add if on else person.stars.discard)(entry)
                elif kind == "make" or not folder:
                    with contextlib.suppress(ExistsError):  # an attempt whose answer was lost
                        services.folders.create(actor, name)
                    [made] = [f.id for f in services.folders.list_folders(actor) if f.name == name]
                    person.folders[made] = name
                elif kind == "rename":
                    services.folders.rename(actor, folder, name)
                    person.folders[folder] = name
                else:
                    services.folders.delete(actor, folder)
                    del person.folders[folder]
            except MovingError:
                self.seen["refused"] += 1
                self.stop.wait(0.05)
                continue
            except StoreError:
                # A replica set is down: nobody knows whether it was done. What is found there counts.
                self.seen["down"] += 1
                self.stop.wait(0.2)
                with contextlib.suppress(EventrError):
                    self._adopt(person)
                    return
                continue
            self.seen["written"] += 1
            return

    def _adopt(self, person: Person) -> None:
        """Take over whatever of the last write is there; anything else must be as it was."""
        stars, folders = self._read(person)
        assert len(stars ^ person.stars) <= 1
        assert len(folders.items() ^ person.folders.items()) <= 2
        person.stars, person.folders = stars, folders

    def _read(self, person: Person) -> tuple[set[int], dict[int, str]]:
        while True:
            try:
                table = self.services.cells.get_database(person.actor.user_id)["marks"]
                found = table.find({"user_id": person.actor.user_id, "starred_at": {"$type": "date"}})
                stars = {doc["entry_id"] for doc in found}
                folders = {f.id: f.name for f in self.services.folders.list_folders(person.actor)}
            except MovingError:
                raise AssertionError("a read was refused") from None
            except Exception as e:
                if not LONG:
                    raise
                if not isinstance(e, CellError | StoreError) and "pymongo" not in type(e).__module__:
                    raise
                if self.stop.wait(0.2):
                    raise StoreError from e
                continue
            return stars, folders

    def check(self, person: Person) -> None:
        """Compare what a person finds with the model; while a store is down, nothing can be found."""
        with contextlib.suppress(StoreError):
            self.demand(person)

    def demand(self, person: Person) -> None:
        """Compare as :meth:`check` does, but fail if a store is down."""
        stars, folders = self._read(person)
        if (stars, folders) != (person.stars, person.folders):
            place = get_place(self.services, person.actor.user_id)
            raise AssertionError(
                f"{place}: {stars ^ person.stars} {folders.items() ^ person.folders.items()}"
            )
        self.seen["read"] += 1


class Drivers:
    """Administrators and the updater: threads that let people move, and run the movers until they have."""

    def __init__(self, services: Services, life: Life, people: list[Person], movers: list[Movers]) -> None:
        self._services, self._life = services, life
        self._people = people
        self._threads = [
            threading.Thread(target=self._drive, args=(people[n::MOVERS], one, random.Random(n)))
            for n, one in enumerate(movers)
        ]
        self._lock = threading.Lock()
        self.moves = self.arrived = self.runs = self.killed = 0
        self.longest = 0.0

    def run(self, between: Callable[[], None]) -> None:
        """Move everyone to and fro, and go on until enough movers were killed."""
        for thread in self._threads:
            thread.start()
        while any(thread.is_alive() for thread in self._threads):
            between()
            self._threads[0].join(0.1)
        for thread in self._threads:
            thread.join()

    def _drive(self, people: list[Person], movers: Movers, rng: random.Random) -> None:
        try:
            # Everyone goes, then everyone comes back.
            order = rng.sample(people, len(people)) + rng.sample(people, len(people))
            while not self._life.failed and (order or self.killed < KILLS):
                person = order.pop() if order else rng.choice(people)
                self._move(person.actor.user_id, movers, rng)
        except BaseException as e:  # noqa: BLE001 — the test fails with it
            self._life.failed.append("".join(traceback.format_exception(e)))

    def _move(self, user_id: int, movers: Movers, rng: random.Random) -> None:
        services = self._services
        place = self._retry(lambda: get_place(services, user_id))
        if not place.step:
            with contextlib.suppress(StoreError):
                services.mover.start(user_id, HOME if place.cell == CELL else CELL)
                with self._lock:
                    self.moves += 1
                if rng.random() < 0.05:
                    services.mover.cancel(user_id)
        while (step := self._retry(lambda: get_place(services, user_id)).step) and not self._life.failed:
            if step == MoveStep.CLEAN:
                # Instead of CLEAN_AFTER: until no read of the old cell is under way.
                services.place_epoch.raise_epoch()
                self._life.finish_reads(user_id)
            started = time.monotonic()
            killed = movers.run(user_id, dies=rng.random() < (0.1 if LONG else 0.5)).killed
            with self._lock:
                self.longest = max(self.longest, time.monotonic() - started)
                self.killed += killed
                self.runs += 1
        with self._lock:
            self.arrived += self._retry(lambda: get_place(services, user_id)).cell != place.cell

    def _retry(self, read: Callable[[], T]) -> T:
        while True:
            try:
                return read()
            except StoreError:
                assert not self._life.stop.wait(0.2)


def test_people_who_move_to_and_fro_lose_nothing(
    services: Services,
    second_cell: SecondCell,
    own_home: SecondCell | None,
    cell_db: Database[Any],
    world: World,
    movers: list[Movers],
) -> None:
    feed = world.feed()
    world.publish(feed, world.minutes(*range(ENTRIES)))
    entries = [doc["_id"] for doc in services.store.database["entries"].find({"feed_id": feed}, {"_id": 1})]
    people = [Person(number) for number in range(PEOPLE)]
    url = services.store.database["feeds"].find_one({"_id": feed}, {"url": 1})
    assert url is not None
    for person in people:
        services.subscriptions.subscribe(person.actor, url["url"])
    restarts, began = Counter[str](), time.monotonic()
    with Life(services, people, entries) as life:
        drivers = Drivers(services, life, people, movers)

        def restart_one() -> None:
            if own_home is not None and drivers.moves > RESTART * (restarts.total() + 0.5):
                store = (own_home, second_cell)[restarts.total() % 2]
                restarts[store.name] += 1
                store.kill()
                store.start()
                print(f"{time.monotonic() - began:.0f} s: {drivers.moves} moves, {drivers.killed} killed")

        drivers.run(restart_one)
    seconds = time.monotonic() - began
    for cell in services.cells.names:
        wait_until(lambda cell=cell: services.cells.get_store(cell).ping() is None)
    print(f"{PEOPLE} people, {drivers.moves} moves, {drivers.arrived} arrived, {drivers.runs} runs")
    print(f"{drivers.killed} killed, {dict(restarts)} restarted")
    print(dict(life.seen), f"longest run {drivers.longest:.2f} s, together {seconds:.0f} s")
    assert not life.failed, life.failed[0]
    assert drivers.killed >= KILLS
    assert drivers.arrived >= 2 * PEOPLE * 0.8
    assert not LONG or min(restarts[HOME], restarts[CELL]) >= 5
    assert life.seen["written"] > 20
    assert life.seen["refused"], "no write met a move"
    for person in people:
        services.cells.forget_places()
        life.demand(person)
        user_id = person.actor.user_id
        cell = get_place(services, user_id).cell
        other = services.cells.get_store(HOME if cell == CELL else CELL).database
        assert support.count(other, user_id) == 0, "something is left behind"
        database = services.cells.get_database(user_id)
        marks = [doc["entry_id"] for doc in database["marks"].find({"user_id": user_id})]
        assert len(marks) == len(set(marks)), "doubled"
    # The numbers at home are right as well.
    for _ in range(100):
        if not services.gateways.outbox.settle_rows(clock.now() + CLEAN_AFTER * 10):
            break
    found = services.gateways.outbox.recount(clock.now())
    assert (found.wrong_feeds, found.wrong_entries) == (0, 0)
