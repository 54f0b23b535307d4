"""Forced colors remove backgrounds: what is on and what is chosen must be seen all the same (WCAG 1.4.11)."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser.conftest import Site, log_in
from tests.support import demo

Visit = Callable[..., Page]


def test_forced_colors_show_what_is_on_and_chosen(site: Site, visit: Visit) -> None:
    filled = demo.fill(site.services)
    page = visit(size=(1024, 768))
    page.emulate_media(forced_colors="active")
    log_in(page, "ann")
    page.goto(f"/feeds/{next(iter(filled.feeds.values()))}")

    def background(one: Locator, part: str | None = None) -> str:
        found = one.evaluate("(e, part) => getComputedStyle(e, part).backgroundColor", part)
        return str(found)

    switch = page.locator(".onoff input[name=notify]")
    off, knob = background(switch), background(switch, "::after")
    assert off != knob
    switch.check()
    assert background(switch) not in (off, background(switch, "::after"))
    page.goto("/settings")
    chosen = page.locator(".segments :checked + span").first
    other = page.locator(".segments :not(:checked) + span").first
    assert background(chosen) != background(other)
