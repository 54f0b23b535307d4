"""The menu of the person who is logged in: their page, their theme, and logging out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WIDE, Site
from tests.support.reader import add_user

Visit = Callable[..., Page]


@pytest.mark.parametrize("size", [WIDE, (1024, 768)])
def test_a_theme_is_two_clicks_away_and_lasts(site: Site, visit: Visit, size: tuple[int, int]) -> None:
    add_user(site.services)
    page = visit(login="ann", size=size)
    page.goto("/read")
    menu = page.locator(".you")
    menu.locator("summary").click()
    expect(menu.get_by_role("button", name="System")).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/settings/look"):
        menu.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(menu.locator("[aria-pressed=true]")).to_have_text("Dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    menu.locator("summary").click()
    expect(menu.locator("[aria-pressed=true]")).to_have_text("Dark")
    with page.expect_response("**/settings/look"):
        page.keyboard.press("Shift+T")
    expect(menu.locator("[aria-pressed=true]")).to_have_text("Black")


def test_the_menu_works_without_scripts(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann", js=False)
    page.goto("/read/starred")
    page.locator(".you summary").click()
    page.locator(".you").get_by_role("button", name="Sepia").click()
    expect(page).to_have_url(f"{site.url}/read/starred")
    expect(page.locator("html")).to_have_attribute("data-theme", "sepia")


def test_the_name_is_a_link_and_log_out_a_line_of_the_menu(site: Site, visit: Visit) -> None:
    add_user(site.services)
    # A page that asks for news while it is left is refused.
    page = visit(login="ann", expect="401")
    expect(page.locator(".tree-foot").get_by_role("link", name="ann", exact=True)).to_have_attribute(
        "href", "/me"
    )
    expect(page.locator(".tree-foot > form")).to_have_count(0)
    page.locator(".you summary").click()
    assert page.evaluate("() => document.querySelector('.you .menu-box').getBoundingClientRect().top") >= 0
    page.locator(".you").get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{site.url}/")
    page.goto("/read/all")
    expect(page).to_have_url(f"{site.url}/login?next=/read/all")


def test_people_and_discover_are_there_before_anybody_is_followed(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    tree = page.locator("#tree")
    expect(tree.get_by_role("link", name="People")).to_be_visible()
    expect(tree.get_by_role("link", name="Discover")).to_be_visible()
    expect(tree.get_by_role("link", name="Following")).to_have_count(0)
