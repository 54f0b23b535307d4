"""S01: one package owns all outbound sockets. A walk over every module that runs in production."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
PARTS = ("app", "workers", "queue_manager", "controller", "wsgi.py")

CLIENTS = {
    "aiohttp", "ftplib", "http.client", "httpcore", "httpx", "imaplib", "mechanize", "nntplib", "paramiko",
    "poplib", "pycurl", "requests", "smtplib", "socketserver", "ssl", "telnetlib", "treq", "tornado",
    "urllib.request", "urllib3", "websocket", "websockets", "xmlrpc.client",
}  # fmt: skip
#: Attributes that open a connection or ask a resolver, whatever they are called on.
CALLS = {
    "create_connection", "open_connection", "sock_connect", "connect_ex", "getaddrinfo", "gethostbyname",
    "gethostbyname_ex", "gethostbyaddr", "urlopen", "urlretrieve", "create_datagram_endpoint", "sendto",
    "SocketType",
}  # fmt: skip

#: Module → what it may, and why.
ALLOWED = {
    "app/feeds/fetch/curl_loop.py": {"pycurl"},  # the fetcher
    "app/feeds/fetch/slot.py": {"pycurl", "SocketType"},  # its sockets, behind the guard
    "app/feeds/fetch/resolver.py": {"getaddrinfo"},  # its resolver
    "app/commands/ports.py": {"getaddrinfo", "socket"},  # binds, to see whether a port is free
    "app/commands/web_address.py": {"http.client"},  # asks our own web tier whether it is up
    "app/commands/check.py": {"http.client", "ssl"},  # the operator looks through their own proxy, by hand
    "app/commands/repl/link.py": {"create_connection"},  # the operator's line to our own manager
    "app/adapters/media/dav.py": {"pycurl"},  # stores files on the WebDAV servers that the operator names
    "app/adapters/search/remote.py": {"http.client"},  # asks the search of our own other server
    "queue_manager/control/listen.py": {"socket"},  # listens on loopback for it
    "controller/handed_sockets.py": {"socket"},  # takes over connections that our web tier accepted
}


def modules() -> list[Path]:
    found = [REPO / part for part in PARTS if part.endswith(".py")]
    for part in PARTS:
        found += (REPO / part).rglob("*.py")
    return sorted(path for path in found if path.is_file())


def offences(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            names += [alias.name for alias in node.names if alias.name in CALLS]
        else:
            names = []
            yield from used(node)
        for name in names:
            if name in CALLS:
                yield name
            yield from {client for client in CLIENTS if name == client or name.startswith(client + ".")}


def used(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and node.attr in CALLS:
        yield node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "socket":
        family = ast.unparse(node.args[0]) if node.args else ""
        if family != "socket.AF_UNIX":
            yield "socket"
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module"):
        yield from {client for client in CLIENTS if f"'{client}" in ast.unparse(node)}


@functools.cache
def found() -> dict[str, set[str]]:
    result = {}
    for path in modules():
        tree = ast.parse(path.read_text("utf-8"))
        if names := set(offences(tree)):
            result[path.relative_to(REPO).as_posix()] = names
    return result


def test_S01_one_package_opens_sockets() -> None:
    wrong = {name: extra for name, names in found().items() if (extra := names - ALLOWED.get(name, set()))}
    assert wrong == {}, "only app/feeds/fetch talks to the outside: use Fetcher"


def test_S01_the_list_of_exceptions_is_not_longer_than_needed() -> None:
    there = found()
    idle = {name: names - there.get(name, set()) for name, names in ALLOWED.items()}
    assert {name: names for name, names in idle.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import requests",
        "from urllib.request import urlopen",
        "from urllib import request",
        "import http.client as h",
        "import socket\nsocket.create_connection(('a', 1))",
        "from socket import create_connection",
        "import socket\nsocket.socket(socket.AF_INET)",
        "import socket\nsocket.socket()",
        "import asyncio\nasyncio.open_connection('a', 1)",
        "loop.create_connection(x, 'a', 1)",
        "import httpx, json",
        "importlib.import_module('aiohttp.client')",
    ],
)
def test_S01_the_walk_sees_each_way(source: str) -> None:
    assert list(offences(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "from urllib.parse import urljoin",
        "import socket\nsocket.socket(socket.AF_UNIX)",
        "import http",
        "import json",
    ],
)
def test_S01_the_walk_lets_other_things_be(source: str) -> None:
    assert list(offences(ast.parse(source))) == []
