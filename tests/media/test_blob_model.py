"""R06 as a model: whatever happens between any two steps, no document lacks its files (media.md §4.1).

Every call of a store or of the database is a point at which something else happens: another user adds or
deletes the same content, the cleaner runs, or the process is killed. Hypothesis chooses what happens where.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError, NotFoundError, StoreError
from app.gateways.media import cleaning
from app.models.media.blob import ORIGINAL
from tests.support.media import PICTURE_NAMES, add_file, find_faults, find_strays, make_content

USERS = (11, 12, 13)
CONTENTS = 3
HOURS = dt.timedelta(hours=2)


class Killed(BaseException):
    """The process ends here: nothing of what follows runs."""


Action = tuple[str, int, int]
_ADD = st.tuples(st.sampled_from(["add", "add more"]), st.integers(0, CONTENTS - 1), st.sampled_from(USERS))
_DROP = st.tuples(st.just("drop"), st.integers(0, CONTENTS - 1), st.sampled_from(USERS))
_CLEAN = st.tuples(st.sampled_from(["clean", "finish"]), st.just(0), st.just(0))
_ACTIONS = st.one_of(_ADD, _DROP, _CLEAN)
ADD: Action = ("add", 0, USERS[0])
DROP: Action = ("drop", 0, USERS[0])
CLEAN: Action = ("clean", 0, 0)
KILL: Action = ("kill", 0, 0)
#: What happens at which step of an action.
_MEANWHILE = st.dictionaries(st.integers(0, 6), st.one_of(_ACTIONS, st.just(KILL)), max_size=2)


def clean(services: Services, time: list[dt.datetime]) -> None:
    """Let hours pass, and the cleaner run."""
    time[0] += HOURS
    services.gateways.media_cleaning.clean(time[0], lambda: False)


class World:
    """The services, with a hook at each step."""

    def __init__(self, services: Services, time: list[dt.datetime]) -> None:
        self.services, self._time = services, time
        self._meanwhile: dict[int, Action] = {}
        self._step = 0
        self._is_nested = False

    def reach_step(self) -> None:
        """Let happen what is planned for this step."""
        if self._is_nested:
            return
        self._step += 1
        action = self._meanwhile.get(self._step - 1)
        if action is None:
            return
        if action[0] == "kill":
            raise Killed
        self._is_nested = True
        try:
            self.act(action)
        finally:
            self._is_nested = False

    def run(self, action: Action, meanwhile: dict[int, Action]) -> None:
        """Act, with other things at some of its steps."""
        self._meanwhile, self._step = meanwhile, 0
        with contextlib.suppress(Killed, StoreError, ConflictError, NotFoundError):
            self.act(action)
        self._meanwhile = {}

    def act(self, action: Action) -> None:
        """Let a user add or delete a file, or the cleaner run; time passes."""
        what, number, user = action
        services = self.services
        if what in ("add", "add more"):
            names = PICTURE_NAMES if what == "add" else (*PICTURE_NAMES, ORIGINAL)
            add_file(services, user, make_content(number, names))
        elif what == "drop":
            found = services.gateways.files.find_by_blob(user, make_content(number).id)
            if found is not None:
                services.gateways.files.delete(user, found.id)
        elif what == "clean":
            clean(services, self._time)
        else:
            self._time[0] += HOURS
            services.gateways.media_cleaning._sweep(lambda: False)


def hook(services: Services, world: World, patch: pytest.MonkeyPatch) -> None:
    """Put a hook before each step that another process can see."""
    mappers, stores = services.mappers, services.media_stores
    steps: list[tuple[Any, str]] = [
        (stores, "put"),
        (stores, "delete"),
        (services.store, "run_in_transaction"),
        (mappers.usage, "change_finished"),
        *((mappers.blobs, name) for name in ("condemn", "remove", "forget_old")),
    ]
    for part, name in steps:
        real: Callable[..., Any] = getattr(part, name)

        def call(*args: Any, _real: Callable[..., Any] = real, **options: Any) -> Any:
            world.reach_step()
            return _real(*args, **options)

        patch.setattr(part, name, call)


@pytest.fixture
def time() -> Iterator[list[dt.datetime]]:
    """The time is its only item; files are as old as the machine says, so it begins now."""
    now = [dt.datetime.now(dt.UTC).replace(microsecond=0)]
    with clock.set_source(lambda: now[0]):
        yield now


@pytest.fixture(autouse=True)
def _few_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a walk look only where these contents are."""
    monkeypatch.setattr(cleaning, "SHARDS", CONTENTS)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Each of these was a loss without one of the rules: the state -1, generations, one transaction.
@example(plan=[(ADD, {}), (DROP, {}), (CLEAN, {1: ADD})])
@example(plan=[(ADD, {}), (DROP, {}), (CLEAN, {2: ADD}), (("finish", 0, 0), {})])
@example(plan=[(ADD, {}), (DROP, {1: KILL})])
@example(plan=[(ADD, {2: KILL}), (ADD, {2: DROP}), (CLEAN, {})])
@given(plan=st.lists(st.tuples(_ACTIONS, _MEANWHILE), min_size=1, max_size=8))
def test_R06_whatever_happens_between_two_steps_no_document_lacks_its_files(
    services: Services, time: list[dt.datetime], plan: list[tuple[Action, dict[int, Action]]]
) -> None:
    world = World(services, time)
    with pytest.MonkeyPatch.context() as patch:
        hook(services, world, patch)
        for action, meanwhile in plan:
            world.run(action, meanwhile)
            assert list(find_faults(services)) == []
    settle(services, time)


def settle(services: Services, time: list[dt.datetime]) -> None:
    """End all interrupted work, and then delete everything; nothing may be left."""
    for _ in range(2):
        clean(services, time)
    # What a killed process had stored and not yet named.
    services.gateways.media_cleaning.walk_stores(clock.now() + 1000 * HOURS, delete=True, mend=False)
    assert (list(find_faults(services)), find_strays(services)) == ([], set())
    for user in USERS:
        services.gateways.files.delete_all(user)
        usage = services.mappers.usage.find(user)
        assert usage is None or usage.finished == 0
    for _ in range(2):
        clean(services, time)
    assert services.store.database.blobs.count_documents({}) == 0
    assert find_strays(services) == set()


def test_U10_R06_many_threads_on_few_contents_beside_the_cleaner(
    services: Services, time: list[dt.datetime]
) -> None:
    """6 threads add and delete the same 3 contents while 2 clean; the whole figure is in the benchmark."""
    errors: list[str] = []

    def use(number: int) -> None:
        for turn in range(15):
            user = USERS[(number + turn) % len(USERS)]
            content = make_content((number * 7 + turn) % CONTENTS)
            try:
                file = add_file(services, user, content)
                # While somebody names it, it is there.
                for name in PICTURE_NAMES:
                    piece = services.gateways.blobs.open(content.id, name)
                    assert piece.length == len(content.files[name])
                services.gateways.files.delete(user, file.id)
            except Exception as e:  # noqa: BLE001 — reported by the test's own thread
                errors.append(repr(e))

    def clean_often() -> None:
        while not done.is_set():
            clean(services, time)

    done = threading.Event()
    cleaners = [threading.Thread(target=clean_often) for _ in range(2)]
    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in (*cleaners, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    for thread in cleaners:
        thread.join()
    assert errors == []
    assert list(find_faults(services)) == []
    settle(services, time)
