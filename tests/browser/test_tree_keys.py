"""The tree by keyboard and by touch, and trees of thousands of feeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from playwright.sync_api import Locator, Page, expect

from app import clock
from app.models.accounts.actor import Actor
from app.models.subscriptions.subscription import Subscription
from tests.browser.conftest import Site
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
Eventually = Callable[..., object]
MANY = 2000
#: Elements of the whole tree at any moment, however many feeds there are.
NODES_MAX = 400
_HERE = """() => {
  const link = document.activeElement.closest(".tree a");
  return link ? link.querySelector("span").textContent : "";
}"""


def _subscribe(site: Site, actor: Actor, names: Sequence[str], folder: int | None = None) -> list[int]:
    subscribe = site.services.subscriptions.subscribe
    return [
        subscribe(actor, f"https://{name}.example/", title=name, folder_id=folder).subscription.feed_id
        for name in names
    ]


@pytest.fixture
def ann(site: Site) -> Actor:
    """A user with the folders Art (ada, bea) and News (cid), and the feeds dot and eve outside of them."""
    actor, services = add_user(site.services), site.services
    art, news = (services.folders.create(actor, name).id for name in ("Art", "News"))
    ids = [
        *_subscribe(site, actor, ["ada", "bea"], art),
        *_subscribe(site, actor, ["cid"], news),
        *_subscribe(site, actor, ["dot", "eve"]),
    ]
    names = ("ada", "bea", "cid", "dot", "eve")
    bodies = {f"https://{name}.example/": rss(name, [(f"Of {name}", "<p>Text</p>")]) for name in names}
    pull(services, ids, bodies)
    return actor


@pytest.fixture
def many(site: Site) -> Actor:
    """A user with 2,000 feeds outside of folders, of which the last has an unread entry."""
    actor = add_user(site.services)
    now, gateways = clock.now(), site.services.gateways
    urls = [f"https://site{n:04}.example/" for n in range(MANY)]
    ids = list[int]()
    for start in range(0, MANY, 200):
        feeds = gateways.feeds.get_or_create_many(urls[start : start + 200], now=now, due=now)
        wanted = [
            (Subscription(0, actor.user_id, feed.id, f"site{n:04}"), feed)
            for n, feed in enumerate(feeds, start)
        ]
        gateways.subscriptions.add_many(actor.user_id, wanted, now)
        ids += [feed.id for feed in feeds]
    # A list of a feed that wasn't fetched yet would ask for it again and again.
    bodies = {urls[1500]: rss("Empty", []), urls[-1]: rss("Last", [("Of the last", "<p>x</p>")])}
    pull(site.services, [ids[1500], ids[-1]], bodies)
    return actor


def link(page: Page, name: str) -> Locator:
    return page.locator("#tree .tree a").filter(has=page.locator("span", has_text=re.compile(f"^{name}$")))


def press(page: Page, keys: str) -> str:
    """Press keys; return the name that has the focus then."""
    page.locator("#tree[data-ready]").wait_for()
    for key in keys.split():
        page.keyboard.press(key)
    return str(page.evaluate(_HERE))


def start(page: Page, name: str) -> None:
    link(page, name).focus()
    page.locator("#tree[data-ready]").wait_for()


def test_the_tree_is_one_tab_stop_and_arrow_keys_move_in_it(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    stops = page.evaluate("""() => [...document.querySelectorAll("#tree nav :is(a, button, summary)")]
      .filter((one) => one.tabIndex >= 0 && one.closest(".tree")).map((one) => one.textContent.trim())""")
    assert stops == ["All entries5"]
    start(page, "All entries")
    names = [press(page, "ArrowDown") for _ in range(14)]
    at = names.index("Art")
    assert names[at : at + 6] == ["Art", "ada", "bea", "News", "cid", "dot"]
    assert press(page, "End") == "eve"
    assert press(page, "ArrowDown") == "eve"
    assert press(page, "Home") == "Today"
    # Tab leaves the tree, and comes back to the same line.
    start(page, "bea")
    page.keyboard.press("Tab")
    assert page.evaluate(_HERE) == ""
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(_HERE) == "bea"


@pytest.mark.parametrize(
    ("language", "inwards", "out"), [("en", "ArrowRight", "ArrowLeft"), ("ar", "ArrowLeft", "ArrowRight")]
)
def test_sideways_keys_open_and_close_folders_as_one_reads(
    visit: Visit, ann: Actor, language: str, inwards: str, out: str
) -> None:
    page = visit(login="ann", language=language)
    start(page, "Art")
    assert press(page, out) == "Art"
    expect(link(page, "ada")).to_have_count(0)
    # A closed folder has no children in the document, and Arrow Down passes over it.
    assert press(page, "ArrowDown") == "News"
    assert press(page, f"ArrowUp {inwards}") == "Art"
    assert press(page, inwards) == "ada"
    assert press(page, out) == "Art"
    assert press(page, f"{out} ArrowDown {out} Shift+*") == "News"
    expect(link(page, "ada")).to_be_visible()
    expect(link(page, "cid")).to_be_visible()
    press(page, "ArrowUp ArrowUp ArrowUp")
    assert press(page, out) == "Art"
    page.reload()
    expect(link(page, "ada")).to_have_count(0)
    expect(link(page, "cid")).to_have_count(1)


def test_letters_find_names_only_while_arrow_keys_move(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    start(page, "dot")
    # A letter is a shortcut until an arrow key has moved: s stars, j opens the next entry.
    page.keyboard.press("j")
    page.wait_for_url("**?entry=*")
    start(page, "dot")
    assert press(page, "ArrowUp n") == "Notes"
    assert press(page, "e") == "News"
    assert press(page, "ArrowDown b") == "bea"
    page.keyboard.press("Enter")
    page.wait_for_url("**/read/feed/*")
    expect(link(page, "bea")).to_have_attribute("aria-current", "page")
    page.keyboard.press("j")
    page.wait_for_url("**?entry=*")


@pytest.mark.parametrize("key", ["ContextMenu", "Shift+F10"])
def test_the_menu_of_a_line_opens_by_key(visit: Visit, ann: Actor, key: str) -> None:
    page = visit(login="ann")
    start(page, "dot")
    page.keyboard.press(key)
    expect(page.get_by_role("button", name="Move to…")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#tree .menu[open]")).to_have_count(0)


def test_a_long_touch_opens_the_menu_of_a_line(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", size=(390, 844))
    page.goto("/read")
    box = link(page, "dot").bounding_box()
    assert box
    touch = page.context.new_cdp_session(page)
    point = {"x": box["x"] + 60, "y": box["y"] + 20}
    # The first touch loads the menu.
    link(page, "dot").dispatch_event("pointerover", {"bubbles": True})
    page.locator("#tree[data-ready]").wait_for()
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    expect(page.get_by_role("button", name="Move to…")).to_be_visible()
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.get_by_role("button", name="Move to…")).to_be_visible()
    assert page.url.endswith("/read")


def test_of_two_thousand_feeds_the_document_has_those_in_sight(visit: Visit, many: Actor) -> None:
    page = visit(login="ann")
    nodes = "document.querySelectorAll('#tree *').length"
    assert page.evaluate(nodes) <= NODES_MAX
    page.locator("#feeds a").first.hover()
    expect(page.locator("#tree .rest")).to_have_count(0)
    assert press(page, "") == ""
    start(page, "All entries")
    assert press(page, "End") == "site1999"
    expect(link(page, "site1999")).to_be_in_viewport()
    assert page.evaluate(nodes) <= NODES_MAX
    page.locator("#tree").evaluate("(pane) => pane.scrollTo(0, 32000)")
    expect(page.locator("#feeds a[data-feed]:visible").nth(20)).to_be_in_viewport()
    assert page.evaluate(nodes) <= NODES_MAX
    # Screen readers hear the place among all, and the line with the focus is still there.
    first = page.locator("#feeds > li").first
    assert first.get_attribute("aria-setsize") == str(MANY)
    assert page.evaluate(_HERE) == "site1999"


def test_the_current_feed_is_in_sight_at_once_and_after_a_key(visit: Visit, many: Actor, site: Site) -> None:
    page = visit(login="ann")
    feed = site.services.reading.get_tree(many).feeds[1500].feed_id
    page.goto(f"/read/feed/{feed}")
    expect(link(page, "site1500")).to_be_in_viewport()
    expect(link(page, "site1500")).to_have_attribute("aria-current", "page")
    # The next feed with unread entries is far below.
    page.keyboard.press("Shift+J")
    expect(link(page, "site1999")).to_be_in_viewport()
    page.go_back()
    expect(link(page, "site1500")).to_be_in_viewport()


def test_counts_of_feeds_out_of_sight_stay_true(
    visit: Visit, many: Actor, site: Site, eventually: Eventually
) -> None:
    page = visit(login="ann")
    page.keyboard.press("Shift+J")
    expect(link(page, "site1999").locator("b")).to_have_text("1")
    page.locator("#tree").evaluate("(pane) => pane.scrollTo(0, 0)")
    expect(link(page, "site1999")).to_have_count(1)
    page.goto("/read/all")
    page.keyboard.press("j")
    expect(link(page, "All entries").locator("b")).to_have_text("")
    page.keyboard.press("Shift+J")
    expect(page.locator("#say")).to_have_text("No other feed has unread entries")


def test_a_closed_folder_shows_that_the_current_feed_is_in_it(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    link(page, "bea").click()
    page.wait_for_url("**/read/feed/*")
    page.locator("#feeds .folder > details > summary").first.click()
    expect(link(page, "bea")).to_have_count(0)
    expect(page.locator("#feeds .within > a > span")).to_have_text(["Art"])


def test_screen_readers_find_nested_lists_of_links(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    expect(page.locator("#feeds")).to_match_aria_snapshot("""
- list:
  - listitem:
    - link "Art 2"
    - group:
      - list:
        - listitem:
          - link "ada 1"
        - listitem:
          - link "bea 1"
  - listitem:
    - link "News 1"
  - listitem:
    - link "dot 1"
  - listitem:
    - link "eve 1"
""")


def test_all_feeds_are_reached_without_scripts(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", js=False)
    for name in ("ada", "bea", "cid", "dot", "eve"):
        expect(link(page, name)).to_be_visible()


def test_of_two_thousand_feeds_the_quick_jump_shows_fifty(visit: Visit, many: Actor) -> None:
    page = visit(login="ann")
    page.keyboard.press("Control+k")
    expect(page.locator("#jump li")).to_have_count(50)
    for typed in ("site1", "site19", "site199", "site1999"):
        page.get_by_role("combobox", name="Go to").fill(typed)
    expect(page.locator("#jump li")).to_have_count(1)
    expect(page.locator("#jump li")).to_contain_text("site1999")


_IN_THE_MIDDLE = """() => {
  const { left, top, height } = document.getElementById("tree").getBoundingClientRect();
  const hit = document.elementFromPoint(left + 60, top + height / 2);
  return hit?.closest("#feeds li")?.textContent.trim() ?? "";
}"""


def test_the_lines_around_the_current_feed_are_drawn_in_the_frame_that_shows_it(
    visit: Visit, many: Actor
) -> None:
    page = visit(login="ann")
    page.keyboard.press("Shift+J")
    expect(link(page, "site1999")).to_be_in_viewport()
    page.evaluate("""() => {
      document.getElementById("tree").scrollTo(0, 0);
      eventrModules.m_treeview.draw();
      eventrModules.m_treeview.revealCurrent();
    }""")
    assert "site19" in page.evaluate(_IN_THE_MIDDLE)


def test_lines_are_drawn_wherever_one_scrolls(visit: Visit, many: Actor, eventually: Eventually) -> None:
    page = visit(login="ann")
    page.locator("#tree").hover()
    page.keyboard.press("Shift+J")
    expect(link(page, "site1999")).to_be_in_viewport()
    for height in (0, 9000, 9400, 12000, 12100, 63000, 30000, 30010):
        page.locator("#tree").evaluate("(pane, height) => pane.scrollTo(0, height)", height)
        eventually(lambda: "site" in page.evaluate(_IN_THE_MIDDLE))
        # The event of the scrolling is over two frames later, and another drawing changes nothing.
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.evaluate("eventrModules.m_treeview.draw()")
        assert "site" in page.evaluate(_IN_THE_MIDDLE), height
