"""The job engine in Redis, for administrators: any web process can inspect and control it.

This module also parses the managers' status reports. Nothing from Redis is trusted: data in another
format is ignored.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

import redis

from app.adapters.redis.lua import run_all
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import dead_jobs, process_status, redis_keys
from app.models.jobs.job_engine import (
    Attempt,
    DeadKind,
    DeadPage,
    Engine,
    JobRecord,
    QueueView,
    describe_args,
)
from app.models.jobs.jobs import Queue, State, Task
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

_PAGE = 500
_FIELDS = (
    *dead_jobs.FIELDS,
    *("worker_name", "attempts", "created_at", "started_at", "ended_at", "progress"),
)
_STATES = frozenset(State)


class RedisEngine:
    """:class:`app.ports.EnginePort` on Redis. Connects at first use; safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @lazy
    def _client(self) -> Any:
        return connections.connect(self._settings.redis_url, socket_timeout=5)

    @lazy
    def _scripts(self) -> dict[str, Any]:
        folder = resources.files("app.adapters.redis")
        return {
            name: self._client.register_script(folder.joinpath(f"{name}.lua").read_text())
            for name in ("load", "retry", "drop")
        }

    # -- now

    def load_engine(self) -> Engine:
        """Return the current state; :class:`app.ports.EnginePort` documents all methods."""
        with _store():
            with self._client.pipeline(transaction=False) as pipe:
                pipe.zrange(redis_keys.MANAGERS, 0, -1).zrange(redis_keys.CONTROLLERS, 0, -1)
                pipe.hgetall(redis_keys.UPDATER_STATS).zcard(redis_keys.DEAD)
                managers, controllers, updater, count = pipe.execute()
            told = self._texts(
                [redis_keys.make_manager_key(m.decode()) for m in managers]
                + [redis_keys.make_alive_key("controller", c.decode()) for c in controllers]
            )
            queues = self._queues()
        return Engine(
            queues=queues,
            managers=tuple(filter(None, map(process_status.parse_manager, told[: len(managers)]))),
            controllers=tuple(filter(None, map(process_status.parse_controller, told[len(managers) :]))),
            updater=process_status.parse_updater(updater),
            dead=count,
        )

    def _queues(self) -> tuple[QueueView, ...]:
        rows = self._scripts["load"](
            keys=[redis_keys.PAUSED, redis_keys.DRAINING], args=list(map(str, Queue))
        )
        running = Counter(job.queue for job in self._held())
        return tuple(
            QueueView(
                name.decode(),
                int(length),
                float(oldest),
                running[name.decode()],
                paused=bool(paused),
                draining=bool(draining),
            )
            for name, length, oldest, paused, draining, _planned in rows
        )

    def _texts(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return list(map(_document, self._client.mget(names))) if names else []

    # -- counters

    def load_hours(self, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
        return self._counted({number: redis_keys.make_hour_key(number) for number in numbers})

    def load_minutes(self, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
        return self._counted({number: redis_keys.make_minutes_key(number) for number in numbers})

    def _counted(self, names: Mapping[int, str]) -> dict[int, dict[str, int]]:
        with _store(), self._client.pipeline(transaction=False) as pipe:
            for name in names.values():
                pipe.hgetall(name)
            rows = pipe.execute()
        return {
            number: {key.decode(): int(value) for key, value in row.items()}
            for number, row in zip(names, rows, strict=True)
            if row
        }

    # -- jobs

    def list_running(self) -> list[JobRecord]:
        with _store():
            return sorted(self._held(), key=lambda job: (job.queue, job.task, job.id))

    def find_job(self, job_id: str) -> JobRecord | None:
        with _store():
            return next(iter(self._records([job_id])), None)

    def _held(self) -> list[JobRecord]:
        with self._client.pipeline(transaction=False) as pipe:
            for worker in self._client.hkeys(redis_keys.WORKERS):
                pipe.lrange(redis_keys.make_inflight_key(worker.decode()), 0, -1)
            held = [job_id.decode() for ids in pipe.execute() for job_id in ids]
        return self._records(held)

    def _records(self, ids: Sequence[str]) -> list[JobRecord]:
        """Return the records of those jobs that exist, in order."""
        with self._client.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.hmget(redis_keys.make_job_key(job_id), _FIELDS)
            rows = pipe.execute()
        return [_record(job_id, row) for job_id, row in zip(ids, rows, strict=True) if row[0]]

    # -- the dead set

    def list_dead(self, kind: DeadKind | None, cursor: str | None, limit: int) -> DeadPage:
        found: list[tuple[float, JobRecord]] = []
        with _store():
            for page in self._dead_pages(cursor):
                records = {job.id: job for job in self._records([i for i, _ in page])}
                found += [(at, records[i]) for i, at in page if i in records and _is(records[i], kind)]
                if len(found) > limit:
                    break
        at, last = found[limit - 1] if len(found) > limit else (0.0, None)
        return DeadPage(tuple(job for _, job in found[:limit]), f"{at!r}_{last.id}" if last else None)

    def list_dead_kinds(self) -> list[DeadKind]:
        with _store():
            kinds = Counter(
                (job.task, job.error)
                for page in self._dead_pages(None)
                for job in self._records([i for i, _ in page])
                if job.state is State.FAILED
            )
        return [DeadKind(task, error, count) for (task, error), count in kinds.most_common()]

    def retry_dead(self, target: str | DeadKind) -> int:
        return self._each("retry", target, redis_keys.WAKE, str(Queue.MAINTENANCE), str(Task.PULL_SYSTEM))

    def remove_dead(self, target: str | DeadKind) -> int:
        return self._each("drop", target)

    def _each(self, script: str, of: str | DeadKind, *args: str) -> int:
        with _store():
            ids = [of] if isinstance(of, str) else self._of_kind(of)
            calls = [
                (
                    self._scripts[script],
                    [redis_keys.DEAD, redis_keys.make_job_key(i), redis_keys.make_results_key(i)],
                    [i, *args],
                )
                for i in ids
            ]
            return sum(sum(run_all(self._client, calls[n : n + _PAGE])) for n in range(0, len(calls), _PAGE))

    def _of_kind(self, kind: DeadKind) -> list[str]:
        # Take a snapshot first, so that jobs that fail again meanwhile aren't retried forever.
        return [
            job.id
            for page in list(self._dead_pages(None))
            for job in self._records([i for i, _ in page])
            if _is(job, kind)
        ]

    def _dead_pages(self, cursor: str | None) -> Iterator[list[tuple[str, float]]]:
        """Yield pages of ids with their end times, newest first, after a cursor."""
        most, passed = _cursor(cursor)
        while True:
            page = [
                (job_id.decode(), at)
                for job_id, at in self._client.zrange(
                    redis_keys.DEAD,
                    most,
                    "-inf",
                    desc=True,
                    byscore=True,
                    offset=0,
                    num=_PAGE,
                    withscores=True,
                )
            ]
            # Jobs with equal end times are sorted by id.
            fresh = [(i, at) for i, at in page if passed is None or (at, i) < passed]
            if not fresh:
                return
            yield fresh
            passed = (fresh[-1][1], fresh[-1][0])
            most = repr(passed[0])

    def set_switches(self, queue: Queue, *, paused: bool | None = None, draining: bool | None = None) -> None:
        with _store(), self._client.pipeline(transaction=True) as pipe:
            for key, on in ((redis_keys.PAUSED, paused), (redis_keys.DRAINING, draining)):
                if on is not None:
                    (pipe.sadd if on else pipe.srem)(key, str(queue))
            # Wake waiting workers, so that they check the queues again.
            pipe.publish(redis_keys.WAKE, str(queue))
            pipe.execute()

    def close(self) -> None:
        """Close the connection if there is one."""
        if (client := self.__dict__.get("_client")) is not None:
            client.close()


def _document(text: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(text or b"null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cursor(text: str | None) -> tuple[str, tuple[float, str] | None]:
    at, _, job_id = (text or "").partition("_")
    try:
        return repr(float(at)), (float(at), job_id)
    except ValueError:
        return "+inf", None


def _is(job: JobRecord, kind: DeadKind | None) -> bool:
    if job.state is not State.FAILED:
        return False
    return kind is None or (job.task, job.error) == (kind.task, kind.error)


def _record(job_id: str, row: Sequence[bytes | None]) -> JobRecord:
    text = [(part or b"").decode("utf-8", "replace") for part in row]
    state, _, origin, home, error, failures, crashes, _, task, worker, attempts, *times, progress = text
    created, started, ended = map(process_status.parse_time, times)
    return JobRecord(
        id=job_id,
        task=task,
        queue=home or origin,
        state=State(state) if state in _STATES else State.MISSING,
        about=describe_args(dead_jobs.parse_args(row[1] or b"")),
        error=error,
        worker=worker,
        failures=int(failures or 0),
        crashes=int(crashes or 0),
        attempts=int(attempts or 0),
        created=created,
        started=started,
        ended=ended,
        progress=tuple(_numbers(progress)),
        history=tuple(map(_attempt, dead_jobs.parse_history(row[7] or b""))),
    )


def _attempt(line: Mapping[str, Any]) -> Attempt:
    of = {name: str(line.get(name) or "") for name in ("worker", "error", "where")}
    number, at = line.get("attempt"), process_status.parse_time(str(line.get("at") or ""))
    return Attempt(number if isinstance(number, int) else 0, at, **of)


def _numbers(text: str) -> Iterator[tuple[str, float]]:
    with contextlib.suppress(ValueError, AttributeError):
        for name, value in json.loads(text or "{}").items():
            if isinstance(value, int | float):
                yield name, value


@contextmanager
def _store() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as e:
        raise StoreError from e
