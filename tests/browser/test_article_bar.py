"""An article's bar and heading: what is at hand, in one line, and where the text begins."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import Site
from tests.sharing.conftest import People
from tests.support.reader import add_user, pull

Visit = Callable[..., Page]
URL = "https://one.example/feed"
TITLE = "A headline of ordinary length, which takes two lines of a text"
FEED = f"""<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>Feed one</title>
<item><title>{TITLE}</title><link>https://one.example/1</link><guid>1</guid>
<comments>https://one.example/1#comments</comments>
<dc:creator>urdu@one.example</dc:creator>
<pubDate>Tue, 05 Mar 2024 10:00:00 GMT</pubDate>
<description>&lt;p&gt;{"Text of one. " * 200}&lt;/p&gt;</description></item>
<item><guid isPermaLink="false">2</guid><dc:creator>Ada Lovelace</dc:creator><link>https://one.example/2</link>
<pubDate>Tue, 05 Mar 2024 09:00:00 GMT</pubDate>
<description>&lt;p&gt;Only a text, which no title announces.&lt;/p&gt;</description></item>
</channel></rss>""".encode()
SIZES = [(390, 844), (720, 900), (1024, 768), (1440, 900)]


@pytest.fixture
def ann(site: Site) -> Actor:
    actor = add_user(site.services)
    feed = site.services.subscriptions.subscribe(actor, URL).subscription.feed_id
    pull(site.services, [feed], {URL: FEED})
    return actor


def _open(page: Page, title: str = TITLE) -> None:
    page.locator("#rows .row", has_text=title).locator("h2 a").click()
    expect(page.locator("#article .prose")).to_be_visible()


@pytest.mark.parametrize(("size", "most"), [((1440, 900), 200), ((390, 844), 190)])
def test_the_text_begins_near_the_top(visit: Visit, ann: Actor, size: tuple[int, int], most: int) -> None:
    page = visit(login="ann", size=size)
    _open(page)
    heading, text = page.locator("#entry-title"), page.locator("#article .prose p").first
    lines = heading.evaluate("(h) => h.offsetHeight / parseFloat(getComputedStyle(h).lineHeight)")
    assert round(lines) == 2
    box = text.bounding_box()
    assert box
    assert box["y"] <= most
    assert "@" not in page.locator("#article header").inner_text()


@pytest.mark.parametrize("language", ["en", "de", "ar"])
def test_the_foot_is_one_row_beside_a_list(visit: Visit, ann: Actor, site: Site, language: str) -> None:
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", language=language)
    _open(page)
    site_link = page.locator("#article footer [rel] > span").first
    for more in ("", "long-name." * 9):
        site_link.evaluate("(link, more) => link.append(more)", more)
        tops = page.locator("#article footer > :visible").evaluate_all(
            "(all) => all.map((one) => Math.round(one.getBoundingClientRect().top))"
        )
        assert len(tops) == 4
        assert len(set(tops)) == 1
        assert page.locator("#article footer").evaluate("(foot) => foot.scrollWidth <= foot.clientWidth")


@pytest.mark.parametrize("language", ["en", "de", "ru"])
@pytest.mark.parametrize("size", SIZES)
def test_no_button_of_the_foot_breaks_or_cuts_its_words(
    visit: Visit, ann: Actor, site: Site, language: str, size: tuple[int, int]
) -> None:
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", language=language, size=size)
    _open(page)
    buttons = page.locator("#article footer .btn:visible")
    heights = buttons.evaluate_all("(all) => all.map((one) => one.offsetHeight)")
    assert len(heights) == 4
    assert max(heights) <= 46
    # Only the name of the site may be cut, at the end of the first.
    assert buttons.locator("span").last.evaluate("(one) => one.scrollWidth <= one.clientWidth + 1")
    assert page.locator("#article footer").evaluate("(foot) => foot.scrollWidth <= foot.clientWidth")


def test_the_name_of_the_feed_is_whole_on_paper(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    _open(page)
    page.emulate_media(media="print")
    first = page.locator("#article .source").evaluate("""(line) => {
      const range = document.createRange();
      range.selectNodeContents(line.querySelector("a"));
      return range.getBoundingClientRect().left - line.parentElement.getBoundingClientRect().left;
    }""")
    assert first >= 0


@pytest.mark.parametrize("size", SIZES)
def test_the_bar_is_one_line_of_named_buttons(visit: Visit, ann: Actor, size: tuple[int, int]) -> None:
    page = visit(login="ann", size=size)
    _open(page)
    bar = page.locator("#article > .bar")
    tops = bar.locator(".tool:visible").evaluate_all(
        """(all) => all.map((one) => one.getBoundingClientRect())
            .map((box) => [box.top + box.height / 2, box.left, box.right])"""
    )
    assert max(top for top, _left, _right in tops) - min(top for top, _left, _right in tops) < 2
    assert min(left for _top, left, _right in tops) >= 0
    assert max(right for _top, _left, right in tops) <= size[0]
    for name in ("Star (s)", "Like (l)", "Share (Shift+S)", "Theme and text (Shift+F)"):
        expect(bar.get_by_title(name, exact=True)).to_be_visible()
    bar.get_by_title("More", exact=True).click()
    for name in ("Copy link", "Send by email", "Print", "Tag", "Mark above as read", "Feed settings"):
        role: Any = "link" if name in ("Send by email", "Feed settings") else "button"
        expect(bar.locator(".menu-box").get_by_role(role, name=name, exact=True)).to_be_visible()
    box = bar.locator(".menu[open] .menu-box").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]


def test_an_entry_without_a_title_has_a_heading_that_repeats_no_text(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    _open(page, "Only a text")
    heading = page.locator("#entry-title")
    expect(heading).to_be_visible()
    expect(heading).to_have_text("Post by Ada Lovelace")
    expect(page.locator("#article .source")).not_to_contain_text("Ada")
    assert page.locator("#article").inner_text().count("Only a text") == 1


def test_a_note_is_shown_on_the_article_after_sharing(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    _open(page)
    page.keyboard.press("Shift+D")
    page.locator("#share-words").fill("Well *said*\n> indeed")
    page.keyboard.press("Control+Enter")
    own = page.locator("#share .own")
    expect(own).to_contain_text("You shared this · Everyone")
    expect(own.locator(".note-text em")).to_have_text("said")
    expect(own.locator("blockquote")).to_have_text("indeed")
    own.get_by_role("button", name="Edit").click()
    expect(page.locator("#share-words")).to_be_focused()
    own.get_by_role("button", name="Unshare").click()
    expect(own).to_have_count(0)
    expect(page.locator("#share-tools .share-btn")).to_be_visible()


def test_the_tags_are_written_from_the_menu(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", size=(390, 844))
    _open(page)
    page.get_by_title("More", exact=True).locator("visible=true").click()
    page.locator("#article > .bar [data-key=tag]").click()
    expect(page.locator("#tag-name")).to_be_focused()
    page.locator("#tag-name").fill("Later")
    page.keyboard.press("Enter")
    expect(page.locator("#tags > a.tag")).to_have_text(["Later"])


def _choose(page: Page, name: str) -> None:
    page.locator("#article > .bar").get_by_title("More", exact=True).click()
    page.locator("#article > .bar .menu-box").get_by_text(name, exact=True).click()


def test_an_article_is_printed_and_sent_by_the_systems_share_sheet(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    _open(page)
    bar = page.locator("#article > .bar")
    bar.get_by_title("More", exact=True).click()
    sheet = page.evaluate("!!navigator.share")
    expect(bar.get_by_role("button", name="Send…")).to_be_visible(visible=sheet)
    page.add_init_script(
        "window.done = []; window.print = () => done.push('print');"
        "navigator.share = async (what) => void done.push(what)"
    )
    page.reload()
    expect(page.locator("#article .prose")).to_be_visible()
    _choose(page, "Send…")
    _choose(page, "Print")
    done = page.evaluate("window.done")
    assert done == [{"title": TITLE, "url": "https://one.example/1"}, "print"]


def test_an_entry_that_somebody_shared_is_reported_from_its_menu(site: Site, visit: Visit) -> None:
    people = People(site.services)
    ann, bob = (add_user(site.services, name) for name in ("ann", "bob"))
    (entry,) = people.blog([bob])
    people.open(bob)
    share = site.services.sharing.share(bob, entry).share
    people.follow(ann, "bob")
    page = visit(login="ann")
    page.goto(f"/read/following?entry={share.id}")
    _choose(page, "Report")
    page.get_by_role("radio").first.check()
    page.locator("main").get_by_role("button", name="Send report").click()
    page.wait_for_url(lambda address: "/report" not in address)
    assert site.services.store.database["reports"].count_documents({}) == 1


def test_without_scripts_the_bar_has_links_and_forms(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", js=False)
    page.locator("#rows h2 a", has_text=TITLE).click()
    bar = page.locator("#article > .bar")
    bar.get_by_title("More", exact=True).click()
    expect(bar.get_by_role("link", name="Send by email")).to_have_attribute(
        "href", re.compile("^mailto:.*one.example%2F1")
    )
    expect(bar.get_by_role("link", name="Feed settings")).to_be_visible()
    bar.get_by_role("button", name="Mark below as read").click()
    expect(page.locator("#rows .row.is-read")).not_to_have_count(0)
    page.locator("#article .share-btn").click()
    expect(page.locator("#share")).to_contain_text("You shared this")


@pytest.mark.parametrize("size", SIZES)
def test_the_line_above_a_title_cuts_no_name(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    url = "https://two.example/feed"
    body = FEED.replace(b"<title>Feed one", b"<title>News from the northern islands")
    body = body.replace(TITLE.encode(), b"By somebody")
    body = body.replace(b"urdu@one.example", b"Wilhelmina Featherstonehaugh")
    pull(site.services, [site.services.subscriptions.subscribe(ann, url).subscription.feed_id], {url: body})
    page = visit(login="ann", size=size)
    _open(page, "By somebody")
    source = page.locator("#article .source")
    expect(source).to_contain_text("Wilhelmina Featherstonehaugh")
    cut = source.locator("a, .by, time").evaluate_all(
        "(all) => all.filter((one) => one.scrollWidth > one.clientWidth)"
    )
    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
