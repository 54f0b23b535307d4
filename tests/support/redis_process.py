"""A Redis server of a test's own, which it may kill, freeze and empty."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path

import redis

from app.embedded import programs
from tests.support.redis_set import wait_until
from tests.support.up import free_port


class RedisProcess:
    """One server on loopback that loses nothing when it is killed."""

    def __init__(self, home: Path) -> None:
        self._home, self._port = home, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, again on its old data, and wait until it responds."""
        options = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(self._home))
        program = str(programs.find_program(programs.REDIS))
        self._process = subprocess.Popen(
            [program, "--port", str(self._port), *options], stdout=subprocess.DEVNULL
        )
        with redis.Redis(port=self._port) as client:
            wait_until(lambda: self._is_responding(client))

    def strike(self, how: str) -> None:
        """Hit the server: ``kill`` and start it, ``empty``, ``freeze`` or ``resume`` it."""
        assert self._process is not None
        if how == "freeze":
            self._process.send_signal(signal.SIGSTOP)
            return
        self._process.send_signal(signal.SIGCONT)
        if how == "kill":
            self._process.kill()
            self._process.wait()
            self.start()
        elif how == "empty":
            with redis.Redis(port=self._port) as client:
                client.flushall()

    def close(self) -> None:
        """End it for good."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @staticmethod
    def _is_responding(client: redis.Redis) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(client.ping())
        return False
