"""Swipes over rows and pulling at the top of a list, with touches as a finger makes them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from tests.browser.conftest import Site
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

Visit = Callable[..., Page]
Eventually = Callable[..., object]
PHONE = (390, 844)
#: Distances in pixels: too short, short and long.
_TOO_SHORT, _SHORT, _LONG = 50, 110, 220


class Finger:
    """One finger on a page, driven through the browser's own input."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)

    def send(self, kind: str, *points: tuple[float, float]) -> None:
        """Send a touch event."""
        found = [{"x": x, "y": y} for x, y in points]
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": found})

    def drag(self, start: tuple[float, float], by: tuple[float, float], *, lift: bool = True) -> None:
        """Move in ten steps, then lift the finger."""
        x, y = start
        self.send("touchStart", (x, y))
        for step in range(1, 11):
            self.send("touchMove", (x + by[0] * step / 10, y + by[1] * step / 10))
        if lift:
            self.send("touchEnd")


@pytest.fixture
def ann(site: Site) -> Actor:
    actor = add_user(site.services)
    subscribe(site, actor, 30)
    return actor


def _visit(visit: Visit, **wish: object) -> tuple[Page, Finger]:
    page = visit(login="ann", size=PHONE, **wish)
    page.emulate_media(reduced_motion="no-preference")
    return page, Finger(page)


def _middle(row: Locator) -> tuple[float, float]:
    row.scroll_into_view_if_needed()
    box = row.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _loaded(page: Page, finger: Finger) -> None:
    """Let the script load, by a touch that does nothing."""
    with page.expect_response("**/static/swipe.*.js"):
        finger.send("touchStart", (200, 400))
    finger.send("touchCancel")


def _unread(site: Site, actor: Actor) -> int:
    return site.services.reading.get_tree(actor).unread


def test_a_swipe_marks_stars_and_shares_with_an_undo(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page, finger = _visit(visit)
    row = page.locator(".row").nth(2)
    x, y = _middle(row)
    # The very first touch loads the script and is a swipe already.
    page.evaluate("addEventListener('touched', () => document.documentElement.classList.add('touched'))")
    finger.send("touchStart", (x, y))
    expect(page.locator("html.touched")).to_have_count(1)
    for far in (20, 60, _SHORT):
        finger.send("touchMove", (x + far, y))
    finger.send("touchEnd")
    expect(row).to_have_class(re.compile("is-read"))
    expect(page.locator("#article .article")).to_have_count(0)
    eventually(lambda: _unread(site, ann) == 29)
    page.get_by_role("button", name="Undo").click()
    expect(row).not_to_have_class(re.compile("is-read"))
    eventually(lambda: _unread(site, ann) == 30)
    star = row.locator('form[data-act="star"] button')
    finger.drag((x, y), (-_SHORT, 0))
    expect(star).to_have_attribute("aria-pressed", "true")
    finger.drag((x, y), (-_SHORT, 0))
    expect(star).to_have_attribute("aria-pressed", "false")
    finger.drag((x - 60, y), (_LONG, 0))
    expect(page.locator(".toast", has_text="Shared")).to_be_visible()
    shares = site.services.store.database["shares"]
    assert shares.count_documents({"live": True}) == 1
    page.locator(".toast", has_text="Shared").get_by_role("button", name="Undo").click()
    eventually(lambda: shares.count_documents({"live": True}) == 0)
    assert _unread(site, ann) == 30
    expect(page.locator(".swipe-back")).to_have_count(0)


def test_short_slanting_and_edge_movements_are_no_swipes(site: Site, visit: Visit, ann: Actor) -> None:
    page, finger = _visit(visit)
    _loaded(page, finger)
    row = page.locator(".row").nth(2)
    x, y = _middle(row)
    finger.drag((x, y), (_TOO_SHORT, 0))
    finger.drag((x, y), (_SHORT, _SHORT))
    for edge in (10, PHONE[0] - 10):
        finger.drag((edge, y), (_SHORT if edge < 200 else -_SHORT, 0))
    expect(page.locator(".swipe-back")).to_have_count(0)
    expect(page.locator(".toast")).to_have_count(0)
    assert page.locator(".row.is-read").count() == 0
    # A list scrolls under a finger that begins upwards and then turns.
    x, y = _middle(row)
    finger.drag((x, y), (0, -200), lift=False)
    finger.send("touchMove", (x + _SHORT, y - 200))
    finger.send("touchEnd")
    page.wait_for_function("document.querySelector('.pane-list').scrollTop > 50")
    assert page.locator(".row.is-read").count() == 0
    expect(page.locator("#article .article")).to_have_count(0)


def test_two_fingers_end_a_swipe(site: Site, visit: Visit, ann: Actor) -> None:
    page, finger = _visit(visit)
    _loaded(page, finger)
    x, y = _middle(page.locator(".row").nth(2))
    finger.drag((x, y), (_SHORT, 0), lift=False)
    expect(page.locator(".swipe-back.ready")).to_be_visible()
    finger.send("touchStart", (x + _SHORT, y), (x, y + 100))
    expect(page.locator(".swipe-back")).to_have_count(0)
    finger.send("touchEnd")
    assert page.locator(".row.is-read").count() == 0


def test_swipes_do_what_was_chosen_or_nothing(site: Site, visit: Visit, ann: Actor) -> None:
    chosen = {"swipe_right": "star", "swipe_left": "none", "swipe_long": "none"}
    site.services.accounts.set_preferences(ann, chosen)
    page, finger = _visit(visit)
    _loaded(page, finger)
    row = page.locator(".row").nth(2)
    x, y = _middle(row)
    finger.drag((x, y), (-_SHORT, 0))
    expect(page.locator(".toast")).to_have_count(0)
    finger.drag((x - 60, y), (_LONG, 0))
    expect(page.locator(".toast")).to_contain_text("Starred")
    assert page.locator(".row.is-read").count() == 0
    assert site.services.store.database["shares"].count_documents({}) == 0


def test_swipes_are_off_with_reduced_motion(site: Site, visit: Visit, ann: Actor) -> None:
    page, finger = _visit(visit)
    page.emulate_media(reduced_motion="reduce")
    _loaded(page, finger)
    x, y = _middle(page.locator(".row").nth(2))
    finger.drag((x, y), (_SHORT, 0), lift=False)
    expect(page.locator(".swipe-back")).to_have_count(0)
    finger.send("touchEnd")
    assert page.locator(".row.is-read").count() == 0


def test_swipes_are_mirrored_in_right_to_left_languages(site: Site, visit: Visit, ann: Actor) -> None:
    site.services.accounts.set_preferences(ann, {"language": "ar"})
    page, finger = _visit(visit)
    _loaded(page, finger)
    row = page.locator(".row").nth(2)
    x, y = _middle(row)
    finger.drag((x, y), (-_SHORT, 0))
    expect(row).to_have_class(re.compile("is-read"))
    finger.drag((x, y), (_SHORT, 0))
    expect(row.locator('form[data-act="star"] button')).to_have_attribute("aria-pressed", "true")


def test_pulling_the_list_down_checks_for_new_entries(site: Site, visit: Visit, ann: Actor) -> None:
    page, finger = _visit(visit)
    _loaded(page, finger)
    x, y = _middle(page.locator(".row").nth(2))
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/refresh") else None)
    finger.drag((x, y), (0, 60), lift=False)
    expect(page.locator(".pull")).to_have_text("Pull to check for new entries")
    finger.send("touchEnd")
    expect(page.locator(".pull")).to_have_count(0)
    assert sent == []
    finger.drag((x, y), (0, 200), lift=False)
    expect(page.locator(".pull")).to_have_text("Release to check for new entries")
    with page.expect_request("**/refresh"):
        finger.send("touchEnd")
    expect(page.locator(".pull")).to_have_count(0)
    # Further down, the same movement scrolls.
    page.evaluate("document.querySelector('.pane-list').scrollTop = 600")
    del sent[:]
    finger.drag((x, y), (0, 200))
    page.wait_for_function("document.querySelector('.pane-list').scrollTop < 600")
    assert sent == []
    assert site.services.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).rows
