"""The API's page: read by anybody, tried with a token, without scripts a plain document."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from app.bootstrap.services import Services
from tests.browser.conftest import PHONE, Site
from tests.support.reader import add_user, elsewhere
from tests.sync.rest.conftest import token_for

Visit = Callable[..., Page]


def test_a_request_is_made_and_answered_on_the_page(site: Site, services: Services, visit: Visit) -> None:
    ann = add_user(services)
    secret = token_for(services, ann, "read", "subscribe")
    page = visit(expect="403")
    page.goto("/api/docs#makeFolder")
    form = page.get_by_role("form", name="Try it: makeFolder")
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("status")).to_have_text("Enter an access token first.")
    page.get_by_label("Access token", exact=True).fill(secret)
    form.get_by_label("Body").fill('{"name": "From the page"}')
    form.get_by_role("button", name="Send").click()
    expect(form.get_by_role("status")).to_contain_text("201")
    expect(form.locator("pre")).to_contain_text('"name": "From the page"')
    assert [folder.name for folder in elsewhere(lambda: services.folders.list_folders(ann))] == [
        "From the page"
    ]
    page.locator("#markEntries > summary").click()
    marks = page.get_by_role("form", name="Try it: markEntries")
    marks.get_by_role("button", name="Send").click()
    expect(marks.locator("pre")).to_contain_text('"scope": "mark"')
    assert not page.context.cookies()
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]


def test_the_page_is_for_everybody(site: Site, services: Services, visit: Visit) -> None:
    add_user(services)
    for wish in (
        {"login": "ann"},
        {"size": PHONE},
        {"scheme": "dark"},
        {"language": "ar"},
    ):
        page = visit(**wish)
        page.goto("/api/docs#listEntries")
        page.locator("#listEntries form").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), wish


def test_without_scripts_it_is_a_document(site: Site, visit: Visit) -> None:
    page = visit(js=False)
    page.goto("/api/docs")
    page.locator("#listEntries > summary").click()
    expect(page.locator("#listEntries table")).to_be_visible()
    expect(page.locator(".api-token")).to_be_hidden()
    assert page.locator("main form").count() == 0
