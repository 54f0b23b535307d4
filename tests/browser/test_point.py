"""Pointing at the parts of an entry on the cleaned page, through real workers that fetch over loopback."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.config import Settings
from tests.browser.conftest import Site
from tests.browser.test_swipe import PHONE, Finger
from tests.support import manager
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import add_user

Visit = Callable[..., Page]
#: Generous, as a worker's start competes with the other tests.
WAIT = 60_000
#: Three rows of three cards: the list is neither the rows nor one row. Titles aren't links of their own.
_CARD = """<div class="cell"><a class="go" href="/story/{n}"><img src="/p{n}.jpg" alt="Photo {n}"></a>
<div class="kind">Town</div><div class="name"><a href="/story/{n}">Story {n}</a></div>
<span class="when">2026-11-{n:02}</span><span class="by">Writer {n}</span>
<script>window.stolen = 1</script></div>"""
_ROWS = "".join(
    "<div class='line'>" + "".join(_CARD.format(n=3 * row + n + 1) for n in range(3)) + "</div>"
    for row in range(3)
)
_PAGE = f"""<!doctype html><title>Town</title><body><h1 onclick="window.stolen = 1">The town</h1>
<ul class="menu"><li><a href="/a">Home</a></li><li><a href="/b">Shop</a></li>
<li><a href="/c">Team</a></li></ul>
<p class="alone">Nothing else is like this.</p><div class="grid">{_ROWS}</div>"""


@pytest.fixture
def town() -> Iterator[RawServer]:
    with RawServer() as server:
        server.set("/news", Reply(body=_PAGE.encode(), headers=(("Content-Type", "text/html"),)))
        yield server


@pytest.fixture
def settings(settings: Settings, town: RawServer) -> Settings:
    return dataclasses.replace(settings, fetch_allow=(town.origin,), discovery_wait=0.5)


def open_page(visit: Visit, town: RawServer, **wish: Any) -> Page:
    """Read the page as ann, and show it for pointing."""
    page = visit(login="ann", **wish)
    page.goto(f"/add/page?address=http://{town.origin}/news")
    page.get_by_role("button", name="Find lists").click()
    page.get_by_role("button", name="Point at an entry on the page").click(timeout=WAIT)
    expect(page.locator("#point-said")).to_have_text("Point at the title of an entry.")
    return page


def test_clicks_on_the_page_become_selectors_and_a_preview(site: Site, visit: Visit, town: RawServer) -> None:
    ann = add_user(site.services)
    with manager.running(site.services.settings):
        page = open_page(visit, town)
        page.get_by_role("application").get_by_text("Nothing else is like this.").click()
        expect(page.locator("#point-said")).to_contain_text("This stands alone")

        page.get_by_role("application").get_by_text("Story 5", exact=True).click()
        expect(page.locator("#point-said")).to_contain_text("9 entries found. Story 1", timeout=WAIT)
        expect(page.locator("#lists .choice")).to_have_count(1)
        expect(page.locator("#lists .choice")).to_contain_text("9 entries")
        assert page.locator("[name=item]").input_value() == "div.cell"
        expect(page.get_by_role("button", name="Date", exact=True)).to_have_attribute("aria-pressed", "true")

        page.get_by_role("application").get_by_text("2026-11-05").click()
        expect(page.locator("#lists .choice")).to_contain_text("Story 1 ·", timeout=WAIT)
        page.get_by_role("button", name="Author", exact=True).click()
        page.get_by_role("application").get_by_text("Home").click()
        expect(page.locator("#point-said")).to_contain_text("outside the entries")
        page.get_by_role("application").get_by_text("Writer 2").click()
        expect(page.locator("[name=author]")).to_have_value("span.by")
        page.get_by_role("button", name="Picture", exact=True).click()
        page.get_by_role("application").get_by_text("Photo 3").click()
        expect(page.locator("[name=image]")).to_have_value("img")
        expect(page.locator("#point-said")).to_contain_text("9 entries found", timeout=WAIT)

        assert page.evaluate("window.stolen") is None
        assert (
            page.locator("#point-page").evaluate(
                "e => e.shadowRoot.querySelectorAll('a, img, script').length"
            )
            == 0
        )
        page.get_by_role("button", name="Subscribe").click()
        page.wait_for_url("**/read/feed/*", timeout=WAIT)
    (feed,) = site.services.reading.get_tree(ann).feeds
    assert feed.title == "Town"


def test_a_finger_points_but_does_not_choose_what_it_scrolls_holds_or_zooms(
    site: Site, visit: Visit, town: RawServer
) -> None:
    add_user(site.services)
    with manager.running(site.services.settings):
        page = open_page(visit, town, size=PHONE)
        finger, said = Finger(page), page.locator("#point-said")
        pointed = page.get_by_role("application")
        asked: list[str] = []
        # What pages ask for by themselves, to follow news, isn't a choice.
        page.on("request", lambda r: r.method == "POST" and "/api/live" not in r.url and asked.append(r.url))

        def middle(text: str) -> tuple[float, float]:
            at = pointed.get_by_text(text, exact=True).bounding_box()
            assert at is not None
            return at["x"] + at["width"] / 2, at["y"] + at["height"] / 2

        def chosen_nothing() -> None:
            expect(said).to_have_text("Point at the title of an entry.")
            assert page.locator("[name=item]").input_value() == ""
            assert pointed.locator(".chosen").count() == 0
            assert not asked

        # Scrolled by a finger that begins on a title.
        before = page.evaluate("scrollY")
        finger.drag(middle("Story 1"), (0, -220))
        page.wait_for_function("(before) => scrollY > before + 100", arg=before)
        chosen_nothing()

        # Held: the browser may offer to copy, but nothing is chosen when the finger leaves.
        finger.send("touchStart", middle("Story 5"))
        page.wait_for_function(
            "(begun) => performance.now() > begun + 900", arg=page.evaluate("performance.now()")
        )
        finger.send("touchEnd")
        chosen_nothing()

        # Zoomed with two fingers, and out again.
        x, y = middle("Story 5")
        for steps in (range(1, 9), range(8, 0, -1)):
            finger.send("touchStart", (x - 10 * steps[0], y), (x + 10 * steps[0], y))
            for step in steps:
                finger.send("touchMove", (x - 10 * step, y), (x + 10 * step, y))
            finger.send("touchEnd")
        chosen_nothing()

        pointed.get_by_text("Story 5", exact=True).tap()
        expect(said).to_contain_text("9 entries found. Story 1", timeout=WAIT)
        assert page.locator("[name=item]").input_value() == "div.cell"
        # The part that is pointed at next is chosen by a tap, too, and the bar stays in sight.
        author = page.get_by_role("button", name="Author", exact=True)
        expect(author).to_be_in_viewport()
        author.tap()
        pointed.get_by_text("Writer 8").tap()
        expect(page.locator("[name=author]")).to_have_value("span.by")
        expect(said).to_contain_text("9 entries found", timeout=WAIT)
        assert pointed.locator(".over").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_lost_connection_is_not_a_lost_page(site: Site, visit: Visit, town: RawServer) -> None:
    add_user(site.services)
    with manager.running(site.services.settings):
        page = open_page(visit, town, expect="Failed to load resource", routes=True)
        story = page.get_by_role("application").get_by_text("Story 5", exact=True)
        expect(story).to_have_attribute("dir", "auto")
        point, said = page.get_by_role("button", name="Point at an entry"), page.locator("#point-said")
        page.route("**/add/page/outline*", lambda route: route.abort())
        point.click()
        expect(said).to_contain_text("Can't reach the server")
        page.unroute("**/add/page/outline*")
        page.route("**/add/page/outline*", lambda route: route.fulfill(status=404, json={}))
        point.click()
        expect(said).to_contain_text("no longer stored")
        page.unroute("**/add/page/outline*")
        point.click()
        expect(said).to_have_text("Point at the title of an entry.")


def test_keys_point_as_well(site: Site, visit: Visit, town: RawServer) -> None:
    add_user(site.services)
    with manager.running(site.services.settings):
        page = open_page(visit, town)
        for text in (
            "The town",
            "Home",
            "Shop",
            "Team",
            "Nothing else is like this.",
            "Photo 1",
            "Town",
            "Story 1",
        ):
            page.keyboard.press("ArrowDown")
            expect(page.locator("#point-said")).to_have_text(text)
        page.keyboard.press("Enter")
        expect(page.locator("#point-said")).to_contain_text("9 entries found", timeout=WAIT)


def test_the_pointer_gives_the_mark_back_to_the_keys(site: Site, visit: Visit, town: RawServer) -> None:
    add_user(site.services)
    with manager.running(site.services.settings):
        page = open_page(visit, town)
        page.keyboard.press("ArrowDown")
        over = page.locator("#point-page .over")
        expect(over).to_have_text("The town")
        page.get_by_role("application").get_by_text("Story 5", exact=True).hover()
        expect(over).to_have_text("Story 5")
        page.locator("#point-said").hover()
        expect(over).to_have_text("The town")


def test_the_found_list_is_one_press_away(site: Site, visit: Visit, town: RawServer) -> None:
    add_user(site.services)
    with manager.running(site.services.settings):
        page = open_page(visit, town)
        show = page.get_by_role("button", name="Show the list")
        expect(show).to_be_hidden()
        page.get_by_role("application").get_by_text("Story 5", exact=True).click()
        show.click(timeout=WAIT)
        expect(page.locator("#lists input:checked")).to_be_focused()
        expect(page.locator("#lists fieldset")).to_be_in_viewport()
        expect(page.locator("#lists .selector")).to_be_hidden()
        page.locator("summary", has_text="Selectors").click()
        expect(page.locator("#lists .selector")).to_have_text("div.cell")
        expect(page.locator("#lists .selector")).to_be_visible()
