"""A cell that is down or frozen: with default settings, nobody waits for it again and again.

The driver's log says when a thread waits for a server: no test here measures time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import monitoring
from pymongo.database import Database
from pymongo.errors import AutoReconnect, ConnectionFailure, NetworkTimeout, NotPrimaryError

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import CellError
from app.mappers.mongo import cell_store
from app.mappers.mongo.cell_store import CellStore
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME
from tests.support.cells import CELL, SecondCell, cell_db, move, second_cell, settings, wait_until
from tests.support.commands import add_listener
from tests.support.database import World, world
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings", "world"]
#: Callers at the same time.
TOGETHER = 8


class Waits(logging.Handler):
    """Counts by thread how often the driver began to wait for a server, and gave up."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.begun, self.failed = Counter[str](), Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "Waiting for suitable server" in text:
            self.begun[record.threadName or ""] += 1
        elif "Server selection failed" in text:
            self.failed[record.threadName or ""] += 1


@pytest.fixture
def waits() -> Iterator[Waits]:
    log, handler = logging.getLogger("pymongo.serverSelection"), Waits()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)


@dataclasses.dataclass
class Readers:
    """A feed that ann, in the cell, and bob, at home, read."""

    services: Services
    feed: int
    ann: Actor
    bob: Actor

    @property
    def cell(self) -> CellStore:
        return self.services.cells._get_cells()[0]

    def find(self) -> set[int]:
        return set(self.services.mappers.subscriptions.find_readers([self.feed])[self.feed])

    def read_own(self) -> object:
        """Read as ann's page does."""
        return self.services.subscriptions.get(self.ann, self.feed)

    def is_noticed(self) -> bool:
        """Return whether the driver's monitor has seen that the cell is gone."""
        return not self.cell._has_primary()


@pytest.fixture
def readers(services: Services, cell_db: Database[Any], world: World) -> Readers:
    ann, bob, feed = add_user(services, "ann"), add_user(services, "bob"), world.feed()
    move(services, ann.user_id)
    for who in (ann, bob):
        services.subscriptions.subscribe(who, services.gateways.feeds.get(feed).url)
    return Readers(services, feed, ann, bob)


@contextlib.contextmanager
def killed(cell: SecondCell) -> Iterator[None]:
    cell.kill()
    try:
        yield
    finally:
        if not cell.server.is_responding():
            cell.start()


@contextlib.contextmanager
def frozen(cell: SecondCell) -> Iterator[Callable[[], None]]:
    process = cell.server.process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield lambda: os.kill(process.pid, signal.SIGCONT)
    finally:
        os.kill(process.pid, signal.SIGCONT)


def _call_together(call: Callable[[], object]) -> list[str]:
    """Call a function in threads at the same time; return what became of each call."""
    start, found = threading.Barrier(TOGETHER), list[str]()

    def run() -> None:
        start.wait(60)
        try:
            found.append(type(call()).__name__)
        except CellError as e:
            found.append(type(e).__name__)

    threads = [threading.Thread(target=run, name=f"caller-{n}") for n in range(TOGETHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def _count_callers(counted: Counter[str]) -> int:
    return sum(n for name, n in counted.items() if not name.startswith("cell-"))


def test_while_a_cell_is_down_no_call_waits_for_it_and_one_thread_asks(
    readers: Readers, second_cell: SecondCell, waits: Waits
) -> None:
    assert readers.find() == {readers.ann.user_id, readers.bob.user_id}
    with killed(second_cell):
        calls = 0
        while waits.failed[f"cell-{CELL}"] < 2:  # it has asked and given up twice, so for some time
            assert readers.find() == {readers.bob.user_id}
            with pytest.raises(CellError):
                readers.read_own()
            assert readers.services.gateways.outbox.settle_rows(clock.now()) == 0
            calls += 1
        assert calls > 20
        assert _count_callers(waits.begun) <= 1, "the first call, if the driver hadn't noticed yet"
        second_cell.start()
        begun = _count_callers(waits.begun)
        wait_until(lambda: readers.find() == {readers.ann.user_id, readers.bob.user_id})
        assert readers.read_own()
        assert _count_callers(waits.begun) == begun, "nobody had to try"


def test_callers_at_the_same_time_do_not_wait_each(
    readers: Readers, second_cell: SecondCell, waits: Waits
) -> None:
    with killed(second_cell):
        wait_until(readers.is_noticed)
        assert _call_together(readers.read_own) == ["CellError"] * TOGETHER
        assert _count_callers(waits.begun) == 0


def test_of_the_first_callers_of_a_process_one_connects(
    settings: Settings, readers: Readers, second_cell: SecondCell, waits: Waits
) -> None:
    with killed(second_cell), contextlib.closing(bootstrap.build(settings)) as built:
        built.store.ping()
        built.cells.find_place(readers.ann.user_id)
        waits.begun.clear()
        assert _call_together(lambda: built.cells.get_store(CELL)) == ["CellError"] * TOGETHER
        assert _count_callers(waits.begun) == 1


def test_others_do_not_wait_long_for_the_first_caller(settings: Settings, readers: Readers) -> None:
    found = list[str]()

    def call() -> None:
        try:
            built.cells.get_store(CELL)
        except CellError as e:
            found.append(e.word)

    with contextlib.closing(bootstrap.build(settings)) as built:
        [cell] = built.cells._get_cells()
        with cell._looking:
            other = threading.Thread(target=call)
            other.start()
            other.join(30)
            assert found == ["cell_unavailable"]
        assert built.cells.get_store(CELL) is cell


class Sent(monitoring.CommandListener):
    """Counts the commands that a cell gets, by thread."""

    def __init__(self, port: object) -> None:
        self.by_thread, self._port = Counter[str](), port

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.connection_id == self._port:
            self.by_thread[threading.current_thread().name] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


def test_a_frozen_cell_gets_no_more_commands_of_callers(
    settings: Settings, readers: Readers, second_cell: SecondCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sockets stay open, so only a missing reply tells. One call waits for it; later ones don't."""
    sent = Sent(readers.cell.database.client.address)
    add_listener(monkeypatch, sent)
    with contextlib.closing(bootstrap.build(settings)) as built:
        readers.services = built
        both = {readers.ann.user_id, readers.bob.user_id}
        assert readers.find() == both
        assert sent.by_thread["MainThread"] > 0
        with frozen(second_cell) as thaw:
            found = list[set[int]]()
            first = threading.Thread(target=lambda: found.append(readers.find()), name="first")
            first.start()
            wait_until(readers.cell.watch._is_doubtful)
            assert readers.cell._has_primary(), "the driver hasn't noticed yet"
            sent.by_thread.clear()
            assert readers.find() == {readers.bob.user_id}
            assert _call_together(readers.read_own) == ["CellError"] * TOGETHER
            first.join(60)
            assert found == [{readers.bob.user_id}]
            assert readers.find() == {readers.bob.user_id}
            assert _count_callers(sent.by_thread) == 0
            thaw()
            wait_until(lambda: readers.find() == both)


def test_a_slow_command_is_no_reason_to_refuse_others(readers: Readers) -> None:
    cell = readers.cell
    cell.watch.note_sent(-1)
    wait_until(cell.watch._is_doubtful)
    assert readers.find() == {readers.ann.user_id, readers.bob.user_id}
    assert not cell.watch._is_doubtful(), "not again because of the same command"
    cell.watch.note_ended(-1)


def test_requests_wait_together_for_a_cell_that_is_soon_back(
    settings: Settings, readers: Readers, second_cell: SecondCell, waits: Waits
) -> None:
    """An election, or a restart: one thread waits for all of them."""
    patient = dataclasses.replace(settings, cell_patience=30.0)
    with contextlib.closing(bootstrap.build(patient)) as built:
        readers.services = built
        assert readers.read_own()
        with killed(second_cell):
            wait_until(readers.is_noticed)
            found = list[str]()
            callers = threading.Thread(target=lambda: found.extend(_call_together(readers.read_own)))
            callers.start()
            wait_until(lambda: not readers.cell.watch._responds.is_set())
            second_cell.start()
            callers.join(120)
    assert found == ["Subscription"] * TOGETHER
    assert not any(name.startswith("caller-") for name in waits.begun)


@pytest.mark.parametrize("error", [NotPrimaryError("stepped down"), AutoReconnect("connection reset")])
def test_an_error_at_once_is_no_reason_to_refuse_others(
    settings: Settings, readers: Readers, second_cell: SecondCell, error: ConnectionFailure
) -> None:
    """A planned election: the old primary refuses at once, and the new one responds a moment later."""
    patient = dataclasses.replace(settings, cell_patience=30.0)
    with contextlib.closing(bootstrap.build(patient)) as built:
        readers.services = built
        assert readers.read_own()
        with frozen(second_cell) as thaw:
            readers.cell.make_error(error)
            found = list[str]()
            callers = threading.Thread(target=lambda: found.extend(_call_together(readers.read_own)))
            callers.start()
            wait_until(lambda: bool(readers.cell.watch._responds._cond._waiters or found))  # type: ignore[attr-defined]
            thaw()
            callers.join(120)
        assert found == ["Subscription"] * TOGETHER


def test_after_a_call_has_waited_no_other_does(readers: Readers, second_cell: SecondCell) -> None:
    first = AutoReconnect("connection reset")
    first.__context__ = NetworkTimeout("timed out")  # the driver tried again, and then raised the first error
    for error in (NetworkTimeout("timed out"), first):
        with frozen(second_cell):
            readers.cell.make_error(error)
            assert readers.cell.watch._waits_until == 0.0
            with pytest.raises(CellError):
                readers.read_own()
        wait_until(lambda: bool(readers.read_own()))


def test_the_first_error_of_a_call_that_waited_in_vain_means_down(
    readers: Readers, second_cell: SecondCell
) -> None:
    """As the driver raises it: a broken connection, and no server to repeat the call with."""
    with killed(second_cell):
        with pytest.raises(AutoReconnect) as raised:
            readers.cell.database["tags"].find_one({})
        assert cell_store._has_waited(raised.value)


# -- the updater


def test_the_updater_asks_no_cell_that_is_down(
    readers: Readers, second_cell: SecondCell, waits: Waits
) -> None:
    cells = readers.services.cells
    with killed(second_cell):
        wait_until(readers.is_noticed)
        assert readers.find() == {readers.bob.user_id}
        wait_until(lambda: waits.failed[f"cell-{CELL}"] > 0)
        assert not readers.cell.is_prepared
        cells.prepare_missing()
        cells.prepare()
        assert _count_callers(waits.begun) == 0
    wait_until(lambda: bool(readers.read_own()))
    assert readers.cell.is_prepared


def test_a_forked_process_asks_with_a_thread_of_its_own(readers: Readers, second_cell: SecondCell) -> None:
    """A child inherits that the cell is down, but not the thread that would find it again."""
    watch = readers.cell.watch
    with killed(second_cell):
        wait_until(readers.is_noticed)
        with pytest.raises(CellError):
            readers.read_own()
        ended = threading.Thread(target=lambda: None)
        ended.start()
        ended.join()
        assert watch._thread is not None
        watch._thread, before = ended, watch._thread
        with pytest.raises(CellError):
            readers.read_own()
        assert watch._thread.is_alive()
        assert watch._thread is not before


# -- new people


def test_nobody_is_placed_in_a_cell_that_is_down(
    readers: Readers, second_cell: SecondCell, waits: Waits
) -> None:
    services = readers.services
    services.cells.places.set_weights({CELL: 1})
    with killed(second_cell):
        wait_until(readers.is_noticed)
        eve = add_user(services, "eve")
        assert services.cells.find_place(eve.user_id).cell == HOME
        assert services.mappers.subscriptions.find_by_user(eve.user_id) == []
        assert _count_callers(waits.begun) == 0
    wait_until(lambda: bool(readers.read_own()))
    assert services.cells.find_place(add_user(services, "max").user_id).cell == CELL
