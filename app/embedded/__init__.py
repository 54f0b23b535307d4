"""MongoDB and Redis for one machine without any: found, started, watched over and stopped by us.

    with servers(settings) as running:      # starts or finds them, stops what it started
        services = bootstrap.build(running.settings)

``eventr up`` and the tests use this. A set address (``EVENTR_MONGODB_URI``, ``EVENTR_REDIS_URL``)
means a server that is not ours: it is left alone.
"""

from __future__ import annotations

from types import TracebackType

from app.config import Settings
from app.embedded.layout import Layout, resolved
from app.embedded.mongodb import MongoDB
from app.embedded.redisserver import Redis
from app.embedded.server import Server

__all__ = ["Layout", "MongoDB", "Redis", "Running", "Server", "resolved", "servers"]


class Running:
    """The embedded servers of one home, as far as no addresses are set.

    Attributes:
        settings: the given settings with the addresses filled in.
        servers: the servers that are ours, in the order of their start.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = resolved(settings)
        ours: list[Server] = []
        if not settings.mongodb_uri:
            ours.append(MongoDB(settings))
        if not settings.redis_url:
            ours.append(Redis(settings))
        self.servers = tuple(ours)

    @property
    def mongodb_uri(self) -> str:
        return self.settings.mongodb_uri

    @property
    def redis_url(self) -> str:
        return self.settings.redis_url

    def start(self) -> None:
        """Start all at once, then wait for each.

        Raises:
            StartupError: one does not start; the others are stopped again.
        """
        started = False
        try:
            for server in self.servers:
                server.launch()
            for server in self.servers:
                server.wait()
            started = True
        finally:
            if not started:
                self.stop()

    def stop(self) -> None:
        """Stop them cleanly, the last started first."""
        for server in reversed(self.servers):
            if server.process is not None:
                server.stop()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def servers(settings: Settings) -> Running:
    """Start MongoDB and Redis below ``settings.home``, or find the ones that run there.

    Raises:
        StartupError: a server is missing, too old, or does not start; one sentence says what to do.
    """
    running = Running(settings)
    running.start()
    return running
