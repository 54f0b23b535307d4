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
