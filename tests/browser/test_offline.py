"""Without a connection, Eventr shows a page of its own that leads back to where one wanted to go."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from app.bootstrap.services import Services
from tests.browser.conftest import Site, log_in, serve
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

_KEPT = "async () => (await (await caches.open('offline')).keys()).map((one) => new URL(one.url).pathname)"


@pytest.fixture
def browsing(
    services: Services, chromium: Browser, eventually: Callable[..., object]
) -> Iterator[tuple[Page, contextlib.ExitStack]]:
    """A page with the service worker, at the server that the stack stops."""
    ann = add_user(services, "ann")
    services.accounts.set_preferences(ann, {"language": "de"})
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.ExitStack())
        site: Site = server.enter_context(serve(services))
        subscribe(site, ann, 1)
        context = chromium.new_context(base_url=site.url)
        stack.callback(context.close)
        page = context.new_page()
        log_in(page, "ann")
        page.goto("/read/all")
        page.locator("#rows .row h2 a").click()
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        eventually(lambda: "/offline" in page.evaluate(_KEPT), message="the page isn't kept")
        yield page, server


def test_a_page_that_cannot_be_loaded_is_replaced_by_one_without_anything_private(
    browsing: tuple[Page, contextlib.ExitStack],
) -> None:
    page, server = browsing
    kept = page.evaluate(_KEPT)
    assert [re.sub(r"\.[0-9a-f]{12}", "", path) for path in sorted(kept)] == [
        *("/offline", "/static/app.css", "/static/card.css"),
    ]
    # While the server answers, pages are its own.
    page.goto("/read/starred")
    expect(page.locator("#stream")).to_be_visible()
    server.close()
    page.goto("/read/all?sort=oldest")
    expect(page.get_by_role("heading", level=1)).to_have_text("Keine Verbindung")
    assert page.url.endswith("/read/all?sort=oldest")
    text = page.content()
    assert not re.search(r"\bann\b", page.locator("body").inner_text())
    assert "csrf" not in text
    assert "/settings" not in text
    assert page.locator(".card").evaluate("(card) => getComputedStyle(card).paddingTop") != "0px", "no style"
    retry = page.get_by_role("link", name="Erneut versuchen")
    assert retry.evaluate("(link) => link.href") == page.url
    retry.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Keine Verbindung")


def test_errors_of_the_server_and_what_is_no_page_pass_unchanged(
    browsing: tuple[Page, contextlib.ExitStack],
) -> None:
    page, server = browsing
    answer = page.goto("/nope")
    assert answer is not None
    assert answer.status == 404
    assert "404" in page.content()
    server.close()
    assert page.evaluate("fetch('/api/session').then(() => 'answer', () => 'failure')") == "failure"


#: What the worker asks for with fetch.
_ASKED = """() => {
  self.asked = [];
  const real = self.fetch;
  self.fetch = (what, ...more) => { self.asked.push(what); return real(what, ...more); };
}"""
#: Stores the page with another text, so many hours ago.
_PUT = """async (hours) => {
  const store = await caches.open("offline");
  const headers = { Date: new Date(Date.now() - hours * 3600000).toUTCString() };
  await store.put("/offline", new Response("of before", { headers }));
}"""
_TEXT = "async () => (await (await caches.match('/offline'))?.text()) ?? ''"


@pytest.mark.parametrize("state", ["old", "missing"])
def test_a_page_that_is_old_or_missing_is_fetched_with_the_next_one(
    browsing: tuple[Page, contextlib.ExitStack], eventually: Callable[..., object], state: str
) -> None:
    page, _ = browsing
    (worker,) = page.context.service_workers
    worker.evaluate(_ASKED)
    page.evaluate(_PUT, 23)
    page.goto("/read/starred")
    page.evaluate(_PUT, 25)
    if state == "missing":
        page.evaluate("async () => (await caches.open('offline')).delete('/offline')")
    page.goto("/read/all")
    eventually(lambda: "Keine Verbindung" in page.evaluate(_TEXT), message="the page isn't renewed")
    asked = worker.evaluate("() => self.asked.filter((what) => what === '/offline').length")
    assert asked == 1, "it was fetched for a page of today, too"
