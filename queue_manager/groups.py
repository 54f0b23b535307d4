"""Settings per group of workers, from one TOML file; ``queues.toml`` here documents and sets the defaults."""

from __future__ import annotations

import dataclasses
import tomllib
from importlib import resources
from typing import Any

from app.config import Settings
from app.errors import SettingsError
from app.models.jobs import Queue

_POSITIVE = ("workers", "slots", "system_slots", "memory", "lifetime", "max_jobs", "stall")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Workers that serve the same queues in the same way; fields as ``queues.toml`` explains them."""

    name: str
    queues: tuple[str, ...]
    mode: str
    workers: int
    slots: int
    system_slots: int
    memory: int
    lifetime: float
    max_jobs: int
    stall: float
    grace: float


def load(settings: Settings) -> tuple[Group, ...]:
    """Read the groups.

    Raises:
        SettingsError: the file cannot be read or holds a value that does not fit; says which.
    """
    path = settings.queues_file
    try:
        text = path.read_text() if path else resources.files(__package__).joinpath("queues.toml").read_text()
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise SettingsError(f"EVENTR_QUEUES_FILE: {path} cannot be read ({e}).", setting="queues_file") from e
    groups = tuple(_group(name, table, settings) for name, table in tables.items())
    if not groups:
        raise SettingsError(f"EVENTR_QUEUES_FILE: {path} names no group.", setting="queues_file")
    return groups


def _group(name: str, table: Any, settings: Settings) -> Group:
    if not isinstance(table, dict):
        raise _wrong(name, "is no table")
    values: dict[str, Any] = {
        "mode": "loop",
        "workers": 1,
        "slots": 16,
        "system_slots": settings.pull_batches,
        "memory": settings.worker_memory,
        "lifetime": settings.worker_lifetime,
        "max_jobs": 1000,
        "stall": settings.worker_stall,
        "grace": settings.stop_grace,
        **table,
    }
    unknown = set(values) - {f.name for f in dataclasses.fields(Group)}
    if unknown or "name" in table:
        raise _wrong(name, f"has no setting {', '.join(sorted(unknown) or ['name'])}")
    _check(name, values)
    return Group(name=name, **{**values, "queues": tuple(values["queues"])})


def _check(name: str, values: dict[str, Any]) -> None:
    queues = values.get("queues")
    if not isinstance(queues, list) or not queues or not set(map(str, queues)) <= set(Queue):
        raise _wrong(name, f"needs queues, some of {', '.join(Queue)}")
    if values["mode"] not in ("loop", "solo"):
        raise _wrong(name, "must have the mode loop or solo")
    for key in (*_POSITIVE, "grace"):
        value = values[key]
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if not numeric or value < 0 or (value == 0 and key in _POSITIVE):
            raise _wrong(name, f"must have a positive number as {key}")


def _wrong(name: str, problem: str) -> SettingsError:
    return SettingsError(f"Queue settings: group {name} {problem}.", setting="queues_file", group=name)
