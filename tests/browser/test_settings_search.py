"""The search for settings, by keyboard, on phones and without scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WIDE, Site
from tests.support.reader import add_user

Visit = Callable[..., Page]
SIZES = [(390, 844), (720, 900), (1024, 768), WIDE]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_typing_finds_and_enter_opens_the_setting(site: Site, visit: Visit, size: tuple[int, int]) -> None:
    add_user(site.services)
    page = visit(login="ann", size=size)
    page.goto("/settings")
    field = page.get_by_role("searchbox", name="Search settings")
    field.press_sequentially("scroll")
    found = page.locator("#found-settings a")
    expect(found.first).to_contain_text("Mark as read while scrolling")
    expect(page.locator("#found-settings [role=status]")).to_contain_text("results")
    # The list of all pages makes room.
    expect(page.get_by_role("link", name="Privacy")).to_be_hidden()
    field.press("Enter")
    expect(page).to_have_url(f"{site.url}/settings/reading#s-mark_on_scroll")
    switch = page.get_by_role("switch", name="Mark as read while scrolling")
    expect(switch).to_be_focused()
    expect(switch).to_be_in_viewport()


def test_arrow_keys_go_through_the_results_and_escape_clears(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings")
    field, found = page.locator("#find-setting"), page.locator("#found-settings a")
    field.press_sequentially("text")
    expect(found.nth(1)).to_be_visible()
    field.press("ArrowDown")
    expect(found.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(found.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(field).to_have_value("")
    expect(found).to_have_count(0)
    expect(page.get_by_role("link", name="Privacy")).to_be_visible()


def test_a_found_shortcut_is_open_for_its_change(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/keys#key-star")
    expect(page.locator("#k-star")).to_be_visible()


def test_the_search_works_without_scripts(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann", js=False, size=(390, 844))
    page.goto("/settings")
    page.locator("#find-setting").fill("time zone")
    page.locator("#find-setting").press("Enter")
    page.locator("#found-settings a").first.click()
    expect(page).to_have_url(f"{site.url}/settings/display#f-zone")
    expect(page.locator("#f-zone")).to_be_in_viewport()


def test_a_page_of_settings_is_a_column(site: Site, visit: Visit) -> None:
    """Other screens have sections, too, and a style of theirs once made this one a row."""
    add_user(site.services)
    page = visit(login="ann")
    for path in ("reading", "apps", "sharing"):
        page.goto(f"/settings/{path}")
        box = page.locator(".section h1").bounding_box()
        assert box is not None
        assert box["width"] > 500, path
