"""What a hand and an eye notice on the screens of shares, notes and comments, on a phone above all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from tests.browser.conftest import PHONE, Site
from tests.browser.test_share import begin

Visit = Callable[..., Page]
NOTE = "Worth an evening: it is longer than its title says, and the last third is where it becomes good. " * 3


@pytest.fixture
def people(site: Site) -> dict[str, Actor]:
    return begin(site)


@pytest.fixture
def shared(site: Site, people: dict[str, Actor]) -> int:
    """The share of an entry with a long note, by ann."""
    page = site.services.reading.load_page(people["ann"], StreamQuery(StreamRef.parse("all")))
    return site.services.sharing.share(people["ann"], page.rows[0].id, note=NOTE).share.id


def _box(place: Locator) -> dict[str, float]:
    box = place.bounding_box()
    assert box is not None
    return dict(box)


def _bottom(place: Locator) -> float:
    box = _box(place)
    return box["y"] + box["height"]


@pytest.mark.parametrize("density", ["cozy", "card"])
def test_a_note_in_a_list_has_two_lines(shared: int, visit: Visit, density: str) -> None:
    for size in (None, PHONE):
        page = visit(size=size, login="bob") if size else visit(login="bob")
        page.goto(f"/read/following?density={density}")
        said, row = page.locator(".row .said"), page.locator(".row").first
        expect(said).to_have_count(1)
        lines = said.evaluate(
            "(it) => Math.round(it.clientHeight / parseFloat(getComputedStyle(it).lineHeight))"
        )
        assert lines == 2
        assert _box(said)["width"] > 200, "as wide as the title"
        assert _bottom(said) <= _bottom(row), "inside its row"
        assert _box(row.locator("time"))["y"] + 4 < _box(said)["y"], "the age stands beside the name"


def test_the_buttons_of_a_note_stand_in_one_line_on_a_phone(people: dict[str, Actor], visit: Visit) -> None:
    page = visit(size=PHONE, login="ann")
    page.goto("/read/all")
    page.locator(".row h2 a").first.click()
    expect(page.locator("#share-tools .like")).to_be_attached()
    page.keyboard.press("Shift+D")
    middles = [_box(place)["y"] + _box(place)["height"] / 2 for place in page.locator(".share-end > *").all()]
    # The audience has a line of its own, with its name.
    assert len(middles) == 3
    assert abs(middles[1] - middles[2]) < 4
    expect(page.get_by_label("Visible to")).to_be_visible()
    help_text = page.locator(".share-box .typing p")
    expect(help_text).to_be_hidden()
    page.get_by_text("Formatting", exact=True).click()
    expect(help_text).to_contain_text("@name notifies that person")


def test_a_reply_shows_its_buttons_above_the_tabs(
    site: Site, people: dict[str, Actor], shared: int, visit: Visit
) -> None:
    talk = site.services.discussion
    said = [talk.comment(people["bob"], shared, f"Comment number {n}") for n in range(12)]
    page = visit(size=PHONE, login="ann")
    for comment in (said[0], said[6], said[-1]):
        page.goto(f"/shares/{shared}/comments?answer={comment.id}")
        expect(page.get_by_label("Your reply to bob")).to_be_focused()
        send, tabs = page.get_by_role("button", name="Send"), page.locator(".tabs")
        page.wait_for_function("() => !document.querySelector('[data-attach]').hidden")
        assert _bottom(send) <= _box(tabs)["y"]
        assert _box(page.locator(".write textarea"))["y"] >= 0


def test_a_failed_test_of_the_connection_comes_first(visit: Visit) -> None:
    page = visit(routes=True)

    def fail(route: Route) -> None:
        route.fulfill(json={"ok": False})

    page.route("**/check/authorization", fail)
    page.goto("/check")
    verdict, rows = page.locator("#verdict"), page.locator(".probes > li")
    expect(verdict).to_contain_text(f"Failed tests: 1 of {rows.count()}.")
    assert rows.first.get_attribute("id") == "authorization"
    expect(rows.first.locator(".remedy")).to_be_visible()
    assert _bottom(verdict) < _box(rows.first)["y"]
    assert _bottom(verdict) < 400, "seen without scrolling"


@pytest.mark.parametrize("touch", [True, False])
def test_the_help_begins_with_swipes_where_there_are_only_fingers(
    people: dict[str, Actor], visit: Visit, touch: bool
) -> None:
    page = visit(size=PHONE, touch=touch, login="ann")
    page.goto("/read/all")
    page.keyboard.press("?")
    expect(page.locator("#help .keys")).to_be_visible()
    swipes = page.locator("#help .touches")
    if not touch:
        return expect(swipes).to_be_hidden()
    expect(swipes).to_contain_text("Pull down at the top of a list")
    assert _bottom(swipes) < _box(page.locator("#help .keys"))["y"]
    page.get_by_role("link", name="Change swipes").click()
    expect(page.locator("#o-swipe_right")).to_be_in_viewport()


def test_a_chosen_file_is_named_or_sent(site: Site, people: dict[str, Actor], visit: Visit) -> None:
    page = visit(login="ann", expect="400")
    page.goto("/settings/rules")
    field = page.locator("#f-rules-file")
    expect(page.locator("html.js")).to_be_attached()
    expect(page.get_by_role("button", name="Add", exact=True)).to_be_hidden()
    field.set_input_files({"name": "rules.json", "mimeType": "application/json", "buffer": b"[]"})
    page.wait_for_url("**/settings/rules*")
    expect(page.locator(".note, .toast").first).to_be_visible()
    page.goto("/imports")
    button = page.locator(".pick-file .btn")
    assert _box(page.locator("#f-file")) == _box(button), "the field lies over its button"
    page.locator("#f-file").focus()
    assert page.locator(".pick-file").evaluate("(it) => getComputedStyle(it).outlineStyle") == "solid"
