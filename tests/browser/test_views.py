"""Three views of a stream and their memory; borders that move; what can be taken back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.test_list_rules import URLS, read_ones, subscribe, titles, unread
from tests.support.reader import add_user

Visit = Callable[..., Page]
Eventually = Callable[..., object]
#: Waits until the script that a border brings when one comes near is at work.
SPLIT = "import(document.querySelector('.split').dataset.script).then(() => null)"


@pytest.fixture
def ann(site: Site) -> Actor:
    actor = add_user(site.services)
    subscribe(site, actor, 40)
    subscribe(site, actor, 4, URLS[1])
    return actor


def shown(page: Page, view: str, density: str) -> None:
    pane = page.locator(".pane-list")
    expect(pane).to_have_attribute("data-view", view)
    expect(pane).to_have_attribute("data-density", density)


def test_views_are_switched_by_keys_and_kept_per_stream(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    before = titles(page)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text(before[0])
    page.keyboard.press("2")
    shown(page, "list", "cozy")
    # The same rows, the same chosen one; it was read since and stays where it is.
    assert titles(page) == before
    assert read_ones(page) == before[:1]
    expect(page.locator(".row[aria-current] h2")).to_contain_text(before[0])
    expect(page.locator(".pane-article")).to_be_hidden()
    page.keyboard.press("1")
    shown(page, "expanded", "expanded")
    expect(page.locator(".row .prose").first).to_contain_text("Text of")
    page.locator(".tree a", has_text="Feed two").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    shown(page, "panes", "cozy")
    page.reload()
    shown(page, "panes", "cozy")
    page.goto("/read/all")
    shown(page, "expanded", "expanded")
    page.keyboard.press("3")
    shown(page, "panes", "cozy")


def test_views_are_switched_by_the_menu(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.wait_for_load_state("networkidle")

    def choose(words: str) -> None:
        page.locator(".pane-list summary[aria-label=View]").click()
        page.get_by_role("button", name=words, exact=True).click()

    choose("List")
    shown(page, "list", "cozy")
    choose("Compact")
    shown(page, "list", "compact")
    first = titles(page)[0]
    choose("Oldest first")
    expect(page.locator("#rows .row").first).not_to_contain_text(first)
    assert page.url.endswith("/read/all")


def test_rows_have_the_height_of_their_density(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    for value, least, most in (("compact", 32, 33), ("cozy", 56, 57), ("card", 84, 112)):
        page.locator(".pane-list summary").first.click()
        page.locator(f".menu-box button[value={value}]").click()
        expect(page.locator(".pane-list")).to_have_attribute("data-density", value)
        heights = page.eval_on_selector_all("#rows .row", "(all) => all.map((row) => row.offsetHeight)")
        assert all(least <= height <= most for height in heights), (value, set(heights))


def test_an_entry_opens_over_the_list_and_leaves_it_in_place(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.keyboard.press("2")
    shown(page, "list", "cozy")
    row = page.locator(".row h2 a").nth(30)
    row.scroll_into_view_if_needed()
    place = page.locator(".pane-list").evaluate("(pane) => pane.scrollTop")
    assert place > 0
    name = titles(page)[30]
    row.click()
    expect(page.locator("#entry-title")).to_have_text(name)
    expect(page.locator("#entry-title")).to_be_focused()
    expect(page.locator("#rows")).to_be_hidden()
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text(titles(page)[31])
    page.keyboard.press("k")
    page.keyboard.press("Escape")
    expect(page.locator("#rows")).to_be_visible()
    expect(row).to_be_focused()
    assert page.locator(".pane-list").evaluate("(pane) => pane.scrollTop") == pytest.approx(place, abs=60)


def test_whole_texts_are_read_by_the_same_keys(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    before = titles(page)
    page.keyboard.press("1")
    shown(page, "expanded", "expanded")
    expect(page.locator("#rows .row")).to_have_count(10)
    for name in before[:3]:
        page.keyboard.press("j")
        expect(page.locator(".row[aria-current] h2")).to_contain_text(name)
    page.keyboard.press("m")
    assert read_ones(page) == before[:2]
    eventually(lambda: unread(site, ann) == 42)
    # The chosen one stands at the top, under the bar.
    top = page.locator(".row[aria-current]").evaluate("(row) => row.getBoundingClientRect().top")
    assert 0 <= top <= 80
    for name in before[3:12]:
        page.keyboard.press("j")
        expect(page.locator(".row[aria-current] h2")).to_contain_text(name)
    expect(page.locator("#rows .row")).to_have_count(20)
    page.keyboard.press("o")
    expect(page.locator("#entry-title")).to_have_text(before[11])
    page.keyboard.press("Escape")
    expect(page.locator("#rows")).to_be_visible()


def test_unread_only_keeps_what_is_read_until_one_returns(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    page.locator(".tree a", has_text="Feed two").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    page.locator(".pane-list summary").first.click()
    page.locator(".menu-box button[value=unread]").click()
    expect(page.locator(".menu-box button[value=unread]")).to_have_attribute("aria-pressed", "true")
    for name in titles(page):
        page.keyboard.press(".")
        expect(page.locator("#entry-title")).to_have_text(name)
    assert len(titles(page)) == 4
    expect(page.locator(".end-line")).to_be_visible()
    eventually(lambda: unread(site, ann) == 40)
    page.goto(page.url.partition("?")[0])
    caught_up = page.locator(".pane-list .empty")
    expect(caught_up.get_by_role("heading")).to_have_text("All caught up")
    widths = caught_up.locator(".btn:visible").evaluate_all("(all) => all.map((one) => one.offsetWidth)")
    assert len(set(widths)) == 1
    expect(page.locator("#rows .row")).to_have_count(0)
    # No key would open anything here; another one goes on.
    expect(page.locator("#article")).to_contain_text("Nothing left to read here")
    expect(page.locator("#article kbd")).to_have_text(["Shift+J", "?"])
    for one in caught_up.get_by_role("link").or_(caught_up.get_by_role("button")).all():
        assert one.bounding_box()["height"] <= 44  # type: ignore[index]
    page.get_by_role("link", name="Show read entries").click()
    expect(page.locator("#rows .row")).to_have_count(4)
    page.go_back()
    page.get_by_role("button", name="Next unread feed").click()
    expect(page.locator(".pane-list h1")).not_to_have_text("Feed two")


def test_borders_move_by_pointer_and_arrows_and_stay(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    bar = page.get_by_role("separator", name="Width of the entry list")
    width = "document.querySelector('.pane-list').offsetWidth"
    before = page.evaluate(width)
    box = bar.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, 400)
    page.evaluate(SPLIT)
    page.mouse.down()
    page.mouse.move(box["x"] + 104, 400, steps=4)
    page.mouse.up()
    assert page.evaluate(width) == pytest.approx(before + 100, abs=6)
    bar.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(width) == pytest.approx(before + 52, abs=6)
    now = page.evaluate(width)
    expect(bar).to_have_attribute("aria-valuenow", str(now))
    page.reload()
    page.wait_for_function(f"(now) => {width} === now", arg=now)
    # In a page written from the right, the arrow that widens is the other one.
    page.evaluate("document.documentElement.dir = 'rtl'")
    bar.focus()
    page.evaluate(SPLIT)
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(width) == now + 24
    page.keyboard.press("Home")
    assert page.evaluate(width) == 300


def test_without_scripts_views_and_the_history_work_by_forms(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(js=False, login="ann")
    page.locator(".pane-list summary").first.click()
    page.get_by_role("button", name="Expanded").click()
    shown(page, "expanded", "expanded")
    expect(page.locator(".row .prose")).to_have_count(10)
    page.get_by_role("link", name="Load more").click()
    expect(page.locator(".row .prose")).to_have_count(10)
    page.locator(".row h2 a").first.click()
    expect(page.locator("#entry-title")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()
    page.get_by_role("button", name="Mark all as read").click()
    page.goto("/history")
    expect(page.locator(".lines li")).to_contain_text("All entries: 44 entries marked as read")
    page.get_by_role("button", name="Undo").click()
    expect(page).to_have_url(re.compile("/history$"))
    expect(page.locator("#main h2")).to_have_text("Nothing to undo")
    assert unread(site, ann) == 44


def test_on_a_phone_every_view_has_one_pane(visit: Visit, ann: Actor) -> None:
    page = visit(size=PHONE, login="ann")
    for view in ("list", "expanded", "panes"):
        page.goto(f"/read/all?view={view}")
        expect(page.locator("#rows")).to_be_visible()
        expect(page.locator(".pane-article")).to_be_hidden()
        page.locator(".row h2 a").nth(1).click()
        expect(page.locator("#entry-title")).to_be_visible()
        expect(page.locator("#rows")).to_be_hidden()
        page.get_by_role("link", name="Back to the list").click()
        expect(page.locator("#rows")).to_be_visible()
    # The tree is not in sight, and still the next feed is found.
    page.keyboard.press("Shift+J")
    expect(page.locator(".pane-list h1")).to_have_text(re.compile("^Feed"))


@pytest.mark.parametrize("how", ["key", "leaving"])
def test_times_are_those_of_the_device(
    site: Site, visit: Visit, ann: Actor, how: str, eventually: Eventually
) -> None:
    page = visit(login="ann", zone="Asia/Tokyo")
    when = page.locator(".row time").first
    expect(when).to_have_attribute("title", re.compile("UTC$"))
    here = when.get_attribute("title")
    if how == "key":
        page.keyboard.press("j")
        eventually(lambda: "zone=Asia/Tokyo" in page.evaluate("document.cookie"))
    page.reload()
    if how == "leaving":
        page.reload()  # what a page tells when it is left, the next request may not know yet
    expect(when).not_to_have_attribute("title", re.compile("UTC$"))
    assert when.get_attribute("title") != here


def test_rows_are_as_high_as_their_density_says_under_a_finger_too(visit: Visit, ann: Actor) -> None:
    """Nothing to touch is less than 44 px high, and no row is higher than its lines for that."""
    for size, lowest in ((PHONE, {"compact": 44, "cozy": 56}), (WIDE, {"compact": 32, "cozy": 56})):
        page = visit(login="ann", size=size)
        for density, height in lowest.items():
            page.goto(f"/read/all?view=panes&density={density}")
            row = page.locator("#rows .row").first
            expect(row).to_be_visible()
            # A line below each is a part of it.
            assert height <= row.evaluate("(row) => row.getBoundingClientRect().height") <= height + 1
            star = row.locator(".star").evaluate("(star) => star.getBoundingClientRect().height")
            assert star >= 24
