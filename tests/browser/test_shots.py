"""Pictures of every screen, light and dark, wide and narrow: to be looked at (tests/artifacts)."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from app import clock
from app.config import Settings
from tests.browser.conftest import PHONE, WIDE, Site, shot
from tests.support.reader import SAMPLE, add_user, follow


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sessions that outlive the clock of these tests: MongoDB removes what is over by its own."""
    return dataclasses.replace(settings, session_idle=10**9, session_max=10**9)


NOW = dt.datetime(2026, 2, 18, 9, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("label", "size", "scheme"),
    [
        ("wide", WIDE, "light"),
        ("wide-dark", WIDE, "dark"),
        ("phone", PHONE, "light"),
        ("phone-dark", PHONE, "dark"),
        ("tablet", (900, 1100), "light"),
    ],
)
def test_screens(
    site: Site, visit: Callable[..., Page], label: str, size: tuple[int, int], scheme: str
) -> None:
    with clock.set_source(lambda: NOW):
        _screens(site, visit, label, size, scheme)


def _screens(site: Site, visit: Callable[..., Page], label: str, size: tuple[int, int], scheme: str) -> None:
    services = site.services
    page = visit(size=size, scheme=scheme)
    for name in ("/", "/signup"):
        page.goto(name)
        shot(page, f"{label}-{name.strip('/') or 'landing'}")
    ann = add_user(services)
    page.goto("/login")
    shot(page, f"{label}-login")
    page = visit(size=size, scheme=scheme, login="ann", expect="404")
    shot(page, f"{label}-empty")
    page.goto("/add?first=1")
    shot(page, f"{label}-add")
    design = services.folders.create(ann, "Design")
    world = services.folders.create(ann, "World")
    follow(services, ann, SAMPLE[:1], folder_id=design.id)
    follow(services, ann, SAMPLE[5:], folder_id=world.id)
    ids = follow(services, ann, SAMPLE[1:5])
    page.goto("/read/all")
    shot(page, f"{label}-list")
    if size == PHONE:
        page.goto("/read")
        shot(page, f"{label}-tree")
        page.goto("/read/all")
    page.locator(".row h3 a").nth(1).click()
    page.wait_for_selector(".article")
    page.wait_for_timeout(400)
    shot(page, f"{label}-article")
    for name in (f"/feeds/{ids[0]}", "/folders", "/settings", "/nope", "/read/starred"):
        page.goto(name)
        shot(page, f"{label}-{name.strip('/').split('/')[0 if name.startswith('/feeds') else -1]}")
