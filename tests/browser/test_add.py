"""Adding a feed by the address of its site, through real workers that fetch over loopback."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from app.config import Settings
from tests.browser.conftest import Site, shot
from tests.support import manager
from tests.support.corpus import rows
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import PASSWORD

Visit = Callable[..., Page]
Eventually = Callable[..., object]
#: Generous, as a worker's start competes with the other tests.
WAIT = 60_000
_PAGE = """<!doctype html><title>A site</title>
<link rel="alternate" type="application/rss+xml" title="Posts" href="/feed.xml">
<h1>A site with a feed</h1>"""


@pytest.fixture
def web_site() -> Iterator[RawServer]:
    """A site on loopback: a page that announces a feed of the corpus, and pages that do not."""
    (feed,) = (row for row in rows("rss") if row.path == "feeds/rss/zerokspot.com-71d236.xml")
    with RawServer() as server:
        server.set("/", Reply(body=_PAGE.encode(), headers=(("Content-Type", "text/html"),)))
        server.set("/feed.xml", Reply(body=feed.read(), headers=(("Content-Type", "application/rss+xml"),)))
        yield server


@pytest.fixture
def settings(settings: Settings, web_site: RawServer) -> Settings:
    """Loopback may be fetched from this one server; a page waits half a second and then polls."""
    return dataclasses.replace(settings, fetch_allow=(web_site.origin,), discovery_wait=0.5)


def test_from_sign_up_to_the_first_entry(site: Site, visit: Visit, web_site: RawServer) -> None:
    page = visit(expect="400")
    with manager.running(site.services.settings):
        page.goto("/")
        page.get_by_role("link", name="Set up this server").click()
        page.get_by_label("User name").fill("ann")
        page.get_by_label("Email address").fill("ann@example.org")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create account").click()
        expect(page).to_have_url(re.compile(r"/welcome$"))
        expect(page.locator("html.js")).to_be_attached()

        page.get_by_label("Address of a site").fill("nothing at all")
        page.get_by_role("button", name="Find", exact=True).click()
        expect(page.locator("#found [role=alert]")).to_be_visible(timeout=WAIT)

        page.get_by_label("Address of a site").fill(web_site.origin)
        page.get_by_role("button", name="Find", exact=True).click()
        choice = page.get_by_role("group", name="One feed found").locator("label")
        expect(choice).to_contain_text("zerokspot.com", timeout=WAIT)
        expect(choice).to_contain_text("20 entries")
        expect(choice.locator("input")).to_be_checked()
        shot(page, "wide-found")
        page.get_by_label("Folder").fill("Blogs")
        page.get_by_role("button", name="Subscribe", exact=True).click()

        expect(page).to_have_url(re.compile(r"/read/feed/\d+$"))
        expect(page.locator("#rows .row").first).to_be_visible(timeout=WAIT)
        expect(page.locator(".folder > a")).to_contain_text("Blogs")
        expect(page.locator("html.js")).to_be_attached()
        page.keyboard.press("j")
        expect(page.locator("#entry-title")).to_have_text("Exploring Vancouver")
        page.keyboard.press("r")
        expect(page.locator("#say")).to_have_text("Checking 1 feed")


def test_adding_without_scripts(
    site: Site, visit: Visit, web_site: RawServer, eventually: Eventually
) -> None:
    from tests.support.reader import add_user

    add_user(site.services)
    page = visit(js=False, login="ann")
    with manager.running(site.services.settings):
        page.goto("/add")
        page.get_by_label("Address of a site").fill(web_site.url("/feed.xml"))
        with page.expect_navigation():
            page.get_by_role("button", name="Find", exact=True).click()
        again = page.get_by_role("button", name="Check again")
        subscribe = page.get_by_role("button", name="Subscribe", exact=True)
        for _ in range(100):
            expect(again.or_(subscribe)).to_be_visible()  # neither is there while the next page comes
            if subscribe.is_visible():
                break
            with page.expect_navigation():
                again.click()
        subscribe.click()
        expect(page).to_have_url(re.compile(r"/read/feed/\d+$"))
        rows = page.locator("#rows .row")
        eventually(lambda: page.reload() and rows.count(), WAIT / 1000)
        assert rows.count() == 20


def test_first_entries_bring_name_and_counts_into_the_tree(site: Site, visit: Visit) -> None:
    from tests.support.reader import SAMPLE, add_user, follow

    ann = add_user(site.services)
    address = f"https://feeds.example/{SAMPLE[0]}"
    feed_id = site.services.subscriptions.subscribe(ann, address).subscription.feed_id
    page = visit(login="ann")
    page.goto(f"/read/feed/{feed_id}")
    link = page.locator(".tree a[aria-current]")
    expect(page.locator("#waiting")).to_be_visible()
    expect(link).to_contain_text("feeds.example")

    follow(site.services, ann, SAMPLE[:1])

    expect(page.locator("#rows .row").first).to_be_visible(timeout=WAIT)
    (feed,) = site.services.reading.get_tree(ann).feeds
    expect(link).to_contain_text(feed.title)
    expect(link.locator(".av")).to_have_text(feed.title[0].upper())
    expect(link.locator("b")).to_have_text(str(feed.unread))
    expect(page.locator("#unread")).to_have_text(f"{feed.unread} unread")


def test_first_entries_are_shown_among_all_entries_too(site: Site, visit: Visit) -> None:
    from tests.support.reader import SAMPLE, add_user, follow

    ann = add_user(site.services)
    address = f"https://feeds.example/{SAMPLE[0]}"
    feed_id = site.services.subscriptions.subscribe(ann, address).subscription.feed_id
    page = visit(login="ann")
    page.goto("/read/all")
    expect(page.locator("#waiting")).to_be_visible()

    follow(site.services, ann, SAMPLE[:1])

    expect(page.locator("#rows .row").first).to_be_visible(timeout=WAIT)
    tree = site.services.reading.get_tree(ann)
    expect(page.locator(".tree a[data-all] b")).to_have_text(str(tree.unread))
    expect(page.locator(f".tree a[data-feed='{feed_id}']")).to_contain_text(tree.feeds[0].title)


def test_first_entries_that_come_late_take_nothing_away(
    site: Site, visit: Visit, eventually: Eventually
) -> None:
    """Neither another list that is shown by then, nor what was opened of them when it was time to ask."""
    from tests.support.reader import SAMPLE, add_user, follow

    ann = add_user(site.services)
    (other,) = follow(site.services, ann, SAMPLE[1:2])
    address = f"https://feeds.example/{SAMPLE[0]}"
    feed_id = site.services.subscriptions.subscribe(ann, address).subscription.feed_id
    page, held = visit(login="ann", routes=True), list[Route]()
    url = f"{site.url}/read/feed/{feed_id}"
    page.clock.install()
    page.route(url, lambda one: one.continue_() if one.request.is_navigation_request() else held.append(one))

    def later() -> list[Route]:
        page.clock.run_for(2000)
        return held

    def ask() -> Route:
        page.goto(url)
        eventually(later)
        return later().pop()

    late = ask()
    with page.expect_event("requestfailed", lambda request: request == late.request):
        page.locator(f".tree a[data-feed='{other}']").click()
    late = ask()
    follow(site.services, ann, SAMPLE[:1])
    late.continue_()
    expect(page.locator("#rows .row").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_be_visible()
    assert held == []


def test_what_is_looked_for_last_is_shown(site: Site, visit: Visit, eventually: Eventually) -> None:
    """The site before it takes its time, and its answer comes when that of the next one is there."""
    from tests.support.reader import add_user

    add_user(site.services)
    page, held = visit(login="ann", routes=True), list[Route]()
    page.clock.install()
    page.goto("/add")
    page.get_by_label("Address of a site").fill("https://slow.example")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#found progress")).to_be_visible()
    slow = "address=https%3A%2F%2Fslow.example"
    page.route(
        "**/add",
        lambda one: held.append(one) if (one.request.post_data or "").endswith(slow) else one.continue_(),
    )

    def later() -> list[Route]:
        page.clock.run_for(1000)
        return held

    eventually(later)
    page.get_by_label("Address of a site").fill("nothing at all")
    with page.expect_event("requestfailed", lambda request: request == held[0].request):
        page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#found [role=alert]")).to_be_visible()


def test_matches_appear_as_one_types_and_one_is_subscribed_to(site: Site, visit: Visit) -> None:
    from tests.support.reader import add_user

    add_user(site.services)
    page = visit(login="ann")
    page.goto("/add")
    page.get_by_label("Address of a site").press_sequentially("quanta")
    match = page.locator("#matches li")
    expect(match).to_have_count(1)
    expect(match).to_contain_text("Quanta Magazine")
    expect(match).to_contain_text("Science and space")
    page.get_by_label("Address of a site").press("Enter")
    expect(match).to_have_count(1)
    match.get_by_role("button", name="Subscribe Quanta Magazine").click()
    expect(page).to_have_url(re.compile(r"/read/feed/[0-9]+$"))
