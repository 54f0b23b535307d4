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
    """``redis-server`` in the data folder. Port 0: only users who may open the socket (0600) can connect."""

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
            # everysec costs nothing measurable here. A kill -9 loses nothing, because the write precedes the
            # response, unless the disk is so busy that an fsync takes long: then Redis puts writes off for up
            # to 2 seconds. A crash of the machine can lose as much. MongoDB's data bring lost jobs back.
            "--appendonly": "yes",
            "--appendfsync": "everysec",
            "--save": "",
            # Regular work once a second instead of ten times. Expired keys are never returned in any case,
            # and commands wake it at once.
            "--hz": "1",
            # If Redis evicted keys to save memory, the queues would lose jobs.
            "--maxmemory-policy": "noeviction",
        }
        return [str(program), *(part for pair in options.items() for part in pair)]

    def is_responding(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False  # loading raises ConnectionError too: it isn't responding yet
        except redis.ResponseError:
            return True  # it can't write, for example on a full disk; writers get that error themselves

    def clear(self) -> None:
        """Do nothing: Redis replaces its socket."""

    def prepare(self) -> None:
        """Do nothing: Redis responds only after loading its file."""

    def shut_down(self) -> None:
        with self._client() as client:
            client.shutdown(save=False, nosave=True)  # the append-only file is flushed in any case

    def _client(self) -> redis.Redis:
        # No retries: the callers above repeat the call themselves.
        return redis.Redis.from_url(self.address, socket_timeout=2, retry=Retry(NoBackoff(), 0))
