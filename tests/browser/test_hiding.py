"""Hiding an entry with the keyboard or from its menu: it leaves the list, and comes back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from tests.browser.conftest import Site
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

Visit = Callable[..., Page]


@pytest.fixture
def ann(site: Site) -> Actor:
    actor = add_user(site.services)
    subscribe(site, actor, 3)
    return actor


def _titles(page: Page) -> list[str]:
    found = page.locator("#rows .row h2 a").all_inner_texts()
    return [text.splitlines()[-1].strip() for text in found]


def test_several_entries_are_hidden_one_after_the_other_and_undone(
    site: Site, visit: Visit, ann: Actor
) -> None:
    page = visit(login="ann")
    page.goto("/read/all")
    titles = _titles(page)
    page.keyboard.press("n")
    for left in (2, 1):
        page.keyboard.press("h")
        expect(page.locator("#rows .row")).to_have_count(left)
        expect(page.locator("#rows .row[aria-current]")).to_contain_text(titles[3 - left])
    assert _titles(page) == titles[2:]
    for n in (1, 0):
        page.keyboard.press("z")
        expect(page.locator("#rows .row")).to_have_count(3 - n)
    assert _titles(page) == titles
    expect(page.locator("#rows .row.is-read")).to_have_count(0)
    page.reload()
    assert _titles(page) == titles


@pytest.mark.parametrize("width", [390, 1440])
def test_an_open_entry_is_hidden_from_its_menu(site: Site, visit: Visit, ann: Actor, width: int) -> None:
    page = visit(login="ann", size=(width, 844), touch=width < 700)
    page.goto("/read/all")
    titles = _titles(page)
    page.locator("#rows .row h2 a").nth(1).click()
    expect(page.locator("#entry-title")).to_have_text(titles[1])
    page.locator("#article > .bar .menu:not(.share-menu) > summary").click()
    menu = page.locator("#article > .bar .menu[open]")
    hide = menu.locator("button[data-key=hide]")
    less = menu.get_by_role("link", name="Hide entries like this")
    expect(hide).to_be_visible()
    icons = [one.locator("use").get_attribute("href") for one in (hide, less)]
    assert icons[0] != icons[1], "the same picture for two things"
    hide.click()
    expect(page.locator("#rows .row")).to_have_count(2)
    expect(page).to_have_url(re.compile("/read/all$"))
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#rows .row")).to_have_count(3)
    assert _titles(page) == titles


def test_a_search_keeps_what_is_hidden(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/read/starred")
    page.keyboard.press("h")
    expect(page.locator("#say")).to_have_text("Select an entry first")
    row = site.services.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).rows[0]
    site.services.reading.set_starred(ann, row.id, True)
    page.goto("/read/starred")
    page.keyboard.press("n")
    page.keyboard.press("h")
    expect(page.locator(".toast")).to_contain_text("Entry hidden")
    expect(page.locator("#rows .row")).to_have_count(1)
    page.keyboard.press("h")
    expect(page.locator(".toast")).to_have_count(2)
    expect(page.locator(".toast").last.get_by_role("button")).to_have_count(0)
