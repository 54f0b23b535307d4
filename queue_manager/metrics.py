"""A manager's metrics for Prometheus: the whole system from Redis, and its own workers. Loaded on demand."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Mapping
from typing import Any

import redis.asyncio
from prometheus_client.metrics_core import Metric

from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.monitoring import metrics
from app.monitoring.metrics import build_family
from app.runtime import redis_connections as connections
from queue_manager.control.actions import Controls

STATES = ("starting", "ready", "leaving", "killed")


class ManagerMetrics:
    """Reads the figures of a manager; call it in the manager's event loop."""

    def __init__(self, settings: Settings, controls: Controls) -> None:
        self._controls = controls
        # A separate connection: scrapes must neither wait for the manager's work nor delay it.
        self._client: Any = connections.connect_async(settings.redis_url, socket_timeout=3)

    async def find_missing(self) -> list[str]:
        """Return what this manager needs to work but lacks: ``redis``, ``workers``."""
        return [
            *(["redis"] if await self._is_silent() else []),
            *([] if _has_workers(self._controls.get_status()) else ["workers"]),
        ]

    async def render(self) -> bytes:
        """Return all figures as text; without Redis, only those of this manager."""
        families = [*metrics.collect_process_metrics("manager"), *_workers(self._controls.get_status())]
        # Without Redis, omit the system's figures: a gap is more accurate than old values.
        with contextlib.suppress(StoreError, redis.RedisError, OSError):
            families += await self._system()
        return await asyncio.to_thread(metrics.render, families)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _system(self) -> list[Metric]:
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.hgetall(redis_keys.TOTALS).hgetall(redis_keys.UPDATER_STATS).zcard(redis_keys.DEAD).zcard(
                redis_keys.MANAGERS
            )
            totals, sight, dead, managers = await pipe.execute()
        return [
            *metrics.build_queue_metrics(await self._controls.list_queues()),
            *metrics.build_totals({name: int(value) for name, value in _text(totals).items()}),
            *metrics.build_updater_metrics(_text(sight)),
            build_family("eventr_dead_tasks", dead),
            build_family("eventr_managers", managers),
        ]

    async def _is_silent(self) -> bool:
        try:
            await self._client.ping()
        except (redis.RedisError, OSError):
            return True
        return False


def _has_workers(status: Mapping[str, Any]) -> bool:
    """Return whether each group with a minimum has a worker that is ready."""
    ready = {worker["group"] for worker in status["workers"] if worker["state"] == "ready"}
    return all(group["name"] in ready for group in status["groups"] if group["min_workers"])


def _workers(status: Mapping[str, Any]) -> list[Metric]:
    groups = [group["name"] for group in status["groups"]]
    states: collections.Counter[tuple[str, str]] = collections.Counter()
    memory: collections.Counter[str] = collections.Counter()
    running: collections.Counter[str] = collections.Counter()
    for worker in status["workers"]:
        states[worker["group"], worker["state"]] += 1
        memory[worker["group"]] += round(worker["rss_mb"] * (1 << 20))
        running[worker["group"]] += len(worker["current"])
    return [
        build_family("eventr_workers", {(g, s): states[g, s] for g in groups for s in STATES}),
        build_family("eventr_workers_wanted", {(g["name"],): g["wanted"] for g in status["groups"]}),
        build_family("eventr_worker_resident_bytes", {(g,): memory[g] for g in groups}),
        build_family("eventr_worker_jobs", {(g,): running[g] for g in groups}),
    ]


def _text(row: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in row.items()}
