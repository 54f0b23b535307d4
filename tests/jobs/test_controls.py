"""What an operator may do with a running manager; real workers, the manager in this process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import InvalidError, NotFoundError, SettingsError, StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager import groups, overrides, recovery
from queue_manager.control.actions import Controls
from queue_manager.supervisor import Supervisor
from tests.jobs import support

TABLE = """
[feeds]
queues = ["discovery", "feed-pull", "import", "feed-pull-sys"]
min_workers = 1
max_workers = 3
max_idle = 1
cpu = 100
slots = 2
system_slots = 1
[maintenance]
queues = ["maintenance"]
mode = "solo"
min_workers = 0
max_idle = 1
[queue.feed-pull]
retries = 7
"""


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    table = tmp_path / "queues.toml"
    table.write_text(TABLE)
    return dataclasses.replace(settings, queues_file=table)


@contextlib.asynccontextmanager
async def _manager(settings: Settings) -> AsyncIterator[Controls]:
    manager = recovery.build_identity()
    link = recovery.Recovery(settings, manager)
    supervisor = Supervisor(settings, groups.load(settings), link, manager)
    running = asyncio.create_task(supervisor.run())
    try:
        yield Controls(supervisor)
    finally:
        supervisor.stop()
        await running
        await link.close()


def _managed(settings: Settings, work: Callable[[Controls], Awaitable[None]]) -> None:
    async def run() -> None:
        async with _manager(settings) as controls:
            await work(controls)

    asyncio.run(run())


async def _until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something true; a minute is for a machine that is busy with other tests."""
    async with asyncio.timeout(60):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    assert found, what
    return found


def _ready(controls: Controls, group: str = "feeds") -> list[dict[str, Any]]:
    return [w for w in controls.get_status()["workers"] if w["group"] == group and w["state"] == "ready"]


def _sleepers(jobs: RedisJobs, count: int, seconds: float, start: int = 0) -> list[str]:
    wanted = [Job(Task.SLEEP, {"seconds": seconds, "key": start + n}, Queue.PULL) for n in range(count)]
    return [ticket.id for ticket in jobs.enqueue_many(wanted)]


def _load(settings: Settings) -> groups.QueueSettings:
    return groups.load(settings)


def test_the_status_tells_of_groups_workers_and_what_they_run(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    async def work(controls: Controls) -> None:
        (job_id,) = _sleepers(jobs, 1, 20)
        await _until(lambda: [w for w in _ready(controls) if w["current"] and w["rss_mb"] > 5], "it runs")
        status = controls.get_status()
        assert status["manager"].split(":")[1] == str(status["pid"])
        feeds, maintenance = status["groups"]
        assert (feeds["name"], feeds["mode"], feeds["min_workers"], feeds["max_workers"]) == (
            "feeds",
            "loop",
            1,
            3,
        )
        assert (feeds["serving"], feeds["wanted"]) == (1, 1)
        assert feeds["queues"] == ["discovery", "feed-pull", "import", "feed-pull-sys"]
        assert (maintenance["serving"], maintenance["wanted"]) == (0, 0)
        (worker,) = status["workers"]
        ((running),) = worker["current"]
        assert (running["id"], running["task"]) == (job_id, "selftest.sleep")
        assert support.is_alive(worker["pid"])
        queues = {queue["name"]: queue for queue in await controls.list_queues()}
        assert list(queues) == [str(queue) for queue in Queue]
        assert queues["feed-pull"]["running"] == 1
        assert queues["feed-pull"]["length"] == 0

    _managed(settings, work)


def test_load_brings_workers_and_rest_sends_them_away(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    async def work(controls: Controls) -> None:
        await _until(lambda: _ready(controls), "the first one")
        tickets = jobs.enqueue_many(support.effects(60, seconds=0.7))
        await _until(lambda: len(_ready(controls)) == 3, "as many as may be")
        outcomes = await asyncio.to_thread(lambda: list(jobs.await_many(tickets, 60)))
        assert [o.error for o in outcomes] == [None] * 60
        await _until(lambda: len(controls.get_status()["workers"]) == 1, "as few as may be")
        assert {jobs.get_status(t.id).crashes for t in tickets} == {0}
        # A group without any starts its first one for its first job, and lets it go.
        ticket = jobs.enqueue(Job(Task.ECHO, {"solo": 1}, Queue.MAINTENANCE))
        (outcome,) = await asyncio.to_thread(lambda: list(jobs.await_many([ticket], 60)))
        assert outcome.value == {"solo": 1}
        await _until(lambda: len(controls.get_status()["workers"]) == 1, "none is left of it")

    _managed(settings, work)
    assert len(support.traces(redis_client)) == 60


def test_settings_change_live_for_managers_and_their_workers(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    async def work(controls: Controls) -> None:
        (before,) = await _until(lambda: _ready(controls), "the first one")
        assert controls.get_settings()["feeds"]["slots"] == 2
        assert controls.get_settings()["feed-pull"]["retries"] == 7
        assert controls.get_settings()["import"]["retries"] == settings.job_retries
        await controls.set("feeds", "max_workers", "1")
        # A queue stands for the group that serves it.
        changed = await controls.set("feed-pull", "slots", "5")
        assert changed == {"name": "feeds", "key": "slots", "value": 5}
        _sleepers(jobs, 9, 30)
        running = await _until(
            lambda: [w for w in _ready(controls) if len(w["current"]) == 5], "five at once"
        )
        assert running[0]["name"] == before["name"]
        assert redis_client.hgetall(redis_keys.make_live_settings_key("feeds")) == {
            b"slots": b"5",
            b"max_workers": b"1",
        }
        assert await controls.reset("feeds", "slots") == {"name": "feeds", "key": "slots", "value": 2}
        await controls.set("feed-pull", "priority", "3")
        assert controls.get_settings()["feeds"]["queues"] == [
            "feed-pull",
            "discovery",
            "import",
            "feed-pull-sys",
        ]
        await controls.set("feed-pull", "buffer", "1")

    _managed(settings, work)
    # The next manager keeps them.
    table = overrides.apply(
        _load(settings),
        support.linked(settings, lambda c: overrides.Overrides(c.client).read(_load(settings))),
    )
    assert (table.groups[0].max_workers, table.groups[0].slots) == (1, 2)
    assert table.rules["feed-pull"].buffer == 1

    async def again(controls: Controls) -> None:
        await _until(lambda: [w for w in _ready(controls) if w["current"]], "one at a time")
        queues = {queue["name"]: queue for queue in await controls.list_queues()}
        assert (queues["feed-pull"]["running"], queues["feed-pull"]["length"]) == (1, 8)

    _managed(settings, again)


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        (
            "feeds",
            "nonsense",
            "1",
            "nonsense isn't a setting. Group settings: min_workers, .*. Queue settings: timeout",
        ),
        (
            "nobody",
            "slots",
            "1",
            "doesn't serve a group or queue named nobody. Its groups are feeds, maintenance",
        ),
        ("suspects", "slots", "1", "doesn't serve a group or queue named suspects"),
        ("feeds", "retries", "1", "retries is a queue setting. The queues are discovery, feed-pull"),
        ("feeds", "slots", "0", "feeds.slots must be a whole number between 1 and 1000"),
        ("feeds", "slots", "many", "feeds.slots must be a whole number"),
        ("feeds", "slots", "nan", "feeds.slots must be a whole number"),
        ("feeds", "slots", "1e999", "feeds.slots must be a whole number"),
        ("feeds", "grace", "-1", "feeds.grace must be a number between 0 and 600"),
        ("feeds", "min_workers", "4", "feeds.min_workers must currently be at most 3"),
        ("feed-pull", "timeout", "0", "feed-pull.timeout must be a number between 0.1 and 86400"),
    ],
)
def test_a_setting_that_does_not_fit_is_one_sentence(
    settings: Settings, name: str, key: str, value: str, words: str
) -> None:
    table = _load(settings)
    with pytest.raises(InvalidError, match=words):
        overrides.check(table, overrides.find_target(table, name, key), key, value)


def test_changes_that_the_file_has_outgrown_are_left_out(settings: Settings) -> None:
    changes = {
        "feeds": {"slots": "x", "gone": "1", "min_workers": "200", "lifetime": "77"},
        "feed-pull": {"retries": "0", "buffer": "2"},
    }
    table = overrides.apply(_load(settings), changes)
    # The maximum is what must not be exceeded.
    assert (table.groups[0].min_workers, table.groups[0].max_workers) == (3, 3)
    assert (table.groups[0].slots, table.groups[0].lifetime) == (2, 77)
    assert (table.rules["feed-pull"].retries, table.rules["feed-pull"].buffer) == (7, 2)


def test_pause_resume_drain(settings: Settings, jobs: RedisJobs, redis_client: redis.Redis) -> None:
    async def work(controls: Controls) -> None:
        paused = {"queue": "feed-pull", "paused": True, "draining": False}
        assert await controls.pause("feed-pull") == paused
        ticket = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
        other = jobs.enqueue(Job(Task.ECHO, {"key": 2}, Queue.IMPORT))
        assert [o.id for o in await asyncio.to_thread(lambda: list(jobs.await_many([other], 60)))] == [
            other.id
        ]
        queues = {queue["name"]: queue for queue in await controls.list_queues()}
        assert (queues["feed-pull"]["length"], queues["feed-pull"]["paused"]) == (1, True)
        assert (await controls.drain("feed-pull"))["draining"]
        assert await controls.resume("feed-pull") == {
            "queue": "feed-pull",
            "paused": False,
            "draining": False,
        }
        assert [o.id for o in await asyncio.to_thread(lambda: list(jobs.await_many([ticket], 60)))] == [
            ticket.id
        ]
        with pytest.raises(InvalidError, match=r"nonsense isn't a queue\. Choose one of discovery"):
            await controls.pause("nonsense")

    _managed(settings, work)


@pytest.mark.parametrize("gently", [False, True])
def test_a_killed_worker_is_replaced_and_its_jobs_are_not_blamed(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, gently: bool
) -> None:
    async def work(controls: Controls) -> None:
        ids = _sleepers(jobs, 2, 3)
        # Those that have ended while nobody looked run again.
        (worker,) = await _until(
            lambda: _sleepers(jobs, 2, 3) and [w for w in _ready(controls) if len(w["current"]) == 2],
            "they run",
        )
        assert await controls.kill(worker["name"], gently=gently) == {
            "worker": worker["name"],
            "pid": worker["pid"],
            "gently": gently,
        }
        await _until(lambda: not support.is_alive(worker["pid"]), "it ends")
        await _until(lambda: support.states(redis_client, ids) == {"finished": 2}, "another one does them")
        assert {jobs.get_status(i).crashes for i in ids} == {0}
        assert worker["name"] not in [w["name"] for w in controls.get_status()["workers"]]
        with pytest.raises(NotFoundError, match="doesn't have a worker named nobody"):
            await controls.kill("nobody")

    _managed(settings, work)


def test_who_is_held_up_himself_takes_nobody_for_stuck(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that is paused: an hour passes in which neither the manager nor its workers do anything."""

    async def work(controls: Controls) -> None:
        (job_id,) = _sleepers(jobs, 1, 3)
        (worker,) = await _until(
            lambda: _sleepers(jobs, 1, 3) and [w for w in _ready(controls) if w["current"]], "it runs"
        )
        monotonic = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 3600)
        await _until(
            lambda: jobs.get_status(job_id).crashes or jobs.get_status(job_id).state == "finished", "an end"
        )
        assert jobs.get_status(job_id).crashes == 0
        assert [w["name"] for w in _ready(controls)] == [worker["name"]]

    _managed(settings, work)


def test_dead_tasks_are_told_retried_and_dropped(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    async def work(controls: Controls) -> None:
        bad = [jobs.enqueue(Job(Task.CRASH, {"how": "feed", "key": key}, Queue.PULL)) for key in range(3)]
        await asyncio.to_thread(lambda: list(jobs.await_many(bad, 60)))
        tasks = await controls.list_dead()
        assert {task["id"] for task in tasks} == {ticket.id for ticket in bad}
        assert {task["error"] for task in tasks} == {"not_a_feed"}
        assert await controls.retry_dead(bad[0].id) == 1
        await _until(lambda: jobs.get_status(bad[0].id).state == "failed", "it fails again")
        assert len(next(t for t in await controls.list_dead() if t["id"] == bad[0].id)["history"]) == 2
        assert await controls.remove_dead(bad[0].id) == 1
        for act in (controls.retry_dead, controls.remove_dead):
            with pytest.raises(NotFoundError, match=rf"There's no failed job {bad[0].id}\. "):
                await act(bad[0].id)
        assert await controls.remove_dead(None) == 2
        assert await controls.list_dead() == []

    _managed(settings, work)


def test_a_reload_starts_new_groups_and_ends_old_ones(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    assert settings.queues_file is not None
    table = settings.queues_file

    async def work(controls: Controls) -> None:
        await _until(lambda: _ready(controls), "the first one")
        table.write_text('[feeds]\nqueues = ["nonsense"]\n')
        with pytest.raises(SettingsError, match="line 2"):
            controls.reload()
        assert controls.get_settings()["feeds"]["slots"] == 2
        table.write_text('[pulls]\nqueues = ["feed-pull"]\nslots = 3\n')
        unserved = [queue for queue in Queue if queue != "feed-pull"]
        assert controls.reload() == {"groups": ["pulls"], "unserved": unserved}
        assert controls.get_status()["unserved"] == unserved
        await _until(
            lambda: [w["group"] for w in controls.get_status()["workers"]] == ["pulls"], "only the new one"
        )
        assert [group["name"] for group in controls.get_status()["groups"]] == ["pulls"]
        table.write_text('[pulls]\nqueues = ["feed-pull"]\nmode = "solo"\n')
        (old,) = controls.get_status()["workers"]
        controls.reload()
        await _until(
            lambda: [w for w in _ready(controls, "pulls") if w["name"] != old["name"]], "another mode"
        )
        ticket = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
        assert [o.error for o in await asyncio.to_thread(lambda: list(jobs.await_many([ticket], 60)))] == [
            None
        ]

    _managed(settings, work)


def test_a_silent_redis_is_a_named_error(settings: Settings, tmp_path: Path) -> None:
    async def run() -> None:
        away = dataclasses.replace(settings, redis_url=f"unix://{tmp_path}/no.sock")
        link = recovery.Recovery(away, "test:1:1")
        controls = Controls(Supervisor(away, _load(away), link, "test:1:1"))
        calls = [
            controls.list_queues(),
            controls.set("feeds", "slots", "3"),
            controls.pause("import"),
            controls.list_dead(),
        ]
        for call in (*calls, controls.retry_dead(None), controls.remove_dead(None)):
            with pytest.raises(StoreError):
                await call
        assert controls.get_settings()["feeds"]["slots"] == 2
        await link.close()

    asyncio.run(run())
