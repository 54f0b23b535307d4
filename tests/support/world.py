"""An internet for tests: names with public addresses, all of them served on loopback.

The resolver answers from a table, the connector records every address a socket was wanted for and
connects to the scripted server instead; for any other address it refuses. No packet leaves loopback.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from tests.support.rawserver import RawServer

PUBLIC = "93.184.215.14"


class World:
    """Names, addresses and what was asked of them.

    Attributes:
        names: host → its answers, one list of addresses per lookup; the last one repeats.
        lookups: hosts that were looked up.
        connects: (ip, port) of every socket that was wanted.
        ports: servers that answer on a port of their own, for every served address.
        cafile: certificates to trust instead of the public ones.
    """

    def __init__(self, server: RawServer, names: dict[str, Sequence[Sequence[str]]] | None = None) -> None:
        self.server = server
        self.names: dict[str, Sequence[Sequence[str]]] = {"pub.example": [[PUBLIC]], **(names or {})}
        self.served = {PUBLIC}
        self.lookups: list[str] = []
        self.connects: list[tuple[str, int]] = []
        self.ports: dict[int, RawServer] = {}
        self.cafile: str | None = None

    def add(self, host: str, *addresses: str) -> None:
        """Give a name addresses that the server serves."""
        self.names[host] = [addresses]
        self.served.update(addresses)

    def lookup(self, host: str, port: int) -> Sequence[str]:
        answers = self.names.get(host)
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        number = min(self.lookups.count(host), len(answers) - 1)
        self.lookups.append(host)
        return answers[number]

    def connect(self, ip: str, port: int) -> socket.socket | None:
        self.connects.append((ip, port))
        if ip not in self.served:
            return None
        server = self.ports.get(port, self.server)
        connected = socket.create_connection((server.hosts[0], server.port), 5)
        connected.setblocking(False)
        return connected

    def fetcher(self, **settings: Any) -> Fetcher:
        """Return a fetcher that lives in this world."""
        return Fetcher(Settings(**settings), resolver=self.lookup, connector=self.connect, cafile=self.cafile)


def local_fetcher(server: RawServer, **settings: Any) -> Fetcher:
    """Return a fetcher with real sockets that may fetch from this server."""
    return Fetcher(Settings(**{"fetch_allow": ("127.0.0.0/8",), "fetch_ports": (server.port,), **settings}))
