"""Highlights in the reader: selecting text shows a bar, and highlights stay in other texts of the entry."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import Site
from tests.browser.test_full_text import bring
from tests.browser.test_list_rules import subscribe
from tests.reading.test_full_texts import Site as PageSite
from tests.support.reader import add_user

Visit = Callable[..., Page]
PHONE = (390, 844)
TEXT = "<p>Old roofs <em>curve</em> toward the rain.</p><p>Nobody builds them.</p>"


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


def _open(page: Page) -> None:
    page.locator(".row a").first.click()
    expect(page.locator("#article .prose").first).to_be_visible()


def _select(page: Page, first: str, last: str) -> None:
    """Select text from the beginning of one word to the end of another, as a pointer does."""
    page.locator("#article .prose").first.evaluate(
        """(prose, [first, last]) => {
          const walker = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
          const range = document.createRange();
          while (walker.nextNode()) {
            const { data } = walker.currentNode;
            if (data.includes(first)) range.setStart(walker.currentNode, data.indexOf(first));
            if (data.includes(last)) range.setEnd(walker.currentNode, data.indexOf(last) + last.length);
          }
          getSelection().removeAllRanges();
          getSelection().addRange(range);
          document.dispatchEvent(new PointerEvent("pointerup", { bubbles: true }));
        }""",
        [first, last],
    )


@pytest.mark.parametrize("size", [(1280, 800), PHONE])
def test_selected_text_is_highlighted_and_noted(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    subscribe(site, ann, 2, text=TEXT)
    page = visit(login="ann", size=size)
    _open(page)
    _select(page, "roofs", "toward")
    bar = page.get_by_role("toolbar", name="Selected text")
    expect(bar).to_be_in_viewport(ratio=1)
    bar.get_by_role("button", name="Highlight").click()
    marks = page.locator("#article .prose mark.hl")
    expect(marks).to_have_text(["roofs ", "curve", " toward"])
    expect(bar).to_have_count(0)
    _select(page, "builds", "them")
    bar.get_by_role("button", name="Note").click()
    field = page.locator("#notes textarea:focus")
    field.fill("Why not?")
    field.locator("xpath=ancestor::form").get_by_role("button", name="Save").click()
    expect(page.locator("#notes .own")).to_have_text("Why not?")
    expect(marks).to_have_count(4)


@pytest.mark.parametrize("size", [(1280, 800), PHONE])
def test_note_is_typed_as_soon_as_it_is_opened(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    subscribe(site, ann, 2, text=TEXT)
    page = visit(login="ann", size=size)
    _open(page)
    expect(page.locator("#notes")).to_be_attached()
    page.wait_for_load_state("networkidle")
    page.locator("#notes summary", has_text="Write a note").click()
    note = page.locator("#notes").get_by_label("Your note", exact=True)
    expect(note).to_be_focused()
    page.keyboard.type("remember")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#notes summary", has_text="Your note")).to_be_visible()
    expect(note).to_have_value("remember")


def test_bar_goes_with_the_selection(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2, text=TEXT)
    page = visit(login="ann")
    _open(page)
    _select(page, "Old", "roofs")
    bar = page.get_by_role("toolbar", name="Selected text")
    expect(bar).to_be_visible()
    page.keyboard.press("Escape")
    expect(bar).to_have_count(0)
    _select(page, "Old", "roofs")
    expect(bar).to_be_visible()
    page.evaluate("getSelection().removeAllRanges()")
    expect(bar).to_have_count(0)


def test_bar_comes_for_what_was_selected_before_its_script(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2, text=TEXT)
    page = visit(login="ann")
    held: list[Route] = []
    page.route("**/static/notes.*.js", lambda route: held.append(route))
    with page.expect_request("**/static/notes.*.js"):
        _open(page)
    _select(page, "Old", "roofs")
    expect(page.get_by_role("toolbar", name="Selected text")).to_have_count(0)
    for route in held:
        route.continue_()
    expect(page.get_by_role("toolbar", name="Selected text")).to_be_visible()


def test_passage_is_quoted_in_a_share(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2, text=TEXT)
    page = visit(login="ann")
    _open(page)
    _select(page, "curve", "toward")
    page.get_by_role("toolbar").get_by_role("button", name="Share").click()
    expect(page.locator("#note")).to_have_value("“curve toward”")


def test_highlight_stays_in_the_full_text(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2, text="Paragraph 3 of a long story.")
    page = visit(login="ann")
    _open(page)
    _select(page, "long", "story")
    page.get_by_role("toolbar").get_by_role("button", name="Highlight").click()
    expect(page.locator("#article .prose mark.hl")).to_have_text("long story")
    page.keyboard.press("d")
    bring(site, page, PageSite())
    expect(page.locator("#article .prose")).to_contain_text("Paragraph 19")
    expect(page.locator("#article .prose mark.hl")).to_have_count(1)
