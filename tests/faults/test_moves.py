"""Model test of moves: people go to and fro between two real replica sets while they write and read.

The mover is killed at random points and at random moments. In the long form (``make faults``), the second
replica set is killed and started again as well. Each person has a model of their stars and folders. In the
end nothing is lost or doubled, and no read was refused.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import CellError, EventrError, ExistsError, MovingError, StoreError
from app.mappers.operations import person_documents
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME
from app.models.operations.moves import CLEAN_AFTER, MoveStep
from tests.faults.system import LONG
from tests.support import moves as support
from tests.support.cells import CELL, SecondCell, cell_db, second_cell, settings
from tests.support.database import World, world
from tests.support.moves import POINTS, get_place

__all__ = ["cell_db", "second_cell", "settings", "world"]
pytestmark = pytest.mark.timeout(3000)

PEOPLE, KILLS, THREADS = (1000, 100, 4) if LONG else (4, 4, 2)
ENTRIES = 40


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
        os.close(self._ask)
        os.waitpid(self._pid, 0)
        self._lines.close()


def _serve_moves(settings: Any, rng: random.Random, asked: Any, answers: Any) -> None:
    for line in asked:
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
def movers(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Movers]:
    monkeypatch.setattr(person_documents, "DOCUMENTS", 5)
    found = Movers(settings, 7)
    yield found
    found.close()


class Life:
    """What people do meanwhile, in threads, each with people of its own."""

    def __init__(self, services: Services, people: list[Person], entries: list[int]) -> None:
        self.services, self.entries = services, entries
        self.stop = threading.Event()
        self.seen = Counter[str]()
        self.failed: list[str] = []
        parts = [people[n::THREADS] for n in range(THREADS)]
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
                self.stop.wait(0.01 if LONG else 0.03)
        except BaseException as e:  # noqa: BLE001 — the test fails with it
            self.failed.append("".join(traceback.format_exception(e)))

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
        """Compare what a person finds with the model."""
        with contextlib.suppress(StoreError):
            stars, folders = self._read(person)
            if (stars, folders) != (person.stars, person.folders):
                place = get_place(self.services, person.actor.user_id)
                raise AssertionError(
                    f"{place}: {stars ^ person.stars} {folders.items() ^ person.folders.items()}"
                )
            self.seen["read"] += 1


def test_people_who_move_to_and_fro_lose_nothing(
    services: Services, second_cell: SecondCell, cell_db: Database[Any], world: World, movers: Movers
) -> None:
    feed = world.feed()
    world.publish(feed, world.minutes(*range(ENTRIES)))
    entries = [doc["_id"] for doc in services.store.database["entries"].find({"feed_id": feed}, {"_id": 1})]
    people = [Person(number) for number in range(PEOPLE)]
    url = services.store.database["feeds"].find_one({"_id": feed}, {"url": 1})
    assert url is not None
    for person in people:
        services.subscriptions.subscribe(person.actor, url["url"])
    rng, killed, runs, moves, restarts = random.Random(1), 0, 0, 0, 0
    longest, began = 0.0, time.monotonic()
    with Life(services, people, entries) as life:
        while (killed < KILLS or (LONG and moves < PEOPLE)) and not life.failed:
            person = rng.choice(people).actor.user_id
            place = get_place(services, person)
            with contextlib.suppress(StoreError):
                services.mover.start(person, HOME if place.cell == CELL else CELL)
                moves += 1
                if rng.random() < 0.1:
                    services.mover.cancel(person)
            if LONG and moves % 100 == 50 and restarts < moves // 100 + 1:
                restarts += 1
                second_cell.kill()
                second_cell.start()
            while (step := get_place(services, person).step) and not life.failed:
                if step == MoveStep.CLEAN:
                    # Instead of CLEAN_AFTER: until all threads have noticed the switch.
                    services.place_epoch.raise_epoch()
                    life.stop.wait(1.0)
                started = time.monotonic()
                killed += movers.run(person, dies=rng.random() < (0.2 if LONG else 0.5)).killed
                longest = max(longest, time.monotonic() - started)
                runs += 1
    seconds = time.monotonic() - began
    print(f"{PEOPLE} people, {moves} moves, {runs} runs, {killed} killed, {restarts} restarts")
    print(dict(life.seen), f"longest run {longest:.2f} s, together {seconds:.0f} s")
    assert not life.failed, life.failed[0]
    assert killed >= KILLS
    assert life.seen["written"] > 20
    assert life.seen["refused"], "no write met a move"
    homes = Counter[str]()
    for person in people:
        services.cells.forget_places()
        life.check(person)
        user_id = person.actor.user_id
        cell = get_place(services, user_id).cell
        homes[cell] += 1
        other = services.cells.get_store(HOME if cell == CELL else CELL).database
        assert support.count(other, user_id) == 0, "something is left behind"
        database = services.cells.get_database(user_id)
        marks = [doc["entry_id"] for doc in database["marks"].find({"user_id": user_id})]
        assert len(marks) == len(set(marks)), "doubled"
    assert len(homes) == 2, "nobody moved"
    # The numbers at home are right as well.
    for _ in range(100):
        if not services.gateways.outbox.settle_rows(clock.now() + CLEAN_AFTER * 10):
            break
    found = services.gateways.outbox.recount(clock.now())
    assert (found.wrong_feeds, found.wrong_entries) == (0, 0)
