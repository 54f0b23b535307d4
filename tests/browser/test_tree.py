"""Folders and feeds in a real browser: drag, Move to…, cut and paste, bulk deeds, and two devices."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import PHONE, Site
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
Eventually = Callable[..., object]
NAMES = ("ada", "bea", "cid", "dot", "eve")
A, B, C, D, E = NAMES


@pytest.fixture
def ann(site: Site) -> Actor:
    """A user with five feeds of one unread entry each, outside of the folders Art and News."""
    actor, services = add_user(site.services), site.services
    for name in ("Art", "News"):
        services.folders.create(actor, name)
    urls = [f"https://{name}.example/feed" for name in NAMES]
    ids = [services.subscriptions.subscribe(actor, url).subscription.feed_id for url in urls]
    bodies = zip(urls, NAMES, strict=True)
    pull(services, ids, {url: rss(name, [(f"Of {name}", "<p>Text</p>")]) for url, name in bodies})
    return actor


def shape(site: Site, actor: Actor) -> dict[str, list[str]]:
    """Return folder → names of its feeds as the server has them; "" for those in none."""
    tree = site.services.reading.get_tree(actor)
    found = {"": [feed.title for feed in tree.feeds]}
    waiting = list(tree.folders)
    while waiting:
        folder = waiting.pop()
        found[folder.name] = [feed.title for feed in folder.feeds]
        waiting += folder.folders
    return found


def shown(page: Page) -> dict[str, list[str]]:
    """Return the same as the page shows it."""
    return page.evaluate("""() => {
        const name = (li) => li.querySelector(":scope > a > span").textContent;
        const feeds = (ul) => [...ul.children].filter((li) => !li.matches(".folder")).map(name);
        const root = document.getElementById("feeds");
        const found = { "": feeds(root) };
        for (const li of root.querySelectorAll(".folder")) {
            found[name(li)] = feeds(li.querySelector(":scope > details > ul"));
        }
        return found;
    }""")


def item(page: Page, name: str) -> Locator:
    return page.locator("#feeds a").filter(has_text=re.compile(rf"^\w?{name}\d*$")).first


def count(page: Page, name: str) -> str:
    return item(page, name).locator("b").text_content() or ""


def near(page: Page) -> None:
    """Come near the tree, which loads what moves things in it."""
    page.locator("#feeds a").first.hover()
    page.locator("#tree[data-ready]").wait_for()


def drag(page: Page, name: str, onto: str, part: float) -> None:
    box = item(page, onto).bounding_box()
    assert box
    item(page, name).drag_to(item(page, onto), target_position={"x": 60, "y": box["height"] * part})


def agree(page: Page, site: Site, ann: Actor, eventually: Eventually, want: dict[str, list[str]]) -> None:
    for look in (lambda: shown(page), lambda: shape(site, ann)):
        eventually(lambda look=look: look() == want, message=f"{want} and not {look()}")


def test_feeds_and_folders_are_dragged_and_taken_back(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    near(page)
    start = {"": [A, B, C, D, E], "Art": [], "News": []}
    agree(page, site, ann, eventually, start)
    node = page.evaluate_handle("() => document.querySelector('#feeds')")
    drag(page, D, B, 0.2)
    agree(page, site, ann, eventually, {"": [A, D, B, C, E], "Art": [], "News": []})
    drag(page, A, "Art", 0.5)
    agree(page, site, ann, eventually, {"": [D, B, C, E], "Art": [A], "News": []})
    assert (count(page, "Art"), count(page, A)) == ("1", "1")
    expect(page.locator(".toast").last).to_contain_text("“ada” moved to “Art”")
    page.locator(".toast button").last.click()
    expect(page.locator("#say")).to_have_text("Undone")
    agree(page, site, ann, eventually, {"": [A, D, B, C, E], "Art": [], "News": []})
    assert count(page, "Art") == ""
    drag(page, "News", "Art", 0.1)
    expect(page.locator("#feeds .folder > a > span")).to_have_text(["News", "Art"])
    drag(page, "Art", "News", 0.5)
    expect(page.locator(".folder .folder > a > span")).to_have_text("Art")
    eventually(lambda: [f.parent is None for f in site.services.folders.list_folders(ann)].count(False) == 1)
    # A folder is not dropped into itself, nor between feeds.
    drag(page, "News", "Art", 0.5)
    drag(page, "News", C, 0.5)
    assert [len(f.folders) for f in site.services.reading.get_tree(ann).folders] == [1]
    # The tree was never made anew.
    assert node.evaluate("(feeds) => feeds.isConnected")


def test_counts_asked_before_a_move_are_not_shown_over_it(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann", routes=True)
    near(page)
    held: list[Route] = []
    with page.expect_request("**/api/counts*"):
        page.route("**/api/counts*", lambda route: held.append(route))
        drag(page, D, B, 0.2)
    page.route("**/folders/place", lambda route: held.append(route))
    with page.expect_request("**/folders/place"):
        drag(page, A, "Art", 0.5)
    page.unroute("**/api/counts*")
    with page.expect_response("**/api/counts*"):
        held[0].fulfill(response=held[0].fetch())
    with page.expect_response("**/api/counts*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert count(page, "Art") == "1"
    held[1].continue_()
    agree(page, site, ann, eventually, {"": [D, B, C, E], "Art": [A], "News": []})
    assert count(page, "Art") == "1"


def test_a_drag_opens_a_closed_folder_and_escape_ends_it(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    near(page)
    page.locator("#feeds .folder > details > summary").first.click()
    fold = page.locator("#feeds .folder > details").first
    expect(fold).not_to_have_attribute("open", "")
    item(page, C).hover()
    page.mouse.down()
    box = item(page, "Art").bounding_box()
    assert box
    for step in (0.4, 0.5, 0.6):
        page.mouse.move(box["x"] + 60, box["y"] + box["height"] * step)
    expect(page.locator("#feeds .drop-into")).to_have_count(1)
    expect(fold).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(page.locator("#say")).to_have_text("Not moved")
    page.mouse.up()
    expect(page.locator("#feeds .dragged, #feeds .drop-into")).to_have_count(0)
    agree(page, site, ann, eventually, {"": [A, B, C, D, E], "Art": [], "News": []})


def test_keys_move_as_well(site: Site, visit: Visit, ann: Actor, eventually: Eventually) -> None:
    page = visit(login="ann")
    item(page, C).focus()
    page.locator("#tree[data-ready]").wait_for()
    page.keyboard.press("Control+x")
    expect(page.locator("#say")).to_contain_text("“cid” is ready to move")
    item(page, A).focus()
    page.keyboard.press("Control+v")
    agree(page, site, ann, eventually, {"": [A, C, B, D, E], "Art": [], "News": []})
    assert page.evaluate("document.activeElement.textContent").endswith("cid1")
    page.keyboard.press("Control+x")
    page.keyboard.press("Escape")
    expect(page.locator("#say")).to_have_text("Not moved")
    page.keyboard.press("Control+x")
    item(page, "News").focus()
    page.keyboard.press("Control+v")
    agree(page, site, ann, eventually, {"": [A, B, D, E], "Art": [], "News": [C]})
    page.keyboard.press("Control+x")
    page.locator("a[data-all]").focus()
    page.keyboard.press("Control+v")
    agree(page, site, ann, eventually, {"": [A, B, C, D, E], "Art": [], "News": []})
    # "Move to…" is reached by keys alone: the button comes after the feed.
    item(page, B).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".tree-more .menu-box")).to_be_visible()
    page.get_by_role("button", name="Move to…").press("Enter")
    expect(page.get_by_role("button", name="No folder")).to_be_disabled()
    page.get_by_role("button", name="Art", exact=True).press("Enter")
    agree(page, site, ann, eventually, {"": [A, C, D, E], "Art": [B], "News": []})
    expect(page.locator(".toast").last).to_contain_text("“bea” moved to “Art”")


def test_a_field_finds_one_of_many_folders(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    for number in range(10):
        site.services.folders.create(ann, f"Shelf {number}")
    page = visit(login="ann")
    near(page)
    menu(page, C, "Move to…")
    places = page.locator(".places li:visible")
    expect(places).to_have_count(14)
    expect(page.locator(".places [aria-current]")).to_have_text("No folder")
    field = page.get_by_role("searchbox", name="Find a folder")
    field.fill("elf 7")
    expect(places).to_have_text(["Shelf 7"])
    field.press("Enter")
    eventually(lambda: shape(site, ann)["Shelf 7"] == [C])
    expect(page.locator(".toast").last).to_contain_text("“cid” moved to “Shelf 7”")


def menu(page: Page, name: str, choice: str) -> None:
    item(page, name).click(button="right")
    page.locator(".tree-more").get_by_role("button", name=choice).click()


def test_the_menu_renames_reads_and_removes_with_undo(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page, services = visit(login="ann"), site.services
    near(page)
    menu(page, A, "Rename…")
    page.locator(".tree-ask input").fill("Zoe")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#feeds a span").filter(has_text="Zoe")).to_have_count(1)
    page.locator(".toast button").last.click()
    expect(item(page, A)).to_be_visible()
    eventually(lambda: A in shape(site, ann)[""])
    menu(page, B, "Mark all as read")
    expect(page.locator("a[data-all] b")).to_have_text("4")
    page.locator(".toast button").last.click()
    expect(page.locator("a[data-all] b")).to_have_text("5")
    menu(page, C, "Move to…")
    page.get_by_role("button", name="New folder…").click()
    page.locator(".tree-ask input").fill("Inbox")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast").last).to_contain_text("moved to “Inbox”")
    agree(page, site, ann, eventually, {"": [A, B, D, E], "Art": [], "Inbox": [C], "News": []})
    menu(page, "Inbox", "Delete, keep feeds")
    eventually(lambda: "Inbox" not in shape(site, ann))
    assert sorted(shown(page)[""]) == sorted(NAMES)
    expect(page.locator(".toast").last).to_contain_text("Folder deleted")
    page.locator(".toast button").last.click()
    expect(page.locator("#say")).to_have_text("Undone")
    agree(page, site, ann, eventually, {"": [A, B, D, E], "Art": [], "Inbox": [C], "News": []})
    menu(page, D, "Unsubscribe")
    expect(page.locator("a[data-all] b")).to_have_text("4")
    page.locator(".toast button").last.click()
    expect(page.locator("a[data-all] b")).to_have_text("5")
    agree(page, site, ann, eventually, {"": [A, B, D, E], "Art": [], "Inbox": [C], "News": []})
    assert services.reading.get_tree(ann).unread == 5


def test_what_is_taken_back_is_seen_in_a_tree_that_was_drawn_anew(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page, services = visit(login="ann"), site.services
    near(page)
    menu(page, C, "Move to…")
    page.get_by_role("button", name="News", exact=True).click()
    agree(page, site, ann, eventually, {"": [A, B, D, E], "Art": [], "News": [C]})
    expect(page.locator(".toast")).to_contain_text("moved to “News”")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#tree nav")).not_to_have_attribute("data-shape", "")
    services.folders.create(ann, "Of another device")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(item(page, "Of another device")).to_be_visible()
    page.keyboard.press("z")
    expect(page.locator("#say")).to_have_text("Undone")
    agree(page, site, ann, eventually, {"": [A, B, C, D, E], "Art": [], "News": [], "Of another device": []})


def test_two_devices_move_and_neither_loses(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    one, two = visit(login="ann"), visit(login="ann", expect="404")
    for page in (one, two):
        near(page)
    drag(one, A, "Art", 0.5)
    eventually(lambda: shape(site, ann)["Art"] == [A])
    drag(two, A, "News", 0.5)
    expect(two.locator(".toast")).to_contain_text("moved to “News”")
    # Both did what was asked for, nothing is lost and nothing counted twice.
    assert shape(site, ann) == {"": [B, C, D, E], "Art": [A], "News": [A]}
    assert site.services.reading.get_tree(ann).unread == 5
    (folder,) = [f for f in site.services.folders.list_folders(ann) if f.name == "News"]
    site.services.folders.delete(ann, folder.id)
    before = shown(two)
    drag(two, B, "News", 0.5)
    expect(two.locator(".toast").last).to_contain_text("Nothing changed.")
    assert shown(two) == before
    two.reload()
    assert shown(two) == shape(site, ann)


def test_many_at_once_are_one_undo(site: Site, visit: Visit, ann: Actor, eventually: Eventually) -> None:
    page = visit(login="ann")
    page.goto("/subscriptions")
    rows = page.locator("tbody tr")
    expect(page.get_by_role("button", name="Unsubscribe")).to_be_hidden()
    rows.nth(1).locator("input").check()
    rows.nth(3).locator("input").click(modifiers=["Shift"])
    expect(page.locator("#chosen")).to_have_text("3 selected")
    page.locator("#bulk-bar summary", has_text="Folders").click()
    page.locator("#into").select_option(label="Art")
    page.get_by_role("button", name="Move", exact=True).first.click()
    expect(page.locator(".toast")).to_contain_text("3 feeds moved")
    assert shape(site, ann) == {"": [A, E], "Art": [B, C, D], "News": []}
    page.locator(".toast .undo").click()
    expect(page.locator(".toast")).to_contain_text("Undone")
    assert shape(site, ann)["Art"] == []
    page.goto("/subscriptions?q=example")
    page.locator("#every").check()
    page.get_by_role("button", name="Unsubscribe").click()
    expect(page.locator(".empty")).to_be_visible()
    page.locator(".toast .undo").click()
    expect(rows).to_have_count(5)
    assert shape(site, ann)[""] == list(NAMES)


def test_the_manager_without_a_script_on_a_phone(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", js=False, size=PHONE)
    page.goto("/subscriptions")
    page.locator("tbody input").nth(0).check()
    page.locator("#bulk-bar summary", has_text="Folders").click()
    page.locator("#into").select_option(label="News")
    page.get_by_role("button", name="Add to folder").click()
    assert shape(site, ann)["News"] == [A]
    page.locator(".toast .undo").click()
    assert shape(site, ann)["News"] == []
    page.get_by_role("button", name="Move News up").click()
    assert [f.name for f in site.services.folders.list_folders(ann)] == ["News", "Art"]
    page.locator("#folders summary").first.click()
    page.get_by_label("Parent folder of News").select_option(label="In Art")
    page.locator("#folders li").first.get_by_role("button", name="Move", exact=True).click()
    (top,) = site.services.reading.get_tree(ann).folders
    assert [f.name for f in top.folders] == ["News"]


def test_the_first_screen_of_the_manager_on_a_phone_shows_feeds(site: Site, visit: Visit, ann: Actor) -> None:
    """And what can be done to chosen ones is in reach, however far down they are."""
    urls = [f"https://site{n}.example/feed" for n in range(30)]
    for url in urls:
        site.services.subscriptions.subscribe(ann, url)
    page = visit(login="ann", size=(390, 844))
    page.goto("/subscriptions")
    tabs = page.locator(".tabs").evaluate("(bar) => bar.getBoundingClientRect().top")
    shown = page.locator(".feeds tbody tr").evaluate_all(
        "(all, end) => all.filter((row) => row.getBoundingClientRect().bottom <= end).length", tabs
    )
    assert shown >= 2
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.locator(".manager-find .btn:not(.filter)")).to_be_hidden()
    last = page.locator("input[name=feed]").last
    last.check()
    button = page.locator("button[value=unsubscribe]")
    expect(button).to_be_enabled()
    bar = page.locator("#bulk-bar").evaluate("(bar) => bar.getBoundingClientRect().toJSON()")
    assert abs(bar["bottom"] - tabs) <= 1
    assert bar["height"] <= 160
    button.scroll_into_view_if_needed()
    expect(button).to_be_in_viewport()
    # Nothing is hidden without scripts.
    plain = visit(login="ann", size=(390, 844), js=False)
    plain.goto("/subscriptions")
    expect(plain.locator(".manager-find .btn:not(.filter)")).to_be_visible()


def test_a_name_that_runs_in_the_other_direction_scrambles_no_sentence(
    site: Site, visit: Visit, ann: Actor
) -> None:
    folder = next(one for one in site.services.folders.list_folders(ann) if one.name == "News")
    site.services.folders.rename(ann, folder.id, "أخبار")
    page = visit(login="ann")
    near(page)
    menu(page, C, "Move to…")
    page.get_by_role("button", name="أخبار", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("“cid” moved to “\u2068أخبار\u2069”")
