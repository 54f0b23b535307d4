"""A running ``eventr up`` with one account, used only as people and their programs use it: over HTTP."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from pymongo import MongoClient

from app import embedded
from bench.family import Family
from bench.farm import Farm, count_marked
from tests.faults.browser import Browser
from tests.support.up import Up

#: Settings that a benchmark needs; all others have their defaults, as when a person runs ``eventr up``.
SETTINGS = {
    "EVENTR_FETCH_ALLOW": "127.0.0.0/8",
    # Only what the benchmark requests is fetched while it measures.
    "EVENTR_POLL_MIN": "43200",
    "EVENTR_POLL_MAX": "86400",
    "EVENTR_API_PER_MINUTE": "1000000",
    "EVENTR_SUBSCRIPTIONS_MAX": "100000",
    # 30 % of 500 entries.
    "EVENTR_UNREAD_MAX": "150",
    # The helper of the tests chooses smaller values; the defaults are wanted here.
    "EVENTR_WEB_WORKERS": "",
    "EVENTR_EMBEDDED_CACHE": "",
}
#: Longest wait for anything, in seconds.
PATIENCE = 7200.0
#: A search repeats after this many times its own duration, so that asking hardly counts.
_REST, _SHORTEST_REST = 30.0, 0.5
#: The system is quiet when it uses less than this part of a core for as many seconds.
_QUIET, _QUIET_SECONDS = 0.1, 1.5
_NAME, _PASSWORD = "bench", "a long password for benchmarks"
#: A secret that was just made; passwords are in groups of four, each in an element.
_SECRET, _TAG = re.compile(r'<code id="v-secret"[^>]*>(.+?)</code>'), re.compile(r"<[^>]*>")


class Whole:
    """The system, its farm of feeds, and one person with a browser, a program and a reader app.

    Args:
        settings: settings that differ from those of all benchmarks.
    """

    def __init__(self, farm: Farm, **settings: str) -> None:
        self.farm = farm
        self._settings: dict[str, Any] = {**SETTINGS, **settings}
        self.home = Path(tempfile.mkdtemp(prefix="eventr-bench-"))
        self._up = self._start()

    def _start(self) -> Up:
        started = time.perf_counter()
        up = Up(self.home / "var", EVENTR_FETCH_PORTS=str(self.farm.port), **self._settings).wait_ready()
        self.start_seconds = time.perf_counter() - started
        self.family = Family(up.process.pid)
        return up

    def restart(self) -> None:
        """Stop everything, as with Ctrl-C, and start it again."""
        self._up.stop()
        self._up.kill()  # closes its output
        self._up = self._start()

    @property
    def port(self) -> int:
        return self._up.port

    @property
    def settings(self) -> Any:
        return self._up.settings

    def sign_up(self) -> None:
        """Create the first account, an access token and an app password."""
        browser = Browser(self.port)
        browser.get("/signup")
        browser.post("/signup", email="bench@example.org", name=_NAME, password=_PASSWORD)
        browser.get("/settings/apps")
        scopes = dict.fromkeys(("read", "mark", "subscribe"), "1")
        browser.post("/settings/apps/token", name="bench", proof=_PASSWORD, **scopes)
        self._token = self._read_secret(browser)
        browser.get("/settings/apps")
        browser.post("/settings/apps/password", name="bench")
        self._auth = self._log_app_in(self._read_secret(browser))
        self._cookie = browser.cookie

    def _log_app_in(self, password: str) -> str:
        form = urlencode({"Email": _NAME, "Passwd": password}).encode()
        with contextlib.closing(Client(self.port, {})) as client:
            answer = client.send("POST", "/accounts/ClientLogin", form, "application/x-www-form-urlencoded")
        return next(line[5:] for line in answer.decode().splitlines() if line.startswith("Auth="))

    def _read_secret(self, browser: Browser) -> str:
        found = _SECRET.search(browser.text)
        if found is None:
            raise RuntimeError(f"no token: {browser.status} {browser.text[-2000:]}\n{self._up.report()}")
        return _TAG.sub("", found[1])

    @property
    def session(self) -> str:
        """The account's session id, as its cookie has it."""
        return dict(part.split("=", 1) for part in self._cookie.split("; "))["eventr"]

    # -- clients, each with its own connection

    def open_browser(self) -> Client:
        """Return a client for pages."""
        return Client(self.port, {"Cookie": self._cookie})

    def open_program(self) -> Client:
        """Return a client for the REST API."""
        return Client(self.port, {"Authorization": f"Bearer {self._token}"}, "/api/v1")

    def open_app(self) -> Client:
        """Return a client for the Google Reader API."""
        return Client(self.port, {"Authorization": f"GoogleLogin auth={self._auth}"}, "/reader/api/0")

    # -- work

    def import_all(self) -> None:
        """Import the farm's OPML file; return when the import has ended."""
        with contextlib.closing(self.open_program()) as program:
            body = self.farm.opml()
            made = json.loads(program.send("POST", "/imports", body, "text/x-opml"))
            program.send("POST", f"/imports/{made['id']}/start", b"{}")

            def ended() -> bool:
                found = json.loads(program.get(f"/imports/{made['id']}"))
                return bool(found["state"] == "done")

            self._wait(ended, "the import ends")
            counts = json.loads(program.get(f"/imports/{made['id']}"))["counts"]
        if counts != {"added": self.farm.feeds}:
            raise RuntimeError(f"the import ended with {counts}")

    def refresh_all(self) -> None:
        """Request that all feeds are fetched; return when the farm has answered every request."""
        goal = self.farm.count().total + self.farm.feeds
        with contextlib.closing(self.open_program()) as program:
            program.send("POST", "/subscriptions/refresh", b"{}")
        self._wait(lambda: self.farm.count().total >= goal, "all feeds are fetched")

    def wait_found(self) -> None:
        """Wait until the search finds what the farm published last, in every feed."""
        with contextlib.closing(self.open_program()) as program:
            for word, count in count_marked(self.farm.feeds, self.farm.epoch).items():
                self._wait(
                    lambda word=word, count=count: self._count_found(program, word) >= count,  # type: ignore[misc]
                    f"the search finds {count} × {word}",
                )

    @staticmethod
    def _count_found(program: Client, word: str) -> int:
        """Return the number of entries that a search finds, over all pages."""
        found, cursor = 0, ""
        while True:
            query = {"q": word, "limit": 1000, **({"cursor": cursor} if cursor else {})}
            page = json.loads(program.get(f"/streams/search/entries?{urlencode(query)}"))
            found += len(page["items"])
            if not (cursor := page["next"]):
                return found

    def flush(self) -> None:
        """Let MongoDB write all that it has in memory."""
        settings = embedded.resolve_addresses(self.settings)
        with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
            client.admin.command("fsync")

    def settle(self) -> None:
        """Wait until the system has nothing more to do."""

        def quiet() -> bool:
            before = self.family.cpu()
            time.sleep(_QUIET_SECONDS)
            return self.family.cpu() - before < _QUIET * _QUIET_SECONDS

        self._wait(quiet, "the system is quiet")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            started = time.perf_counter()
            if condition():
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not within {PATIENCE:.0f} s\n{self._up.report()}")
            time.sleep(max(_SHORTEST_REST, min(5.0, _REST * (time.perf_counter() - started))))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        try:
            if self._up.process.poll() is None and kind is None:
                self._up.stop()
            self._up.kill()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)


class Client:
    """One connection with its credentials; responses are compressed, as for browsers and apps."""

    def __init__(self, port: int, headers: dict[str, str], base: str = "") -> None:
        self._client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._headers, self._base = {**headers, "Accept-Encoding": "gzip"}, base

    def get(self, path: str) -> bytes:
        """Return the body of a page or resource."""
        return self.send("GET", path)

    def send(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> bytes:
        """Return the body of the response to a request."""
        headers = {**self._headers, **({} if body is None else {"Content-Type": kind})}
        answer = self._request(method, path, body, headers)
        text = answer.read()
        if answer.headers.get("Content-Encoding") == "gzip":
            text = gzip.decompress(text)
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
        return text

    def locate(self, path: str) -> str:
        """Return the address that a page redirects to."""
        answer = self._request("GET", path, None, self._headers)
        answer.read()
        return answer.headers["Location"]

    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        try:
            self._client.request(method, self._base + path, body, headers)
            return self._client.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # The server closes a connection that was idle for some seconds; clients then open another one.
            self._client.close()
            self._client.request(method, self._base + path, body, headers)
            return self._client.getresponse()

    def close(self) -> None:
        self._client.close()
