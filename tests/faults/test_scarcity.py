"""F19: a web process with 64 file descriptors, and one whose MongoDB takes two seconds for each reply."""

from __future__ import annotations

import contextlib
import http.client
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import psutil

from app.bootstrap.services import Services
from app.config import Settings
from app.embedded import EmbeddedServers
from tests.faults.relay import Relay
from tests.support.imports import REPO
from tests.support.up import free_port

Eventually = Callable[..., None]
#: A figure for the hung, not for the slow, in seconds.
PATIENCE = 120.0
DESCRIPTORS, THREADS = 64, 2


class Web:
    """One web process with few threads; its address and what it takes."""

    def __init__(self, settings: Settings, **environment: str) -> None:
        self.port = free_port()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTR_")}
        given = {
            "EVENTR_HOME": str(settings.home),
            "EVENTR_MONGODB_URI": settings.mongodb_uri,
            "EVENTR_MONGODB_NAME": settings.mongodb_name,
            "EVENTR_REDIS_URL": settings.redis_url,
            "EVENTR_PORT": str(self.port),
            "EVENTR_WEB_WORKERS": "1",
            "EVENTR_WEB_THREADS": str(THREADS),
            **environment,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "web"], cwd=REPO, env={**kept, **given}, stderr=subprocess.DEVNULL
        )

    def get(self, path: str = "/healthz") -> int | None:
        """Return the status of a GET, or None where the connection is refused or ended."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def workers(self) -> list[psutil.Process]:
        """Return the processes that answer."""
        return psutil.Process(self.process.pid).children()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def running_web(settings: Settings, eventually: Eventually, **environment: str) -> Iterator[Web]:
    """Yield a web process that answers."""
    web = Web(settings, **environment)
    try:
        eventually(lambda: web.get() == 200)
        yield web
    finally:
        web.close()


def test_F19_connections_beyond_the_descriptors_end_nothing(
    services: Services, eventually: Eventually
) -> None:
    """More silent clients than descriptors: the process stays, and serves as soon as some go."""
    with running_web(services.settings, eventually) as web, contextlib.ExitStack() as clients:
        (worker,) = web.workers()
        held = worker.num_fds()
        worker.rlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        assert held < DESCRIPTORS - 8
        for _ in range(2 * DESCRIPTORS):
            clients.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=PATIENCE))
        eventually(lambda: web.get() == 200)  # the oldest of them have gone
        clients.close()
        eventually(lambda: web.get() == 200)
        assert web.workers() == [worker], "the same process as before"
        eventually(lambda: worker.num_fds() <= held + THREADS + 1)


def test_F19_a_slow_mongodb_piles_nothing_up(
    services: Services, servers: EmbeddedServers, tmp_path: Path, eventually: Eventually
) -> None:
    """Each reply takes two seconds: everybody gets an answer or an end, and no connection is left over."""
    target = Path(unquote(urlsplit(servers.mongodb_uri).netloc))
    path = servers.settings.home / f"slow-{tmp_path.name}.sock"
    relayed = f"mongodb://{quote(str(path), safe='')}/?directConnection=true"
    with (
        contextlib.closing(Relay(path, target)) as relay,
        running_web(services.settings, eventually, EVENTR_MONGODB_URI=relayed) as web,
    ):
        (worker,) = web.workers()
        held, threads = worker.num_fds(), worker.num_threads()
        with relay.slow(2.0), ThreadPoolExecutor(8) as people:
            seen = list(people.map(lambda _: web.get("/@nobody"), range(8)))
        assert not [status for status in seen if status not in (404, 503)]
        assert web.get() == 200
        assert web.workers() == [worker]
        assert worker.num_threads() <= threads + THREADS + 2
        eventually(lambda: worker.num_fds() <= held + 2 * THREADS)
