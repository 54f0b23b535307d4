"""The manager's side of the queue protocol: registration, heartbeats, and recovery of dead workers' jobs."""

from __future__ import annotations

import base64
import json
import os
import socket
import zlib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import psutil
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq.utils import now, utcformat

from app import clock
from app.config import Settings
from app.errors import get_feed_message
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from app.models.jobs.workers import QueueRules
from app.runtime import redis_connections as connections
from queue_manager.policy import DeathVerdict


def build_identity() -> str:
    """Return ``host:pid:start``, which identifies this process uniquely for all time."""
    return f"{_host()}:{os.getpid()}:{_started(os.getpid())}"


def _host() -> str:
    # Containers may share a host name; pids are only comparable within one namespace.
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()}-{namespace}"


def _started(pid: int) -> str:
    # Relative to the boot, which is named too. Times since 1970 change when the clock is set; two managers of
    # one server would then consider each other dead.
    ticks = round((psutil.Process(pid).create_time() - psutil.boot_time()) * 100)
    return f"{_boot()}-{ticks}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""


def is_dead(manager: str) -> bool:
    """Return whether a manager of this host has ended; False on other hosts, where only its lease decides."""
    host, pid, started = manager.rsplit(":", 2)
    if host != _host():
        return False
    try:
        return psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE or _started(int(pid)) != started
    except psutil.NoSuchProcess:
        return True


class Recovery:
    """Registers this manager and its workers, and puts back the jobs of dead workers.

    All methods raise one of :data:`app.runtime.redis_errors.OUTAGE` while Redis doesn't answer or accept
    writes, and can be repeated.
    """

    def __init__(self, settings: Settings, manager: str) -> None:
        self._settings, self._manager = settings, manager
        self.client: Any = connections.connect_async(
            settings.redis_url, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        )
        shared = resources.files("app.adapters.redis").joinpath("bury.lua").read_text()
        text = resources.files(__package__).joinpath("recover.lua").read_text()
        self._script = self.client.register_script(shared + text)
        self._since = clock.now().isoformat()

    async def send_heartbeat(self, workers: list[str]) -> None:
        """Renew the lease of this manager and the signs of life of its workers."""
        seconds, _ = await self.client.time()
        sign = {"pid": os.getpid(), "host": socket.gethostname(), "since": self._since}
        async with self.client.pipeline(transaction=False) as pipe:
            pipe.zadd(redis_keys.MANAGERS, {self._manager: seconds + self._settings.manager_lease})
            text = json.dumps(sign)
            pipe.set(redis_keys.make_alive_key("manager", self._manager), text, ex=redis_keys.ALIVE_SECONDS)
            for worker in workers:
                pipe.set(redis_keys.make_alive_key("worker", worker), text, ex=redis_keys.ALIVE_SECONDS)
            await pipe.execute()

    async def register(self, worker: str) -> None:
        """Register a worker before it starts, so that it can never hold jobs unknown to the system."""
        await self.client.hset(redis_keys.WORKERS, worker, self._manager)

    async def recover(
        self,
        worker: str,
        verdict: DeathVerdict,
        ran: Iterable[str] = (),
        rules: Mapping[str, QueueRules] | None = None,
    ) -> dict[str, str]:
        """Put back a worker's jobs; return job id → ``returned``, ``suspect`` or ``failed``.

        Args:
            worker: The name of the worker.
            verdict: The verdict on its death.
            ran: The jobs it had begun, the only ones that can be to blame; none: any job may be to blame.
            rules: The rules of the queues; a queue without rules follows the settings.
        """
        names = [redis_keys.make_inflight_key(worker), redis_keys.WORKERS, redis_keys.EVENTS, redis_keys.DEAD]
        rows = await self._script(keys=names, args=[*self._args(worker, verdict, rules or {}), *ran])
        await self._forget(worker)
        return {job.decode(): what.decode() for job, what in rows}

    async def _forget(self, worker: str) -> None:
        """Remove the records of a worker that couldn't sign off itself."""
        async with self.client.pipeline(transaction=False) as pipe:
            pipe.delete(redis_keys.make_alive_key("worker", worker), redis_keys.RQ_WORKER + worker)
            for shown in (redis_keys.RQ_WORKERS, *(f"{redis_keys.RQ_WORKERS}:{queue}" for queue in Queue)):
                pipe.srem(shown, redis_keys.RQ_WORKER + worker)
            await pipe.execute()

    async def sweep(self) -> dict[str, str]:
        """Recover the workers of lost managers; return the outcomes of their jobs."""
        async with self.client.pipeline(transaction=False) as pipe:
            # Read workers before managers: a manager registers before its first worker, so none looks lost.
            pipe.time().hgetall(redis_keys.WORKERS).zrange(redis_keys.MANAGERS, 0, -1, withscores=True)
            (seconds, _), workers, scores = await pipe.execute()
        managers = {m.decode(): score for m, score in scores}
        others = {m: until for m, until in managers.items() if m != self._manager}
        lost = {m for m, until in others.items() if until < seconds or is_dead(m)}
        done: dict[str, str] = {}
        for worker, manager in workers.items():
            owner = manager.decode()
            if owner in lost or (owner not in managers and owner != self._manager):
                done |= await self.recover(worker.decode(), DeathVerdict(False, "manager lost"))
        if lost:
            await self.client.zrem(redis_keys.MANAGERS, *lost)
        return done

    async def sign_off(self) -> None:
        """Unregister this manager; only when it has nothing left to recover."""
        await self.client.zrem(redis_keys.MANAGERS, self._manager)
        await self.client.delete(redis_keys.make_alive_key("manager", self._manager))

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    def _args(self, worker: str, verdict: DeathVerdict, rules: Mapping[str, QueueRules]) -> list[Any]:
        message = get_feed_message("crashed")
        report = base64.b64encode(zlib.compress(f"crashed: {verdict.reason}".encode())).decode()
        settings = self._settings
        limits = {queue: (rule.retries, rule.failure_ttl) for queue, rule in rules.items()}
        return [
            worker,
            int(verdict.is_crash),
            verdict.reason,
            json.dumps({"": (settings.job_retries, settings.failure_ttl), **limits}),
            utcformat(now()),
            settings.dead_max,
            str(Queue.SUSPECTS),
            redis_keys.WAKE,
            redis_keys.EVENTS_KEPT,
            message,
            report,
            redis_keys.CRASHES_SECONDS,
        ]
