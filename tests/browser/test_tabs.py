"""The bar of a phone: five places, which of them is shown, and what is unread there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.browser.conftest import PHONE, WIDE, Site
from tests.support.reader import add_user

Visit = Callable[..., Page]
PLACES = ("/read/all", "/search", "/add", "/people", "/settings")
#: Addresses that belong to a place of another name.
OTHERS = {
    "/read/following": "/read/all",
    "/search?q=words": "/search",
    "/imports": "/add",
    "/save": "/add",
    "/compose": "/people",
    "/discover": "/people",
    "/settings/account": "/settings",
    "/notifications": "/settings",
}


def _fill(site: Site) -> Actor:
    """Let ann follow bob, who has posted two things, and be followed by him."""
    services = site.services
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    for who in (ann, bob):
        services.following.update_profile(
            who, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
        )
    services.following.follow(ann, "bob")
    services.following.follow(bob, "ann")
    for n in range(2):
        services.sharing.publish_post(bob, f"Post {n}", "words")
    return ann


def _tabs(page: Page) -> list[Any]:
    """Return (goal, number, whether it is shown) of each place."""
    found: list[Any] = page.locator(".tabs a").evaluate_all(
        "(all) => all.map((a) => [a.getAttribute('href'), a.querySelector('b')?.textContent ?? '',"
        " a.hasAttribute('aria-current')])"
    )
    return found


@pytest.mark.parametrize("js", [True, False])
def test_five_places_are_counted_and_marked(site: Site, visit: Visit, js: bool) -> None:
    _fill(site)
    page = visit(size=PHONE, login="ann", js=js)
    for path, here in ({place: place for place in PLACES} | OTHERS).items():
        page.goto(path)
        tabs = _tabs(page)
        assert [tab[0] for tab in tabs] == list(PLACES)
        assert [tab[0] for tab in tabs if tab[2]] == [here], path
        assert [tab[1] for tab in tabs] == ["", "", "", "", "1"], path
        for tab in page.locator(".tabs a").all():
            box = tab.bounding_box()
            assert box
            assert min(box["width"], box["height"]) >= 44
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
    expect(page.locator(".tabs")).to_be_hidden()


@pytest.mark.parametrize("language", ["en", "de", "ru", "ar"])
def test_its_words_and_numbers_fit(site: Site, visit: Visit, language: str) -> None:
    site.services.accounts.set_preferences(_fill(site), {"language": language})
    page = visit(size=PHONE, login="ann", language=language)
    for words in page.locator(".tabs span").all():
        assert words.evaluate("(e) => e.scrollWidth <= e.clientWidth"), words.inner_text()
    bar = page.locator(".tabs").bounding_box()
    assert bar
    for number in page.locator(".tabs b:not(:empty)").all():
        box = number.bounding_box()
        assert box
        assert box["width"] < 24
        assert bar["y"] <= box["y"] < box["y"] + box["height"] < bar["y"] + bar["height"] - 14


def test_scripts_mark_and_count_as_one_goes_on(site: Site, visit: Visit) -> None:
    ann = _fill(site)
    page = visit(size=PHONE, login="ann")
    page.get_by_role("link", name="All feeds").click()
    page.locator(".tree a[data-feed]").first.click()
    expect(page.locator(".reader[data-pane=list] .row").first).to_be_visible()
    assert [tab[0] for tab in _tabs(page) if tab[2]] == ["/read/all"]
    number = page.locator(".tabs a").last.locator("b")
    expect(number).to_have_text("1")
    site.services.notifications.mark_all_read(ann)
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    expect(number).to_have_text("")
