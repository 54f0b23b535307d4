"""The embedded Redis: unix socket, append-only file, nothing evicted (security.md J02)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.embedded import programs
from app.embedded.server import Server


class Redis(Server):
    """``redis-server`` below HOME. Port 0: only who may open the socket (0600) can speak to it."""

    name: ClassVar[str] = "redis"
    requirement: ClassVar[programs.ProgramRequirement] = programs.REDIS

    @property
    def address(self) -> str:
        return self.layout.redis_url

    def build_command(self, program: Path) -> Sequence[str]:
        options = {
            "--port": "0",
            "--unixsocket": str(self.layout.redis_socket),
            "--unixsocketperm": "600",
            "--dir": str(self.data),
            "--daemonize": "no",
            # everysec costs nothing measurable here, and a kill -9 loses nothing: the write precedes
            # the answer (only a crash of the machine can cost a second).
            "--appendonly": "yes",
            "--appendfsync": "everysec",
            "--save": "",
            # A queue from which Redis removes keys to save memory is a queue that loses jobs.
            "--maxmemory-policy": "noeviction",
        }
        return [str(program), *(part for pair in options.items() for part in pair)]

    def is_responding(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False  # a busy loading is a ConnectionError too: it does not answer yet
        except redis.ResponseError:
            return True  # that it cannot write, as on a full disk: who wants it to hears that from it

    def clear(self) -> None:
        """Nothing: it makes its socket anew."""

    def prepare(self) -> None:
        """Nothing: an answer means that its file is loaded."""

    def shut_down(self) -> None:
        with self._client() as client:
            client.shutdown(save=False, nosave=True)  # the append-only file is flushed in any case

    def _client(self) -> redis.Redis:
        # One try: the callers above ask again themselves.
        return redis.Redis.from_url(self.address, socket_timeout=2, retry=Retry(NoBackoff(), 0))
