"""An article on paper, in its reader's own colours, on a phone, and in a script that runs the other way."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.test_list_rules import URLS, subscribe
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
_WIDER = """(pane) => pane.scrollWidth - pane.clientWidth"""
_BEFORE = """(row, part) => getComputedStyle(row, part).backgroundColor"""


def test_an_entry_is_printed_whole_and_alone(site: Site, visit: Visit) -> None:
    subscribe(site, add_user(site.services), 3, text="<p>Words to be read on paper.</p>" * 300)
    page = visit(login="ann", size=WIDE)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    page.emulate_media(media="print")
    expect(page.locator("#entry-title")).to_be_visible()
    for hidden in ("#tree", ".pane-list", ".pane-article .bar", "#article form button"):
        expect(page.locator(hidden).first).to_be_hidden()
    assert _pages(page) > 3
    page.keyboard.press("Escape")
    expect(page.locator(".pane-list .row").first).to_be_visible()
    expect(page.locator("#article")).to_be_hidden()


def test_a_list_beyond_500_rows_is_printed_without_the_gap_that_holds_a_place(
    site: Site, visit: Visit
) -> None:
    subscribe(site, add_user(site.services), 560)
    page = visit(login="ann", size=WIDE)
    page.evaluate("(async () => { while (await eventrModules.m_list.more()); })()")
    assert page.locator("#rows .gap").last.evaluate("(gap) => gap.offsetHeight") > 1000
    page.emulate_media(media="print")
    for gap in page.locator("#rows .gap").all():
        expect(gap).to_be_hidden()


def test_of_who_shared_an_entry_names_are_printed_and_no_controls(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    subscribe(site, ann, 1)
    bob = add_user(site.services, "bob")
    site.services.subscriptions.subscribe(bob, URLS[0])
    entry = site.services.store.database["entries"].find_one() or {}
    site.services.sharing.share(bob, entry["_id"])
    site.services.following.follow(ann, "bob")
    page = visit(login="ann", size=WIDE)
    page.keyboard.press("j")
    expect(page.locator("#talk .btn")).to_be_visible()
    expect(page.locator("#chain-link")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.locator("#share .sharer")).to_contain_text("shared this")
    for control in page.locator("#article :is(.btn, .talk, .tool)").all():
        expect(control).to_be_hidden()


def _pages(page: Page) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf()))


def test_H07_a_video_asks_its_site_for_nothing_before_it_is_wanted(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    feed = site.services.subscriptions.subscribe(ann, URLS[0]).subscription.feed_id
    body = rss("Feed one", [("one 0", "<p>x</p>")])
    video = body.replace(b"https://site.example/0", b"https://www.youtube.com/watch?v=dQw4w9WgXcQ")
    pull(site.services, [feed], {URLS[0]: video})
    page = visit(login="ann", routes=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "youtube" in request.url else None)
    page.route("https://www.youtube-nocookie.com/**", lambda route: route.fulfill(body="A player"))
    page.keyboard.press("j")
    play = page.get_by_role("button", name="Play: one 0")
    play.wait_for()
    page.wait_for_load_state("networkidle")
    assert asked == []
    play.click()
    expect(page.get_by_role("dialog")).to_contain_text("Play from YouTube?")
    assert asked == []
    with page.expect_request("https://www.youtube-nocookie.com/**"):
        page.get_by_role("button", name="Play once").click()
    expect(page.locator("#article iframe")).to_be_focused()
    assert asked == ["https://www.youtube-nocookie.com/embed/dQw4w9WgXcQ"]
    expect(play).to_have_count(0)


def test_colours_of_ones_own_leave_what_is_unread_chosen_and_here(site: Site, visit: Visit) -> None:
    subscribe(site, add_user(site.services), 3)
    page = visit(login="ann", size=WIDE)
    page.emulate_media(forced_colors="active")
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_be_visible()
    chosen, other = page.locator(".row[aria-current]"), page.locator(".row").nth(1)
    canvas = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    assert other.evaluate(_BEFORE, "::before") not in (canvas, "rgba(0, 0, 0, 0)")
    assert chosen.evaluate(_BEFORE, "::before") == "rgba(0, 0, 0, 0)", "it is read"
    assert chosen.evaluate(_BEFORE, "::after") not in (canvas, "rgba(0, 0, 0, 0)")
    here = page.locator(".tree a[aria-current]")
    assert here.evaluate("(link) => getComputedStyle(link).outlineStyle") == "solid"


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_picture_that_stands_alone_is_no_wider_than_its_pane(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    text = '<img src="https://one.example/a.png" width="3000" height="800"><p>Text.</p>'
    subscribe(site, add_user(site.services), 1, text=text)
    page = visit(login="ann", size=size)
    page.locator(".row h2 a").first.click()
    expect(page.locator(".prose img")).to_be_visible()
    assert page.locator("#article").evaluate(_WIDER) <= 0


def test_lines_of_the_list_are_cut_where_their_language_ends(site: Site, visit: Visit) -> None:
    """Whatever language the feed's name is in."""
    actor = add_user(site.services)
    words = "وہ قوم جو تیس برس پہلے ڈر جاتی تھی " * 12
    feed_id = site.services.subscriptions.subscribe(actor, URLS[0]).subscription.feed_id
    pull(site.services, [feed_id], {URLS[0]: rss("BBC News", [("title", f"<p>{words}</p>")])})
    page = visit(login="ann", size=WIDE)
    line = page.locator(".row p")
    assert line.evaluate("(p) => getComputedStyle(p).direction") == "rtl"
    expect(line.locator(".src")).to_have_text("BBC News")
