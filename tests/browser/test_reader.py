"""The reading screen in a real browser: keys, marks, undo, history, and a list that stays still."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.test_keys import press
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
URLS = ("https://one.example/feed", "https://two.example/feed")


def _items(name: str, count: int) -> list[tuple[str, str]]:
    return [(f"{name} {n}", f"<p>Text of {name} {n}.</p>" * 30) for n in range(count)]


@pytest.fixture
def ann(site: Site) -> Actor:
    """A user with two feeds of ten unread entries, "one" in a folder."""
    actor = add_user(site.services)
    folder = site.services.folders.create(actor, "Folder")
    ids = [
        site.services.subscriptions.subscribe(actor, url, folder_id=folder_id).subscription.feed_id
        for url, folder_id in zip(URLS, (folder.id, None), strict=True)
    ]
    bodies = dict(
        zip(URLS, (rss("Feed one", _items("one", 10)), rss("Feed two", _items("two", 10))), strict=True)
    )
    pull(site.services, ids, bodies)
    return actor


def _titles(page: Page) -> list[str]:
    return page.eval_on_selector_all(
        "#rows .row h2 a", "(all) => all.map((a) => a.lastChild.textContent.trim())"
    )


def _read(page: Page) -> list[int]:
    return page.eval_on_selector_all(
        "#rows .row",
        "(rows) => rows.map((r, i) => r.classList.contains('is-read') ? i : -1).filter(i => i >= 0)",
    )


def _total(site: Site, actor: Actor) -> int:
    return site.services.reading.get_tree(actor).unread


def test_opening_reads_and_the_list_stays_still(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    before = _titles(page)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text(before[0])
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text(before[1])
    # words and picture of a button stand side by side
    expect(page.locator(".article footer .js-only")).to_have_css("display", "flex")
    assert _titles(page) == before
    assert _read(page) == [0, 1]
    expect(page.locator("a[data-all] b")).to_have_text("18")
    eventually(lambda: _total(site, ann) == 18)
    page.keyboard.press("k")
    expect(page.locator("#entry-title")).to_have_text(before[0])
    page.reload()
    assert _read(page) == [18, 19]
    expect(page.locator(".divider")).to_have_text("Already read")
    expect(page).to_have_title(re.compile(r"^\(18\) "))


def test_keep_unread_star_and_undo(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    page.keyboard.press("j")
    toggle = page.locator("#article form[data-act=read] button")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("m")
    expect(toggle).to_have_attribute("aria-pressed", "true")
    assert _read(page) == []
    eventually(lambda: _total(site, ann) == 20)
    page.keyboard.press("z")
    assert _read(page) == [0]
    page.keyboard.press("s")
    expect(page.locator("#article form[data-act=star] button")).to_have_attribute("aria-pressed", "true")
    press(page, "g+s")
    expect(page.locator(".pane-list h1")).to_have_text("Starred")
    expect(page.locator("#rows .row")).to_have_count(1)


def test_mark_all_can_be_undone_in_place(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    before = _titles(page)
    page.keyboard.press("Shift+A")
    expect(page.locator(".toast")).to_contain_text("20 entries marked as read")
    expect(page.locator("a[data-all]")).not_to_have_class(re.compile("has"))
    assert len(_read(page)) == 20
    assert _titles(page) == before
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("a[data-all] b")).to_have_text("20")
    assert _read(page) == []
    assert _total(site, ann) == 20


def test_what_is_taken_back_is_shown_in_a_list_that_was_drawn_anew(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    read = page.locator("#rows .row.is-read")

    def go(name: str) -> None:
        page.locator(".tree a[data-feed]", has_text=name).click()
        expect(page.locator(".pane-list h1")).to_have_text(name)

    go("Feed one")
    page.keyboard.press("Shift+A")
    expect(page.locator(".toast")).to_contain_text("10 entries marked as read")
    go("Feed two")
    go("Feed one")
    expect(read).to_have_count(10)
    expect(page.locator(".caught-up")).to_be_visible()
    page.keyboard.press("z")
    expect(read).to_have_count(0)
    expect(page.locator(".caught-up")).to_be_hidden()
    page.keyboard.press("j")
    eventually(lambda: _total(site, ann) == 19)
    page.keyboard.press("m")
    eventually(lambda: _total(site, ann) == 20)
    go("Feed two")
    go("Feed one")
    expect(read).to_have_count(0)
    page.keyboard.press("z")
    expect(read).to_have_count(1)
    eventually(lambda: _total(site, ann) == 19)


def test_an_entry_that_its_list_does_not_hold_is_marked_all_the_same(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("entry="))
    eventually(lambda: _total(site, ann) == 19)
    page.goto(f"{page.url}&show=unread")
    # The open entry is on top of the others.
    expect(page.locator("#rows .row")).to_have_count(20)
    toggle = page.locator("#article form[data-act=read] button")
    page.keyboard.press("m")
    expect(toggle).to_have_attribute("aria-pressed", "true")
    eventually(lambda: _total(site, ann) == 20)
    page.keyboard.press("z")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    eventually(lambda: _total(site, ann) == 19)


def test_who_comes_by_a_link_has_read_the_entry_also_where_its_list_does_not_hold_it(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    entry = page.locator("#rows .row").last.get_attribute("data-id")
    page.goto(f"/read/starred?entry={entry}")
    expect(page.locator("#entry-title")).to_be_visible()
    expect(page.locator("#rows .row")).to_have_count(0)
    expect(page.locator("#article form[data-act=read] button")).to_have_attribute("aria-pressed", "false")
    eventually(lambda: _total(site, ann) == 19)
    expect(page.locator(".tree a[data-all] b")).to_have_text("19")


def test_an_entry_far_down_its_list_is_on_top_when_opened_by_a_link(
    site: Site, visit: Visit, ann: Actor
) -> None:
    """Next and previous begin at its row; more rows don't repeat it; back leads to the list."""
    reading, ref = site.services.reading, StreamRef(StreamKind.ALL)
    listed = [row.id for row in reading.load_page(ann, StreamQuery(ref, limit=20)).rows]
    page = visit(login="ann")
    page.goto("/read/starred")
    page.goto(f"/read/all?rows=5&entry={listed[12]}")
    rows, title = page.locator("#rows .row"), page.locator("#entry-title")
    current = page.locator("#rows .row[aria-current]")
    expect(current).to_have_attribute("data-id", str(listed[12]))
    expect(current).to_be_in_viewport()
    expect(page.locator("#rows h2.pin")).to_have_text(["Opened entry", "Start of the list"])
    first = title.text_content()
    for key, shown in (("j", listed[0]), ("j", listed[1]), ("k", listed[0]), ("k", listed[12])):
        page.keyboard.press(key)
        expect(current).to_have_attribute("data-id", str(shown))
        expect(page).to_have_url(re.compile(f"entry={shown}"))
    expect(title).to_have_text(str(first))
    page.keyboard.press("k")
    expect(page.get_by_role("status").filter(has_text="This is the first entry")).to_be_attached()
    expect(rows).to_have_count(20)
    ids = rows.evaluate_all("(all) => all.map((row) => Number(row.dataset.id))")
    assert ids == [listed[12], *(i for i in listed if i != listed[12])]
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/read/all$"))
    expect(current).to_have_attribute("data-id", str(listed[12]))


@pytest.mark.parametrize("by", ["key", "button", "late key"])
def test_an_unsubscribe_can_be_undone(site: Site, visit: Visit, ann: Actor, by: str) -> None:
    before = site.services.reading.get_tree(ann)
    (folder,) = before.folders
    feed_id = folder.feeds[0].feed_id
    page = visit(login="ann")
    if by == "late key":
        page.clock.install()
    page.goto(f"/feeds/{feed_id}")
    page.locator("summary", has_text="Unsubscribe from this feed").click()
    page.get_by_role("button", name="Unsubscribe").click()
    page.wait_for_url("**/read/all")
    expect(page.locator("#toasts")).to_contain_text("Unsubscribed")
    assert not site.services.reading.get_tree(ann).folders[0].feeds
    if by == "late key":
        page.clock.run_for(16_000)
        expect(page.locator(".toast")).to_have_count(0)
    with page.expect_navigation():
        if by == "button":
            page.get_by_role("button", name="Undo").click()
        else:
            page.keyboard.press("z")
    expect(page.locator("#toasts")).to_contain_text("Undone")
    assert site.services.reading.get_tree(ann) == before


def test_back_restores_list_place_and_entry(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    before = _titles(page)
    page.locator(".row h2 a").nth(3).click()
    expect(page.locator("#entry-title")).to_have_text(before[3])
    page.locator(".pane-list").evaluate("(pane) => pane.scrollTo(0, 150)")
    page.locator('.tree a[href^="/read/feed/"]', has_text="Feed two").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    expect(page).to_have_url(re.compile(r"/read/feed/\d+$"))
    page.go_back()
    expect(page.locator(".pane-list h1")).to_have_text("All entries")
    expect(page.locator("#entry-title")).to_have_text(before[3])
    assert _titles(page) == before
    expect(page.locator(".pane-list")).to_have_js_property("scrollTop", 150)
    page.go_back()
    expect(page).to_have_url(re.compile(r"/read/all$"))
    expect(page.locator("#article")).to_contain_text("No entry selected")
    assert _titles(page) == before


def test_newer_entries_are_announced_and_never_push_rows(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    before = _titles(page)
    first = site.services.reading.get_tree(ann).feeds[0].feed_id
    pull(site.services, [first], {URLS[1]: rss("Feed two", [("fresh", "<p>x</p>"), *_items("two", 10)])})
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#newbar")).to_have_text("1 new")
    assert _titles(page) == before
    page.locator("#newbar").click()
    expect(page.locator("#newbar")).to_be_hidden()
    assert "fresh" in _titles(page)


def test_a_mark_that_is_refused_is_taken_back_with_a_message(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", expect="422", routes=True)
    page.route(
        "**/entries/mark", lambda route: route.fulfill(status=422, json={"message": "The store is away."})
    )
    page.locator(".row h2 a").first.click()
    expect(page.locator(".toast")).to_contain_text("Couldn't save your change. The store is away.")
    assert _read(page) == []
    expect(page.locator("a[data-all] b")).to_have_text("20")


def test_reading_on_through_feeds_by_one_key(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.locator(".tree a", has_text="Feed one").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    for n in range(10):
        page.keyboard.press(".")
        expect(page.locator("#entry-title")).to_have_text(f"one {n}")
    page.keyboard.press(".")
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    expect(page.locator("#entry-title")).to_have_text("two 0")
    page.keyboard.press("Shift+K")
    expect(page.locator("#say")).to_have_text("No other feed has unread entries")


def test_space_pages_and_then_goes_on(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.keyboard.press("Space")
    expect(page.locator("#entry-title")).to_have_text(_titles(page)[0])
    tops = []
    for _ in range(30):
        tops.append(page.locator("#article").evaluate("(pane) => pane.scrollTop"))
        page.keyboard.press("Space")
        if page.locator(".row[aria-current=true]").get_attribute("data-id") != page.locator(
            ".row"
        ).first.get_attribute("data-id"):
            break
    assert len(tops) > 1
    assert tops == sorted(tops)
    expect(page.locator("#entry-title")).to_have_text(_titles(page)[1])


def test_one_pane_at_a_time_on_a_phone(visit: Visit, ann: Actor) -> None:
    page = visit(size=PHONE, login="ann")
    expect(page.locator(".pane-tree")).to_be_hidden()
    page.get_by_role("link", name="All feeds").click()
    expect(page.locator(".pane-tree")).to_be_visible()
    page.locator(".pane-tree a", has_text="Feed one").click()
    expect(page.locator(".pane-tree")).to_be_hidden()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    page.locator(".row h2 a").first.click()
    expect(page.locator("#entry-title")).to_be_visible()
    expect(page.locator(".pane-list")).to_be_hidden()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator(".pane-list")).to_be_visible()
    expect(page.locator(".pane-article")).to_be_hidden()
    page.locator(".row h2 a").nth(1).click()
    expect(page.locator("#entry-title")).to_have_text("one 1")
    page.go_back()
    expect(page.locator(".pane-list")).to_be_visible()


def test_more_rows_come_by_key_and_keep_the_place(site: Site, visit: Visit) -> None:
    actor = add_user(site.services)
    url = "https://many.example/feed"
    done = site.services.subscriptions.subscribe(actor, url)
    pull(site.services, [done.subscription.feed_id], {url: rss("Many", _items("entry", 120))})
    page = visit(login="ann")
    expect(page.locator("#rows .row")).to_have_count(50)
    page.locator(".row h2 a").nth(49).click()
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("entry 50")
    expect(page.locator("#rows .row")).to_have_count(100)
    expect(page.locator("#say")).to_have_text("50 more loaded, 20 left")
    page.locator(".row").last.scroll_into_view_if_needed()
    expect(page.locator("#rows .row")).to_have_count(120)
    expect(page.locator("#say")).to_have_text("20 more loaded")
    assert _titles(page) == [f"entry {n}" for n in range(120)]


def test_reading_without_scripts(visit: Visit, ann: Actor) -> None:
    page = visit(js=False, login="ann", size=WIDE)
    page.locator(".row h2 a").first.click()
    expect(page.locator("#entry-title")).to_have_text("two 0")
    article = page.locator("#article")
    article.get_by_role("button", name="Mark as read and open next entry").click()
    expect(page.locator("#entry-title")).to_have_text("one 0")
    expect(page.locator("a[data-all] b")).to_have_text("19")
    article.get_by_role("link", name="Previous entry").click()
    article.get_by_role("button", name="Mark as unread").click()
    expect(page.locator("a[data-all] b")).to_have_text("20")
    article.get_by_role("button", name="Mark as read", exact=True).click()
    expect(page.locator("#entry-title")).to_have_text("two 0")
    expect(page.locator(".row[aria-current]")).to_contain_text("two 0")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator(".caught-up")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("a[data-all] b")).to_have_text("19")
    page.locator(".folder > a").click()
    expect(page.locator(".pane-list h1")).to_have_text("Folder")


@pytest.mark.parametrize("size", [PHONE, (320, 640)])
def test_the_way_back_is_in_sight_without_scripts(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    """Beside buttons that have words."""
    for language in ("en", "de", "ru", "ar"):
        site.services.accounts.set_preferences(ann, {"language": language})
        page = visit(js=False, login="ann", size=size)
        page.locator(".row h2 a").nth(1).click()
        bar = page.locator("#article > .bar")
        for offer in ("1", "0"):  # to be marked as read, to be kept unread
            expect(bar.locator(".nojs [name=read]")).to_have_value(offer)
            for one in bar.locator(".tool:visible, .btn:visible").all():
                box = one.bounding_box()
                assert box
                assert box["x"] >= 0, language
                assert box["x"] + box["width"] <= size[0], language
            if offer == "1":
                bar.locator("form.nojs .btn").click()


@pytest.mark.parametrize("size", [WIDE, (820, 1100), PHONE], ids=["wide", "tablet", "phone"])
def test_a_page_has_one_first_heading_whatever_is_shown(
    visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    """For who hears the page: the list's name."""
    page = visit(login="ann", size=size)
    first = page.get_by_role("heading", level=1)
    page.goto("/read")
    expect(first).to_have_text(["All entries"])
    for view in ("panes", "list", "expanded"):
        page.goto(f"/read/all?view={view}")
        expect(first).to_have_text(["All entries"])
        if view == "expanded":
            continue  # the text is in its row
        page.keyboard.press("j")
        expect(page.locator("h2#entry-title")).to_be_visible()
        expect(first).to_have_text(["All entries"])


@pytest.mark.parametrize("size", [(820, 1180), (768, 1024), PHONE, (320, 640)])
def test_a_narrow_list_tells_its_name_and_what_is_unread(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    for language in ("en", "de", "ru", "ar"):
        site.services.accounts.set_preferences(ann, {"language": language})
        page = visit(login="ann", size=size, touch=True)
        head = page.locator(".pane-list > .bar")
        for words in (head.locator("h1"), head.locator(".sub")):
            assert _is_whole(words), (language, words.inner_text())
        for tool in head.locator(".tool:visible").all():
            box = tool.bounding_box()
            assert box
            assert min(box["width"], box["height"]) >= 44
        before = head.bounding_box()
        if language == "ar":
            head.locator("[data-act=mark-all] .tool").click()
            expect(page.locator(".toast")).to_be_visible()
            assert head.bounding_box() == before


def test_words_at_twice_their_size_are_not_lost(site: Site, visit: Visit, ann: Actor) -> None:
    """WCAG 1.4.4, where words are long."""
    page = visit(login="ann", size=PHONE)
    for language in ("de", "ru", "ar"):
        site.services.accounts.set_preferences(ann, {"language": language})
        page.reload()
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        for words in page.locator(".tabs span, .pane-list > .bar :is(h1, .sub)").all():
            assert _is_whole(words), (language, words.inner_text())


def _is_whole(words: Locator) -> bool:
    """Return whether nothing of a text is cut."""
    return bool(words.evaluate("(e) => e.scrollWidth <= e.clientWidth"))


@pytest.mark.parametrize(
    ("language", "sentence", "count"),
    [("en-GB", "12,345 unread", "12,345"), ("de-DE", "12.345 ungelesen", "12.345")],
)
def test_counts_of_scripts_have_the_separators_of_the_server(
    visit: Visit, ann: Actor, language: str, sentence: str, count: str
) -> None:
    page = visit(login="ann", language=language)
    expect(page.locator("#rows .row")).to_have_count(20)
    page.evaluate("eventrModules.m_counts.move(document.querySelector('a[data-feed]').dataset.feed, 12325)")
    expect(page.locator("#unread")).to_have_text(sentence)
    expect(page.locator(".tree a[data-all] b")).to_have_text(count)
