"""Embedded servers: Eventr finds, starts, supervises and stops its own MongoDB and Redis.

    with start_servers(settings) as running:    # starts or finds them, stops the ones it started
        services = bootstrap.build(running.settings)

``eventr up`` and the tests use this. An address in the settings (``EVENTR_MONGODB_URI``,
``EVENTR_REDIS_URL``) means an external server, which is left alone.
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
    """The embedded servers of one data folder, except those with an address in the settings.

    Attributes:
        settings: the given settings with the addresses filled in.
        servers: the embedded servers, in start order.
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
            StartupError: a server doesn't start; the other servers are stopped again.
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
        """Stop the servers that we started, cleanly, in reverse order.

        Args:
            include_found: also stop servers that were found running; only for the one instance of this
                data folder.
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
    """Make the folders and hold the lock of the only process that runs this data folder's servers.

    Raises:
        StartupError: a folder isn't writable, or another process holds the lock.
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
    """Yield settings with addresses that respond, for a short command such as ``eventr user create``.

    While ``eventr up`` runs, its servers are used; otherwise they are started for the block only.

    Raises:
        StartupError: see :func:`start_servers`.
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
        StartupError: a server is missing, too old, or doesn't start; the message says what to do.
    """
    running = EmbeddedServers(settings)
    running.start()
    return running
