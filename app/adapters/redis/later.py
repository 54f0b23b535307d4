"""Delayed tasks in Redis: buckets by absolute minute, in shards by the hash of a task's name.

Redis only says when to look. What is pending is in the database, so an emptied Redis loses nothing: see
:mod:`app.services.later`.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from itertools import islice
from typing import Any, Final

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from app import clock
from app.adapters.redis.jobs import canonicalise_args
from app.adapters.redis.lua import Call, run_all
from app.config import Settings
from app.errors import InvalidError, StoreError
from app.models.jobs import redis_keys
from app.models.jobs.later import KEY_MAX, KIND, DueBatch, DueTask, PendingTask, Touch
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

#: Most tasks that are claimed together.
TASKS_MAX: Final = 1000
#: Duration of a lock, ms: longer than it takes to queue so many jobs.
LOCK_MS: Final = 30_000
_BATCH = 500
#: Seconds.
_PATIENCE: Final = 2.0
_SHARDS = range(redis_keys.LATER_SHARDS)


class RedisLater:
    """:class:`app.ports.LaterQueue` on Redis. Connects at first use; safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._token = secrets.token_hex(8)

    @lazy
    def _client(self) -> Any:
        # A repeated touch does no harm: at most the task runs once more. A request waits for it, and what it
        # asks for is found in the database as well, so a Redis that hangs must not hold it up for long.
        retry = Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.1), 1)
        return connections.connect(
            self._settings.redis_url,
            retry=retry,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
        )

    @lazy
    def _scripts(self) -> dict[str, Any]:
        folder = resources.files("app.adapters.redis")
        return {
            name: self._client.register_script(folder.joinpath(f"later_{name}.lua").read_text())
            for name in ("touch", "claim", "done")
        }

    def touch(self, kind: str, key: str, args: Mapping[str, Any], *, delay: float, limit: float) -> None:
        """Request a task; see :class:`app.ports.LaterPort`."""
        self.touch_many([Touch(kind=kind, key=key, args=args, delay=delay, limit=limit)])

    def touch_many(self, touches: Iterable[Touch]) -> None:
        """Request many tasks, 500 per round trip; raises like :meth:`touch`."""
        now = clock.now()
        self._send(self._call(one, now, is_new=False) for one in touches)

    def restore(self, kind: str, tasks: Iterable[PendingTask]) -> int:
        """Add tasks that aren't pending; see :class:`app.ports.LaterQueue`."""
        now = clock.now()
        return self._send(
            self._call(
                Touch(kind=kind, key=task.key, args=task.args, delay=wait, limit=wait), now, is_new=True
            )
            for task in tasks
            for wait in [(task.due - now).total_seconds()]
        )

    def _send(self, calls: Iterable[Call]) -> int:
        rest, count = iter(calls), 0
        while some := list(islice(rest, _BATCH)):
            with _store():
                count += sum(run_all(self._client, some))
        return count

    def _call(self, touch: Touch, now: dt.datetime, *, is_new: bool) -> Call:
        if not KIND.fullmatch(touch.kind) or not touch.key or len(touch.key) > KEY_MAX:
            raise InvalidError("This isn't the name of a delayed task.", field="key")
        member = f"{touch.kind}:{touch.key}"
        shard = zlib.crc32(member.encode()) % len(_SHARDS)
        keys = [redis_keys.make_later_key(what, shard) for what in ("states", "args", "buckets")]
        times = [_to_ms(now), round(touch.delay * 1000), round(touch.limit * 1000)]
        where = [redis_keys.LATER_DUE, f":{shard}"]
        args = [member, *times, canonicalise_args(dict(touch.args)), *where, int(is_new)]
        return self._scripts["touch"], keys, args

    def claim_due(self, now: dt.datetime) -> DueBatch | dt.datetime | None:
        """Lock due tasks; see :class:`app.ports.LaterQueue`."""
        keys = [redis_keys.make_later_key(what, s) for what in ("buckets", "states", "args") for s in _SHARDS]
        args = [_to_ms(now), self._token, LOCK_MS, TASKS_MAX, redis_keys.LATER_DUE, redis_keys.LATER_LOCK]
        with _store():
            (reply,) = run_all(self._client, [(self._scripts["claim"], keys, args)])
        if len(reply) == 1:
            return _from_ms(reply[0]) if reply[0] >= 0 else None
        _, shard, minute, found, states, texts = reply
        rows = zip(found[::2], found[1::2], states, texts, strict=True)
        return DueBatch(int(shard), int(minute), [_read_task(*row) for row in rows])

    def finish(self, batch: DueBatch, postponed: Mapping[bytes, float], now: dt.datetime) -> int:
        """Remove the tasks of a claimed batch; see :class:`app.ports.LaterQueue`."""
        place = f"{batch.minute}:{batch.shard}"
        keys = [
            redis_keys.LATER_LOCK + place,
            redis_keys.LATER_DUE + place,
            *(redis_keys.make_later_key(what, batch.shard) for what in ("states", "args", "buckets")),
        ]
        args: list[Any] = [self._token, batch.minute, _to_ms(now), redis_keys.LATER_DUE, f":{batch.shard}"]
        for task in batch.tasks:
            args += [task.member, task.state, round(postponed.get(task.member, 0) * 1000)]
        with _store():
            (stay,) = run_all(self._client, [(self._scripts["done"], keys, args)])
        return int(stay)

    def count_missed(self, count: int) -> None:
        """Count tasks that were late; see :class:`app.ports.LaterQueue`."""
        with _store():
            self._client.hincrby(redis_keys.TOTALS, redis_keys.LATER_MISSED, count)

    def close(self) -> None:
        """Close the connection if there is one."""
        if (client := self.__dict__.get("_client")) is not None:
            client.close()


def _read_task(member: bytes, due: bytes, state: bytes | None, text: bytes | None) -> DueTask:
    """Return a task from what Redis holds, which may be anything (J01)."""
    kind, _, key = member.decode("utf-8", "replace").partition(":")
    try:
        args = json.loads(text or b"null")
    except (ValueError, RecursionError):
        args = None
    found = args if isinstance(args, dict) else None
    return DueTask(member, kind, key, found, state or b"", _from_ms(float(due)))


def _to_ms(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)


def _from_ms(ms: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


@contextmanager
def _store() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as e:
        raise StoreError from e
