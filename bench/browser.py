"""The reading screen in a real Chromium (ux.md §2.5).

``browser.key_ms`` is the time from pressing ``j`` until the frame with the selected row is painted, with a
CPU slowed down four times, for a user with 2,000 subscriptions. The first paints are measured on a slow line
too (1.6 Mbit/s, 150 ms), with the 300 feeds of their budget; ``browser.many_*`` with 2,000 feeds.
``browser.list_ms`` and ``browser.list_p95_ms`` are the server's answer for the list page.
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import statistics
import time
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from bench.harness import Bench, benchmark
from bench.web import REQUESTS, ask, site

USUAL_FEEDS, FEEDS, MANY_FEEDS, QUICK_FEEDS, ENTRIES = 300, 1000, 2000, 60, 20
KEYS = 30
SLOW_CPU = 4
SLOW_LINE = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 100_000}
_WATCH = """
window.__seen = { lcp: 0, cls: 0 };
window.__tasks = [];
const watch = (type, take) => new PerformanceObserver((list) => list.getEntries().forEach(take))
  .observe({ type, buffered: true });
watch("largest-contentful-paint", (entry) => { window.__seen.lcp = entry.startTime; });
watch("layout-shift", (entry) => { if (!entry.hadRecentInput) window.__seen.cls += entry.value; });
watch("longtask", ({ startTime, duration }) => window.__tasks.push([startTime, duration]));
"""
#: After two frames, the key's effect is on the screen.
_PAINTED = """
() => new Promise((resolve) => {
  const started = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "j", code: "KeyJ", bubbles: true }));
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => resolve(performance.now() - started);
    channel.port2.postMessage(0);
  });
})
"""


@benchmark("browser")
def browser(bench: Bench) -> None:
    """Publish the times that users wait."""
    few, many = (QUICK_FEEDS, 2 * QUICK_FEEDS) if bench.quick else (FEEDS, MANY_FEEDS)
    usual = QUICK_FEEDS // 2 if bench.quick else USUAL_FEEDS  # each number of feeds has its own database
    with bench.servers(embedded_cache=1 << 30) as running:
        with site(running.settings, few, ENTRIES) as (port, cookie):
            p95 = [_times(port, cookie, 0.95) for _ in range(bench.repeats)]
            bench.figure("browser.list_p95_ms", p95, "ms", at_most=100)
        with site(running.settings, many, ENTRIES) as (port, cookie):
            p50 = [_times(port, cookie, 0.5) for _ in range(bench.repeats)]
            bench.figure("browser.list_ms", p50, "ms")
            keys, paints = _in_chromium(bench, port, cookie)
            bench.figure("browser.key_ms", keys, "ms", at_most=50)
            bench.figure("browser.many_fcp_ms", [p["fcp"] for p in paints], "ms")
            bench.figure("browser.many_lcp_ms", [p["lcp"] for p in paints], "ms")
        with site(running.settings, usual, ENTRIES) as (port, cookie):
            _, paints = _in_chromium(bench, port, cookie)
            bench.figure("browser.fcp_ms", [p["fcp"] for p in paints], "ms", at_most=1000)
            bench.figure("browser.lcp_ms", [p["lcp"] for p in paints], "ms", at_most=1500)
            bench.figure("browser.tbt_ms", [p["long"] for p in paints], "ms", at_most=50)
            bench.figure("browser.cls", [p["cls"] for p in paints], "", at_most=0.02)


def _times(port: int, cookie: str, share: float) -> float:
    client = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for _ in range(REQUESTS + 5):
        started = time.perf_counter()
        ask(client, cookie, "/read/all")
        times.append((time.perf_counter() - started) * 1000)
    client.close()
    return sorted(times[5:])[int(REQUESTS * share) - 1]


def _in_chromium(bench: Bench, port: int, cookie: str) -> tuple[list[float], list[dict[str, float]]]:
    """Return the times of keys, and of the first paints."""
    keys, paints = [], []
    with chromium() as launched:
        for _ in range(bench.repeats):
            context = launched.new_context(viewport={"width": 1440, "height": 900})
            context.add_cookies([{"name": "eventr", "value": cookie, "url": f"http://127.0.0.1:{port}"}])
            page = context.new_page()
            page.add_init_script(_WATCH)
            slow = context.new_cdp_session(page)
            paints.append(_paints(page, slow, port))
            keys.append(_keys(page, slow))
            context.close()
    return keys, paints


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield launched
        finally:
            launched.close()


def _paints(page: Page, slow: CDPSession, port: int) -> dict[str, float]:
    slow.send("Network.enable")
    slow.send("Network.emulateNetworkConditions", SLOW_LINE)
    slow.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_CPU})
    page.goto(f"http://127.0.0.1:{port}/read/all", wait_until="networkidle")
    seen: dict[str, float] = page.evaluate("window.__seen")
    fcp: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    tasks: list[tuple[float, float]] = page.evaluate("window.__tasks")
    # Total blocking time starts at the first paint: before it, nobody can press anything.
    blocked = sum(max(0.0, begun + took - max(begun, fcp) - 50) for begun, took in tasks)
    return {**seen, "fcp": fcp, "long": blocked}


def _keys(page: Page, slow: CDPSession) -> float:
    """Return the median time from a key to its paint, with a slow CPU and a fast line."""
    slow.send("Network.emulateNetworkConditions", {**SLOW_LINE, "latency": 0, "downloadThroughput": -1})
    times = []
    for _ in range(KEYS):
        times.append(page.evaluate(_PAINTED))
        page.wait_for_load_state("networkidle")
    return statistics.median(times)
