"""Marking and syncing as programs do it: one client, one connection, gunicorn in its own process.

Every mark is of another unread entry, chosen at random, so no process knows its key. Its time includes the
journaled write. ``marks.growth`` compares a user with 1,000 feeds to one with 100, each with 500 entries per
feed; both sites exist side by side and take turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
import itertools
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import psutil
from pymongo import MongoClient

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.models.accounts.token import Scope, Token, TokenKind
from bench.harness import Bench, Cpu, benchmark
from bench.reading import USER
from bench.web import site

Doc = dict[str, Any]
Times = dict[str, tuple[float, float]]  #: by operation: median and CPU time per request, in milliseconds
#: Requests per operation and run; the first few aren't counted.
REQUESTS, WARM = 200, 10
READING = "user/-/state/com.google/reading-list"
READ = "user/-/state/com.google/read"
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
#: Targets in milliseconds: the strongest peer's time for a mark, a third of its time for everything else.
TARGETS = {"patch_ms": 3.8, "post_ms": 3.8, "ids_10000_ms": 21, "ids_1000_ms": 10, "list_ms": 2.7}
#: Operations whose time isn't published: Fever answers a mark with all unread ids.
NOTED = ("fever_ms",)


@dataclasses.dataclass(frozen=True, slots=True)
class Secrets:
    """What the programs and the browser of the user log in with."""

    bearer: str
    auth: str
    fever: str
    cookie: str


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request of one operation; ``is_mark``: the body or the path names an entry."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str = ""


@benchmark("marks")
def marks(bench: Bench) -> None:
    """Publish ``marks.*``: one mark through each door, ids, and lists of subscriptions."""
    sizes = ((4, 20), (20, 20)) if bench.quick else ((100, 500), (1000, 500))
    with (
        bench.servers(embedded_cache=1 << 30, api_per_minute=1_000_000) as running,
        contextlib.ExitStack() as stack,
    ):
        programs = []
        for feeds, entries in sizes:
            port, cookie = stack.enter_context(site(running.settings, feeds, entries))
            own = dataclasses.replace(running.settings, mongodb_name=f"bench_web_{feeds}")
            programs.append(Program(port, make_secrets(own, cookie)))
        with MongoClient[Doc](running.mongodb_uri) as client:
            client.admin.command("fsync")  # a checkpoint of the new data would slow the first marks
            for name, commands in count_commands(client, programs[-1]).items():
                bench.note(f"{name}: {commands}")
        count = 5 if bench.quick else REQUESTS
        runs = [[program.measure(count) for program in programs] for _ in range(bench.repeats)]
    large = [run[-1] for run in runs]
    for name in large[0]:
        found = [run[name][0] for run in large]
        cpu = statistics.median(run[name][1] for run in large)
        small = statistics.median(run[0][name][0] for run in runs)
        if name in NOTED:
            bench.note(f"{name} {statistics.median(found):.2f}")
        else:
            bench.figure(f"marks.{name}", found, "ms", at_most=TARGETS.get(name))
        bench.note(f"CPU {cpu:.2f} ms; with a tenth of the feeds {small:.2f} ms")
    growth = [max(run[-1][name][0] / run[0][name][0] for name in ("patch_ms", "post_ms")) for run in runs]
    bench.figure("marks.growth", growth, "×", at_most=1.5)


def make_secrets(settings: Settings, cookie: str) -> Secrets:
    """Create an access token and an app password, which opens both APIs of native apps."""
    with contextlib.closing(bootstrap.build(settings)) as services:
        tokens, user = services.gateways.tokens, services.gateways.accounts.find_user(USER)
        if user is None:
            raise ValueError("the user is missing")
        scopes = (Scope.READ, Scope.MARK)
        _, bearer = tokens.make(Token(0, USER, TokenKind.API, "bench", clock.now(), scopes), user)
        app = Token(0, USER, TokenKind.APP, "bench", clock.now(), fever=True)
        _, password = tokens.make(app, user)
        fever = hashlib.md5(f"{user.name}:{password}".encode(), usedforsecurity=False).hexdigest()
        return Secrets(bearer, services.tokens.build_reader_auth(password), fever, cookie)


class Program:
    """A logged-in program with one connection."""

    def __init__(self, port: int, secrets: Secrets) -> None:
        self._client = http.client.HTTPConnection("127.0.0.1", port)
        self._origin = f"http://127.0.0.1:{port}"
        self._rest = {"Authorization": f"Bearer {secrets.bearer}"}
        self._reader = {"Authorization": f"GoogleLogin auth={secrets.auth}", "Accept-Encoding": "gzip"}
        self._fever = secrets.fever
        self._cookie = {"Cookie": f"eventr={secrets.cookie}"}
        self._unread = self._shuffle()

    def _shuffle(self) -> Iterator[int]:
        """Yield unread entries in random order, each once."""
        plain = {name: value for name, value in self._reader.items() if name != "Accept-Encoding"}
        found = json.loads(self.ask(Request("GET", _ids(10_000), plain)))
        ids = [int(each["id"]) for each in found["itemRefs"]]
        random.Random(4).shuffle(ids)
        return iter(ids)

    def build_requests(self) -> dict[str, Iterator[Request]]:
        """Return the requests of each operation, by name."""
        self._client.close()  # the server closes an idle connection after some seconds
        form, rest = {**self._reader, "Content-Type": _FORM}, {**self._rest, "Content-Type": _JSON}
        token = re.search(rb'name="csrf_token" value="([^"]+)"', self._page())
        if token is None:
            raise ValueError("the page has no form")
        web = {**self._cookie, "Content-Type": _FORM, "Origin": self._origin, "Accept": _JSON}
        csrf = token[1].decode()

        return {
            "patch_ms": self._mark("PATCH", "/api/v1/entries/{}", rest, lambda _: '{"read":true}'),
            "post_ms": self._mark(
                "POST", "/api/v1/entries/mark", rest, lambda entry: json.dumps({"ids": [entry], "read": True})
            ),
            "edit_tag_ms": self._mark(
                "POST", "/reader/api/0/edit-tag", form, lambda entry: urlencode({"i": entry, "a": READ})
            ),
            "fever_ms": self._mark("POST", "/fever/?api", {"Content-Type": _FORM}, self._build_fever_mark),
            "form_ms": self._mark(
                "POST",
                "/entries/mark",
                web,
                lambda entry: urlencode({"entry": entry, "read": "1", "csrf_token": csrf}),
            ),
            "ids_10000_ms": itertools.repeat(Request("GET", _ids(10_000), self._reader)),
            "ids_1000_ms": itertools.repeat(Request("GET", _ids(1000), self._reader)),
            "list_ms": itertools.repeat(
                Request("GET", "/reader/api/0/subscription/list?output=json", self._reader)
            ),
            "rest_list_ms": itertools.repeat(Request("GET", "/api/v1/subscriptions", self._rest)),
        }

    def _mark(
        self, method: str, path: str, headers: Mapping[str, str], build_body: Callable[[int], str]
    ) -> Iterator[Request]:
        """Yield a request for each unread entry; ``{}`` in the path is its id."""
        for entry in self._unread:
            yield Request(method, path.format(entry), headers, build_body(entry))

    def _build_fever_mark(self, entry: int) -> str:
        return urlencode({"api_key": self._fever, "mark": "item", "as": "read", "id": entry})

    def _page(self) -> bytes:
        return self.ask(Request("GET", "/read/all", self._cookie))

    def measure(self, count: int) -> Times:
        """Return the median time and the CPU time of each operation, in milliseconds."""
        found: Times = {}
        for name, requests in self.build_requests().items():
            for _ in range(min(WARM, count)):
                self.ask(next(requests))
            times = []
            with Cpu(*_find_servers()) as cpu:
                for _ in range(count):
                    request = next(requests)
                    started = time.perf_counter()
                    self.ask(request)
                    times.append((time.perf_counter() - started) * 1000)
            found[name] = statistics.median(times), cpu.others / count * 1000
        return found

    def ask(self, request: Request) -> bytes:
        """Return the body of an answer."""
        self._client.request(request.method, request.path, request.body or None, dict(request.headers))
        answer = self._client.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ValueError(f"{request.path}: {answer.status} {body[:200]!r}")
        return body


def count_commands(client: MongoClient[Doc], program: Program) -> dict[str, str]:
    """Return MongoDB's commands per request of each operation, from the server's own counters."""
    found = {}
    for name, requests in program.build_requests().items():
        program.ask(next(requests))  # the first of a session records that the token is in use
        before = _counters(client)
        for _ in range(4):
            program.ask(next(requests))
        after = _counters(client)
        changed = {command: (n - before.get(command, 0)) / 4 for command, n in after.items()}
        found[name] = ", ".join(f"{command} {n:g}" for command, n in sorted(changed.items()) if n >= 0.75)
    return found


def _counters(client: MongoClient[Doc]) -> dict[str, int]:
    status = client.admin.command("serverStatus", metrics=1)["metrics"]["commands"]
    ignored = {"serverStatus", "hello", "isMaster", "ping", "getMore"}  # monitoring and the oplog
    return {
        name: counts["total"]
        for name, counts in status.items()
        if isinstance(counts, dict) and name not in ignored
    }


def _find_servers() -> list[int]:
    """Return the web processes and the stores, which are all descendants of this process."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


def _ids(count: int) -> str:
    return f"/reader/api/0/stream/items/ids?output=json&n={count}&s={READING}&xt={READ}"
