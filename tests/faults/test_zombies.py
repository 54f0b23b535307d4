"""F08: who was frozen for longer than his leases is replaced, and changes nothing when he wakes up."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from app import clock
from app.embedded.child import poll
from app.gateways.feeds.digest import make_crash_update
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from tests.faults import faulty
from tests.faults.system import LONG, STUCK, System
from tests.jobs import support
from tests.support.imports import REPO
from tests.support.rawserver import Reply
from workers import outcome
from workers.queue_client import UnregisteredError

pytestmark = pytest.mark.timeout(3000)

RSS = b"<rss version='2.0'><channel><title>%s</title><item><guid>1</guid></item></channel></rss>"
_STARTED = re.compile(r"worker_started worker=(\S+) group=\S+ pid=(\d+)")
#: Fields of a feed that change without a poll: the search's marks, and when it is due, since a refused writer
#: asks for the next poll.
_GOES_ON = {"index_at", "indexed_at", "indexed_upto", "next_check_at"}
_POLLS = (Queue.PULL, Queue.PULL_SYSTEM, Queue.SUSPECTS)
#: How long a host stays frozen after others took over its work, seconds; in the long form its claim runs
#: out by itself.
FROZEN = 120.0 if LONG else 0.0


def test_F08_a_frozen_worker_is_replaced_and_a_zombie_changes_nothing(system: System, scale: int) -> None:
    jobs = system.services.jobs
    for n in range(scale):
        start = 3_000_000 + 1000 * n
        with system.changed(STUCK):
            # Not before: to change the settings may take longer than all of these jobs.
            tickets = jobs.enqueue_many(support.effects(16, seconds=1.0, start=start))
            _freeze_all(system)
        ends = {o.id: o.error for o in jobs.await_many(tickets, 100)}
        assert ends == {ticket.id: None for ticket in tickets}
    _zombie_worker(system)
    _zombie_writer(system)


def _freeze_all(system: System) -> None:
    """SIGSTOP all workers, as an exhausted host would; their manager ends them and others go on."""
    system.wait(lambda: [*system.client.scan_iter(redis_keys.INFLIGHT + "*")], "somebody has begun")
    victims = system.workers()
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):  # one may have had nothing to do, and left
            os.kill(pid, signal.SIGSTOP)
    system.wait(lambda: not [pid for pid in victims if support.is_alive(pid)], "the frozen are replaced")


def _zombie_worker(system: System) -> None:
    """A worker of a manager that nobody knows is swept; what it ends after that is refused."""
    queue, own = Queue.MAINTENANCE, "zombies"
    system.client.sadd(redis_keys.PAUSED, str(queue))
    ticket = system.services.jobs.enqueue(Job(Task.ECHO, {"zombie": system.seed}, queue))
    # Into a queue that no running worker serves: else one of them may be faster than the zombie. It need not
    # be the only one that waits: news of the feeds of an earlier test bring jobs for the search.
    with system.client.pipeline() as pipe:
        pipe.lrem(redis_keys.make_queue_key(queue), 1, ticket.id)
        pipe.rpush(redis_keys.make_queue_key(own), ticket.id)
        assert pipe.execute() == [1, 1]
    held: list[Any] = []
    while not held:  # the manager may find out before it took anything, and then it is registered no more
        zombie = support.desk(system.client, system.settings, "zombie")
        zombie.set_queues([own])
        with contextlib.suppress(UnregisteredError):
            held = list(zombie.claim_jobs(8, {}, ()))
    assert [job.id for job in held] == [ticket.id]
    system.client.srem(redis_keys.PAUSED, str(queue))
    ends = list(system.services.jobs.await_many([ticket], 100))
    assert [end.error for end in ends] == [None]
    late = [outcome.finish_job(job, {"late": True}, system.settings) for job in held]
    assert zombie.finish(late) == [False]
    assert [end.value for end in system.services.jobs.await_many([ticket], 0)] == [{"zombie": system.seed}]


def _zombie_writer(system: System) -> None:
    """Who claimed a feed and woke up after another had taken it over writes nothing into it."""
    (url,) = system.farm.corpus(1)
    (feed_id,) = system.subscribe(system.user(), [url])
    system.wait(lambda: system.stored([url]), "the feed is there")
    now = clock.now()
    zombie = _claim(system, feed_id, "zombie", now - dt.timedelta(seconds=60))
    _claim(system, feed_id, "heir", now + dt.timedelta(seconds=600))
    feeds = system.services.gateways.feeds
    assert [result.stored for result in feeds.store_updates([make_crash_update(zombie, now, 60)], now)] == [
        False
    ]
    assert feeds.get(feed_id).error is None
    feeds.release("heir", [feed_id])


def _claim(system: System, feed_id: int, token: str, until: dt.datetime) -> Any:
    """Claim a feed as soon as the workers, which poll it as well, leave it free."""
    got: list[Any] = []

    def claimed() -> bool:
        got[:] = system.services.gateways.feeds.claim([feed_id], token, until, 1)
        return bool(got)

    system.wait(claimed, f"{token} has the feed")
    return got[0]


def test_F08_a_frozen_host_is_replaced_and_its_late_writes_are_refused(system: System) -> None:
    """A worker stops between its claim and its write, and its manager with it; another manager takes over."""
    url = system.farm.scripted("/freeze", Reply(body=RSS % b"poison:freeze", close=True))
    (feed_id,) = system.subscribe(system.user(), [url])
    system.wait(lambda: _stands_still(faulty.frozen(system.home)), "a worker is frozen before its write")
    pid = faulty.frozen(system.home)
    assert pid is not None
    name = {int(pid): name for name, pid in _STARTED.findall(system.up.log("manager"))}[pid]
    held = [job.decode() for job in system.client.lrange(redis_keys.make_inflight_key(name), 0, -1)]
    feeds = system.services.gateways.feeds
    with _frozen(system.up.pids()["manager"]), _second_manager(system):
        if not LONG:
            system.db.feeds.update_one({"_id": feed_id}, {"$set": {"claimed_until": clock.now()}})
        system.wait(
            lambda: not system.client.exists(redis_keys.make_inflight_key(name)),
            "another manager takes its work",
        )
        system.wait(lambda: feeds.get(feed_id).last_seq == 1, "and does it")
        poll(lambda: False, FROZEN)
        with _unpolled(system, feed_id) as before:
            os.kill(pid, signal.SIGCONT)
            for ident in held:
                late = f"ending_refused worker={name} job_id={ident}"
                system.wait(lambda text=late: text in system.up.log("manager"), "its end is refused")
            now = system.db.feeds.find_one({"_id": feed_id})
        assert _content(now) == _content(before), "and so is what it read"
        assert system.db.entries.count_documents({"feed_id": feed_id}) == 1


def _stands_still(pid: int | None) -> bool:
    """Whether a process is frozen: it says that it will be before it is, and ends other jobs until then."""
    return pid is not None and psutil.Process(pid).status() == psutil.STATUS_STOPPED


@contextlib.contextmanager
def _unpolled(system: System, feed_id: int) -> Iterator[dict[str, Any]]:
    """Let nobody but the frozen worker poll a feed for the time of a block; yield its document.

    When the worker wakes up and its write is refused, it makes the feed due. The poll that follows is lawful:
    it may claim the feed and change it between two looks.
    """
    system.client.sadd(redis_keys.PAUSED, *map(str, _POLLS))
    try:
        system.wait(lambda: not _running(system), "the polls that have begun have ended")
        before = system.db.feeds.find_one({"_id": feed_id})
        assert before is not None
        assert "claim_token" not in before
        yield before
    finally:
        system.client.srem(redis_keys.PAUSED, *map(str, _POLLS))


def _running(system: System) -> int:
    """Count the jobs that registered workers hold."""
    return sum(system.client.llen(name) for name in system.client.scan_iter(redis_keys.INFLIGHT + "*"))


def _content(feed: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in feed.items() if key not in _GOES_ON}


@contextlib.contextmanager
def _frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _second_manager(system: System) -> Iterator[None]:
    """Run another server's manager, with the same stores."""
    home = system.home / "second"
    home.mkdir()
    given = {
        **system.environment,
        "EVENTR_HOME": str(home),
        "EVENTR_MONGODB_URI": system.settings.mongodb_uri,
        "EVENTR_REDIS_URL": system.settings.redis_url,
    }
    command = [sys.executable, "-m", "app", "manager"]
    with (home / "manager.log").open("w") as log:
        process = subprocess.Popen(command, cwd=REPO, env={**os.environ, **given}, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(60) == 0, (home / "manager.log").read_text()[-4000:]
