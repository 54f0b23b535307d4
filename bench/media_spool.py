"""Uploads through the whole web tier: real routes, two processes, parts of 4 MiB, one file per client.

``upload_*_mb_s`` is the rate of 1 and 8 clients over loopback, each part durable before the next one.
``upload_rss_mb`` is the growth of the largest web process during one upload of 1 GiB in a single
request. ``senders_*`` is about 100 clients that send one part at 50 kB/s each; ``senders_page_ms`` is
by how much they raise the p95 of list pages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil

from app.bootstrap import services as bootstrap
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from bench.harness import Bench, benchmark
from bench.reading import USER
from bench.web import ask, site
from tests.support.upload_client import UploadClient
from tests.support.upload_server import read_answer

PART = 4 << 20
SENDERS, RATE = 100, 50_000
FEEDS, PAGES = 300, 300


@benchmark("media_spool")
def measure_uploads(bench: Bench) -> None:
    """Publish ``upload_*`` and ``senders_*``."""
    given = {
        "embedded_cache": 1 << 28,
        "quota": 0,
        "uploads_open": 1000,
        "uploads_per_hour": 10_000,
        # All senders have one address, and the kernel doesn't distribute connections evenly.
        "upload_spools": 200,
        "upload_spools_per_address": 200,
    }
    feeds = 20 if bench.quick else FEEDS
    with bench.servers(**given) as running, site(running.settings, feeds, 3) as (port, cookie):
        client = UploadClient(port, _make_token(running.settings, feeds))
        total = 8 * PART if bench.quick else 256 << 20
        for clients, goal in ((1, 60), (8, 80)):
            runs = [_measure_rate(client, clients, total) for _ in range(bench.repeats)]
            bench.figure(f"media_spool.upload_{clients}_mb_s", runs, "MB/s", at_least=goal)
        growth = _measure_growth(client, 8 * PART if bench.quick else 1 << 30)
        bench.figure("media_spool.upload_rss_mb", [growth], "MB", at_most=20)
        _measure_senders(bench, client, cookie)


def _make_token(settings: Settings, feeds: int) -> str:
    own = dataclasses.replace(settings, mongodb_name=f"bench_web_{feeds}")
    with contextlib.closing(bootstrap.build(own)) as services:
        sessions = services.gateways.sessions
        session = sessions.find_session(sessions.open_session(USER, agent="bench", address=""))
        if session is None:
            raise RuntimeError("the session is gone")
        return services.tokens.make_api_token(Actor(USER), session[0], "bench", (Scope.FILES,))[1]


def _send(client: UploadClient, total: int) -> None:
    path, data = client.create(total), bytes(PART)
    with contextlib.closing(client.connect()) as sock:
        for offset in range(0, total, PART):
            sock.sendall(client.build_part(path, offset, PART))
            sock.sendall(data)
            if read_answer(sock)[0] != 204:
                raise RuntimeError("a part was refused")


def _measure_rate(client: UploadClient, clients: int, total: int) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(_send, client, total // clients) for _ in range(clients)]:
            done.result()
    return total / (time.perf_counter() - started) / 1e6


def _measure_growth(client: UploadClient, total: int) -> float:
    family = psutil.Process().children(recursive=True)
    workers = [each for each in family if "eventr web" in " ".join(each.cmdline())]
    before = {worker: worker.memory_info().rss for worker in workers}
    grown = [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            grown.append(max(worker.memory_info().rss - before[worker] for worker in workers))

    watcher = threading.Thread(target=watch)
    watcher.start()
    path, data = client.create(total), bytes(PART)
    with contextlib.closing(client.connect()) as sock:
        sock.sendall(client.build_part(path, 0, total))
        for _ in range(0, total, PART):
            sock.sendall(data)
        status = read_answer(sock)[0]
    ended.set()
    watcher.join()
    if status != 204:
        raise RuntimeError(f"the upload was refused: {status}")
    return max(grown) / 1e6


def _measure_senders(bench: Bench, client: UploadClient, cookie: str) -> None:
    size = 128 << 10 if bench.quick else PART
    pages = 20 if bench.quick else PAGES
    alone = _measure_pages(client.port, cookie, pages)
    with ThreadPoolExecutor(1) as pool:
        arrived = pool.submit(_send_slowly, client, size)
        beside = _measure_pages(client.port, cookie, pages)
        count = arrived.result()
    bench.figure("media_spool.senders_arrived", [count], "senders", at_least=SENDERS)
    bench.figure("media_spool.senders_page_ms", [beside - alone], "ms", at_most=100)
    bench.note(f"p95 of pages: {alone:.1f} ms alone, {beside:.1f} ms beside {SENDERS} senders")


def _measure_pages(port: int, cookie: str, count: int) -> float:
    client = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for _ in range(count):
        started = time.perf_counter()
        ask(client, cookie, "/read/all", "div#stream")
        times.append((time.perf_counter() - started) * 1000)
        time.sleep(0.02)
    client.close()
    return statistics.quantiles(times, n=20)[-1]


def _send_slowly(client: UploadClient, size: int) -> int:
    """Send a part from each sender at their rate; return how many arrived."""
    data = bytes(RATE // 10)
    senders: dict[socket.socket, int] = {}
    for _ in range(SENDERS):
        sock = client.connect()
        sock.sendall(client.build_part(client.create(size), 0, size))
        senders[sock] = size
    turn = time.perf_counter()
    while any(senders.values()):
        for sock, rest in senders.items():
            senders[sock] = rest - sock.send(data[:rest]) if rest else 0
        turn += 0.1
        time.sleep(max(0.0, turn - time.perf_counter()))
    count = sum(read_answer(sock)[0] == 204 for sock in senders)
    for sock in senders:
        sock.close()
    return count
