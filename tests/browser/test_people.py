"""The pages of people in a real browser: undo in the message and the address to copy; without scripts too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.browser.conftest import Site
from tests.support.reader import add_user

Visit = Callable[..., Page]


def _open(
    site: Site, who: Actor, audience: Audience = Audience.PUBLIC, display: str = "", similar: bool = False
) -> None:
    site.services.following.update_profile(
        who,
        display=display,
        bio="",
        links=(),
        audience=audience,
        listed=False,
        open_lists=False,
        similar=similar,
    )


@pytest.mark.parametrize("js", [True, False])
def test_somebody_is_followed_left_and_followed_again(site: Site, visit: Visit, js: bool) -> None:
    add_user(site.services, "ann")
    _open(site, add_user(site.services, "bob"))
    page = visit(login="ann", js=js)
    page.goto("/people")
    page.get_by_label("Follow someone on this server").fill("@bob")
    page.get_by_role("button", name="Follow", exact=True).click()
    expect(page.get_by_text("You're now following bob")).to_be_visible()
    page.get_by_role("button", name="Unfollow bob").click()
    expect(page.get_by_text("You unfollowed bob")).to_be_visible()
    expect(page.get_by_role("button", name="Unfollow bob")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone").first).to_be_visible()
    page.goto("/people")
    expect(page.get_by_role("button", name="Unfollow bob")).to_be_visible()


def test_the_own_address_is_copied(site: Site, visit: Visit) -> None:
    add_user(site.services, "ann")
    page = visit(login="ann")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    page.goto("/settings/sharing")
    # There is no page before it is wanted: an address that leads nowhere is not offered.
    field = page.get_by_label("Address of your page")
    expect(field).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    expect(field).to_have_value(f"{site.url}/@ann")
    page.get_by_role("button", name="Copy").click()
    expect(page.locator(".toast")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{site.url}/@ann"
    page.get_by_label("Followers", exact=False).first.check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_contain_text("Saved")
    expect(page.locator("input[value=followers]")).to_be_checked()


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_a_follow_request_has_two_buttons_and_a_menu(site: Site, visit: Visit, size: tuple[int, int]) -> None:
    ann, bob = add_user(site.services, "ann"), add_user(site.services, "bob")
    _open(site, ann, Audience.FOLLOWERS)
    _open(site, bob)
    site.services.following.follow(bob, "ann")
    page = visit(login="ann", size=size)
    page.goto("/people")
    request = page.get_by_role("region", name="Follow requests").get_by_role("listitem")
    acts = request.locator(".person-acts").locator("button:visible, summary:visible, a:visible")
    expect(acts).to_have_text(["Accept bob", "Decline bob", "More bob"])
    acts.last.click()
    expect(acts).to_have_text(["Accept bob", "Decline bob", "More bob", "Block bob", "Report bob"])
    menu = request.locator(".menu-box")
    assert menu.evaluate(
        "(e) => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth; }"
    )
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    acts.last.click()
    request.get_by_role("button", name="Block bob").click()
    expect(page.get_by_role("button", name="Unblock bob")).to_be_visible()


def test_people_are_found_while_their_name_is_typed(site: Site, visit: Visit) -> None:
    _open(site, add_user(site.services, "ann"), similar=True)
    _open(site, add_user(site.services, "bob"), display="Robert", similar=True)
    page = visit(login="ann")
    page.goto("/people")
    page.get_by_label("Follow someone on this server").press_sequentially("rob")
    page.get_by_role("button", name="Follow Robert").click()
    expect(page.get_by_role("button", name="Unfollow Robert")).to_be_visible()


def test_a_person_found_by_name_is_followed_at_once(site: Site, visit: Visit) -> None:
    add_user(site.services, "ann")
    _open(site, add_user(site.services, "bob"))
    page = visit(login="ann")
    page.goto("/add")
    field = page.get_by_label("@name of a person")
    field.fill("@bob")
    page.get_by_role("button", name="Find", exact=True).click()
    found = page.get_by_role("region", name="bob")
    expect(found.locator(".av")).to_have_text("B")
    expect(found.get_by_role("link", name="View page")).to_have_attribute("href", "/@bob")
    found.get_by_role("button", name="Follow", exact=True).click()
    expect(page.get_by_text("You're now following bob")).to_be_visible()
    page.goto("/add")
    field.fill("@bob")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(found.get_by_role("link", name="View shares")).to_be_visible()
    found.get_by_role("button", name="Unfollow").click()
    expect(page.get_by_text("You unfollowed bob")).to_be_visible()
