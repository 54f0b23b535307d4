"""F24, a model test of moves: people go to and fro between two real replica sets while they write and read.

Movers are killed at random points and at random moments. In the long form (``make faults``), both replica
sets are killed and started again as well, the home store and the cell. Each person has a model of their
stars, tags, folders, read states and subscriptions. In the end nothing is lost or doubled, and no read was
refused.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import random
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import CellError, EventrError, ExistsError, MovingError, NotFoundError, StoreError
from app.mappers.operations import person_documents
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME
from app.models.operations.moves import CLEAN_AFTER, MoveStep
from app.models.reading.stream import StreamKind, StreamRef
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
#: Feeds that everyone always reads, their entries, and feeds that people subscribe to and leave.
FEEDS, ENTRIES, OTHERS = 2, 20, 3
TAGS = ("one", "two", "three")
#: What people do. Read states are marked in one feed and in several, as whole lists, and that is undone.
ACTS = (
    *("star", "star", "make", "rename", "delete", "mark", "mark", "mark", "mark all", "undo mark all"),
    *("tag", "untag", "subscribe", "leave", "restore"),
)
#: The field of :class:`State` that each act changes.
FIELDS = {
    "star": "stars",
    **dict.fromkeys(("make", "rename", "delete"), "folders"),
    **dict.fromkeys(("mark", "mark all", "undo mark all"), "read"),
    **dict.fromkeys(("tag", "untag"), "tags"),
    **dict.fromkeys(("subscribe", "leave", "restore"), "feeds"),
}


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


@dataclasses.dataclass
class State:
    """What someone must find.

    Attributes:
        tags: entries with the name of each of their tags.
        read: the entries that are read, of the feeds that everyone reads.
        feeds: the other feeds that they subscribe to.
    """

    stars: set[int] = dataclasses.field(default_factory=set)
    folders: dict[int, str] = dataclasses.field(default_factory=dict)
    tags: set[tuple[int, str]] = dataclasses.field(default_factory=set)
    read: set[int] = dataclasses.field(default_factory=set)
    feeds: set[int] = dataclasses.field(default_factory=set)

    def differ(self, other: State) -> dict[str, set[Any]]:
        """Return by field what only one of the two has."""
        pairs = {
            field.name: (getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)
        }
        pairs["folders"] = (set(self.folders.items()), set(other.folders.items()))
        return {name: one ^ two for name, (one, two) in pairs.items() if one ^ two}


class Person:
    """Someone with the state that they must find."""

    def __init__(self, number: int) -> None:
        # Marks of people with reader apps take another way.
        self.actor = Actor(1_800_000_000_000_000 + number, synced=number % 2 == 1)
        self.state = State()
        self.made = 0
        #: The undo of the last mass mark with what was read before it, until another mark.
        self.marked_all: tuple[str, set[int]] | None = None
        #: The undo of the last feed that they left.
        self.left: tuple[int, str] | None = None


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

    def __init__(
        self, services: Services, people: list[Person], entries: list[int], others: dict[int, str]
    ) -> None:
        self.services, self.entries, self.others = services, entries, others
        self.stop = threading.Event()
        self.seen, self.done = Counter[str](), Counter[str]()
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

    def has_done_all(self) -> bool:
        """Return whether people have done something of each kind; also if the test has failed."""
        return bool(self.failed) or self.done.keys() == set(ACTS)

    def finish_reads(self, user_id: int) -> None:
        """Wait until what a person's thread is doing now has ended, such as a read of the old cell.

        In production, that is what ``CLEAN_AFTER`` is for.
        """
        thread = self._thread_of[user_id]
        begun = self._rounds[thread]
        while self._rounds[thread] == begun and self._threads[thread].is_alive() and not self.stop.wait(0.01):
            pass

    def _write(self, person: Person, rng: random.Random) -> None:
        kind, act = self._choose(person, rng)
        before, was_refused = copy.deepcopy(person.state), False
        after = copy.deepcopy(before)
        while not self.stop.is_set():
            try:
                act(after)
            except MovingError:
                self.seen["refused"] += 1
                was_refused = True
                self.stop.wait(0.05)
                continue
            except StoreError:
                # A replica set is down: nobody knows whether it was done. What is found there counts.
                self.seen["down"] += 1
                person.marked_all = person.left = None
                self.stop.wait(0.2)
                with contextlib.suppress(EventrError):
                    self._adopt(person, kind)
                    return
                continue
            if was_refused and kind == "mark all":
                person.marked_all = None  # a part may belong to the attempt that was refused
            person.state = after
            self.seen["written"] += 1
            self.done[kind] += 1
            return

    def _choose(self, person: Person, rng: random.Random) -> tuple[str, Callable[[State], None]]:
        """Return what a person does next; calling it writes, and then changes the given state."""
        now, kind = person.state, rng.choice(ACTS)
        person.made += 1
        entry, folder = rng.choice(self.entries), rng.choice(sorted(now.folders) or [0])
        name, other = f"Folder {person.made}", rng.choice(sorted(self.others))
        acts: dict[str, Callable[[State], None]] = {
            "star": partial(self._star, person, entry, entry not in now.stars),
            "make": partial(self._make, person, name),
            "mark": partial(
                self._mark, person, rng.sample(self.entries, rng.randint(1, 4)), rng.random() < 0.6
            ),
            "mark all": partial(self._mark_all, person),
            "tag": partial(self._tag, person, entry, rng.choice(TAGS)),
            "subscribe": partial(self._subscribe, person, other),
        }
        if folder:
            acts |= {
                "rename": partial(self._rename, person, folder, name),
                "delete": partial(self._delete, person, folder),
            }
        if now.tags:
            acts["untag"] = partial(self._untag, person, *rng.choice(sorted(now.tags)))
        if now.feeds:
            acts["leave"] = partial(self._leave, person, rng.choice(sorted(now.feeds)))
        if person.marked_all is not None:
            acts["undo mark all"] = partial(self._undo_mark_all, person, *person.marked_all)
        if person.left is not None:
            acts["restore"] = partial(self._restore, person, *person.left)
        kind = kind if kind in acts else "make"
        return kind, acts[kind]

    def _star(self, person: Person, entry: int, on: bool, state: State) -> None:
        self.services.reading.set_starred(person.actor, entry, on)
        (state.stars.add if on else state.stars.discard)(entry)

    def _make(self, person: Person, name: str, state: State) -> None:
        with contextlib.suppress(ExistsError):  # an attempt whose answer was lost
            self.services.folders.create(person.actor, name)
        [made] = [f.id for f in self.services.folders.list_folders(person.actor) if f.name == name]
        state.folders[made] = name

    def _rename(self, person: Person, folder: int, name: str, state: State) -> None:
        self.services.folders.rename(person.actor, folder, name)
        state.folders[folder] = name

    def _delete(self, person: Person, folder: int, state: State) -> None:
        self.services.folders.delete(person.actor, folder)
        del state.folders[folder]

    def _mark(self, person: Person, entries: list[int], read: bool, state: State) -> None:
        self.services.reading.mark(person.actor, entries, read)
        person.marked_all = None
        (state.read.update if read else state.read.difference_update)(entries)

    def _mark_all(self, person: Person, state: State) -> None:
        token = self.services.reading.mark_all(person.actor, StreamRef(StreamKind.ALL)).undo
        person.marked_all = (token, person.state.read)
        state.read.update(self.entries)

    def _undo_mark_all(self, person: Person, token: str, read: set[int], state: State) -> None:
        self.services.reading.undo_mass_mark(person.actor, token)
        person.marked_all = None
        state.read = set(read)

    def _tag(self, person: Person, entry: int, name: str, state: State) -> None:
        self.services.tags.change_tags(person.actor, entry, add=[name])
        state.tags.add((entry, name))

    def _untag(self, person: Person, entry: int, name: str, state: State) -> None:
        [tag] = [tag.id for tag in self.services.tags.list_tags(person.actor) if tag.name == name]
        self.services.tags.change_tags(person.actor, entry, remove=[tag])
        state.tags.discard((entry, name))

    def _subscribe(self, person: Person, feed: int, state: State) -> None:
        self.services.subscriptions.subscribe(person.actor, self.others[feed])
        state.feeds.add(feed)

    def _leave(self, person: Person, feed: int, state: State) -> None:
        with contextlib.suppress(NotFoundError):  # an attempt whose answer was lost
            person.left = feed, self.services.subscriptions.unsubscribe(person.actor, feed)
        state.feeds.discard(feed)

    def _restore(self, person: Person, feed: int, token: str, state: State) -> None:
        with contextlib.suppress(ExistsError):  # they have subscribed again
            self.services.subscriptions.restore(person.actor, token)
        person.left = None
        state.feeds.add(feed)

    def _adopt(self, person: Person, kind: str) -> None:
        """Take over whatever of the last write is there; anything else must be as it was."""
        found = self._read(person)
        differ = found.differ(person.state)
        assert differ.keys() <= {FIELDS[kind]}, (kind, differ)
        assert kind in ("mark all", "undo mark all") or all(len(some) <= 4 for some in differ.values()), (
            differ
        )
        person.state = found

    def _read(self, person: Person) -> State:
        while True:
            try:
                return self._find(person.actor)
            except MovingError:
                raise AssertionError("a read was refused") from None
            except Exception as e:
                if not LONG:
                    raise
                if not isinstance(e, CellError | StoreError) and "pymongo" not in type(e).__module__:
                    raise
                if self.stop.wait(0.2):
                    raise StoreError from e

    def _find(self, actor: Actor) -> State:
        services = self.services
        database = services.cells.get_database(actor.user_id)
        marks = list(database["marks"].find({"user_id": actor.user_id}))
        tags = {doc["_id"]: doc["name"] for doc in database["tags"].find({"user_id": actor.user_id})}
        return State(
            stars={doc["entry_id"] for doc in marks if doc.get("starred_at")},
            folders={f.id: f.name for f in services.folders.list_folders(actor)},
            tags={(doc["entry_id"], tags[tag]) for doc in marks for tag in doc.get("tags", ())},
            read={i for i, read in services.reading.find_read_states(actor, self.entries).items() if read},
            feeds=set(services.mappers.subscriptions.find_feed_ids(actor.user_id)) & self.others.keys(),
        )

    def check(self, person: Person) -> None:
        """Compare what a person finds with the model; while a store is down, nothing can be found."""
        with contextlib.suppress(StoreError):
            self.demand(person)

    def demand(self, person: Person) -> None:
        """Compare as :meth:`check` does, but fail if a store is down."""
        if differ := self._read(person).differ(person.state):
            raise AssertionError(f"{get_place(self.services, person.actor.user_id)}: {differ}")
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
    database = services.store.database
    feeds, others = [world.feed() for _ in range(FEEDS)], [world.feed() for _ in range(OTHERS)]
    for feed in feeds:
        world.publish(feed, world.minutes(*range(ENTRIES)))
    entries = [doc["_id"] for doc in database["entries"].find({"feed_id": {"$in": feeds}}, {"_id": 1})]
    urls = {doc["_id"]: doc["url"] for doc in database["feeds"].find({}, {"url": 1})}
    people = [Person(number) for number in range(PEOPLE)]
    for person in people:
        for feed in feeds:
            services.subscriptions.subscribe(person.actor, urls[feed])
        states = services.reading.find_read_states(person.actor, entries)
        person.state.read.update(entry for entry, read in states.items() if read)
    restarts, began = Counter[str](), time.monotonic()
    with Life(services, people, entries, {feed: urls[feed] for feed in others}) as life:
        drivers = Drivers(services, life, people, movers)

        def restart_one() -> None:
            if own_home is not None and drivers.moves > RESTART * (restarts.total() + 0.5):
                store = (own_home, second_cell)[restarts.total() % 2]
                restarts[store.name] += 1
                store.kill()
                store.start()
                print(f"{time.monotonic() - began:.0f} s: {drivers.moves} moves, {drivers.killed} killed")

        drivers.run(restart_one)
        wait_until(life.has_done_all)
    seconds = time.monotonic() - began
    for cell in services.cells.names:
        wait_until(lambda cell=cell: services.cells.get_store(cell).ping() is None)
    print(f"{PEOPLE} people, {drivers.moves} moves, {drivers.arrived} arrived, {drivers.runs} runs")
    print(f"{drivers.killed} killed, {dict(restarts)} restarted")
    print(dict(life.done))
    print(dict(life.seen), f"longest run {drivers.longest:.2f} s, together {seconds:.0f} s")
    assert not life.failed, life.failed[0]
    assert drivers.killed >= KILLS
    assert drivers.arrived >= 2 * PEOPLE * 0.8
    assert not LONG or min(restarts[HOME], restarts[CELL]) >= 5
    assert life.seen["written"] > 20
    assert life.seen["refused"], "no write met a move"
    _check_end(services, life, people)


def _check_end(services: Services, life: Life, people: list[Person]) -> None:
    """Demand that everyone finds everything in one cell and nothing is in the other, and the numbers."""
    for person in people:
        services.cells.forget_places()
        life.demand(person)
        user_id = person.actor.user_id
        cell = get_place(services, user_id).cell
        other = services.cells.get_store(HOME if cell == CELL else CELL).database
        assert support.count(other, user_id) == 0, "something is left behind"
        database = services.cells.get_database(user_id)
        for name, key in (("marks", "entry_id"), ("subscriptions", "feed_id"), ("tags", "name")):
            keys = [doc[key] for doc in database[name].find({"user_id": user_id})]
            assert len(keys) == len(set(keys)), f"{name} are doubled"
    # The numbers at home are right as well.
    for _ in range(100):
        if not services.gateways.outbox.settle_rows(clock.now() + CLEAN_AFTER * 10):
            break
    found = services.gateways.outbox.recount(clock.now())
    assert (found.wrong_feeds, found.wrong_entries) == (0, 0)
