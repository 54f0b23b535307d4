"""Real processes for the tests of the job engine, and looks at Redis from outside."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings, build_env_name
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from queue_manager.recovery import Recovery
from workers.queue_client import QueueClient, connect

T = TypeVar("T")

REPO = Path(__file__).resolve().parents[2]
#: Worker groups of most tests: small and quick to start.
FEEDS = """
[feeds]
queues = ["discovery", "feed-pull", "import", "feed-pull-sys"]
workers = {workers}
slots = {slots}
system_slots = {slots}
[suspects]
queues = ["suspects"]
slots = 1
system_slots = 1
"""
#: A process as the command line starts it, for any module of ours with a ``run``.
PROGRAM = """
import sys
from app import logs
from app.runtime import gc
gc.collect_rarely()
from app.config import Settings
from {module} import run
s = Settings.from_env()
logs.configure(s.log_level, s.log_format)
sys.exit(run(s))
"""


class Process:
    """One of our processes as ``eventr`` would start it, with its log in a file."""

    def __init__(self, module: str, settings: Settings, log: Path) -> None:
        names: tuple[str, ...] = (
            "home",
            "redis_url",
            "redis_replicas",
            "mongodb_uri",
            "mongodb_name",
            "queues_file",
            "job_retries",
            "job_backoff",
            "repl_listen",
        )
        names += ("worker_memory", "worker_stall", "stop_grace", "updater_interval", "updater_lease")
        names += ("metrics_listen", "metrics_token", "report_urls", "log_level")
        names += ("cells", "retention_total")
        names += ("pull_batch", "updater_work", "fetch_allow", "fetch_ports", "job_timeout", "worker_nice")
        ours = {build_env_name(n): _text(v) for n in names if (v := getattr(settings, n)) is not None}
        self.log = log
        with log.open("a") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", PROGRAM.format(module=module)],
                cwd=REPO,
                env={**os.environ, **ours},
                stdout=out,
                stderr=out,
            )
        self.pid = self.popen.pid

    def family(self) -> list[psutil.Process]:
        """All processes below it."""
        return psutil.Process(self.pid).children(recursive=True)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 60) -> int:
        """Send a signal and wait for the end."""
        self.popen.send_signal(number)
        return self.popen.wait(timeout)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@contextlib.contextmanager
def running(module: str, settings: Settings, name: str = "process") -> Iterator[Process]:
    """A process for the time of a block; its log is shown when the block fails."""
    process = Process(module, settings, settings.home / f"{name}.log")
    try:
        yield process
    except BaseException:
        sys.stderr.write(process.log.read_text()[-20_000:])
        raise
    finally:
        if process.popen.poll() is None:
            try:
                process.stop()
            finally:
                process.popen.kill()


def groups(settings: Settings, *, workers: int = 1, slots: int = 8, extra: str = "") -> Path:
    """Write a queue table for a manager."""
    path = settings.home / "queues.toml"
    path.write_text(FEEDS.format(workers=workers, slots=slots) + extra)
    return path


def desk(client: redis.Redis, settings: Settings, worker: str = "w1") -> QueueClient:
    """A registered worker's desk, without a process."""
    client.hset(redis_keys.WORKERS, worker, "test:1:1")
    return QueueClient(connect(settings.redis_url), worker, [str(q) for q in Queue], settings.dead_max)


def left(client: redis.Redis) -> set[str]:
    """Names of ours in Redis beside what happened, which is kept and counted: locks and signs of life."""
    names = {key.decode() for key in client.scan_iter("eventr:*")} - {redis_keys.EVENTS, redis_keys.TOTALS}
    return {name for name in names if not name.startswith((redis_keys.STATS, redis_keys.MINUTES))}


def linked(settings: Settings, work: Callable[[Recovery], Awaitable[T]]) -> T:
    """Do something as a manager would, without one: with its connection to Redis."""

    async def run() -> T:
        link = Recovery(settings, "test:1:1")
        try:
            return await work(link)
        finally:
            await link.close()

    return asyncio.run(run())


def effects(count: int, seconds: float = 0.0, start: int = 0) -> list[Job]:
    """Jobs that leave one trace each."""
    return [
        Job(Task.EFFECT, {"keys": [key], "seconds": seconds}, Queue.PULL)
        for key in range(start, start + count)
    ]


def crash_to_death(jobs: RedisJobs, client: redis.Redis, how: str, *, first: int) -> set[str]:
    """Let a job bring its workers down until it is given up, beside others that are done; return its ends.

    Args:
        first: the first key of the other jobs.
    """
    others = jobs.enqueue_many(effects(20, seconds=0.3, start=first))
    poison = jobs.enqueue(Job(Task.CRASH, {"how": how}, Queue.PULL))
    found = {outcome.id: outcome.error for outcome in jobs.await_many([*others, poison], 90)}
    assert found.pop(poison.id) == "crashed"
    assert collections.Counter(found.values()) == {None: 20}
    view = jobs.get_status(poison.id)
    assert (view.state, view.crashes, view.failures) == (State.FAILED, 3, 0)
    history = client.hget(redis_keys.make_job_key(poison.id), "history")
    assert isinstance(history, bytes)
    crashes = history.splitlines()
    assert len(crashes) == 3
    # The innocent share the first crash at most: from then on the guilty one runs alone.
    assert max(jobs.get_status(ticket.id).crashes for ticket in others) <= 1
    return {json.loads(line)["where"] for line in crashes}


def traces(client: redis.Redis) -> list[tuple[int, str]]:
    """What EFFECT left: (key, attempt token)."""
    rows: list[Any] = client.lrange("selftest:effects", 0, -1)  # type: ignore[assignment]
    return [(int(key), token) for key, token in (row.decode().split() for row in rows)]


def states(client: redis.Redis, ids: Sequence[str]) -> collections.Counter[str]:
    """How many of these jobs are in which state, all at one moment."""
    with client.pipeline(transaction=True) as pipe:
        for job_id in ids:
            pipe.hget(redis_keys.make_job_key(job_id), "status")
        return collections.Counter((s or b"missing").decode() for s in pipe.execute())


def ends(client: redis.Redis) -> collections.Counter[str]:
    """How many ends each job had, by the event stream."""
    rows: list[Any] = client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    return collections.Counter(
        row[b"id"].decode() for _, row in rows if row[b"kind"].decode() in (State.FINISHED, State.FAILED)
    )


def leftovers(client: redis.Redis) -> dict[str, list[Any]]:
    """Jobs in queues and in-flight lists."""
    names = [*client.scan_iter(redis_keys.QUEUE + "*"), *client.scan_iter(redis_keys.INFLIGHT + "*")]
    return {name.decode(): client.lrange(name, 0, -1) for name in names}  # type: ignore[misc]


def workers(client: redis.Redis) -> dict[str, str]:
    """Registered workers and their managers."""
    rows: Any = client.hgetall(redis_keys.WORKERS)
    return {worker.decode(): manager.decode() for worker, manager in rows.items()}


def pids(process: Process, title: str) -> list[int]:
    """Workers on a group, by their process title."""
    found = []
    for child in process.family():
        with contextlib.suppress(psutil.Error):
            if child.cmdline()[:1] == [f"eventr worker {title}"]:
                found.append(child.pid)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def feed_ids(data: bytes) -> list[int]:
    """The feeds of a pull, read from the ``data`` of its job."""
    found: list[int] = json.loads(zlib.decompress(data))[3]["feed_ids"]
    return found
