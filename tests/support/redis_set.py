"""A set of real Redis servers with Sentinels, and a door to a server that speaks TLS."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from app.embedded import programs
from tests.support.up import free_port

PASSWORD = "a word: with/signs"
NAME = "eventr-set"
_CERTIFICATE = Path(__file__).parent / "tls"
_SENTINEL = """
port {port}
dir {dir}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel auth-pass {name} "{password}"
sentinel down-after-milliseconds {name} 1000
sentinel failover-timeout {name} 3000
sentinel parallel-syncs {name} 2
requirepass "{password}"
"""


class RedisSet:
    """A primary, replicas, and three Sentinels that agree on a new primary within seconds."""

    def __init__(self, home: Path, replicas: int = 2) -> None:
        self._home, self._program = home, str(programs.find_program(programs.REDIS))
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        first = self._start_server(None)
        self.servers = [first, *(self._start_server(first) for _ in range(replicas))]
        self.sentinels = [self._start_sentinel(first) for _ in range(3)]
        wait_until(lambda: self._count_known() == (replicas, 2))

    def url(self, scheme: str = "redis+sentinel", options: str = "") -> str:
        """Return the address for Eventr; the first Sentinel doesn't answer."""
        word = "a%20word%3A%20with%2Fsigns"
        hosts = ",".join(f"127.0.0.1:{port}" for port in (free_port(), *self.sentinels))
        return f"{scheme}://:{word}@{hosts}/{NAME}/0?sentinel_password=a+word%3A+with/signs{options}"

    def connect(self, port: int) -> redis.Redis:
        """Return a client of one server."""
        return redis.Redis(port=port, password=PASSWORD, socket_timeout=2)

    def find_primary(self) -> int:
        """Return the port of the primary, as the Sentinels see it."""
        with self.connect(self.sentinels[0]) as client:
            return int(client.sentinel_get_master_addr_by_name(NAME)[1])  # type: ignore[no-untyped-call]

    def fail_over(self) -> int:
        """Kill the primary as a crash would; return the port of the next one, once it accepts writes."""
        old = self.find_primary()
        self.stop(old)
        wait_until(lambda: self.find_primary() != old and self._is_primary(self.find_primary()))
        return self.find_primary()

    def is_whole(self) -> bool:
        """Return whether the primary has all other servers as its replicas."""
        with contextlib.suppress(redis.RedisError), self.connect(self.find_primary()) as client:
            found = client.info("replication")
            lags = [found[f"slave{n}"]["lag"] for n in range(found["connected_slaves"])]
            return found["role"] == "master" and len(lags) == len(self.servers) - 1 and max(lags) <= 1
        return False

    def stop(self, port: int) -> None:
        """Kill a server."""
        self._running[port].kill()
        self._running.pop(port).wait()

    def start(self, port: int) -> None:
        """Start a killed server again; Sentinels make it a replica of the primary of that moment."""
        self._run(port, "--appendonly", "yes", "--dir", str(self._home / str(port)))

    def close(self) -> None:
        """Kill all."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def _start_server(self, primary: int | None) -> int:
        port = free_port()
        (self._home / str(port)).mkdir()
        of = ("--replicaof", "127.0.0.1", str(primary)) if primary else ()
        self._run(port, "--appendonly", "yes", "--dir", str(self._home / str(port)), *of)
        return port

    def _run(self, port: int, *options: str) -> None:
        words = ("--requirepass", PASSWORD, "--masterauth", PASSWORD, "--repl-diskless-sync", "no")
        self._popen(port, "--port", str(port), "--save", "", *words, *options)

    def _start_sentinel(self, primary: int) -> int:
        port = free_port()
        folder = self._home / f"sentinel-{port}"
        folder.mkdir()
        file = folder / "sentinel.conf"
        file.write_text(
            _SENTINEL.format(port=port, dir=folder, name=NAME, primary=primary, password=PASSWORD)
        )
        self._popen(port, str(file), "--sentinel")
        return port

    def _popen(self, port: int, *words: str) -> None:
        with (self._home / f"{port}.log").open("ab") as log:
            self._running[port] = subprocess.Popen([self._program, *words], stdout=log, stderr=log)
        wait_until(lambda: self._answers(port))

    def _answers(self, port: int) -> bool:
        with contextlib.suppress(redis.RedisError), self.connect(port) as client:
            return bool(client.ping())
        return False

    def _is_primary(self, port: int) -> bool:
        with contextlib.suppress(redis.RedisError), self.connect(port) as client:
            return bool(client.info("replication")["role"] == "master")
        return False

    def _count_known(self) -> tuple[int, int] | None:
        """Return how many replicas and other Sentinels each Sentinel knows; None: they don't agree."""
        found = set()
        for port in self.sentinels:
            with self.connect(port) as client:
                state = client.sentinel_master(NAME)  # type: ignore[no-untyped-call]
            found.add((int(state["num-slaves"]), int(state["num-other-sentinels"])))
        return found.pop() if len(found) == 1 else None


@contextlib.contextmanager
def running_set(home: Path) -> Iterator[RedisSet]:
    """A set for the time of a block."""
    home.mkdir(parents=True, exist_ok=True)
    made = RedisSet(home)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def tls_door(target: int) -> Iterator[int]:
    """Yield a port that leads to another one through TLS with the certificate of the tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_CERTIFICATE / "cert.pem", _CERTIFICATE / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, context, target), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, context: ssl.SSLContext, target: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            raw, _ = listener.accept()
            threading.Thread(target=_serve, args=(raw, context, target), daemon=True).start()


def _serve(raw: socket.socket, context: ssl.SSLContext, target: int) -> None:
    with (
        contextlib.suppress(OSError),
        raw,
        context.wrap_socket(raw, server_side=True) as near,
        socket.create_connection(("127.0.0.1", target)) as far,
        selectors.DefaultSelector() as ready,
    ):
        ready.register(near, selectors.EVENT_READ, far)
        ready.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in ready.select():
                piece = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                if not piece:
                    return
                key.data.sendall(piece)


def wait_until(holds: object, seconds: float = 60) -> None:
    """Wait until a condition holds."""
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)  # other processes change their state, and nothing tells when
