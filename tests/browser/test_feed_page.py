"""Feeds in a real browser: the feed page, adding, and the subscriptions on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from app import clock
from app.models.accounts.actor import Actor
from app.models.feeds.discovery import Discovered, FoundFeed
from tests.browser.conftest import Site
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

Visit = Callable[..., Page]
SIZES = [(390, 844), (720, 900), (1024, 768), (1440, 900)]
FOUND = FoundFeed(
    "https://blog.example/atom.xml",
    "The blog",
    None,
    "atom10",
    7,
    None,
    2.0,
    headlines=("A headline that is far too long for one line " * 4, "Second", "Third"),
)


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


def find(site: Site, address: str, *feeds: FoundFeed, error: str | None = None) -> None:
    """Store the result of a search."""
    gateway = site.services.gateways.discoveries
    row = gateway.get_or_create(address, clock.now())
    gateway.store_result(row.key, Discovered(row.address, feeds, error=error), clock.now())


def is_wide(page: Page) -> bool:
    """Return whether the page scrolls sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.mark.parametrize("size", SIZES)
def test_settings_are_above_health_and_fit(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    feed_id = subscribe(site, ann, 1)
    for name in ("News", "A folder with a name that is much too long for any field on a phone"):
        site.services.folders.create(ann, name)
    page = visit(login="ann", size=size, touch=size[0] < 700)
    page.goto(f"/feeds/{feed_id}")
    assert page.get_by_label("Name", exact=True).bounding_box()["y"] < 420  # type: ignore[index]
    page.locator(".pick > summary").click()
    page.get_by_role("checkbox", name="News").check()
    page.get_by_label("New folder").fill("Mine")
    # It waits for the changes before it, and nothing that waits outlives the page.
    with page.expect_response(lambda answer: "hidden=1" in (answer.request.post_data or "")):
        page.get_by_role("switch", name="Hide from").check()
    page.locator("#fetching > summary").click()
    assert not is_wide(page)
    expect(page.get_by_label("User agent")).to_be_visible()
    expect(page.locator("#folders-chosen")).to_have_text(re.compile("Mine, News|News, Mine"))
    page.reload()
    expect(page.locator("#folders-chosen")).to_have_text(re.compile("Mine, News|News, Mine"))
    expect(page.get_by_role("switch", name="Hide from")).to_be_checked()
    assert not is_wide(page)


def test_the_arrow_of_the_folders_is_where_those_of_the_lists_are(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann")
    page.goto(f"/feeds/{feed_id}")
    arrow = page.locator(".pick > summary .icon").bounding_box()
    field = page.get_by_label("Entries to show")
    box = field.bounding_box()
    assert arrow
    assert box
    # The picture in the background is 20 px wide, and 10 px from the edge within the border.
    assert field.evaluate("(e) => getComputedStyle(e).backgroundPositionX") == "calc(100% - 10px)"
    assert (arrow["x"], arrow["width"]) == (box["x"] + box["width"] - 31, 20)


def test_each_change_of_a_feed_is_saved_at_once(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann")
    page.goto(f"/feeds/{feed_id}")
    save = page.locator("#edit").get_by_role("button", name="Save")
    expect(save).to_be_hidden()
    for act in (
        lambda: page.get_by_role("switch", name="Hide from").check(),
        lambda: page.get_by_label("Entries to show").select_option("25"),
        lambda: page.locator(".one-of").get_by_text("List", exact=True).click(),
    ):
        act()
        expect(page.locator("#saved")).to_have_text("Saved")
        expect(page.locator("#saved span")).to_be_in_viewport()
        page.locator("#saved").evaluate("(place) => place.replaceChildren()")
    name = page.get_by_label("Name", exact=True)
    name.fill("My favourite")
    name.press("Enter")
    expect(page.locator("#feed-name")).to_have_text("My favourite")
    # A new folder is chosen at once, and its field is free for another.
    page.locator(".pick > summary").click()
    page.get_by_label("New folder").fill("Mine")
    page.get_by_label("New folder").press("Enter")
    expect(page.get_by_role("checkbox", name="Mine")).to_be_checked()
    expect(page.get_by_label("New folder")).to_have_value("")
    page.get_by_role("checkbox", name="Mine").uncheck()
    expect(page.locator("#folders-chosen")).to_have_text("No folder")
    mine = site.services.subscriptions.get(ann, feed_id)
    assert (mine.title, mine.folder_ids, mine.keep_newest) == ("My favourite", (), 25)
    page.reload()
    expect(page.get_by_role("radio", name="List")).to_be_checked()
    expect(page.get_by_role("switch", name="Hide from")).to_be_checked()


def test_the_menu_of_a_feed_leads_to_what_is_folded(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann")
    page.goto(f"/feeds/{feed_id}")
    menu = page.locator(".actions > .menu")
    for line, shown in (
        ("Change address", page.get_by_label("Feed address")),
        ("Login and fetching", page.get_by_label("User name")),
        ("Unsubscribe from", page.get_by_role("button", name="Unsubscribe", exact=True)),
    ):
        expect(shown).to_be_hidden()
        menu.locator("summary").click()
        menu.get_by_role("link", name=line).click()
        expect(shown).to_be_in_viewport()
        expect(menu.locator(".menu-box")).to_be_hidden()


def test_a_found_feed_takes_the_place_of_a_broken_one(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    feeds = site.services.store.database["feeds"]
    feeds.update_one({"_id": feed_id}, {"$set": {"error": "http_404", "site_url": "https://blog.example/"}})
    find(site, "https://blog.example/", FOUND)
    page = visit(login="ann")
    page.goto(f"/read/feed/{feed_id}")
    page.get_by_role("button", name="Find its new address").click()
    expect(page.locator("#found")).to_contain_text("The blog")
    # Again, in place.
    page.get_by_role("button", name="Find its new address").click()
    expect(page.locator("#found form")).to_have_count(1)
    page.get_by_role("button", name="Use this feed instead").click()
    expect(page.locator(".facts")).to_contain_text(FOUND.url)
    expect(page.locator(".toast")).to_contain_text("Address changed.")


@pytest.mark.parametrize("size", [SIZES[0], SIZES[3]])
def test_a_found_feed_shows_its_headlines_and_another_can_follow(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    site.services.folders.create(ann, "News")
    find(site, "https://blog.example/", FOUND)
    page = visit(login="ann", size=size)
    page.goto("/add")
    expect(page.get_by_label("Address of a site")).to_be_focused()
    page.get_by_label("Address of a site").fill("https://blog.example/")
    page.keyboard.press("Enter")
    lines = page.locator("#found .latest > span")
    expect(lines).to_have_count(3)
    # Each takes one line, however long it is.
    heights = [round(line.bounding_box()["height"]) for line in lines.all()]  # type: ignore[index]
    # One line each, and on phones two at most.
    assert max(heights) <= min(heights) * (2 if size[0] < 480 else 1)
    assert not is_wide(page)
    assert page.locator("#folder-names option").evaluate_all("(all) => all.map((one) => one.value)") == [
        "News"
    ]
    page.get_by_label("Folder").fill("Blogs")
    page.get_by_role("button", name="Subscribe and add another").click()
    expect(page.get_by_role("status").filter(has_text="You're subscribed to")).to_be_visible()
    expect(page.get_by_label("Address of a site")).to_be_focused()
    expect(page.get_by_label("Address of a site")).to_have_value("")
    assert [folder.name for folder in site.services.folders.list_folders(ann)] == ["Blogs", "News"]


def test_a_phone_shows_feeds_before_filters(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", size=(390, 844), touch=True)
    page.goto("/subscriptions")
    controls = "main :is(a, button, input, select):not([type=hidden])"
    first = page.locator(".feeds .name a").first
    before = page.evaluate(
        """([controls, place]) => [...document.querySelectorAll(controls)]
          .filter((one) => one.checkVisibility() && one.getBoundingClientRect().top < place).length""",
        [controls, first.bounding_box()["y"]],  # type: ignore[index]
    )
    assert before <= 6
    expect(page.get_by_label("Sort by")).to_be_hidden()
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_label("Sort by")).to_be_visible()
    expect(page.get_by_role("button", name="Unsubscribe")).to_be_hidden()
    page.locator(".feeds input[name=feed]").first.check()
    expect(page.get_by_role("button", name="Unsubscribe")).to_be_visible()
    assert not is_wide(page)


def test_without_scripts_the_phone_has_all_filters(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", size=(390, 844), js=False)
    page.goto("/subscriptions")
    expect(page.get_by_label("Sort by")).to_be_visible()
    expect(page.get_by_role("button", name="Unsubscribe")).to_be_visible()
    expect(page.get_by_role("button", name="Filter")).to_be_hidden()


def test_a_title_opens_the_original_page_and_is_read(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    site.services.subscriptions.update(ann, feed_id, original=True)
    page = visit(login="ann")
    page.goto(f"/read/feed/{feed_id}")
    link = page.locator("#rows h2 a").first
    expect(link).to_have_attribute("target", "_blank")
    with page.context.expect_page() as opened:
        link.click()
    opened.value.close()
    expect(page.locator("#rows .row").first).to_have_class(re.compile("is-read"))
    assert "entry=" not in page.url


def test_a_refused_change_is_put_back_and_says_why(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", expect="404", size=(390, 844))
    page.goto(f"/feeds/{feed_id}")
    site.services.subscriptions.unsubscribe(ann, feed_id)
    page.get_by_role("switch", name="Hide from").click()
    why = page.locator(".onoff:has(#s-hidden) .unsaved")
    expect(why).to_be_in_viewport()
    assert why.bounding_box()["height"] < 70  # type: ignore[index]
    expect(page.get_by_role("switch", name="Hide from")).not_to_be_checked()


def test_a_refused_folder_keeps_no_other_change_from_being_saved(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", expect="400")
    page.goto(f"/feeds/{feed_id}")
    page.locator(".pick > summary").click()
    field = page.get_by_label("New folder")
    field.evaluate("(field) => (field.maxLength = 999)")
    field.fill("y" * 200)
    field.press("Tab")
    expect(field).to_have_attribute("aria-invalid", "true")
    why = page.locator("#folders-field").get_by_role("alert")
    expect(why).to_be_visible()
    page.get_by_role("switch", name="Notify").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(why).to_be_visible()
    expect(field).to_have_value("y" * 200)
    assert site.services.subscriptions.get(ann, feed_id).notify


def test_a_folder_ticked_while_a_new_one_is_saved_stays(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    site.services.folders.create(ann, "News")
    page = visit(login="ann", routes=True)
    page.goto(f"/feeds/{feed_id}")
    held: list[Route] = []
    page.route("**/edit", lambda route: route.continue_() if held else held.append(route))
    page.locator(".pick > summary").click()
    page.get_by_label("New folder").fill("Mine")
    with page.expect_request("**/edit"):
        page.get_by_label("New folder").press("Tab")
    page.get_by_role("checkbox", name="News").check()
    held[0].continue_()
    expect(page.locator("#folders-chosen")).to_have_text(re.compile("Mine, News|News, Mine"))
    expect(page.get_by_role("checkbox", name="News")).to_be_checked()
    expect(page.get_by_role("checkbox", name="Mine")).to_have_count(1)
    expect(page.get_by_role("checkbox", name="Mine")).to_be_checked()
    expect(page.get_by_label("New folder")).to_have_value("")
