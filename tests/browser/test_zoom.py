"""Pages enlarged to 200 % and 400 %: nothing is lost, nor scrolls in two directions (WCAG 1.4.4, 1.4.10).

A window of 1280 × 1024 pixels that is enlarged to 400 % is one of 320 × 256.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, log_in
from tests.support import demo

Visit = Callable[..., Page]
ZOOMS = {"200%": (640, 512), "400%": (320, 256)}
#: What can be used and read, but lies beside the window, where nothing scrolls to it.
_LOST = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, h2, p")]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert], .vh, .skip"))
    .map((one) => [one, one.getBoundingClientRect()])
    .filter(([one, box]) => box.width > 2 && box.height > 2 && (box.left < -1 || box.right > innerWidth + 1))
    .filter(([one]) => {
        for (let up = one.parentElement; up; up = up.parentElement)
            if (getComputedStyle(up).overflowX === "auto" && up.scrollWidth > up.clientWidth) return false;
        return true;
    }).map(([one]) => one.outerHTML.slice(0, 120))"""
#: Pixels of the window's height that bars take which stay while the page scrolls.
_BARS = """() => [...document.querySelectorAll(".bar, .tabs, .top")]
    .filter((one) => ["sticky", "fixed"].includes(getComputedStyle(one).position))
    .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert]"))
    .map((one) => one.getBoundingClientRect().height).reduce((sum, height) => sum + height, 0)"""


def _screens(filled: demo.Demo) -> dict[str, str]:
    return {
        "today": "/read/today",
        "today-wide": "/read/today?view=list",
        "recent": "/read/recent",
        "cards": "/read/all?view=list&density=card",
        "feed": f"/feeds/{next(iter(filled.feeds.values()))}",
        "discover": "/discover",
        "settings": "/settings",
        **{
            f"settings {name}": f"/settings/{name}"
            for name in ("reading", "display", "sharing", "notifications", "apps", "files", "account")
        },
        "statistics": "/settings/statistics",
        "subscriptions": "/subscriptions",
        "imports": "/imports",
        "people": "/people",
        "pack": "/packs/science",
        **{
            f"admin {name or 'overview'}": f"/admin/{name}".rstrip("/")
            for name in ("", "feeds", "users", "jobs", "media", "moderation", "settings")
        },
    }


@pytest.fixture
def filled(site: Site) -> demo.Demo:
    return demo.fill(site.services)


def test_enlarged_pages_lose_nothing_and_scroll_in_one_direction(
    site: Site, visit: Visit, filled: demo.Demo
) -> None:
    page = visit(size=(1280, 1024), touch=False)
    log_in(page, "ann")
    faults: list[str] = []

    def check(name: str) -> None:
        for zoom, (width, height) in ZOOMS.items():
            page.set_viewport_size({"width": width, "height": height})
            wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            faults.extend([f"{name} {zoom}: {wider} px too wide"] if wider > 0 else [])
            faults.extend(f"{name} {zoom}: lost: {lost}" for lost in page.evaluate(_LOST))
            if (bars := page.evaluate(_BARS)) > height / 3:
                faults.append(f"{name} {zoom}: bars take {bars} px of {height}")

    for name, path in _screens(filled).items():
        page.goto(path)
        check(name)
    page.goto("/settings")
    page.locator("input[type=search]:visible").first.fill("file")
    expect(page.get_by_role("link", name="Your files Files")).to_be_visible()
    check("settings search")
    page.goto("/read/all")
    page.locator("body").press("u")
    expect(page.locator("#tree")).to_be_in_viewport()
    check("drawer")
    assert not faults, "\n".join(faults)
