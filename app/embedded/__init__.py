"""MongoDB and Redis for one machine without any: found, started, watched over and stopped by us.

    with servers(settings) as running:      # starts or finds them, stops what it started
        services = bootstrap.build(running.settings)

``eventr up`` and the tests use this. A set address (``EVENTR_MONGODB_URI``, ``EVENTR_REDIS_URL``)
means a server that is not ours: it is left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType

from app.config import Settings
from app.embedded import child
from app.embedded.layout import Layout, resolve_addresses
from app.embedded.mongodb import MongoDB
from app.embedded.redisserver import Redis
from app.embedded.server import Server

__all__ = [
    "EmbeddedServers",
    "Layout",
    "MongoDB",
    "Redis",
    "Server",
    "hold_instance_lock",
    "resolve_addresses",
    "start_servers",
    "use_servers",
]


class EmbeddedServers:
    """The embedded servers of one home, as far as no addresses are set.

    Attributes:
        settings: the given settings with the addresses filled in.
        servers: the servers that are ours, in the order of their start.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = resolve_addresses(settings)
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
                server.start()
            for server in self.servers:
                server.wait()
            started = True
        finally:
            if not started:
                self.stop()

    def stop(self, *, include_found: bool = False) -> None:
        """Stop what we started, cleanly, the last started first.

        Args:
            found: also what was found running; only for the one instance of this home.
        """
        for server in reversed(self.servers):
            if include_found or not server.found:
                server.stop()

    def __enter__(self) -> EmbeddedServers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def hold_instance_lock(settings: Settings) -> Iterator[Layout]:
    """Make the folders and be the one process that runs this home's servers, inside the block.

    Raises:
        StartupError: a folder cannot be written to, or another process is that one.
    """
    layout = Layout.from_settings(settings)
    layout.make_folders()

    def explain_busy(pid: str) -> str:
        return (
            f"Eventr is already running in {layout.home} (process {pid}). Stop it first, or "
            "choose another EVENTR_HOME and EVENTR_PORT."
        )

    with child.hold_lock(layout.instance_lock, explain_busy):
        yield layout


@contextlib.contextmanager
def use_servers(settings: Settings) -> Iterator[Settings]:
    """Settings with addresses that answer, for a short command such as ``eventr user create``.

    While ``eventr up`` runs, its servers are used; else they are started for the block alone.

    Raises:
        StartupError: see :func:`servers`.
    """
    running = EmbeddedServers(settings)
    if all(server.is_responding() for server in running.servers):
        yield running.settings
        return
    with hold_instance_lock(settings), start_servers(settings) as started:
        yield started.settings


def start_servers(settings: Settings) -> EmbeddedServers:
    """Start MongoDB and Redis below ``settings.home``, or find the ones that run there.

    Raises:
        StartupError: a server is missing, too old, or does not start; one sentence says what to do.
    """
    running = EmbeddedServers(settings)
    running.start()
    return running
