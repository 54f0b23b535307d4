"""The change log in Redis: what processes have written to MongoDB (docs/design/cache.md).

Nothing here is the only copy, so no method raises: without Redis, processes read from MongoDB, and each
remembers what it wrote meanwhile.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Sequence
from importlib import resources
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import logs
from app.config import Settings
from app.models.cache import Changed, LogChanges, LogPosition, WriteHold, decode_changed
from app.models.jobs import redis_keys
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

log = logs.get(__name__)

#: Seconds to wait for Redis.
TIMEOUT = 0.25
#: Seconds without Redis after an error, so that requests don't all wait for it.
PAUSE = 1.0
#: Seconds for which the write of a process that died keeps others from keeping a value. MongoDB gives such a
#: write up before that.
HOLD_SECONDS = 60
#: Names in the log; a process that has missed more of them starts anew.
NAMES_MAX = 50_000
#: Names that this process remembers while Redis is away; with more, it reports whole kinds.
MISSED_MAX = 10_000
_TOKEN_BYTES = 8


class RedisChangeLog:
    """:class:`app.ports.ChangeLog` on Redis. Connects at first use; safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.cache_url or settings.redis_url
        # Several databases may share a Redis server.
        self._prefix = f"{redis_keys.CACHE}{settings.mongodb_name}:"
        self._lock = threading.Lock()
        self._broken_until = 0.0
        self._connections = 0
        self._missed: dict[Changed, bytes] = {}
        self._repeater: threading.Thread | None = None
        self._closed = threading.Event()

    @lazy
    def _client(self) -> redis.Redis:
        # No retries: a failed write is repeated as a whole.
        client = connections.connect(
            self._url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        connections.notify_connects(client, self._note_connection)
        return client

    @lazy
    def _read(self) -> Any:
        return self._register("read")

    @lazy
    def _write(self) -> Any:
        return self._register("write")

    def _register(self, name: str) -> Any:
        path = resources.files("app.adapters.redis").joinpath(f"change_log_{name}.lua")
        return self._client.register_script(path.read_text())

    @property
    def connections(self) -> int:
        """See :class:`app.ports.ChangeLog`."""
        return self._connections

    def read_changes(self, position: LogPosition | None) -> LogChanges | None:
        """See :class:`app.ports.ChangeLog`."""
        epoch, number = (position.epoch, position.number) if position else (b"", 0)
        reply = self._run("_read", epoch, number)
        if reply is None:
            return None
        epoch, number, is_complete, names, held = reply
        try:
            changed = tuple(map(decode_changed, names)) if is_complete else None
            holds = frozenset(map(decode_changed, held))
        except ValueError:
            return None
        return LogChanges(LogPosition(epoch, number), changed, holds)

    def begin_write(self, changed: Sequence[Changed]) -> WriteHold:
        """See :class:`app.ports.ChangeLog`."""
        hold = WriteHold(tuple(changed), os.urandom(_TOKEN_BYTES))
        # If this fails, the end of the write still reports the change.
        self._report(hold.token, HOLD_SECONDS, changed)
        return hold

    def end_write(self, hold: WriteHold) -> None:
        """See :class:`app.ports.ChangeLog`."""
        if not self._report(hold.token, 0, hold.changed):
            self._remember(hold)

    def close(self) -> None:
        """Close the connections that were opened."""
        self._closed.set()
        if (client := self.__dict__.get("_client")) is not None:
            client.close()

    def _report(self, token: bytes, seconds: int, changed: Sequence[Changed]) -> bool:
        names = [each.encode() for each in changed]
        return self._run("_write", token, seconds, NAMES_MAX, *names) is not None

    def _run(self, script: str, *args: Any) -> Any:
        """Return a script's reply, () if it has none; None: Redis isn't responding."""
        if time.monotonic() < self._broken_until:
            return None
        try:
            reply = getattr(self, script)(args=[self._prefix, os.urandom(_TOKEN_BYTES), *args])
        except (redis.RedisError, OSError) as e:
            self._broken_until = time.monotonic() + PAUSE
            log.warning("cache_without_redis", error=type(e).__name__)
            return None
        return () if reply is None else reply

    def _note_connection(self) -> None:
        self._connections += 1

    def _remember(self, hold: WriteHold) -> None:
        """Remember a write of which Redis doesn't know, and report it as soon as Redis responds."""
        with self._lock:
            changed = hold.changed
            if len(self._missed) + len(changed) > MISSED_MAX:
                changed = tuple({Changed(each.kind, None) for each in changed})
            self._missed |= dict.fromkeys(changed, hold.token)
            # After a fork, the thread of the parent isn't alive.
            if self._repeater is None or not self._repeater.is_alive():
                run = contextvars.Context().run
                self._repeater = threading.Thread(
                    target=run, args=(self._report_missed,), name="cache", daemon=True
                )
                self._repeater.start()

    def _report_missed(self) -> None:
        while not self._closed.wait(PAUSE):
            with self._lock:
                missed = dict(self._missed)
                if not missed:
                    self._repeater = None
                    return
            for token in set(missed.values()):
                changed = [each for each, by in missed.items() if by == token]
                if not self._report(token, 0, changed):
                    break
                with self._lock:
                    for each in changed:
                        if self._missed.get(each) == token:
                            del self._missed[each]
