"""Eventr as an application: Chromium accepts its manifest, and bars around the page follow its theme."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page, expect

from app.web.view.typography import COLORS
from tests.browser import icons
from tests.browser.conftest import Site
from tests.support.reader import add_user


def test_chromium_finds_no_fault_in_the_manifest(site: Site, visit: Callable[..., Page]) -> None:
    add_user(site.services)
    page = visit(login="ann")
    devtools = page.context.new_cdp_session(page)
    found = devtools.send("Page.getAppManifest")
    assert found["errors"] == []
    assert found["url"].startswith(f"{site.url}/manifest.webmanifest?language=en&theme=auto")
    wrong = devtools.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [one["errorId"] for one in wrong if one["errorId"] != "in-incognito"] == []


def test_the_bars_of_the_browser_follow_the_theme(site: Site, visit: Callable[..., Page]) -> None:
    add_user(site.services)
    page = visit(login="ann")
    metas = page.locator('meta[name="theme-color"]')
    expect(metas).to_have_count(2)
    for theme in ("light", "sepia", "dark", "black"):
        with page.expect_response("**/settings/look"):
            page.keyboard.press("Shift+T")
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        red, green, blue = (int(COLORS[theme][at : at + 2], 16) for at in (1, 3, 5))
        for meta in metas.all():
            expect(meta).to_have_attribute("content", f"rgb({red}, {green}, {blue})")
    page.reload()
    expect(metas).to_have_attribute("content", COLORS["black"])


def test_icons_are_drawings_of_the_logo(chromium: Browser) -> None:
    """``python -m tests.browser.icons`` draws them again."""
    for name, content in icons.draw_all(chromium).items():
        kept, drawn = (
            Image.open(io.BytesIO(one)).convert("RGBA").resize((64, 64))
            for one in ((icons.FOLDER / name).read_bytes(), content)
        )
        most = max(high for _low, high in ImageChops.difference(kept, drawn).getextrema())  # type: ignore[misc]
        assert most <= 24, name
