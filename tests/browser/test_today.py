"""“Today” and “Recently read” in a real browser: sections, pictures, keys, and nothing that jumps."""

from __future__ import annotations

import datetime as dt
import email.utils
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app import clock
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from tests.browser.conftest import Site, log_in
from tests.browser.test_keys import press
from tests.browser.test_list_looks import edges, with_picture
from tests.browser.test_list_rules import titles
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
SIZES = ((390, 844), (720, 900), (1024, 768), (1440, 900))
FEEDS = {
    "https://garden.example/feed": ("Garden", ["Rain", "Roses", "Seeds"]),
    "https://town.example/feed": ("Town", ["Trams", "Towers"]),
    "https://loose.example/feed": ("Loose", ["Letters"]),
}


@pytest.fixture
def ann(site: Site) -> Actor:
    """A user with a feed in each of two folders and one outside, whose second entries have pictures."""
    actor, services = add_user(site.services), site.services
    bodies, ids = {}, []
    for url, (name, entries) in FEEDS.items():
        folder = services.folders.create(actor, f"The {name}").id if name != "Loose" else None
        ids.append(services.subscriptions.subscribe(actor, url, folder_id=folder).subscription.feed_id)
        body = dated(rss(name, [(title, f"<p>The text of {title}.</p>" * 9) for title in entries]))
        bodies[url] = with_picture(body, entries[-1]) if len(entries) > 1 else body
    pull(services, ids, bodies)
    services.accounts.set_preferences(actor, {"images": "site"})
    return actor


def _add_harbour(site: Site, actor: Actor, count: int = 5) -> None:
    """Subscribe to a feed with more entries, in a folder of its own."""
    url, names = "https://harbour.example/feed", [f"Ship {n}" for n in range(count)]
    folder = site.services.folders.create(actor, "The Harbour").id
    feed_id = site.services.subscriptions.subscribe(actor, url, folder_id=folder).subscription.feed_id
    body = dated(rss("Harbour", [(name, "<p>Sails.</p>") for name in names]))
    pull(site.services, [feed_id], {url: with_picture(body, names[0])})


def dated(body: bytes) -> bytes:
    """Give the entries dates: the first is a minute old, each other one a minute older."""
    first, *items = body.split(b"<item>")
    now = clock.now()
    dates = [
        email.utils.format_datetime(now - dt.timedelta(minutes=n)).encode() for n in range(1, len(items) + 1)
    ]
    parts = (b"<item><pubDate>%s</pubDate>%s" % pair for pair in zip(dates, items, strict=True))
    return b"".join((first, *parts))


def share(site: Site, name: str, url: str, *, followed_by: Actor | None = None) -> None:
    """Let somebody share the newest entry of another feed, so that it is popular here."""
    services, who = site.services, add_user(site.services, name)
    services.following.update_profile(
        who, display="", bio="", links=(), audience=Audience.PUBLIC, listed=True, open_lists=False
    )
    feed_id = services.subscriptions.subscribe(who, url).subscription.feed_id
    pull(
        services, [feed_id], {url: dated(rss(f"Feed of {name}", [(f"Word of {name}", "<p>Some words.</p>")]))}
    )
    page = services.reading.load_page(who, StreamQuery(StreamRef.parse(f"feed/{feed_id}")))
    services.sharing.share(who, page.rows[0].id, note="Look")
    if followed_by:
        services.following.follow(followed_by, name)


def show(visit: Visit, path: str = "/read/today", **wish: object) -> Page:
    page = visit(**wish)
    page.route("https://pictures.example/**", lambda route: route.abort())
    if wish.get("js") is False:
        log_in(page, "ann")
    page.goto(path)
    return page


def sections(page: Page) -> list[str]:
    return page.locator("#rows .section h2").all_text_contents()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sections_are_led_by_pictures(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int], scheme: str
) -> None:
    share(site, "bob", "https://bob.example/feed", followed_by=ann)
    share(site, "cleo", "https://cleo.example/feed")
    page = show(visit, login="ann", size=size, scheme=scheme)
    assert sections(page) == [
        "The Garden", "The Town", "Other feeds", "Shared by people you follow", "Popular here"
    ]  # fmt: skip
    assert [title.split(": ")[-1] for title in titles(page)] == [
        "Seeds", "Rain", "Roses", "Towers", "Trams", "Letters", "Word of bob", "Word of cleo"
    ]  # fmt: skip
    leads = page.locator("#rows .lead")
    expect(leads).to_have_count(2)
    lead = leads.first
    picture, row, title = edges(lead.locator(".thumb")), edges(lead), edges(lead.locator("h2"))
    assert picture["width"] > row["width"] - 50
    assert picture["width"] / picture["height"] == pytest.approx(16 / 9, abs=0.02)
    assert picture["bottom"] <= title["top"]
    assert title["left"] == pytest.approx(picture["left"], abs=1)
    pane = page.locator(".pane-list")
    assert pane.evaluate("(e) => e.scrollWidth - e.clientWidth") == 0
    expect(page.locator(".pane-list h1")).to_have_text("Today")


def test_the_wide_list_has_columns_in_reading_order(site: Site, visit: Visit, ann: Actor) -> None:
    page = show(visit, "/read/today?view=list", login="ann")
    _add_harbour(site, ann)
    page.reload()
    rows = page.locator(".section:has-text('The Harbour') ~ li .row")
    lead, *others = [edges(row) for row in rows.all()[:5]]
    assert lead["right"] < others[0]["left"] < others[1]["left"]
    assert others[0]["top"] == others[1]["top"]
    assert others[0]["height"] < lead["height"]
    assert others[2]["left"] == others[0]["left"]


def test_a_section_of_few_rows_leaves_no_hole(site: Site, visit: Visit, ann: Actor) -> None:
    for size in ((1440, 900), (1024, 768), (1920, 1080), (720, 900)):
        page = show(visit, "/read/today?view=list", login="ann", size=size)
        garden, town = page.locator(".section.few").all()[:2]
        lead, *others = [edges(row) for row in page.locator("#rows .row").all()[:3]]
        picture, title = (edges(page.locator("#rows .lead").first.locator(part)) for part in (".thumb", "h2"))
        assert picture["right"] <= title["left"], size
        assert abs(picture["top"] - title["top"]) <= 8, size
        assert 1.7 < picture["width"] / picture["height"] < 1.8, size
        assert edges(garden)["bottom"] <= lead["top"]
        if size[0] >= 1440:
            # Its two others stand beside it, one below the other, and the section ends with the picture.
            assert lead["right"] < others[0]["left"]
            assert size[0] > 1440 or others[0]["left"] == others[1]["left"]
            assert edges(town)["top"] >= lead["bottom"]
            assert others[1]["bottom"] <= lead["bottom"] + 8
        assert page.evaluate("() => document.querySelector('.pane-list').scrollWidth <= innerWidth")


def test_a_section_says_if_it_has_more_unread_than_it_shows(site: Site, visit: Visit, ann: Actor) -> None:
    _add_harbour(site, ann, 40)
    page = show(visit, login="ann")
    counts = page.locator("#rows .section .num").all_text_contents()
    assert sorted(count.partition(": ")[2] or count for count in counts) == [
        "1 unread", "2 unread", "3 unread", "All 40 unread"
    ]  # fmt: skip


def test_today_is_first_and_keys_go_through_it(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    page.route("https://pictures.example/**", lambda route: route.abort())
    expect(page.locator("#tree .tree a").first).to_have_text("Today")
    press(page, "g+y")
    expect(page.locator(".pane-list h1")).to_have_text("Today")
    expect(page.locator("#tree a[aria-current='page']")).to_have_text("Today")
    expect(page.locator("#rows .row")).to_have_count(6)
    for title in "Seeds", "Rain", "Roses", "Towers":
        press(page, "j")
        expect(page.locator("#entry-title")).to_have_text(title)
    eventually(lambda: site.services.reading.get_tree(ann).unread == 2)
    expect(page.locator("#rows .row")).to_have_count(6)
    page.locator("#rows .section h2 a", has_text="The Town").click()
    expect(page.locator(".pane-list h1")).to_have_text("The Town")
    page.go_back()
    expect(page.locator(".pane-list h1")).to_have_text("Today")
    # The same list as before, with what was read in it meanwhile.
    expect(page.locator("#rows .row")).to_have_count(6)
    expect(page.locator("#rows .row.is-read")).to_have_count(4)
    press(page, "Shift+A")
    eventually(lambda: site.services.reading.get_tree(ann).unread == 0)
    page.reload()
    expect(page.locator(".pane-list .empty h2")).to_have_text("Nothing new today")


def test_an_entry_that_is_not_of_today_stands_above_the_sections(
    site: Site, visit: Visit, ann: Actor
) -> None:
    reading = site.services.reading
    old = reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).rows[0]
    reading.mark(ann, [old.id], True)
    page = visit(login="ann")
    page.goto(f"/read/today?entry={old.id}")
    expect(page.locator("#rows .section h2").first).to_have_text("Opened entry")
    expect(page.locator("#rows .row[aria-current]")).to_have_attribute("data-id", str(old.id))
    expect(page.locator("#rows .row")).to_have_count(6)
    press(page, "j")
    expect(page.locator("#rows .row[aria-current] h2 a")).to_have_text(titles(page)[1])


def test_popular_entries_open_beside_the_list(site: Site, visit: Visit, ann: Actor) -> None:
    share(site, "cleo", "https://cleo.example/feed")
    page = show(visit, login="ann")
    page.get_by_role("link", name="Word of cleo").click()
    expect(page.locator("#entry-title")).to_have_text("Word of cleo")
    expect(page.locator(".pane-list h1")).to_have_text("Today")


def test_without_scripts_it_is_a_page_of_links(site: Site, visit: Visit, ann: Actor) -> None:
    page = show(visit, js=False, size=(390, 844))
    assert sections(page) == ["The Garden", "The Town", "Other feeds"]
    page.get_by_role("link", name="Trams").click()
    expect(page.locator("#entry-title")).to_have_text("Trams")
    page.goto("/read/today")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator(".pane-list .empty h2")).to_have_text("Nothing new today")


def test_its_view_has_no_order_or_density(site: Site, visit: Visit, ann: Actor) -> None:
    page = show(visit, login="ann")
    menu = page.locator(".pane-list .menu").first
    menu.locator("summary").click()
    assert menu.locator("button[value]").all_text_contents() == ["Three panes", "List"]


@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_recently_read_entries_are_listed_by_the_time_of_reading(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object], size: tuple[int, int]
) -> None:
    page = show(visit, "/read/all", login="ann", size=size)
    expect(page.locator("#rows .row")).to_have_count(6)
    recent = StreamQuery(StreamRef.parse("recent"))
    opened = []
    for place in 2, 0:
        opened.insert(0, titles(page)[place].split(": ")[-1])
        page.locator("#rows .row h2 a").nth(place).click()
        expect(page.locator("#entry-title")).to_have_text(opened[0])
        eventually(lambda: len(site.services.reading.load_page(ann, recent).rows) == len(opened))
        page.keyboard.press("Escape")
    press(page, "g+r")
    expect(page.locator(".pane-list h1")).to_have_text("Recently read")
    expect(page.locator("#rows .row")).to_have_count(2)
    assert titles(page) == opened
    # Opening one of them doesn't turn the list over.
    page.locator("#rows .row h2 a").nth(1).click()
    expect(page.locator("#entry-title")).to_have_text(opened[1])
    page.goto("/read/recent")
    assert titles(page) == opened
    # Opening one elsewhere does.
    page.goto("/read/all")
    page.locator("#rows .row", has_text=opened[1]).locator("h2 a").click()
    expect(page.locator("#entry-title")).to_have_text(opened[1])
    page.goto("/read/recent")
    assert titles(page) == opened[::-1]


def test_nothing_read_yet_says_what_will_be_here(site: Site, visit: Visit, ann: Actor) -> None:
    page = show(visit, "/read/recent", login="ann")
    expect(page.locator(".pane-list .empty h2")).to_have_text("Nothing read yet")


@pytest.mark.parametrize("order", ["Shortest first", "Popular here"])
def test_orders_are_chosen_in_the_menu_and_kept(site: Site, visit: Visit, ann: Actor, order: str) -> None:
    page = show(visit, "/read/all", login="ann")
    page.locator(".pane-list .menu summary").first.click()
    with page.expect_response("**/read/view"):
        page.get_by_role("button", name=order).click()
    page.goto("/read/all")
    expect(page.locator(".pane-list .menu button[name='sort'][aria-pressed='true']")).to_have_text(order)
    expect(page.locator("#rows .row")).to_have_count(6)
    page.goto("/read/starred")
    assert page.locator(".pane-list .menu button[value='shortest']").count() == 0
