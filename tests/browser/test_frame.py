"""The tree beside every page: whole, as a rail of icons, or as a drawer; and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor, Role
from app.models.reading.stream import StreamQuery, StreamRef
from tests.browser.axe import RULES, faults
from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.test_list_rules import subscribe
from tests.sharing.conftest import People
from tests.support.reader import add_user

Visit = Callable[..., Page]
#: Pages of all kinds, within the same frame.
PAGES = (
    "/read/all", "/settings/display", "/people", "/discover", "/notifications", "/subscriptions", "/search",
    "/add", "/admin", "/imports", "/history", "/help/keys",
)  # fmt: skip
#: Addresses and the lines of the tree that stand for them.
PLACES = (("/people", "People"), ("/discover", "Discover"), ("/search", "Search"), ("/read", "All"))


@pytest.fixture
def ann(site: Site) -> Actor:
    actor = add_user(site.services, role=Role.ADMIN)
    subscribe(site, actor, 40)
    return actor


def _left(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    assert box
    return box["x"], box["x"] + box["width"]


@pytest.mark.parametrize("size", [WIDE, (1024, 768), (900, 700)])
def test_wide_pages_have_the_tree_beside_them(visit: Visit, ann: Actor, size: tuple[int, int]) -> None:
    page = visit(login="ann", size=size)
    found = set()
    for path in PAGES:
        page.goto(path)
        expect(page.locator("#tree a[data-feed]").first).to_be_visible()
        expect(page.locator("#tree a[data-all] b")).to_have_text("40")
        start, end = _left(page, "#tree")
        assert start == 0
        assert _left(page, "#main")[0] >= end, path
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), path
        found.add(end)
    assert len(found) == 1, "the tree has one width everywhere"


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_titles_of_all_pages_stand_at_one_height(visit: Visit, ann: Actor, size: tuple[int, int]) -> None:
    page = visit(login="ann", size=size)
    feed = page.evaluate("document.querySelector('#tree a[data-feed]').dataset.feed")
    below, with_way_back = set(), set()
    for path in (*PAGES, "/packs", "/tags", "/compose", "/api/docs", f"/feeds/{feed}"):
        if path.startswith(("/read", "/admin")):
            continue
        page.goto(path)
        top = page.locator("main h1:visible").first.bounding_box()
        assert top
        has_way_back = page.locator("main :is(.crumb, .to-all):visible").count()
        (with_way_back if has_way_back else below).add(round(top["y"]))
    assert len(below) == 1, below
    # On a phone, the way back stands between the bar and the title.
    assert with_way_back <= below or size == PHONE, (with_way_back, below)


def test_pages_of_settings_have_a_way_back_on_phones(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", size=PHONE)
    page.goto("/settings")
    links = page.locator(".sections a[href^='/settings/']")
    sections = links.evaluate_all("(all) => all.map((a) => a.pathname)")
    assert len(sections) > 10
    for path in sections:
        page.goto(path)
        expect(page.locator("main .to-all a:visible, main .crumb a:visible"), path).to_have_count(1)
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("main .to-all a")).to_be_hidden()


def test_the_tree_stays_in_sight_while_a_long_page_scrolls(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", size=(1024, 500))
    page.goto("/settings/keys")
    page.evaluate("() => scrollTo(0, 900)")
    assert page.evaluate("() => scrollY") > 400
    assert page.locator("#tree").evaluate("(e) => e.getBoundingClientRect().top") == 0
    expect(page.locator("#tree .tree-foot")).to_be_in_viewport()


def test_a_feed_opens_from_any_page_and_counts_follow(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/settings/display")
    page.locator("#tree a[data-feed]").click()
    expect(page.locator("#rows .row").first).to_be_visible()
    page.goto("/settings/display")
    page.keyboard.press("Shift+J")
    expect(page.locator("#rows .row").first).to_be_visible()


def test_a_rail_of_icons_is_remembered_without_a_shift(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.keyboard.press("u")
    assert _left(page, "#tree")[1] < 60
    link = page.get_by_role("link", name="All entries 40")
    expect(link).to_have_attribute("title", "All entries")
    expect(page.locator("#feeds")).to_be_hidden()
    for path in ("/settings/display", "/read/starred"):
        page.goto(path, wait_until="commit")
        # Before any script runs, the page has its final shape.
        assert page.content().count('data-side="rail"') == 1
        page.wait_for_load_state()
        assert _left(page, "#tree")[1] < 60
        assert _left(page, "#main")[0] < 120 or path.startswith("/settings")
    page.get_by_role("button", name="Show or hide the feed list").click()
    expect(page.locator("#feeds")).to_be_visible()
    page.reload()
    expect(page.locator("#feeds")).to_be_visible()
    # Keys that move in the tree need its names.
    page.keyboard.press("u")
    page.keyboard.press("Shift+N")
    expect(page.locator("#feeds")).to_be_visible()


@pytest.mark.parametrize("size", [(720, 900), (600, 800), PHONE])
@pytest.mark.parametrize("path", ["/read/all", "/settings/display", "/people"])
def test_narrow_pages_have_the_tree_in_a_drawer(
    visit: Visit, ann: Actor, size: tuple[int, int], path: str
) -> None:
    page = visit(login="ann", size=size, touch=True)
    page.goto(path)
    tree, button = page.locator("#tree"), page.get_by_role("link", name="All feeds")
    expect(tree).to_be_hidden()
    button.click()
    expect(tree).to_be_visible()
    # The rest of the page can't be reached, and the focus is in the drawer.
    assert page.locator("#main").evaluate("(e) => Boolean(e.closest('[inert]'))")
    assert page.evaluate("() => Boolean(document.activeElement.closest('#tree'))")
    page.keyboard.press("Escape")
    expect(tree).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("u")
    expect(tree).to_be_visible()
    page.mouse.click(size[0] - 10, size[1] // 2)
    expect(tree).to_be_hidden()
    assert not page.locator("#main").evaluate("(e) => Boolean(e.closest('[inert]'))")
    button.click()
    page.locator("#tree a[data-feed]").click()
    expect(page.locator("#rows .row").first).to_be_visible()
    expect(page.locator("#tree")).to_be_hidden()


def test_the_tree_looks_the_same_on_every_page(site: Site, visit: Visit, ann: Actor) -> None:
    """The styles of a page don't reach it."""
    row = site.services.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).rows[0]
    site.services.tags.change_tags(ann, row.id, add=["Later"])
    site.services.tags.save_search(ann, "Roses", "rose")
    page = visit(login="ann")
    look = """(all) => all.map((one) => {
      const { height } = one.getBoundingClientRect();
      const { borderTopWidth, paddingTop, fontSize, fontWeight, color } = getComputedStyle(one);
      return [one.tagName, height, borderTopWidth, paddingTop, fontSize, fontWeight, color].join(" ");
    })"""
    parts = "#tree :is(.fold, .tree-head, .tree-head .icon, a[data-stream], .folder > a)"
    seen = {}
    others = ("/subscriptions", "/settings", "/discover", "/imports", "/history", "/notifications", "/add")
    for path in ("/people", f"/feeds/{row.feed_id}", *others):
        page.goto(path)
        seen[path] = page.eval_on_selector_all(parts, look)
    assert len(seen["/people"]) > 5
    assert {path: found for path, found in seen.items() if found != seen["/people"]} == {}


def test_the_drawer_of_a_phone_begins_with_the_feeds(site: Site, visit: Visit, ann: Actor) -> None:
    """What the tab bar has isn't said twice; tags and saved searches fold, which this device remembers."""
    entry = site.services.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).rows[0].id
    site.services.tags.change_tags(ann, entry, add=["Later"])
    site.services.tags.save_search(ann, "Roses", "rose")
    bob = add_user(site.services, "bob")
    People(site.services).open(bob)
    site.services.following.follow(ann, "bob")
    page = visit(login="ann", size=(390, 844))
    page.locator("[data-key=tree]:visible").first.click()
    expect(page.locator("#tree").get_by_role("link", name="Following")).to_be_visible()
    for name in "People", "Discover", "Search":
        expect(page.locator("#tree").get_by_role("link", name=name, exact=True)).to_be_hidden()
    head = page.locator("#tree").get_by_role("heading", name="Feeds").bounding_box()
    assert head
    assert head["y"] <= 480
    tag = page.locator("#labels").get_by_role("link", name="Later")
    expect(tag).to_be_hidden()
    page.get_by_role("heading", name="Tags").click()
    expect(tag).to_be_visible()
    page.reload()
    page.locator("[data-key=tree]:visible").first.click()
    expect(tag).to_be_visible()
    expect(page.locator("#labels").get_by_role("link", name="Roses")).to_be_hidden()
    page.goto("/people")
    page.locator("#main").get_by_role("link", name="Discover").click()
    expect(page).to_have_url(re.compile("/discover$"))
    wide = visit(login="ann")
    expect(wide.locator("#labels").get_by_role("link", name="Later")).to_be_visible()
    wide.get_by_role("heading", name="Tags").click()
    wide.locator("#rows h2 a").first.click()
    expect(wide.locator("#entry-title")).to_be_visible()
    expect(wide.locator("#labels").get_by_role("link", name="Later")).to_be_hidden()
    # The current place is never folded away.
    wide.locator("#tags a.tag").click()
    expect(wide.locator("#labels").get_by_role("link", name="Later")).to_have_attribute(
        "aria-current", "page"
    )
    wide.reload()
    expect(wide.locator("#labels").get_by_role("link", name="Later")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "ar"])
def test_a_swipe_from_the_edge_opens_the_drawer_and_back_closes_it(
    site: Site, visit: Visit, ann: Actor, language: str
) -> None:
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", size=PHONE, touch=True, language=language)
    width = PHONE[0]

    def swipe(start: int, end: int, y: int = 400) -> None:
        """Move a finger, counted from the edge where lines begin."""
        places = [start + (end - start) * n // 6 for n in range(7)]
        places = [width - x for x in places] if language == "ar" else places
        for kind, x in [("touchstart", places[0]), *(("touchmove", x) for x in places[1:])]:
            page.evaluate(
                """([kind, x, y]) => {
                  const place = document.elementFromPoint(x, y) ?? document.body;
                  const touch = new Touch({ identifier: 1, target: place, clientX: x, clientY: y });
                  place.dispatchEvent(new TouchEvent(kind, { touches: [touch], bubbles: true }));
                }""",
                [kind, x, y],
            )

    tree = page.locator("#tree")
    swipe(120, 300)
    expect(tree).to_be_hidden()
    swipe(8, 200)
    expect(tree).to_be_visible()
    swipe(280, 40)
    expect(tree).to_be_hidden()


def test_without_scripts_the_button_leads_to_the_tree(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", size=PHONE, js=False)
    page.goto("/settings/display")
    page.get_by_role("link", name="All feeds").click()
    expect(page.locator("#tree a[data-feed]")).to_be_visible()
    expect(page.locator("#rows .row").first).to_be_hidden()


def test_the_bar_of_a_phone_is_below_every_page_and_no_other(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", size=PHONE, touch=True)
    for path in PAGES:
        page.goto(path)
        expect(page.locator(".tabs")).to_be_in_viewport()
    page.set_viewport_size({"width": 620, "height": 900})
    expect(page.locator(".tabs")).to_be_hidden()
    page.goto("/settings/display")
    expect(page.locator(".tabs")).to_be_hidden()


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_back_returns_to_the_row_and_to_the_place_on_a_page(
    visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    page = visit(login="ann", size=size)
    page.goto("/read/all?view=list")
    page.locator("#rows .row").nth(25).scroll_into_view_if_needed()
    pane = page.locator(".pane-list")
    before = pane.evaluate("(e) => e.scrollTop")
    assert before > 100
    page.goto("/settings/keys")
    page.evaluate("() => scrollTo(0, 700)")
    page.goto("/people")
    page.go_back()
    page.wait_for_function("() => scrollY > 600")
    page.go_back()
    page.wait_for_function(f"() => Math.abs(document.querySelector('.pane-list').scrollTop - {before}) < 40")


@pytest.mark.parametrize("size", [PHONE, (1024, 768), (1440, 900)])
def test_the_row_of_an_entry_is_where_it_was_after_another_page(
    visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    page = visit(login="ann", size=size)
    page.goto("/read/all")
    row = page.locator("#rows .row").nth(25)
    row.scroll_into_view_if_needed()
    before = row.evaluate("(row) => row.getBoundingClientRect().top")
    assert page.locator(".pane-list").evaluate("(pane) => pane.scrollTop") > 100
    title = page.locator("#entry-title")
    words = (row.locator("h2 a").text_content() or "").split(":")[-1].strip()
    row.locator("h2 a").click()
    expect(title).to_have_text(words)
    for path in ("/settings", "/people"):
        page.goto(path)
        page.go_back()
        expect(title).to_have_text(words)
        page.wait_for_function("() => document.querySelector('.pane-list').scrollTop > 100")
    page.go_back()
    expect(title).to_be_hidden()
    expect(row).to_be_in_viewport()
    assert abs(row.evaluate("(row) => row.getBoundingClientRect().top") - before) < 40


@pytest.mark.parametrize("size", [PHONE, (1024, 768)])
def test_back_on_a_list_shows_the_row_of_the_last_entry_read(
    visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    page = visit(login="ann", size=size)
    page.goto("/read/all?view=list")
    titles = page.locator("#rows .row h2 a").all_text_contents()
    titles = [title.split(":")[-1].strip() for title in titles]
    page.locator("#rows .row h2 a").first.click()
    for title in titles[:15]:
        expect(page.locator("#entry-title")).to_have_text(title)
        page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text(titles[15])
    page.go_back()
    expect(page.locator("#rows .row").nth(15)).to_be_in_viewport()


def test_the_line_of_the_page_is_marked(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    for path, name in (
        ("/people", "People"),
        ("/discover", "Discover"),
        ("/search", "Search"),
        ("/read", "All"),
    ):
        page.goto(path)
        expect(page.locator("#tree .tree a[aria-current]")).to_contain_text(name)


@pytest.mark.parametrize("size", [(1024, 768), PHONE])
def test_the_drawer_and_the_rail_have_no_faults_of_access(
    visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    page = visit(login="ann", size=size)
    page.goto("/settings/display")
    page.keyboard.press("u")
    page.wait_for_function("() => !document.querySelector('#tree').getAnimations().length")
    assert list(faults(page, RULES)) == []
