"""The web tier as a browser sees it: gunicorn in its own process, one connection, compressed answers.

``web.list_ms`` is the whole list page of a user with 1,000 subscriptions; ``web.page_kb`` all bytes of the
first visit with 300 subscriptions and 50 rows, titles of real feeds, without pictures of entries.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import http.client
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from bench.harness import Bench, benchmark
from bench.reading import BASE, USER, Dataset
from tests.support.manager import environment

Doc = dict[str, Any]
REQUESTS = 40
_WORDS = (
    "Notes",
    "Letters",
    "Journal",
    "of",
    "small",
    "gardens",
    "Systems",
    "Weekly",
    "Daily",
    "City",
    "Review",
)


@benchmark("web")
def web(bench: Bench) -> None:
    """Publish ``web.list_ms`` and ``web.page_kb``."""
    with bench.servers(embedded_cache=1 << 30) as running:
        feeds = 50 if bench.quick else 1000
        with site(running.settings, feeds, 20 if bench.quick else 500) as (port, cookie):
            runs = [_p50(port, cookie, "/read/all") for _ in range(bench.repeats)]
            article = [_p50(port, cookie, "/read/all", part="div#stream") for _ in range(bench.repeats)]
        bench.figure("web.list_ms", runs, "ms", at_most=60)
        bench.note(f"list pane alone: {statistics.median(article):.1f} ms")
        with site(running.settings, 300, 3) as (port, cookie):
            sizes = _weights(port, cookie)
        bench.note(", ".join(f"{name} {size / 1000:.1f} kB" for name, size in sizes.items()))
        bench.figure("web.page_kb", [sum(sizes.values()) / 1000], "kB", at_most=60)
        bench.figure("web.html_kb", [sizes["html"] / 1000], "kB", at_most=20)


@contextlib.contextmanager
def site(settings: Settings, feeds: int, entries: int, *, name: str = "") -> Iterator[tuple[int, str]]:
    """Create a user with this many feeds and serve the web tier; yield the port and the session cookie.

    Args:
        name: of the database; empty: a name for this number of feeds.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = dataclasses.replace(
        settings,
        mongodb_name=name or f"bench_web_{feeds}",
        port=port,
        secret_key="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
        web_threads=4,
    )
    cookie = _fill(own, feeds, entries)
    program = [str(Path(sys.executable).with_name("eventr")), "web"]  # as in production
    process = subprocess.Popen(program, env={**os.environ, **environment(own), "EVENTR_LOG_LEVEL": "error"})
    try:
        _wait(port)
        yield port, cookie
    finally:
        process.terminate()
        process.wait(30)


def _fill(settings: Settings, feeds: int, entries: int) -> str:
    with contextlib.closing(bootstrap.build(settings)) as services:
        services.migrate()
        with MongoClient[Doc](settings.mongodb_uri, tz_aware=True) as client:
            database = client[settings.mongodb_name]
            Dataset(database, feeds).fill(entries)
            _name(database, feeds)
        return services.gateways.sessions.open_session(USER, agent="bench", address="")


def _name(database: Database[Doc], feeds: int) -> None:
    """Give the feeds realistic names: all different, 10 to 40 characters."""
    for n in range(1, feeds + 1):
        words = [_WORDS[(n * k + n // 7) % len(_WORDS)] for k in range(1, 3 + n % 4)]
        database["feeds"].update_one(
            {"_id": Int64(BASE + n)}, {"$set": {"title": f"{' '.join(words)} {n:x}"}}
        )
    database["users"].insert_one(
        {
            "_id": USER,
            "email": "a@example.org",
            "email_key": "a@example.org",
            "name": "ann",
            "name_key": "ann",
            "password": "",
            "role": "user",
            "created": clock.now(),
        }
    )


def _wait(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError("gunicorn did not come up")


def _p50(port: int, cookie: str, path: str, *, part: str = "") -> float:
    client = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        ask(client, cookie, path, part)
        times.append((time.perf_counter() - started) * 1000)
    client.close()
    return statistics.median(times[5:])


def ask(client: http.client.HTTPConnection, cookie: str, path: str, part: str = "") -> bytes:
    """Return the page or file at a path, compressed."""
    headers = {"Cookie": f"eventr={cookie}", "Accept-Encoding": "gzip"}
    if part:
        headers |= {"HX-Request": "true", "HX-Target": part}
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")
    return body


def _weights(port: int, cookie: str) -> dict[str, int]:
    """Return the compressed size of the page and of each file it needs."""
    client = http.client.HTTPConnection("127.0.0.1", port)
    page = ask(client, cookie, "/read/all")
    # Scripts that load on demand are in data attributes.
    files = sorted(set(re.findall(r' (?:src|href)="(/static/[\w.-]+)', gzip.decompress(page).decode())))
    sizes = {re.sub(r"/static/|\.[0-9a-f]{12}", "", path): len(ask(client, cookie, path)) for path in files}
    client.close()
    return {"html": len(page), **sizes}
