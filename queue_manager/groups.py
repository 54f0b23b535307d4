"""Settings per group of workers and per queue, from a TOML file; ``queues.toml`` here documents them.

One table, :data:`OF_GROUPS` and :data:`OF_QUEUES`, defines all settings, their ranges and their defaults,
for the file and for live changes.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from app.config import Settings
from app.errors import InvalidError, SettingsError
from app.models.jobs.jobs import USER_QUEUES, Queue
from app.models.jobs.workers import QueueRules

Value = int | float
#: Table of the file for settings of single queues: ``[queue.feed-pull]``.
QUEUE_TABLE = "queue"
MODES = ("loop", "solo")


@dataclasses.dataclass(frozen=True, slots=True)
class NumericSetting:
    """A numeric setting: its type and range; ``default`` computes its default from the settings."""

    kind: type[int] | type[float]
    low: float
    high: float
    default: Callable[[Settings], Value | None]

    def check(self, value: object) -> Value:
        """Return a valid value.

        Raises:
            ValueError: The value isn't valid; the error describes valid values.
        """
        if isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high:
            fitting = self.kind(value)
            if fitting == value:
                return fitting
        raise ValueError(f"must be {self}")

    def parse(self, text: str) -> Value:
        """Read a typed value; raises as :meth:`check`."""
        try:
            return self.check(float(text))
        except ValueError as e:
            raise ValueError(f"must be {self}") from e

    def __str__(self) -> str:
        what = "a whole number" if self.kind is int else "a number"
        return f"{what} between {self.low:.10g} and {self.high:.10g}"


def _always(value: Value | None) -> Callable[[Settings], Value | None]:
    return lambda settings: value


#: Settings of a group; ``queues``, ``mode`` and the short form ``workers`` are for the file only.
OF_GROUPS: Mapping[str, NumericSetting] = {
    "min_workers": NumericSetting(int, 0, 256, _always(1)),
    "max_workers": NumericSetting(int, 1, 256, _always(None)),
    "max_idle": NumericSetting(float, 1, 86400, _always(60.0)),
    "cpu": NumericSetting(float, 1, 100, _always(90.0)),
    "slots": NumericSetting(int, 1, 1000, _always(None)),
    "system_slots": NumericSetting(int, 1, 1000, lambda s: s.pull_batches),
    "memory": NumericSetting(int, 1 << 26, 1 << 40, lambda s: s.worker_memory),
    "lifetime": NumericSetting(float, 10, 1e7, lambda s: s.worker_lifetime),
    "max_jobs": NumericSetting(int, 1, 10**9, _always(1000)),
    "stall": NumericSetting(float, 1, 3600, lambda s: s.worker_stall),
    "grace": NumericSetting(float, 0, 600, lambda s: s.stop_grace),
}
#: Settings of a queue.
OF_QUEUES: Mapping[str, NumericSetting] = {
    "timeout": NumericSetting(float, 0.1, 86400, _always(None)),
    "retries": NumericSetting(int, 1, 100, lambda s: s.job_retries),
    "backoff_first": NumericSetting(float, 0.01, 3600, lambda s: s.job_backoff),
    "backoff_factor": NumericSetting(float, 1, 10, lambda s: s.job_backoff_factor),
    "backoff_most": NumericSetting(float, 0.01, 1e6, lambda s: s.job_backoff_most),
    "backoff_jitter": NumericSetting(float, 0, 1, lambda s: s.job_backoff_jitter),
    "result_ttl": NumericSetting(int, 10, 86400, lambda s: s.result_ttl),
    "failure_ttl": NumericSetting(int, 60, 10**7, lambda s: s.failure_ttl),
    "buffer": NumericSetting(int, 1, 1000, _always(None)),
    "priority": NumericSetting(int, -1000, 1000, _always(0)),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Workers that serve the same queues in the same mode; ``queues.toml`` documents the fields."""

    name: str
    queues: tuple[str, ...]
    mode: str
    min_workers: int
    max_workers: int
    max_idle: float
    cpu: float
    slots: int
    system_slots: int
    memory: int
    lifetime: float
    max_jobs: int
    stall: float
    grace: float


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSettings:
    """The contents of the file: the groups in its order, and the rules of every queue."""

    groups: tuple[Group, ...]
    rules: Mapping[str, QueueRules]

    def find_group(self, name: str) -> Group | None:
        """Return the group of this name."""
        return next((group for group in self.groups if group.name == name), None)

    def find_serving_group(self, queue: str) -> Group | None:
        """Return the first group that serves a queue."""
        return next((group for group in self.groups if queue in group.queues), None)

    def list_unserved(self) -> list[str]:
        """Return the queues that no group serves; without another manager their jobs wait forever."""
        return [str(queue) for queue in Queue if self.find_serving_group(queue) is None]


def load(settings: Settings) -> QueueSettings:
    """Read the file.

    Raises:
        SettingsError: The file can't be read or a value isn't valid; the error names the line and valid
            values.
    """
    path = settings.queues_file
    try:
        text = path.read_text() if path else resources.files(__package__).joinpath("queues.toml").read_text()
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise SettingsError(f"EVENTR_QUEUES_FILE: can't read {path} ({e}).", setting="queues_file") from e
    reader = _Reader(settings, text)
    rules = reader.read_rules(tables.pop(QUEUE_TABLE, {}))
    groups = tuple(reader.read_group(name, table, rules) for name, table in tables.items())
    if settings.search != "local":
        groups = _without_queue(groups, Queue.INDEX)  # the server with the index writes it
    if not groups:
        raise SettingsError(f"EVENTR_QUEUES_FILE: {path} doesn't define any group.", setting="queues_file")
    return QueueSettings(groups, rules)


def _without_queue(groups: tuple[Group, ...], queue: Queue) -> tuple[Group, ...]:
    kept = (dataclasses.replace(g, queues=tuple(q for q in g.queues if q != queue)) for g in groups)
    return tuple(group for group in kept if group.queues)


def change_setting(table: QueueSettings, name: str, key: str, text: str) -> QueueSettings:
    """Return the table with one setting changed; ``name`` is a group or a queue, depending on the key.

    Raises:
        InvalidError: The value isn't valid; the error describes valid values.
    """
    try:
        if key in OF_QUEUES:
            value: Any = OF_QUEUES[key].parse(text)
            rules = {**table.rules, name: dataclasses.replace(table.rules[name], **{key: value})}
            groups = [dataclasses.replace(g, queues=sort_queues(g.queues, rules)) for g in table.groups]
            return QueueSettings(tuple(groups), rules)
        value = OF_GROUPS[key].parse(text)
        groups = [dataclasses.replace(g, **{key: value}) if g.name == name else g for g in table.groups]
    except ValueError as e:
        raise InvalidError(f"{name}.{key} {e}.", setting=key) from e
    return dataclasses.replace(table, groups=tuple(groups))


def sort_queues(queues: tuple[str, ...], rules: Mapping[str, QueueRules]) -> tuple[str, ...]:
    """Return queues in the order they are served: people's queues first, whatever the file says."""
    return tuple(sorted(queues, key=lambda q: (q not in USER_QUEUES, -rules[q].priority)))


def clamp_minimums(table: QueueSettings) -> QueueSettings:
    """Return the table with each minimum lowered to its maximum, which must not be exceeded."""
    groups = (dataclasses.replace(g, min_workers=min(g.min_workers, g.max_workers)) for g in table.groups)
    return dataclasses.replace(table, groups=tuple(groups))


class _Reader:
    """Converts the file's tables to groups and rules, and finds the lines of faulty settings."""

    def __init__(self, settings: Settings, text: str) -> None:
        self._settings, self._lines = settings, text.splitlines()

    def read_rules(self, tables: Any) -> dict[str, QueueRules]:
        if not isinstance(tables, dict):
            raise self._wrong(
                QUEUE_TABLE, None, "must contain one table per queue, such as [queue.feed-pull]"
            )
        for name, table in tables.items():
            if name not in set(Queue):
                raise self._wrong(f"queue.{name}", None, f"isn't a queue; the queues are {', '.join(Queue)}")
            self._known(f"queue.{name}", table, OF_QUEUES)
        return {str(q): self._rules(f"queue.{q}", tables.get(str(q), {})) for q in Queue}

    def _rules(self, name: str, table: Mapping[str, Any]) -> QueueRules:
        return QueueRules(**self._values(name, table, OF_QUEUES))

    def read_group(self, name: str, table: Any, rules: Mapping[str, QueueRules]) -> Group:
        self._known(name, table, {*OF_GROUPS, "queues", "mode", "workers"})
        queues = table.get("queues")
        if not isinstance(queues, list) or not queues or not set(map(str, queues)) <= set(Queue):
            raise self._wrong(name, "queues", f"must be a list of one or more of {', '.join(Queue)}")
        mode = table.get("mode", "loop")
        if mode not in MODES:
            raise self._wrong(name, "mode", "must be loop or solo")
        values = self._values(name, self._plain(name, table), OF_GROUPS)
        values["max_workers"] = values["max_workers"] or max(1, values["min_workers"])
        values["slots"] = values["slots"] or (16 if mode == "loop" else 1)
        if values["min_workers"] > values["max_workers"]:
            raise self._wrong(name, "min_workers", f"must be at most max_workers, {values['max_workers']}")
        return Group(name=name, queues=sort_queues(tuple(dict.fromkeys(queues)), rules), mode=mode, **values)

    def _plain(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Resolve ``workers = n``, the short form for a fixed number of workers."""
        if "workers" not in table:
            return dict(table)
        if "min_workers" in table or "max_workers" in table:
            raise self._wrong(name, "workers", "can't be combined with min_workers or max_workers")
        count = self._checked(name, "workers", table["workers"], NumericSetting(int, 1, 256, _always(1)))
        return {**table, "min_workers": count, "max_workers": count}

    def _values(
        self, name: str, table: Mapping[str, Any], known: Mapping[str, NumericSetting]
    ) -> dict[str, Any]:
        return {
            key: self._checked(name, key, table[key], what) if key in table else what.default(self._settings)
            for key, what in known.items()
        }

    def _checked(self, name: str, key: str, value: object, what: NumericSetting) -> Value:
        try:
            return what.check(value)
        except ValueError as e:
            raise self._wrong(name, key, str(e)) from e

    def _known(self, name: str, table: Any, keys: Any) -> None:
        if not isinstance(table, dict):
            raise self._wrong(name, None, f"must be a table: [{name}]")
        for key in table:
            if key not in keys:
                raise self._wrong(name, key, f"isn't a setting; the settings are {', '.join(sorted(keys))}")

    def _wrong(self, name: str, key: str | None, problem: str) -> SettingsError:
        line = self._line(name, key)
        where = f"line {line}, [{name}]" if line else f"[{name}]"
        what = f"{where}: {key} {problem}" if key else f"{where} {problem}"
        return SettingsError(f"Queue settings, {what}.", setting="queues_file", table=name)

    def _line(self, name: str, key: str | None) -> int | None:
        """Return the line of a key, or else of its table; the TOML parser doesn't report lines."""
        table, found = "", None
        for number, line in enumerate(self._lines, 1):
            if header := re.match(r"\s*\[([^\[\]]+)\]", line):
                table = re.sub(r"[\s\"']", "", header[1])
                found = number if table == name else found
            elif (table == name and key and _sets(line, key)) or (not table and _sets(line, name)):
                return number
        return found


def _sets(line: str, key: str) -> bool:
    return re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line) is not None
