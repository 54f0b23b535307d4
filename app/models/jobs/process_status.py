"""Status reports of processes, parsed from Redis. Pure; reports in another format are ignored."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from app.models.jobs.job_engine import (
    ControllerView,
    GroupView,
    ManagerView,
    Run,
    UpdaterView,
    WorkerView,
)

_MB = 1 << 20


def parse_time(text: object) -> dt.datetime | None:
    """Return a time as RQ or we write it, in UTC."""
    try:
        moment = dt.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def parse_manager(status: Mapping[str, Any]) -> ManagerView | None:
    """Return a queue manager from its last report."""
    try:
        return ManagerView(
            id=str(status["manager"]),
            host=str(status["host"]),
            pid=int(status["pid"]),
            since=parse_time(status["since"]),
            groups=tuple(
                GroupView(
                    *(g["name"], tuple(g["queues"]), g["serving"], g["wanted"]),
                    *(g["min_workers"], g["max_workers"]),
                )
                for g in status["groups"]
            ),
            workers=tuple(map(_worker, status["workers"])),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _worker(row: Mapping[str, Any]) -> WorkerView:
    return WorkerView(
        name=row["name"],
        group=row["group"],
        pid=row["pid"],
        age=float(row["age_s"]),
        jobs=row["jobs_done"],
        memory=round(row["rss_mb"] * _MB),
        state=row["state"],
        runs=tuple(Run(run["id"], run["task"], float(run["for_s"])) for run in row["current"]),
    )


def parse_controller(status: Mapping[str, Any]) -> ControllerView | None:
    """Return a controller from its heartbeat."""
    try:
        since = parse_time(status["since"])
        return ControllerView(
            str(status["host"]), int(status["pid"]), since, int(status["streams"]), int(status["awaited"])
        )
    except (KeyError, TypeError, ValueError):
        return None


def parse_updater(row: Mapping[bytes, bytes]) -> UpdaterView | None:
    """Return what the updater saw last; None if no updater runs."""
    try:
        of = {name.decode(): float(value) for name, value in row.items()}
    except ValueError:
        return None
    if not of:
        return None
    backlog, waiting, running = (int(of.get(name, 0)) for name in ("backlog", "waiting", "running"))
    late, pace, queued = (of.get(name, 0.0) for name in ("late_s", "pace", "queued_s"))
    return UpdaterView(backlog, late, waiting, running, pace, queued)
