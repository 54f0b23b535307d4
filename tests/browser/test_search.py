"""Searching and tagging in a real browser: lists like any other, with keys, and without a script."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from app import clock
from app.models.accounts.actor import Actor
from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.test_keys import press
from tests.support.reader import add_user, elsewhere, pull, rss

Visit = Callable[..., Page]
URL = "https://one.example/feed"


@pytest.fixture
def ann(site: Site) -> Actor:
    """A user with one feed of twelve entries, ten of them about roses, all indexed."""
    actor = add_user(site.services)
    feed_id = site.services.subscriptions.subscribe(actor, URL).subscription.feed_id
    items = [(f"Rose number {n}", f"<p>Text about the garden {n}.</p>") for n in range(10)]
    pull(site.services, [feed_id], {URL: rss("Garden", [*items, ("Tulip", "x"), ("Lily", "y")])})
    elsewhere(lambda: site.services.indexing.run(clock.now(), 30))
    return actor


def test_what_is_found_is_read_as_any_list(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.keyboard.press("/")
    field = page.get_by_role("searchbox", name="Search your feeds")
    expect(field).to_be_focused()
    field.fill('rose "the garden"')
    field.press("Enter")
    rows = page.locator("#rows .row")
    expect(rows).to_have_count(10)
    page.wait_for_load_state()  # rows are there before keys are
    expect(rows.first.locator("mark")).to_have_text(["Rose", "the garden"])
    page.locator("#stream h1").first.click()
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("Rose number 0")
    expect(rows.first).to_have_class(re.compile("is-read"))
    page.keyboard.press("Shift+A")
    expect(page.locator(".toast")).to_contain_text("9 entries marked as read")
    expect(page.locator(".tree a[data-all] b")).to_have_text("2")
    page.keyboard.press("z")
    expect(page.locator(".tree a[data-all] b")).to_have_text("11")
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.reload()
    expect(page.locator("#entry-title")).to_have_text("Rose number 0")
    page.get_by_role("button", name="Save search").click()
    saved = page.locator("#labels").get_by_role("link", name='rose "the garden"')
    expect(saved).to_have_attribute("aria-current", "page")
    page.go_back()
    page.locator("#labels").get_by_role("link", name='rose "the garden"').click()
    expect(rows).to_have_count(10)


def _filter_tags(page: Page) -> None:
    """The field filters the list by its last name, and arrow keys go through what is left."""
    field, shown = page.locator("#tag-name"), page.locator("#tag-list li:visible")
    add = page.locator("#tags .inline-form button")
    expect(shown).to_have_text(["at home", "Later"])
    field.fill("LAT")
    expect(shown).to_have_text(["Later"])
    expect(add).to_have_text("Create")
    field.fill("at home, later")
    expect(add).to_have_text("Add")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="Later", exact=True)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#tags a.tag")).to_have_text(["at home"])
    expect(shown).to_have_text(["Later"])
    page.keyboard.press("Space")
    expect(page.locator("#tags a.tag")).to_have_text(["at home", "Later"])
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    field.fill("")
    expect(shown).to_have_count(2)
    page.locator("#tags summary").click()
    expect(field).to_be_hidden()
    page.locator("#tags summary").click()
    expect(field).to_be_focused()
    page.get_by_role("button", name="at home").click()
    expect(page.locator("#tags a.tag")).to_have_text(["Later"])


def test_typing_shows_results_and_completes_names(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/search")
    field, typed = page.locator("#q"), page.locator("#typed")
    field.press_sequentially("tul")
    expect(typed).to_contain_text("No results")
    field.press_sequentially("ip")
    expect(typed.locator(".typed-rows mark")).to_have_text(["Tulip"])
    field.press_sequentially(" feed:graden")
    names = typed.locator("[data-fill]")
    expect(names).to_have_text(["Garden"])
    field.press("ArrowDown")
    expect(names).to_be_focused()
    names.press("Enter")
    expect(field).to_be_focused()
    expect(field).to_have_value("tulip feed:Garden ")
    expect(names).to_have_count(0)
    expect(typed.locator(".typed-rows a")).to_have_count(1)
    field.press("Escape")
    expect(typed).to_be_hidden()
    expect(field).to_be_focused()
    field.press("End")
    field.press("Backspace")
    expect(typed).to_be_visible()
    typed.locator(".typed-rows a").click()
    expect(page.locator("#entry-title")).to_have_text("Tulip")
    # The field above the results is the same.
    page.locator("#q").fill("lily")
    expect(page.locator("#typed .typed-rows mark")).to_have_text(["Lily"])
    page.locator("#typed .typed-all").click()
    expect(page.locator("#rows .row")).to_have_count(1)
    expect(page.locator("#typed")).to_have_count(0)


def test_a_late_answer_never_replaces_a_newer_one(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/search")
    held = list[Route]()
    page.route("**/search/typed?q=rose", lambda route: held.append(route))
    with page.expect_request("**/search/typed?q=rose"):
        page.locator("#q").fill("rose")
    page.locator("#q").fill("lily")
    expect(page.locator("#typed .typed-rows mark")).to_have_text(["Lily"])
    for route in held:
        route.fulfill(body="<p>late</p>")
    page.locator("#q").press("ArrowDown")
    expect(page.locator("#typed .typed-rows a")).to_be_focused()
    expect(page.locator("#typed")).not_to_contain_text("late")


def test_tags_are_put_on_and_taken_off(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", expect="400")
    page.locator("#rows h2 a").first.click()
    expect(page.locator("#entry-title")).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator("#tag-name")).to_be_focused()
    expect(page.locator("#tag-name")).to_have_value("")
    page.locator("#tag-name").fill("Later, at home")
    page.locator("#tag-name").press("Enter")
    expect(page.locator("#tags a.tag")).to_have_text(["at home", "Later"])
    expect(page.locator("#rows .row").first.locator(".tag")).to_have_text(["at home", "Later"])
    expect(page.locator("#labels a[data-stream] b")).to_have_text(["1", "1"])
    home = page.get_by_role("button", name="at home")
    expect(home).to_have_attribute("aria-pressed", "true")
    home.click()
    expect(page.locator("#tags a.tag")).to_have_text(["Later"])
    expect(home).to_have_attribute("aria-pressed", "false")
    expect(home).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#tags a.tag")).to_have_text(["at home", "Later"])
    _filter_tags(page)
    page.locator("#tag-name").fill("x" * 65)
    page.locator("#tag-name").press("Enter")
    expect(page.locator(".toast")).to_contain_text("A tag can have at most 64 characters")
    page.keyboard.press("Escape")
    expect(page.locator("#tags details")).not_to_have_attribute("open", "")
    page.locator("#labels a", has_text="Later").click()
    expect(page.locator("#rows .row")).to_have_count(1)
    press(page, "g+t")
    expect(page.get_by_role("heading", level=1, name="Tags", exact=True)).to_be_visible()
    bare = visit(login="ann", js=False)
    bare.goto("/tags")
    line = bare.locator(".edit-lines > li").first
    line.locator("summary").click()
    line.get_by_role("button", name="Delete, keep entries").click()
    expect(bare.locator(".toast")).to_contain_text("Tag “at home” deleted")
    expect(bare.locator(".edit-lines > li")).to_have_count(1)
    bare.get_by_role("button", name="Undo").click()
    bare.goto("/tags")
    expect(bare.locator(".edit-lines > li")).to_have_count(2)


def test_a_found_word_behind_the_end_of_its_line_leaves_nothing_there(site: Site, visit: Visit) -> None:
    actor = add_user(site.services)
    feed_id = site.services.subscriptions.subscribe(actor, URL).subscription.feed_id
    title = "Of all that grows in the gardens of this town and of the next, as far as one can walk"
    items = [(f"{title[:length]} rosebush", "x") for length in range(52, len(title))]
    pull(site.services, [feed_id], {URL: rss("Garden", items)})
    elsewhere(lambda: site.services.indexing.run(clock.now(), 30))
    page = visit(login="ann", size=PHONE)
    page.goto("/search?q=rosebush")
    expect(page.locator("#rows mark").first).to_have_text("rosebush")
    before = page.screenshot()
    hidden = page.locator("#rows h2 a").evaluate_all(
        """(links) => links.filter((a) => {
          const mark = a.querySelector("mark"), first = document.createRange();
          first.setStart(mark.firstChild, 0);
          first.setEnd(mark.firstChild, 1);
          a.style.overflow = "visible"; // else what is cut has no place
          const cut = first.getBoundingClientRect().top >= a.getBoundingClientRect().bottom - 2;
          a.style.overflow = "";
          if (cut) mark.replaceWith(...mark.childNodes);
          return cut;
        }).length"""
    )
    assert hidden
    assert page.screenshot() == before


@pytest.mark.parametrize("size", [WIDE, (1024, 768), PHONE])
def test_a_found_passage_is_in_sight(site: Site, visit: Visit, size: tuple[int, int]) -> None:
    ann = add_user(site.services)
    feed_id = site.services.subscriptions.subscribe(ann, URL).subscription.feed_id
    text = f"<p>{'Words that come before the passage, and more of them. ' * 4}A needle is here.</p>"
    pull(site.services, [feed_id], {URL: rss("A feed with a long name", [("A headline", text)])})
    elsewhere(lambda: site.services.indexing.run(clock.now(), 30))
    page = visit(login="ann", size=size)
    page.goto("/search?q=needle")
    mark, line = page.locator("#rows .row .text mark"), page.locator("#rows .row p")
    expect(mark).to_have_text("needle")
    expect(page.locator("#stream .sub")).to_have_text("1 entry")
    seen, room = mark.bounding_box(), line.bounding_box()
    assert seen
    assert room
    assert seen["x"] + seen["width"] <= room["x"] + room["width"]
    assert seen["y"] + seen["height"] <= room["y"] + room["height"] + 1
