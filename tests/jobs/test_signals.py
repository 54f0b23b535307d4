"""What signals do to a manager, and what its neighbours notice; real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager.overrides import Overrides
from tests.jobs import support

Eventually = Callable[..., Any]


def _sleepers(jobs: RedisJobs, count: int, seconds: float) -> list[str]:
    wanted = [Job(Task.SLEEP, {"seconds": seconds, "key": key}, Queue.PULL) for key in range(count)]
    return [ticket.id for ticket in jobs.enqueue_many(wanted)]


def _running(client: redis.Redis, ids: list[str]) -> Callable[[], bool]:
    return lambda: support.states(client, ids) == {"started": len(ids)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_waits_for_no_job_and_loses_none(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually, number: int
) -> None:
    # A grace that no test would wait for: it ends only if the second signal cuts it short.
    settings = dataclasses.replace(settings, stop_grace=600.0)
    with support.running("queue_manager.main", settings, "manager") as manager:
        ids = _sleepers(jobs, 5, 25)
        eventually(_running(redis_client, ids))
        family = [child.pid for child in manager.family()]
        manager.popen.send_signal(number)
        eventually(lambda: "worker_leaving" in manager.log.read_text())
        assert support.states(redis_client, ids) == {"started": 5}
        assert manager.stop(number) == 0
    eventually(lambda: not any(map(support.is_alive, family)))
    assert support.states(redis_client, ids) == {"queued": 5}
    assert {(jobs.get_status(i).crashes, jobs.get_status(i).failures) for i in ids} == {(0, 0)}
    assert support.left(redis_client) == set()


def test_hangup_reads_the_settings_again_and_running_jobs_go_on(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    assert settings.queues_file is not None
    support.groups(settings, slots=2)
    with support.running("queue_manager.main", settings, "manager") as manager:
        ids = _sleepers(jobs, 8, 25)
        eventually(lambda: support.states(redis_client, ids)["started"] == 2)
        settings.queues_file.write_text("[feeds\n")
        manager.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "settings_refused" in manager.log.read_text())
        assert "line 1" in manager.log.read_text()
        support.groups(settings, slots=6)
        workers = support.pids(manager, "feeds")
        manager.popen.send_signal(signal.SIGHUP)
        eventually(lambda: support.states(redis_client, ids)["started"] == 6)
        assert support.pids(manager, "feeds") == workers
        assert "queues=import" not in manager.log.read_text()
        table = settings.queues_file.read_text()
        settings.queues_file.write_text(table.replace(', "import"', ""))
        manager.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "queues_unserved queues=import" in manager.log.read_text())
        assert manager.stop() == 0


def test_usr1_logs_the_state(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with support.running("queue_manager.main", settings, "manager") as manager:
        ids = _sleepers(jobs, 1, 25)
        eventually(_running(redis_client, ids))
        eventually(lambda: support.pids(manager, "suspects"))

        def told() -> bool:
            # Asked again, as a person would: Redis knows of the job before its worker has told the manager.
            manager.popen.send_signal(signal.SIGUSR1)
            log = manager.log.read_text()
            return "running=selftest.sleep" in log and "worker_state worker=suspects" in log

        eventually(told)
        log = manager.log.read_text()
        assert "group_state group=feeds serving=1 wanted=1" in log
        (pid,) = support.pids(manager, "feeds")
        assert re.search(rf"worker_state worker=feeds\S+ running=selftest.sleep group=feeds pid={pid}\b", log)


def test_all_managers_follow_what_one_is_told(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    """Two managers on one host, beside each other; a change reaches workers of both."""
    support.groups(settings, slots=1)
    with (
        support.running("queue_manager.main", settings, "one"),
        support.running("queue_manager.main", settings, "two"),
    ):
        eventually(lambda: len(support.workers(redis_client)) == 4)
        ids = _sleepers(jobs, 10, 25)
        eventually(lambda: support.states(redis_client, ids)["started"] == 2)
        support.linked(settings, lambda link: Overrides(link.client).write("feeds", "slots", "4"))
        eventually(lambda: support.states(redis_client, ids)["started"] == 8)
    assert support.states(redis_client, ids) == {"queued": 10}


def test_a_manager_that_is_killed_beside_another_is_inherited_by_it(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    """Manager, fork server and workers all killed at once; the other one is running already."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(support.running("queue_manager.main", settings, "first"))
        ids = _sleepers(jobs, 6, 10)  # longer than the second one needs to start
        eventually(_running(redis_client, ids))
        second = stack.enter_context(support.running("queue_manager.main", settings, "second"))
        eventually(lambda: support.pids(second, "feeds"))
        family = first.family()
        for pid in (first.pid, *(child.pid for child in family)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        first.popen.wait(30)
        eventually(lambda: support.states(redis_client, ids) == {"finished": 6})
        assert {jobs.get_status(i).crashes for i in ids} == {0}
        eventually(lambda: redis_client.zcard(redis_keys.MANAGERS) == 1)
        assert len(set(support.workers(redis_client).values())) == 1
    assert set(support.ends(redis_client).values()) == {1}


def test_a_job_whose_list_was_lost_is_run_after_all(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually, tmp_path: Path
) -> None:
    """Redis has lost the list of a worker that is gone; the manager's own look must find the job."""
    desk = support.desk(redis_client, settings, "gone")
    (ticket,) = jobs.enqueue_many(support.effects(1))
    assert len(desk.claim_jobs(1, {}, ())) == 1
    redis_client.delete(redis_keys.make_inflight_key("gone"), redis_keys.WORKERS)
    with support.running("queue_manager.main", settings, "manager") as manager:
        assert [o.error for o in jobs.await_many([ticket], 60)] == [None]
        # It is said when all strays are queued again, and this one may have been done by then.
        eventually(lambda: f"stray_job job_id={ticket.id} said=started" in manager.log.read_text())
