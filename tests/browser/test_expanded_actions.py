"""The actions at the end of whole texts in a list: each is about its row, and none leaves the list."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from app.models.accounts.actor import Actor
from tests.browser import axe
from tests.browser.conftest import Site
from tests.sharing.conftest import People
from tests.support.reader import add_user

Visit = Callable[..., Page]
EXPANDED = "/read/all?view=expanded"
#: Names of elements that there aren't, or that there are twice.
_ASTRAY = """() => ["for", "list", "aria-describedby", "aria-labelledby"].flatMap((name) =>
  [...document.querySelectorAll(`#rows [${name}]`)].flatMap((one) => one.getAttribute(name).split(" ")))
  .concat([...document.querySelectorAll("[id]")].map((one) => one.id))
  .filter((id) => document.querySelectorAll(`[id="${id}"]`).length !== 1)"""


@pytest.fixture
def ann(site: Site) -> Actor:
    people = People(site.services)
    ann = add_user(site.services)
    people.blog([ann], 4)
    people.open(ann)
    return ann


def _row(page: Page, at: int) -> Locator:
    row = page.locator("#rows .row").nth(at)
    expect(row.locator(".act-line")).to_be_visible()
    return row


@pytest.mark.parametrize("size", [(390, 844), (720, 900), (1024, 768), (1440, 900)])
def test_each_whole_text_has_all_actions(visit: Visit, ann: Actor, size: tuple[int, int]) -> None:
    page = visit(login="ann", size=size)
    page.goto(EXPANDED)
    row = _row(page, 1)
    for name in "Like", "Share", "Share with a note", "Tag":
        tool = row.locator(".act-line").get_by_label(name, exact=True)
        expect(tool).to_be_visible()
        box = tool.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]


def test_actions_are_about_their_row_and_stay_in_the_list(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto(EXPANDED)
    # What selects a row loads after the page: a click before only does what it says.
    page.evaluate("async () => void (await import(document.querySelector('.pane-list').dataset.script))")
    address = page.url
    row, other = _row(page, 1), _row(page, 2)
    row.locator(".like").click()
    expect(row.locator(".like")).to_have_attribute("aria-pressed", "true")
    expect(row).to_have_attribute("aria-current", "true")
    row.locator(".act-line").get_by_label("Share", exact=True).click()
    expect(row).to_contain_text("You shared this · Everyone")
    other.get_by_label("Share with a note").click()
    expect(other.locator("#share-words")).to_be_focused()
    field, box = other.locator("#share-words").bounding_box(), other.locator(".share-box").bounding_box()
    assert field
    assert box
    assert field["width"] > 0.9 * box["width"]
    page.keyboard.type("Well said")
    page.keyboard.press("Control+Enter")
    expect(other.locator(".note-text")).to_have_text("Well said")
    other.locator(".act-line").get_by_label("Tag").click()
    expect(other.locator("#tag-name")).to_be_focused()
    page.keyboard.type("later")
    page.keyboard.press("Enter")
    expect(other.locator("#tags > a.tag")).to_have_text(["later"])
    other.locator(".comments").click()
    expect(other.locator("textarea[name=text]")).to_be_focused()
    page.keyboard.type("First")
    page.keyboard.press("Control+Enter")
    expect(other.locator(".said .prose")).to_have_text("First")
    expect(other.locator(".comments b")).to_have_text("1")
    # The row before kept what was done to it, and the names of its fields; its buttons still work.
    row.locator(".like").click()
    expect(row.locator(".like")).to_have_attribute("aria-pressed", "false")
    expect(row.locator("#share-words")).to_have_count(1)
    other.locator(".share-menu > summary").click()
    expect(other.get_by_label("Your comment")).to_be_visible()
    expect(other.get_by_label("Your note", exact=True)).to_have_accessible_description(re.compile("emphasis"))
    assert page.evaluate(_ASTRAY) == []
    assert list(axe.faults(page, axe.RULES)) == []
    assert page.url == address
    page.reload()
    expect(_row(page, 1).locator(".act-line .own")).to_have_attribute("aria-pressed", "true")


def test_keys_share_the_selected_text_within_the_list(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto(EXPANDED)
    page.keyboard.press("j")
    expect(page.locator("#rows .row").first).to_have_attribute("aria-current", "true")
    page.keyboard.press("Shift+S")
    expect(page.locator("#rows .row").first).to_contain_text("You shared this")
    page.keyboard.press("c")
    expect(page.locator("#rows .row").first.locator("textarea[name=text]")).to_be_focused()
    assert "entry=" not in page.url
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    expect(page.locator("#article #share")).to_contain_text("You shared this")
    expect(page.locator("#share")).to_have_count(1)


def test_without_scripts_the_actions_are_forms_and_links(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", js=False)
    page.goto(EXPANDED)
    _row(page, 0).locator(".like").click()
    expect(_row(page, 0).locator(".like")).to_have_attribute("aria-pressed", "true")
    _row(page, 0).locator(".share-btn").click()
    expect(_row(page, 0).locator(".act-line .own")).to_be_visible()
    _row(page, 0).get_by_label("Comments").click()
    expect(page.get_by_label("Your comment")).to_be_visible()


@pytest.mark.parametrize("measure", ["narrow", "medium", "wide"])
@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_a_row_ends_where_its_text_does(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int], measure: str
) -> None:
    site.services.accounts.set_preferences(ann, {"text_width": measure})
    page = visit(login="ann", size=size)
    page.goto(EXPANDED)
    row = _row(page, 1)
    text, sign = row.locator(".prose").first.bounding_box(), row.locator(".end .icon").last.bounding_box()
    assert text
    assert sign
    assert sign["x"] + sign["width"] == pytest.approx(text["x"] + text["width"], abs=2)


def test_a_checked_sign_says_that_an_entry_is_read(visit: Visit, ann: Actor) -> None:
    """What is still to do has no color of something done."""
    page = visit(login="ann")
    page.goto(EXPANDED)
    color = "(e) => getComputedStyle(e).color"
    sign = _row(page, 1).locator("[data-act=read] .tool")
    done = page.locator(".brand .icon").first.evaluate(color)
    assert sign.get_attribute("aria-pressed") == "true"
    assert sign.evaluate(color) != done
    sign.click()
    page.mouse.move(0, 0)
    expect(sign).to_have_attribute("aria-pressed", "false")
    assert sign.evaluate(color) == done
