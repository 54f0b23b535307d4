"""The manager's own life: it stops cleanly, its death is survived, an outage of Redis too."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from app import embedded
from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import SettingsError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from app.models.jobs.workers import QueueRules
from queue_manager import groups, main, recovery
from tests.jobs import support

Eventually = Callable[..., Any]


def _sleepers(jobs: RedisJobs, count: int, seconds: float) -> list[str]:
    wanted = [Job(Task.SLEEP, {"seconds": seconds, "key": key}, Queue.PULL) for key in range(count)]
    return [ticket.id for ticket in jobs.enqueue_many(wanted)]


def _all_run(client: redis.Redis, ids: list[str]) -> Callable[[], bool]:
    return lambda: support.states(client, ids) == {"started": len(ids)}


def _at_work(jobs: RedisJobs, client: redis.Redis, count: int, seconds: float) -> Callable[[], bool]:
    """Whether all of these sleepers run; those that have ended while nobody looked run again."""
    return lambda: _all_run(client, _sleepers(jobs, count, seconds))()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_clean_stop_returns_jobs_and_leaves_nothing(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually, number: int
) -> None:
    with support.running("queue_manager.main", settings, "manager") as manager:
        ids = _sleepers(jobs, 5, 25)
        eventually(_all_run(redis_client, ids))
        family = [child.pid for child in manager.family()]
        assert manager.stop(number) == 0
    eventually(lambda: not any(map(support.is_alive, family)))
    assert support.states(redis_client, ids) == {"queued": 5}
    # To the front, in their order, and nothing is held against them.
    assert redis_client.lrange(redis_keys.make_queue_key(Queue.PULL), 0, -1) == [
        job_id.encode() for job_id in ids
    ]
    views = [jobs.get_status(job_id) for job_id in ids]
    assert {(view.crashes, view.failures) for view in views} == {(0, 0)}
    assert support.left(redis_client) == set()
    assert redis_client.zcard(redis_keys.FAILED + Queue.PULL) == 0


def test_a_short_job_ends_within_the_grace(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    settings = dataclasses.replace(settings, stop_grace=20)
    with support.running("queue_manager.main", settings, "manager") as manager:
        ids = _sleepers(jobs, 3, 1.5)
        eventually(_at_work(jobs, redis_client, 3, 1.5))
        assert manager.stop() == 0
    assert support.states(redis_client, ids) == {"finished": 3}


def test_workers_die_with_their_manager_and_the_next_one_recovers(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with support.running("queue_manager.main", settings, "first") as first:
        # Longer than it takes to see them run, to kill, and to look again.
        ids = _sleepers(jobs, 6, 10)
        eventually(_all_run(redis_client, ids))
        family = [child.pid for child in first.family()]
        first.stop(signal.SIGKILL)
        eventually(lambda: not any(map(support.is_alive, family)))
    assert support.states(redis_client, ids) == {"started": 6}
    dead = set(support.workers(redis_client))
    with support.running("queue_manager.main", settings, "second"):
        eventually(lambda: support.states(redis_client, ids) == {"finished": 6})
        assert not dead & set(support.workers(redis_client))
        assert {jobs.get_status(job_id).crashes for job_id in ids} == {0}
        assert redis_client.zcard(redis_keys.MANAGERS) == 1
    assert set(support.ends(redis_client).values()) == {1}


def test_a_killed_fork_server_takes_no_job_along(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with support.running("queue_manager.main", settings, "manager") as manager:
        ids = _sleepers(jobs, 6, 2)
        eventually(_at_work(jobs, redis_client, 6, 2))
        workers = support.pids(manager, "feeds") + support.pids(manager, "suspects")
        # Not one of its children, which are called like it until they have a title of their own.
        below = psutil.Process(manager.pid).children()
        (server,) = [p for p in below if "forkserver" in " ".join(p.cmdline())]
        server.kill()
        eventually(lambda: not any(map(support.is_alive, workers)))
        eventually(lambda: support.states(redis_client, ids) == {"finished": 6})
        assert {jobs.get_status(job_id).crashes for job_id in ids} == {0}
        assert manager.stop() == 0


def test_two_managers_work_beside_each_other(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with (
        support.running("queue_manager.main", settings, "one") as one,
        support.running("queue_manager.main", settings, "two"),
    ):
        eventually(lambda: len(set(support.workers(redis_client).values())) == 2)
        tickets = jobs.enqueue_many(support.effects(200, seconds=0.02))
        one.stop()
        assert len(list(jobs.await_many(tickets, 60))) == 200
        assert len(set(support.workers(redis_client).values())) == 1
    assert sorted(key for key, _ in support.traces(redis_client)) == list(range(200))


def test_a_clock_that_is_set_makes_nobody_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says of its boot, in seconds since 1970, moves with the clock."""
    manager, boot = recovery.build_identity(), psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot - 3600)
    assert psutil.boot_time() == boot - 3600
    assert not recovery.is_dead(manager)
    assert recovery.build_identity() == manager


@pytest.mark.parametrize("part", [0, 1])
def test_another_process_with_the_number_of_a_dead_manager_is_told_from_it(part: int) -> None:
    """It was started at another time, or after the machine was started again."""
    manager, _, start = recovery.build_identity().rpartition(":")
    parts = start.split("-")
    parts[part] = "1"
    assert recovery.is_dead(f"{manager}:{'-'.join(parts)}")


def test_an_emptied_redis_heals_by_itself(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with support.running("queue_manager.main", settings, "manager"):
        old = eventually(lambda: support.workers(redis_client))
        redis_client.flushall()
        ticket = jobs.enqueue(Job(Task.ECHO, {"after": "flush"}, Queue.PULL))
        assert [outcome.error for outcome in jobs.await_many([ticket], 60)] == [None]
        assert not set(old) & set(support.workers(redis_client))


def test_an_outage_of_redis_is_waited_for(settings: Settings, eventually: Eventually) -> None:
    with tempfile.TemporaryDirectory(prefix="eventr-test-") as home:
        server = embedded.Redis(dataclasses.replace(settings, home=Path(home), redis_url=""))
        ours = dataclasses.replace(settings, redis_url=server.address)
        with (
            contextlib.closing(RedisJobs(ours)) as jobs,
            support.running("queue_manager.main", ours) as manager,
        ):
            # Nobody answers yet: the manager waits.
            eventually(lambda: "redis_silent" in manager.log.read_text())
            _serve(server)
            tickets = jobs.enqueue_many(support.effects(60, seconds=0.3))
            client = redis.Redis.from_url(server.address)
            eventually(lambda: client.llen("selftest:effects") > 8)
            workers = support.pids(manager, "feeds")
            assert server.process is not None
            server.process.kill()
            server.process.wait()
            eventually(lambda: "while_=taking" in manager.log.read_text())
            _serve(server)
            outcomes = list(jobs.await_many(tickets, 60))
            assert {outcome.error for outcome in outcomes} == {None}
            assert len(outcomes) == 60
            assert support.pids(manager, "feeds") == workers
            assert manager.stop() == 0
            client.close()
        server.stop()


def _serve(server: embedded.Redis) -> None:
    server.start()
    server.wait()


_HOLD = """
import re, sys
from multiprocessing.connection import Connection
from workers import lifeline
lifeline.exit_with_parent(Connection(int(sys.argv[1]), writable=False))
print("holding", flush=True)
re.match(r"(a+)+$", "a" * 40 + "b")  # holds the interpreter for hours, in C
"""


def test_the_lifeline_ends_a_worker_that_holds_the_interpreter() -> None:
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(reader)],
        pass_fds=[reader],
        stdout=subprocess.PIPE,
        cwd=support.REPO,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holding\n"
        os.close(reader)
        os.close(writer)
        _ends(process)


def test_a_worker_of_an_ended_manager_never_starts() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(reader)], pass_fds=[reader], cwd=support.REPO
    ) as process:
        os.close(reader)
        _ends(process)


def _ends(process: subprocess.Popen[bytes]) -> None:
    try:
        assert process.wait(20) != 0
    finally:
        process.kill()


def test_a_wrong_queue_table_is_one_sentence(settings: Settings, tmp_path: Path) -> None:
    table = tmp_path / "wrong.toml"
    table.write_text('[feeds]\nqueues = ["feed-pull"]\nworker = 3\n')
    with pytest.raises(SettingsError, match=r"line 3, \[feeds\]: worker isn't a setting"):
        main.run(dataclasses.replace(settings, queues_file=table))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "doesn't define any group"),
        ("[feeds", "can't read"),
        ("feeds = 1", r"line 1, \[feeds\] must be a table"),
        ("[feeds]\nworkers = 1", r"\[feeds\]: queues must be a list"),
        (
            '[feeds]\nqueues = ["nonsense"]',
            r"line 2, \[feeds\]: queues must be a list of one or more of discovery",
        ),
        ('[feeds]\nqueues = ["feed-pull"]\nmode = "both"', "line 3, .*: mode must be loop or solo"),
        (
            '[feeds]\nqueues = ["feed-pull"]\n\nslots = 0',
            "line 4, .*: slots must be a whole number between 1",
        ),
        ('[feeds]\nqueues = ["feed-pull"]\nslots = 1.5', "slots must be a whole number"),
        ('[feeds]\nqueues = ["feed-pull"]\nslots = true', "slots must be a whole number"),
        ('[feeds]\nqueues = ["feed-pull"]\nslots = nan', "slots must be a whole number"),
        ('[feeds]\nqueues = ["feed-pull"]\ngrace = -1', "grace must be a number between 0 and 600"),
        ('[feeds]\nqueues = ["feed-pull"]\ngrace = inf', "grace must be a number between 0 and 600"),
        ('[feeds]\nqueues = ["feed-pull"]\nname = "x"', "name isn't a setting; the settings are"),
        (
            '[feeds]\nqueues = ["feed-pull"]\nmin_workers = 3\nmax_workers = 2',
            "line 3, .* at most max_workers, 2",
        ),
        (
            '[feeds]\nqueues = ["feed-pull"]\nmin_workers = 3\nworkers = 2',
            "workers can't be combined with min_workers",
        ),
        ("[queue.nonsense]", r"line 1, \[queue.nonsense\] isn't a queue; the queues are discovery"),
        (
            "[queue.import]\nretries = 0",
            r"line 2, \[queue.import\]: retries must be a whole number between 1",
        ),
        (
            '[queue."import"]\nslots = 1',
            r"line 2, \[queue.import\]: slots isn't a setting; the settings are backoff_fac",
        ),
        ("queue = 1", r"line 1, \[queue\] must contain one table"),
    ],
)
def test_queue_tables_are_checked(settings: Settings, tmp_path: Path, text: str, words: str) -> None:
    table = tmp_path / "queues.toml"
    table.write_text(text)
    with pytest.raises(SettingsError, match=words):
        groups.load(dataclasses.replace(settings, queues_file=table))


def test_the_built_in_table_serves_every_queue_and_documents_every_setting() -> None:
    settings = Settings()
    loaded = groups.load(settings).groups
    assert {queue for group in loaded for queue in group.queues} == set(Queue)
    text = (support.REPO / "queue_manager" / "queues.toml").read_text()
    for name in ("queues", "mode", *groups.OF_GROUPS, *groups.OF_QUEUES):
        assert f"#   {name} " in text
    assert {f.name for f in dataclasses.fields(groups.Group)} == {"name", "queues", "mode", *groups.OF_GROUPS}
    assert {f.name for f in dataclasses.fields(QueueRules)} == set(groups.OF_QUEUES)
    feeds = next(group for group in loaded if group.name == "feeds")
    assert feeds.system_slots == settings.pull_batches < feeds.slots
    assert feeds.min_workers < feeds.max_workers
    assert [group.slots for group in loaded if Queue.SUSPECTS in group.queues] == [1]


def test_the_short_workers_is_always_so_many(settings: Settings) -> None:
    (group, _) = groups.load(
        dataclasses.replace(settings, queues_file=support.groups(settings, workers=3))
    ).groups
    assert (group.min_workers, group.max_workers) == (3, 3)


def test_a_status_is_given_while_a_job_waits_to_be_tried_again(
    jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    ticket = jobs.enqueue(Job(Task.ECHO, {"x": 1}, Queue.PULL))
    redis_client.hset(
        redis_keys.make_job_key(ticket.id), mapping={"status": "scheduled", "error": "timeout", "failures": 1}
    )
    view = jobs.get_status(ticket.id)
    assert (view.state, view.error, view.failures) == (State.SCHEDULED, "timeout", 1)


def test_a_redis_that_refuses_writes_is_waited_for_like_one_that_is_away(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    """As on a full disk: it answers, with an error, until there is room again."""
    refusal = "min-replicas-to-write"
    with support.running("queue_manager.main", settings, "manager") as manager:
        held = eventually(lambda: support.pids(manager, "feeds"))
        (ticket,) = jobs.enqueue_many(support.effects(1, seconds=30))
        eventually(lambda: jobs.get_status(ticket.id).state is State.STARTED)
        redis_client.config_set(refusal, 1)
        try:
            for pid in held:
                os.kill(pid, signal.SIGKILL)
            for what in ("recovering", "heartbeat"):
                eventually(lambda what=what: f"while_={what}" in manager.log.read_text())
        finally:
            redis_client.config_set(refusal, 0)
        assert manager.popen.poll() is None
        eventually(lambda: jobs.get_status(ticket.id).crashes == 1)
        eventually(lambda: support.pids(manager, "feeds"))
