"""Notifications: people are links, and followers are followed back in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.browser.conftest import WIDE, Site
from tests.support.reader import add_user

Visit = Callable[..., Page]
SIZES = [(390, 844), (720, 900), (1024, 768), WIDE]


def _open(site: Site, who: Actor, display: str = "") -> None:
    site.services.following.update_profile(
        who, display=display, bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_click_follows_back(site: Site, visit: Visit, size: tuple[int, int]) -> None:
    services = site.services
    ann = add_user(services, "ann")
    people = [add_user(services, name) for name in ("bob", "someone-with-a-very-long-name")]
    for who in (ann, *people):
        _open(site, who)
    for who in people:
        services.following.follow(who, "ann")
    page = visit(login="ann", size=size)
    page.goto("/notifications")
    note = page.locator(".notes > li")
    expect(note.get_by_role("link", name="bob")).to_have_attribute("href", "/@bob")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for button in note.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= size[0]
        assert box["height"] >= (44 if size[0] < 700 else 24)
    note.get_by_role("button", name="Follow back bob").click()
    expect(page).to_have_url(f"{site.url}/notifications")
    expect(page.locator(".toast")).to_contain_text("You're now following bob")
    expect(note).to_contain_text("you follow them too")
    expect(note.get_by_role("button", name="Follow back")).to_have_count(1)
