"""Every screen, light and dark, wide and narrow: accessible, no sideways scroll; pictures to look at."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from app import clock
from app.config import Settings
from tests.browser.conftest import PHONE, WIDE, Site, shot
from tests.support.reader import SAMPLE, add_user, follow

Visit = Callable[..., Page]
NOW = dt.datetime(2026, 2, 18, 9, 30, tzinfo=dt.UTC)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LOOKS = {
    "wide": (WIDE, "light"),
    "wide-dark": (WIDE, "dark"),
    "tablet": ((900, 1100), "light"),
    "phone": (PHONE, "light"),
    "phone-dark": (PHONE, "dark"),
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sessions that outlive the clock of these tests: MongoDB removes what is over by its own."""
    return dataclasses.replace(settings, session_idle=10**9, session_max=10**9)


@dataclasses.dataclass
class Look:
    """One width and colour scheme; collects what is wrong with each screen."""

    name: str
    page: Page
    found: list[str]

    def at(self, path: str, screen: str) -> None:
        self.page.goto(path)
        self.check(screen)

    def check(self, screen: str) -> None:
        shot(self.page, f"{self.name}-{screen}")
        # Below .prose is foreign HTML: what alternatives its pictures have is up to its author.
        answer = Axe().run(self.page, context={"exclude": [".prose"]}, options={"runOnly": RULES}).response
        for violation in answer["violations"]:
            nodes = [" ".join(n["target"]) + ": " + n["failureSummary"][:200] for n in violation["nodes"][:3]]
            self.found.append(f"{self.name} {screen}: {violation['id']} {nodes}")
        wider = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        if wider > 0:
            self.found.append(f"{self.name} {screen}: {wider} px too wide")


@pytest.mark.parametrize("name", LOOKS)
def test_every_screen_is_accessible(site: Site, visit: Visit, name: str) -> None:
    size, scheme = LOOKS[name]
    with clock.set_source(lambda: NOW):
        look = Look(name, visit(size=size, scheme=scheme), [])
        for path, screen in (("/", "landing"), ("/signup", "signup")):
            look.at(path, screen)
        add_user(site.services)
        look.at("/login", "login")
        look.page = visit(size=size, scheme=scheme, login="ann", expect="404")
        look.check("empty")
        look.at("/add?first=1", "add")
        feed_id = _subscribe(site)
        _reading(look, site)
        look.at(f"/feeds/{feed_id}", "feed")
        for path, screen in (("/folders", "folders"), ("/settings", "settings"), ("/nope", "missing")):
            look.at(path, screen)
    assert not look.found, "\n".join(look.found)


def _subscribe(site: Site) -> int:
    services = site.services
    ann = services.mappers.users.credentials("ann")
    assert ann is not None
    actor = ann.user.actor
    folders = [services.folders.create(actor, name) for name in ("Design", "World")]
    follow(services, actor, SAMPLE[:1], folder_id=folders[0].id)
    follow(services, actor, SAMPLE[5:], folder_id=folders[1].id)
    ids = follow(services, actor, SAMPLE[1:5])
    services.store.database["feeds"].update_one({"_id": ids[1]}, {"$set": {"error": "http_503"}})
    return ids[0]


def _reading(look: Look, site: Site) -> None:
    page = look.page
    look.at("/read/starred", "starred")
    look.at("/read", "tree")
    look.at("/read/all", "list")
    page.locator(".row h2 a").nth(1).click()
    expect(page.locator("#entry-title")).to_be_visible()
    look.check("article")
    page.keyboard.press("s")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    look.check("help")
    page.keyboard.press("Escape")
    page.goto("/read/all")
    page.keyboard.press("Shift+A")
    expect(page.locator(".toast")).to_be_visible()
    look.check("marked")
    page.goto("/read/all")
    look.check("caught-up")


def test_nothing_is_cut_at_320_pixels_and_large_text(site: Site, visit: Visit) -> None:
    """WCAG 1.4.10 and 1.4.4: reflow at 320 px, and text at 200 %."""
    follow(site.services, add_user(site.services), SAMPLE[:2])
    page = visit(size=(320, 640), login="ann")
    for path in ("/read", "/read/all", "/add", "/folders", "/settings"):
        page.goto(path)
        for zoom in ("100%", "200%"):
            page.evaluate("(zoom) => { document.documentElement.style.fontSize = zoom; }", zoom)
            wider = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wider <= 0, (path, zoom)
