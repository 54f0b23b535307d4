"""Three people at once: one shares, the others see it, pass it on, and find out who had it from whom."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.browser.conftest import PHONE, Site
from tests.browser.test_keys import stop_clock
from tests.support.reader import add_user, pull, rss

URL = "https://blog.example/feed"


def begin(site: Site) -> dict[str, Actor]:
    """Make ann, who reads a blog, bob, who follows ann, and cleo, who follows bob."""
    services = site.services
    people = {name: add_user(services, name) for name in ("ann", "bob", "cleo")}
    feed = services.subscriptions.subscribe(people["ann"], URL).subscription.feed_id
    pull(services, [feed], {URL: rss("A blog", [(f"Entry {n}", f"<p>Text of {n}.</p>") for n in range(3)])})
    for actor in people.values():
        services.following.update_profile(
            actor, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
        )
    services.following.follow(people["bob"], "ann")
    services.following.follow(people["cleo"], "bob")
    return people


@pytest.fixture
def people(site: Site) -> dict[str, Actor]:
    return begin(site)


def test_an_entry_goes_from_hand_to_hand_by_one_key(
    people: dict[str, Actor], visit: Callable[..., Page]
) -> None:
    ann = visit(login="ann")
    ann.keyboard.press("j")
    expect(ann.locator("#entry-title")).to_have_text("Entry 0")
    ann.keyboard.press("Shift+D")
    note = ann.locator(".share-box textarea")
    expect(note).to_be_focused()
    note.fill("You must <b>read</b> this: https://example.org/x")
    note.press("Control+Enter")
    expect(ann.locator("#toasts")).to_contain_text("Shared with everyone")
    expect(ann.locator("#share")).to_contain_text("You shared this")

    bob = visit(login="bob")
    bob.locator(".tree a[href='/read/following']").click()
    expect(bob.locator(".pane-list h1")).to_have_text("Following")
    row = bob.locator("#rows .row")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("ann")
    expect(row).to_contain_text("You must <b>read</b> this")
    bob.keyboard.press("j")
    expect(bob.locator(".prose")).to_have_text("Text of 0.")
    expect(bob.locator(".sharer a[href='https://example.org/x']")).to_be_visible()
    expect(bob.locator(".tree a[href='/read/following'] b")).to_have_text("")
    bob.keyboard.press("Shift+D")
    bob.locator(".share-box textarea").fill("x")
    bob.keyboard.press("Escape")
    bob.locator("#article").focus()
    bob.keyboard.press("Shift+S")
    expect(bob.locator("#share")).to_contain_text("You shared this")

    cleo = visit(login="cleo")
    with cleo.expect_response("**/entries/mark"):
        cleo.keyboard.press("j")
    expect(cleo.locator(".sharer")).to_contain_text("bob")
    expect(cleo.locator(".sharer .via")).to_contain_text("ann")

    bob.keyboard.press("Shift+S")
    expect(bob.locator("#toasts")).to_contain_text("No longer shared")
    cleo.goto("/read/all")
    expect(cleo.locator("#rows .row")).to_have_count(0)
    bob.keyboard.press("z")
    expect(bob.locator("#share")).to_contain_text("You shared this")
    cleo.goto("/read/following")
    expect(cleo.locator("#rows .row")).to_have_count(1)


def test_a_note_is_edited_and_a_share_narrowed_with_the_mouse_alone(
    people: dict[str, Actor], visit: Callable[..., Page]
) -> None:
    ann = visit(login="ann")
    ann.locator("#rows .row h2 a").first.click()
    ann.locator(".share-btn").click()
    share = ann.locator("#share")
    expect(share).to_contain_text("You shared this · Everyone")
    tools = ann.locator("#share-tools")
    tools.locator(".share-menu > summary").click()
    tools.locator("textarea").fill("Only for me")
    tools.locator("select").select_option("private")
    tools.get_by_role("button", name="Save").click()
    expect(share).to_contain_text("Only me")
    expect(share).to_contain_text("edited")
    bob = visit(login="bob")
    expect(bob.locator("#rows .row")).to_have_count(0)
    expect(bob.locator("body")).not_to_contain_text("Only for me")


def test_buttons_in_a_menu_keep_their_look(people: dict[str, Actor], visit: Callable[..., Page]) -> None:
    ann = visit(login="ann")
    ann.keyboard.press("j")
    ann.keyboard.press("Shift+D")
    end = ann.locator(".share-end")
    buttons = [end.get_by_text("Add pictures"), end.get_by_role("button", name="Share")]
    heights = {round(one.bounding_box()["height"]) for one in [*buttons, end.locator("select")]}
    assert len(heights) == 1
    for one in buttons:
        expect(one).not_to_have_css("border-top-width", "0px")


def test_a_note_that_was_begun_outlives_a_like(people: dict[str, Actor], visit: Callable[..., Page]) -> None:
    ann = visit(login="ann")
    ann.keyboard.press("j")
    expect(ann.locator("#entry-title")).to_have_text("Entry 0")
    ann.keyboard.press("Shift+D")
    note = ann.locator(".share-box textarea")
    note.fill("Begun")
    ann.locator("#share-tools").get_by_role("button", name="Like").click()
    expect(ann.locator("#say")).to_have_text("Liked")
    expect(note).to_have_value("Begun")
    ann.locator("#share-tools .share-menu > summary").click()
    ann.locator(".share-box").get_by_role("button", name="Share").click()
    expect(ann.locator("#share")).to_contain_text("You shared this")
    expect(note).to_have_value("Begun")


def test_sharing_works_without_scripts_and_on_a_phone(
    people: dict[str, Actor], visit: Callable[..., Page]
) -> None:
    ann = visit(login="ann", js=False, size=PHONE)
    ann.locator("#rows .row h2 a").first.click()
    ann.locator(".share-btn").click()
    expect(ann.locator(".toast")).to_contain_text("Shared with everyone")
    ann.goto("/read/shares")
    expect(ann.locator("#rows .row")).to_have_count(1)
    ann.goto("/compose")
    ann.locator("#note").fill("Hello\n\nworld")
    ann.get_by_role("button", name="Publish").click()
    expect(ann.locator("#rows .row")).to_have_count(2)
    ann.locator("#rows .row h2 a").first.click()
    expect(ann.locator(".prose p")).to_have_text(["Hello", "world"])
    ann.locator("#share").get_by_role("button", name="Unshare").click()
    expect(ann.locator(".toast")).to_contain_text("No longer shared")
    ann.locator(".toast button").click()
    ann.goto("/read/shares")
    expect(ann.locator("#rows .row")).to_have_count(2)


def test_keys_lead_to_what_is_shared_and_followed(
    people: dict[str, Actor], visit: Callable[..., Page]
) -> None:
    bob = visit(login="bob")
    _strokes(bob, "g", "Shift+S")
    expect(bob).to_have_url(re.compile("/read/shares$"))
    expect(bob.locator(".pane-list .empty")).to_contain_text("No shares yet")
    bob.wait_for_load_state()
    _strokes(bob, "g", "Shift+F")
    expect(bob).to_have_url(re.compile("/read/following$"))
    expect(bob.locator(".pane-list .empty")).to_contain_text("Nothing here yet")
    bob.wait_for_load_state()
    bob.keyboard.press("Shift+S")
    expect(bob.locator("#say")).to_have_text("Select an entry first")


def _strokes(page: Page, *strokes: str) -> None:
    """Press keys one after the other, however slow the machine is between them."""
    stop_clock(page)
    for stroke in strokes:
        page.keyboard.press(stroke)
    page.clock.resume()
