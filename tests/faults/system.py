"""A whole ``eventr up`` with a farm of feeds, blows against its parts, and the checks after them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import re
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pymongo
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import clock, embedded
from app.bootstrap import services
from app.embedded.child import poll
from app.errors import EventrError
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from tests.faults import checks
from tests.faults.browser import Browser
from tests.faults.farm import Farm
from tests.faults.faulty import FAULTY
from tests.jobs import repl
from tests.support.imports import REPO
from tests.support.up import Up, kill_all

_WORKER = re.compile(r"worker_started worker=\S+ group=\S+ pid=(\d+)")
_OUTAGE = (redis.RedisError, pymongo.errors.PyMongoError, EventrError, OSError)
PARTS = ("mongodb", "redis", "controller", "manager", "updater", "web")
#: Of one worker: connections, those to one host, and jobs of the system that it holds.
CONNECTIONS, PER_HOST, SYSTEM_SLOTS = 10, 2, 4
#: Nobody is given up for blows that hit at random: F12 asks for the usual three crashes while it runs. Nor is
#: anybody taken for stuck whom only a busy machine holds up: who looks for the stuck asks for :data:`STUCK`.
SETTINGS = {
    "EVENTR_JOB_RETRIES": "100",
    "EVENTR_JOB_BACKOFF": "0.1",
    "EVENTR_JOB_BACKOFF_MOST": "1",
    "EVENTR_STOP_GRACE": "1",
    "EVENTR_MANAGER_LEASE": "3",
    "EVENTR_CLAIM_SECONDS": "10",
    "EVENTR_UPDATER_INTERVAL": "0.5",
    "EVENTR_UPDATER_LEASE": "2",
    "EVENTR_POLL_MIN": "1",
    "EVENTR_WEBSUB": "on",
    "EVENTR_ERROR_BACKOFF_MIN": "1",
    # Feeds that only drag end by this; the others answer at once, unless the farm itself is held up.
    "EVENTR_FETCH_TOTAL_TIMEOUT": "8",
    "EVENTR_FETCH_ALLOW": "127.0.0.0/8",
    # All streams of a test come from one address.
    "EVENTR_EVENTS_PER_ADDRESS": "1000",
    # Few, so that a herd that breaks the limit is seen.
    "EVENTR_FETCH_CONNECTIONS": str(CONNECTIONS),
    "EVENTR_FETCH_PER_HOST": str(PER_HOST),
    "EVENTR_PULL_BATCHES": str(SYSTEM_SLOTS),
}
#: Who gives no sign of life for five seconds is stuck.
STUCK = {f"{group}.stall": "5" for group in ("feeds", "maintenance", "suspects")}
#: The long form, ``make faults``.
LONG = os.environ.get("FAULTS") == "long"
#: Longest wait for anything; a figure for the hung, not for the slow.
PATIENCE = float(os.environ.get("FAULTS_PATIENCE", "300"))


@dataclasses.dataclass(frozen=True, slots=True)
class Blow:
    """One kill: which part, how, and how long until it was back and a new job had its result."""

    part: str
    how: str
    seconds: float


class System:
    """The system under test."""

    def __init__(self, home: Path, seed: int, *, poll_max: int) -> None:
        self.rng, self.seed = random.Random(seed), seed
        self.farm = Farm()
        self.farm.server.start()
        self._poll_max = poll_max
        faulty = home / "faulty"
        faulty.mkdir(parents=True)
        (faulty / "sitecustomize.py").write_text(FAULTY)
        self.home = home
        self.environment = {
            **SETTINGS,
            "EVENTR_FETCH_PORTS": str(self.farm.server.port),
            "EVENTR_POLL_MAX": str(poll_max),
            # The faulty parser imports ours before it is told where to look.
            "PYTHONPATH": f"{faulty}{os.pathsep}{REPO}",
        }
        self.up = Up(home / "var", 0, **self.environment).wait_ready()
        settings = embedded.resolve_addresses(self.up.settings)
        ports = (self.farm.server.port,)
        self.settings = dataclasses.replace(
            settings, poll_min=1, poll_max=poll_max, fetch_allow=("127.0.0.0/8",), fetch_ports=ports
        )
        self.services = services.build(self.settings)
        self.client = redis.Redis.from_url(settings.redis_url, socket_timeout=30, retry=Retry(NoBackoff(), 0))
        self.db = self.services.store.database
        self.blows: list[Blow] = []
        self.checked = 0
        self._seen: set[psutil.Process] = set()
        self._acknowledged: list[tuple[int, str]] = []
        self._urls: list[str] = []
        self._users = 1000
        self._probes = 0

    def close(self) -> None:
        self.services.close()
        self.client.close()
        self.up.kill()
        self.farm.stop()

    # -- people

    def user(self) -> Actor:
        """Return somebody new."""
        self._users += 1
        return Actor(self._users)

    def person(self) -> tuple[Actor, Browser]:
        """Return somebody new who is logged in."""
        name = f"reader{self.rng.randrange(1 << 40)}"
        user = self.services.gateways.accounts.add_user(NewUser(f"{name}@example.org", name, "no password"))
        # Feeds of the farm tell the same articles; what is told of one entry is to be true of no other.
        self.services.gateways.accounts.set_preferences(user.actor.user_id, {"stories": False})
        return user.actor, self.browser(user.actor)

    def browser(self, actor: Actor) -> Browser:
        """Return a further browser of somebody, logged in."""
        sessions = self.services.gateways.sessions
        browser = Browser(self.up.port, sessions.open_session(actor.user_id, agent="test", address=""))
        browser.get("/add")
        return browser

    def subscribe(self, actor: Actor, urls: Sequence[str]) -> list[int]:
        """Subscribe as an import does: each until it is acknowledged, whatever is away meanwhile."""
        return [self._subscribe(actor, url) for url in urls]

    def _subscribe(self, actor: Actor, url: str) -> int:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                feed_id = self.services.subscriptions.subscribe(actor, url).subscription.feed_id
            except _OUTAGE:
                # A person tries again.
                assert time.monotonic() < deadline, f"{url} cannot be subscribed\n{self.up.report()}"
                poll(lambda: False, 0.1)
            else:
                self._acknowledged.append((actor.user_id, url))
                self._urls.append(url)
                return feed_id

    def wait(self, condition: Any, what: str, timeout: float = PATIENCE) -> None:
        """Wait until something holds; what is away meanwhile is no news."""

        why: object = None

        def holds() -> bool:
            nonlocal why
            try:
                return bool(condition())
            except _OUTAGE as e:
                why = e
            return False

        assert poll(holds, timeout, step=0.1), f"{what} not within {timeout} s ({why!r})\n{self.up.report()}"

    def wait_sound(self, check: Callable[[], list[str]], what: str) -> None:
        """Wait until a check finds nothing any more; else say what it found."""
        found: list[str] = []

        def sound() -> bool:
            found[:] = check()
            return not found

        try:
            self.wait(sound, what)
        except AssertionError as e:
            raise AssertionError("\n".join([f"{what}: never", *found[:20], str(e)])) from None

    def stored(self, urls: Sequence[str]) -> bool:
        """Whether all entries that these feeds have told are there."""
        return not checks.lost(self.db, {url: self.farm.expected(url) for url in urls})

    # -- blows

    def workers(self) -> list[int]:
        """Return the worker processes that live."""
        family = {p.pid for p in self.up.processes()}
        return [pid for n in _WORKER.findall(self.up.log("manager")) if (pid := int(n)) in family]

    def strike(self, *parts: str, number: int = signal.SIGKILL) -> list[float]:
        """Hit parts at the same moment ("worker": one at random), and wait until each is back.

        A part is back when its successor says so and a job that was queued then has its result.

        Returns:
            The seconds that each took.
        """
        self._seen |= set(self.up.processes())
        before = self.up.pids()
        started = time.monotonic()
        for part in parts:
            pids = self.workers() if part == "worker" else [before[part]]
            with contextlib.suppress(ProcessLookupError):
                if pids:
                    os.kill(self.rng.choice(pids), number)
        return [self._back(part, before, started) for part in parts]

    def wait_written(self) -> None:
        """Wait until Redis has written all that it has acknowledged, so that a kill can't take it along.

        During a long fsync, Redis acknowledges commands up to 2 seconds before it writes them.
        """
        self.wait(lambda: not self.client.info("persistence")["aof_buffer_length"], "Redis has written")

    def empty_redis(self) -> float:
        """Take all keys from Redis, kill it, and so let it start empty."""
        self.client.flushall()
        return self.strike("redis")[0]

    def _back(self, part: str, before: dict[str, int], started: float) -> float:
        if part != "worker":
            self.wait(lambda: self.up.pids()[part] != before[part], f"{part} is started again")
            self.wait(lambda: self._answers(part), f"{part} answers")
        self.probe()
        seconds = time.monotonic() - started
        self.blows.append(Blow(part, "SIGKILL", seconds))
        return seconds

    def _answers(self, part: str) -> bool:
        if part == "web":
            return self.up.status() == 200
        if part == "redis":
            return bool(self.client.ping())
        if part == "mongodb":
            return bool(self.db.client.admin.command("hello")["isWritablePrimary"])
        signs = [self.client.get(key) for key in self.client.scan_iter(redis_keys.make_alive_key(part, "*"))]
        return any(json.loads(sign)["pid"] == self.up.pids()[part] for sign in signs if sign)

    def probe(self, queue: Queue = Queue.PULL) -> None:
        """Have a new job run through the whole engine."""
        self._probes += 1
        job = Job(Task.ECHO, {"probe": self._probes}, queue)

        def answered() -> bool:
            ticket = self.services.jobs.enqueue(job)
            return [o.value for o in self.services.jobs.await_many([ticket], 5)] == [job.args]

        self.wait(answered, "a job has its result")

    @contextlib.contextmanager
    def one_worker(self) -> Iterator[None]:
        """Have one worker for feeds: what holds for each worker can be counted at the server."""
        with self.changed({"feeds.max_workers": "1"}):
            self.wait(lambda: self._of_feeds() == 1, "one worker for feeds is left")
            yield

    @contextlib.contextmanager
    def paused(self, *queues: Queue) -> Iterator[None]:
        """Let nothing be claimed from these queues for the time of a block."""
        self.client.sadd(redis_keys.PAUSED, *map(str, queues))
        try:
            yield
        finally:
            self.client.srem(redis_keys.PAUSED, *map(str, queues))

    @contextlib.contextmanager
    def changed(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Change settings of groups and queues for the time of a block."""
        try:
            for name, value in settings.items():
                repl.ask(self.settings, f"set {name} {value}")
            yield
        finally:
            for name in settings:
                repl.ask(self.settings, f"reset {name}")

    def _of_feeds(self) -> int:
        found = 0
        for process in self.up.processes():
            with contextlib.suppress(psutil.Error):
                found += process.cmdline()[:1] == ["eventr worker feeds"]
        return found

    # -- checks

    def check(self) -> None:
        """Let the system heal, stop asking for work, and demand R01–R05; then go on."""
        self.farm.freeze()
        try:
            found = self._broken()
            assert not found, "\n".join([f"seed {self.seed}", *found[:40], self.up.report()])
        finally:
            self.farm.freeze(False)  # for the next test, whatever became of this one
        self.checked += 1
        self._polls_go_on()
        self._leave()

    def _broken(self) -> list[str]:
        self.wait(lambda: self.stored(self._urls), "all that was told is stored")
        with self.quiet():
            expected = {url: self.farm.expected(url) for url in self._urls}
            family = self.up.processes()
            found = checks.lost(self.db, expected) + checks.unsubscribed(self.db, self._acknowledged)
            found += checks.doubled(self.db) + checks.miscounted(self.db)
            # Not the jobs: quiet() has seen the end of all. Since then the updater may have queued one more
            # for the search, which was due when it looked, while the last one was at its end.
            found += checks.events(self.client)
            found += checks.claimed(self.db, clock.now())
            found += checks.locks(self.client, self._is_ours)
            found += checks.orphans(self._seen, family)
        return found + checks.stuck_feeds(self.db, self._poll_max, clock.now())

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Let what waits be worked off, and for the time of a block nothing new be queued by the system."""
        # A claim that has run out is not enough: only the next poll puts in order what its writer left.
        self.wait_sound(
            lambda: checks.unsettled(self.db) + checks.claimed(self.db, clock.now()), "every feed is in order"
        )
        self.client.sadd(redis_keys.DRAINING, str(Queue.PULL_SYSTEM))
        try:
            # The last pulls may bring entries, and those a job for the search.
            self.wait_sound(
                lambda: checks.stuck_jobs(self.client) + checks.unindexed(self.db, clock.now()),
                "all jobs have ended, and the search knows everything",
            )
            # Who was registered just before Redis was emptied, or killed just now, is swept within seconds;
            # and what a killed manager leaves needs a moment to notice and to end.
            self.wait_sound(
                lambda: (
                    checks.locks(self.client, self._is_ours) + checks.orphans(self._seen, self.up.processes())
                ),
                "neither locks nor processes of the dead are left",
            )
            yield
        finally:
            self.client.srem(redis_keys.DRAINING, str(Queue.PULL_SYSTEM))

    def _is_ours(self, pid: int) -> bool:
        return pid in {process.pid for process in self.up.processes()}

    def _polls_go_on(self) -> None:
        """R05: feeds that are due soon are polled again."""
        now = clock.now()
        growing = {"url": {"$in": [u for u in self._urls if "/growing/" in u]}, "subscribers": {"$gt": 0}}
        wanted = self.db.feeds.count_documents(growing)
        polled = {**growing, "checked_at": {"$gt": now}}
        self.wait(lambda: self.db.feeds.count_documents(polled) == wanted, "all feeds are polled again")

    def _leave(self) -> None:
        """End all subscriptions, so that the next test starts with little to do."""
        for held in list(self.db.subscriptions.find({}, {"user_id": 1, "feed_id": 1})):
            self.services.subscriptions.unsubscribe(Actor(held["user_id"]), held["feed_id"])
        self._acknowledged.clear()
        self._urls.clear()

    # -- more blows

    def kill_everything_below(self, probe: Queue = Queue.PULL) -> None:
        """Kill all parts and their children at once; ``eventr up`` itself lives.

        Args:
            probe: the queue by which is seen that all work again.
        """
        self._seen |= set(self.up.processes())
        before, started = self.up.pids(), time.monotonic()
        kill_all(self.up.processes()[1:])
        for part in PARTS:
            self.wait(lambda part=part: self.up.pids()[part] != before[part], f"{part} is started again")
            self.wait(lambda part=part: self._answers(part), f"{part} answers")
        self.probe(probe)
        self.blows.append(Blow("all at once", "SIGKILL", time.monotonic() - started))


def summary(blows: Sequence[Blow]) -> dict[str, tuple[int, float, float]]:
    """Return part → (kills, median and longest time until it was back, seconds)."""
    by_part: dict[str, list[float]] = {}
    for blow in blows:
        by_part.setdefault(blow.part, []).append(blow.seconds)
    return {part: (len(s), statistics.median(s), max(s)) for part, s in sorted(by_part.items())}
