"""The sync API as a native app uses it: 1,000 subscriptions, 500,000 entries, 30 % of them unread.

Measured over HTTP with one connection to gunicorn in its own process. The requested texts are as long as
those of real entries: 4,000 characters each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from pymongo import DESCENDING, MongoClient, UpdateOne
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.feeds.html.sanitize import SANITIZER_VERSION
from app.mappers.feeds import entry_bodies
from app.models.accounts.token import Token, TokenKind
from bench.harness import Bench, benchmark
from bench.reading import USER
from bench.web import site

Doc = dict[str, Any]
REQUESTS = 15
READING = "user/-/state/com.google/reading-list"
READ = "user/-/state/com.google/read"
TEXT = 4000
_FORM = "application/x-www-form-urlencoded"


@benchmark("api")
def api(bench: Bench) -> None:
    """Publish ``api.*``: 10,000 unread ids, 1,000 texts, all counts, an unchanged feed."""
    feeds, entries = (20, 20) if bench.quick else (1000, 500)
    ids, texts = (100, 50) if bench.quick else (10_000, 1_000)
    unread = f"/reader/api/0/stream/items/ids?s={READING}&xt={READ}&n={ids}"
    with (
        bench.servers(embedded_cache=1 << 30) as running,
        site(running.settings, feeds, entries) as (port, _),
    ):
        own = dataclasses.replace(running.settings, mongodb_name=f"bench_web_{feeds}")
        with MongoClient[Doc](own.mongodb_uri, tz_aware=True) as client:
            newest = _write(client[own.mongodb_name], texts)
        app = App(port, _auth(own))
        if len(app.json(unread)["itemRefs"]) != ids:
            raise ValueError("ids are missing")
        feed = app.json("/reader/api/0/subscription/list")["subscriptions"][0]["id"]
        stream = f"/reader/api/0/stream/contents/{feed}?n=20"
        etag = app.ask(stream)[0]
        runs = [
            {
                "ids_ms": _p50(
                    lambda: app.ask(f"/reader/api/0/stream/items/ids?s={READING}&xt={READ}&n={ids}")
                ),
                "contents_ms": _p50(lambda: app.ask("/reader/api/0/stream/items/contents", newest)),
                "unread_count_ms": _p50(lambda: app.ask("/reader/api/0/unread-count")),
                "etag_ms": _p50(lambda: app.ask(stream, etag=etag)),
                "feed_ms": _p50(lambda: app.ask(stream)),
                "list_ms": _p50(lambda: app.ask("/reader/api/0/subscription/list")),
            }
            for _ in range(bench.repeats)
        ]
    for name, most in {"ids_ms": 150, "contents_ms": 300, "unread_count_ms": 40, "etag_ms": 8}.items():
        bench.figure(f"api.{name}", [run[name] for run in runs], "ms", at_most=most)
    bench.note(
        ", ".join(
            f"{name} {statistics.median(run[name] for run in runs):.1f}" for name in ("feed_ms", "list_ms")
        )
    )


def _write(database: Database[Doc], count: int) -> bytes:
    """Give the newest entries distinct texts; return the form that requests them."""
    words = random.Random(3)
    newest = [d["_id"] for d in database["entries"].find({}, {"_id": 1}).sort("_id", DESCENDING).limit(count)]
    changes = []
    for entry_id in newest:
        said = "".join(words.choice("etaoin shrdlu cmfwyp") for _ in range(TEXT))
        body = entry_bodies.pack(f"<p>{said}</p>", "", b"")
        changes.append(
            UpdateOne({"_id": entry_id}, {"$set": {"body": body, "cleaned_by": SANITIZER_VERSION}})
        )
    database["entries"].bulk_write(changes, ordered=False)
    return urlencode([("i", str(i)) for i in newest]).encode()


def _auth(settings: Settings) -> str:
    """Create an app password; return the token that the app sends."""
    with contextlib.closing(bootstrap.build(settings)) as services:
        user = services.gateways.accounts.find_user(USER)
        if user is None:
            raise ValueError("the user is missing")
        token = Token(0, USER, TokenKind.APP, "bench", clock.now())
        return services.tokens.build_reader_auth(services.gateways.tokens.make(token, user)[1])


class App:
    """A logged-in app with one connection."""

    def __init__(self, port: int, auth: str) -> None:
        self._client = http.client.HTTPConnection("127.0.0.1", port)
        self._headers = {"Authorization": f"GoogleLogin auth={auth}", "Accept-Encoding": "gzip"}

    def ask(self, path: str, body: bytes | None = None, etag: str = "") -> tuple[str, bytes]:
        """Return the ETag and the body of an answer."""
        headers = {**self._headers, **({"If-None-Match": etag} if etag else {})}
        if body is not None:
            headers["Content-Type"] = _FORM
        self._client.request("GET" if body is None else "POST", path, body, headers)
        answer = self._client.getresponse()
        read = answer.read()
        if answer.status != (304 if etag else 200):
            raise ValueError(f"{path}: {answer.status} {read[:200]!r}")
        return answer.headers.get("ETag", ""), read

    def json(self, path: str) -> Any:
        """Return the decoded answer."""
        self._headers.pop("Accept-Encoding")
        found = json.loads(self.ask(path)[1])
        self._headers["Accept-Encoding"] = "gzip"
        return found


def _p50(call: Callable[[], object]) -> float:
    times = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[3:])
