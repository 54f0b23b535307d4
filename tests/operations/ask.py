"""Asks an admin port as Prometheus and load balancers do."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import http.client
import json
import socket
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.config import Settings
from app.monitoring import admin_port

Samples = dict[tuple[str, ...], float]
#: A connection that the other side has reset, seen while sending, while ending and while reading.
_HUNG_UP = (errno.EPIPE, errno.ENOTCONN, errno.ECONNRESET)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back; ``status`` 0: nobody answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(settings: Settings, process: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """Send one request to the admin port of a process; headers with underscores."""
    host, port = admin_port.find_bind_address(settings, process)
    return at(host, port, path, method, **headers)


def at(host: str, port: int, path: str, method: str = "GET", **headers: str) -> Answer:
    """Send one request to a port."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=30)) as connection:
        try:
            connection.request(method, path, headers=named)
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, fields, answer.read())
        except OSError:
            return Answer(0, {}, b"")


def raw(port: int, data: bytes) -> bytes:
    """Send bytes and return all that comes back; who hangs up on us may do so at any moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        found = b""
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while part := line.recv(65536):
                found += part
        except OSError as e:
            if e.errno not in _HUNG_UP:
                raise
        return found


class Scrape:
    """Figures as Prometheus understands them."""

    def __init__(self, body: bytes) -> None:
        self.families: dict[str, Metric] = {
            family.name: family for family in text_string_to_metric_families(body.decode())
        }

    def __getitem__(self, sample: str) -> Samples:
        """The samples of that name, by the values of their labels."""
        return {
            tuple(found.labels.values()): found.value
            for family in self.families.values()
            for found in family.samples
            if found.name == sample
        }

    def one(self, sample: str) -> float | None:
        """The value of a sample without labels."""
        return self[sample].get(())


def scrape(settings: Settings, process: str = "manager") -> Scrape:
    """Read the figures of a process."""
    answer = get(settings, process, "/metrics")
    assert answer.status == 200, answer
    return Scrape(answer.body)
