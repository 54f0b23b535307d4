"""What the first visit costs: requests, bytes, nobody else's servers (ux.md §2.5)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

from playwright.sync_api import Page, Request

from app.web.assets.assets import Assets
from tests.browser.conftest import Site
from tests.support.reader import add_user, follow, pull, rss

KB = 1000


def test_a_cold_visit_takes_six_requests_and_seventy_kilobytes(
    site: Site, visit: Callable[..., Page]
) -> None:
    actor = add_user(site.services)
    urls = [f"https://site{n}.example/feed" for n in range(300)]
    ids = [site.services.subscriptions.subscribe(actor, url).subscription.feed_id for url in urls]
    bodies = {
        url: rss(f"Notes of site number {n}", [(f"Entry of {n}", "<p>x</p>" * 20)])
        for n, url in enumerate(urls)
    }
    pull(site.services, ids, bodies)
    page = visit(login="ann")
    page.close()
    page = visit(login="ann")
    seen: list[Request] = []
    page.on("request", lambda request: seen.append(request))
    page.goto("/read/all", wait_until="networkidle")
    assert page.locator("#rows .row").count() == 50
    assert page.locator("#tree *").count() <= 400
    # A set: the browser shows its icon again with each new title, out of its cache.
    urls_seen = {request.url for request in seen if not _is_later(request.url)}
    assert len(urls_seen) <= 6, urls_seen
    assert all(url.startswith(site.url) for url in urls_seen)
    html = gzip.compress(page.evaluate("fetch('/read/all').then((r) => r.text())").encode(), 3)
    files = {re.sub(r"\.[0-9a-f]{12}", "", a.path): len(a.packed) for a in Assets().all}
    assert len(html) <= 20 * KB
    assert files["app.css"] <= 15 * KB
    assert files["app.js"] + files["htmx.js"] <= 32 * KB
    assert files["sprite.svg"] <= 5 * KB
    loaded = {re.sub(r"\.[0-9a-f]{12}", "", url.rpartition("/")[2]) for url in urls_seen}
    assert {"app.css", "app.js", "htmx.js", "sprite.svg"} <= loaded
    assert len(html) + sum(size for name, size in files.items() if name in loaded) <= 70 * KB


def test_going_on_takes_one_request(site: Site, visit: Callable[..., Page]) -> None:
    follow(site.services, add_user(site.services), ["feeds/rss/zerokspot.com-71d236.xml"])
    page = visit(login="ann")
    page.wait_for_load_state("networkidle")
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    with page.expect_response("**/read/feed/**"):
        page.locator(".tree a[data-feed]").first.click()
    page.wait_for_load_state("networkidle")
    assert len([url for url in seen if "/static/" not in url and not _is_later(url)]) == 1, seen


def _is_later(url: str) -> bool:
    """Whether this comes when the page is there: the stream of events, or pictures being fetched."""
    return any(part in url for part in ("/api/live", "/events", "/i/states"))
