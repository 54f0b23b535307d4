"""Counts that move by themselves: two tabs, two devices, news; and what is left without a controller."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from app import clock, embedded
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor, Role
from tests.browser.conftest import log_in
from tests.conftest import CHROMIUM_ARGS, NO_OTHERS
from tests.imports.test_imports import listed
from tests.support import live
from tests.support.reader import add_user, elsewhere, pull, rss
from tests.support.up import free_port

URL = "https://one.example/feed"
_WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (e) => window.__violations.push(e.blockedURI));
window.__opened = 0;
window.__listens = false;
const Real = window.EventSource;
window.EventSource = class extends Real {
  constructor(...a) {
    super(...a);
    window.__opened += 1;
    this.addEventListener("open", () => (window.__listens = true));
    this.addEventListener("error", () => (window.__listens = false));
  }
  close() {
    super.close();
    window.__listens = false;
  }
};
"""

Device = Callable[[], BrowserContext]
Eventually = Callable[..., object]


class _Web:
    """The web tier that all tests of this file share: their databases have one name and begin empty."""

    def __init__(self, place: Settings) -> None:
        self.place = place
        self._part: live.Part | None = None

    def start(self, settings: Settings) -> None:
        """Start it for the first test that needs it."""
        if self._part is None:
            self._part = live.web(settings)

    def close(self) -> None:
        if self._part is not None:
            self._part.stop()


@pytest.fixture(scope="module")
def web(servers: embedded.EmbeddedServers) -> Iterator[_Web]:
    with live.homed(servers.settings) as place, contextlib.closing(_Web(place)) as shared:
        yield shared


@pytest.fixture
def settings(settings: Settings, web: _Web) -> Settings:
    place = web.place
    return dataclasses.replace(settings, home=place.home, port=place.port, web_workers=place.web_workers)


@pytest.fixture
def ann(services: Services) -> Actor:
    actor = add_user(services)
    services.subscriptions.subscribe(actor, URL)
    _publish(services, actor, 10)
    return actor


def _publish(services: Services, actor: Actor, count: int) -> None:
    ids = services.gateways.subscriptions.find_feed_ids(actor.user_id)
    items = [(f"Entry {n}", f"<p>Text of {n}.</p>") for n in range(count)]
    pull(services, ids, {URL: rss("Feed one", items)})


@pytest.fixture
def server(settings: Settings, ann: Actor, web: _Web) -> Settings:
    """The web tier as ``eventr web`` runs it; no controller yet."""
    web.start(settings)
    return settings


@pytest.fixture
def device(server: Settings, chromium: Browser) -> Iterator[Device]:
    """``device()``: a new browser in which ann is logged in."""
    with contextlib.ExitStack() as stack:

        def new() -> BrowserContext:
            context = chromium.new_context(
                base_url=server.own_origin, viewport={"width": 1440, "height": 900}
            )
            stack.callback(context.close)
            context.add_init_script(_WATCH)
            return context

        yield new


def _open(context: BrowserContext, *, first: bool = True) -> Page:
    page = context.new_page()
    if first:
        log_in(page, "ann")
    else:
        page.goto("/read/all")
    return page


def _listens(page: Page, yes: bool = True) -> None:
    """Wait until the browser's stream is open, or is not any more; it belongs to one of its tabs."""
    page.wait_for_function("(yes) => window.__listens === yes", arg=yes)


def _unread(page: Page, count: int) -> None:
    expect(page.locator("a[data-all]")).to_have_attribute("data-unread", str(count))


def _quiet(page: Page) -> None:
    assert page.evaluate("window.__violations") == []


@pytest.fixture
def controller(settings: Settings) -> Iterator[list[live.Part]]:
    """The controllers of a test, newest last; one runs."""
    parts = [live.controller(settings)]
    yield parts
    for part in parts:
        part.stop()


def test_what_a_friend_shares_shows_in_the_open_page(
    server: Settings, controller: list[live.Part], device: Device, services: Services, ann: Actor
) -> None:
    bob, entry = add_user(services, "bob"), services.store.database["entries"].find_one() or {}
    services.subscriptions.subscribe(bob, URL)
    first = services.sharing.share(bob, entry["_id"]).share
    services.following.follow(ann, "bob")
    services.sharing.remove_share(bob, first.id)
    page = _open(device())
    page.goto("/read/following")
    _listens(page)
    services.sharing.share(bob, entry["_id"], note="Look")
    expect(page.locator("#newbar")).to_be_visible()
    expect(page.locator(".tree a[data-folder=following]")).to_have_attribute("data-unread", "1")
    page.locator("#newbar").click()
    expect(page.locator("#rows .row .said")).to_contain_text("Look")
    _quiet(page)


def test_what_is_read_here_is_read_there(
    server: Settings, controller: list[live.Part], device: Device
) -> None:
    desk, phone = device(), device()
    first = _open(desk)
    _listens(first)
    second = _open(desk, first=False)
    other = _open(phone)
    _listens(other)
    for page in (first, second, other):
        _unread(page, 10)
    first.keyboard.press("j")
    first.keyboard.press("j")
    _unread(first, 8)
    _unread(other, 8)
    _unread(second, 8)
    # Nothing was loaded anew, nothing moved, and a browser has one stream for all its tabs.
    expect(other.locator("#rows .row")).to_have_count(10)
    assert [page.evaluate("window.__opened") for page in (first, second, other)] == [1, 0, 1]
    for page in (first, second, other):
        _quiet(page)


def test_rows_follow_what_another_tab_or_device_does(
    server: Settings, controller: list[live.Part], device: Device, eventually: Eventually
) -> None:
    desk, phone = device(), device()
    first = _open(desk)
    _listens(first)
    others = [_open(desk, first=False), _open(phone)]
    _listens(others[1])

    def shows(read: list[int]) -> None:
        for page in others:
            expect(page.locator("#rows .row.is-read")).to_have_count(len(read))
            for n in read:
                expect(page.locator("#rows .row").nth(n)).to_have_class(re.compile("is-read"))
            _unread(page, 10 - len(read))

    first.keyboard.press("j")
    first.keyboard.press("j")
    shows([0, 1])
    first.keyboard.press("m")
    shows([0])
    first.keyboard.press("Shift+A")
    shows(list(range(10)))
    first.keyboard.press("z")
    shows([0])
    # A row that is marked here is not asked for again by what the server knew before.
    others[0].keyboard.press("j")
    others[0].keyboard.press("j")
    _unread(first, 8)
    expect(first.locator("#rows .row.is-read")).to_have_count(2)
    for page in (first, *others):
        _quiet(page)


def test_new_entries_are_announced_at_once(
    server: Settings, controller: list[live.Part], device: Device, services: Services, ann: Actor
) -> None:
    page = _open(device())
    _listens(page)
    elsewhere(lambda: _publish(services, ann, 13))
    expect(page.locator("#newbar")).to_have_text("3 new")
    _unread(page, 13)
    expect(page.locator("#rows .row")).to_have_count(10)
    expect(page).to_have_title(re.compile(r"^\(13\) "))


def test_eight_tabs_share_a_stream_and_another_goes_on_when_its_tab_is_closed(
    server: Settings, controller: list[live.Part], device: Device, services: Services, ann: Actor
) -> None:
    """With a stream each the seventh would hang: browsers open six connections to a server (ux.md §2.4)."""
    browser = device()
    first = _open(browser)
    _listens(first)
    others = [_open(browser, first=False) for _ in range(7)]
    elsewhere(lambda: _publish(services, ann, 12))
    for page in (first, *others):
        _unread(page, 12)
    assert [page.evaluate("window.__opened") for page in (first, *others)] == [1] + [0] * 7
    for page in others[1:]:
        page.close()
    first.close()
    _listens(others[0])
    elsewhere(lambda: _publish(services, ann, 14))
    _unread(others[0], 14)


_LEAVE = "dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))"
_RETURN = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"


def test_a_page_that_rests_in_the_browsers_memory_lets_another_listen(
    server: Settings, controller: list[live.Part], device: Device, services: Services, ann: Actor
) -> None:
    """Playwright turns that memory off, so its events are sent by hand."""
    browser = device()
    first = _open(browser)
    _listens(first)
    second = _open(browser, first=False)
    first.evaluate(_LEAVE)
    _listens(second)
    elsewhere(lambda: _publish(services, ann, 12))
    _unread(second, 12)
    _unread(first, 10)
    # Back again it asks for what has changed, and hears of the next by the other tab's stream.
    first.evaluate(_RETURN)
    _unread(first, 12)
    elsewhere(lambda: _publish(services, ann, 13))
    _unread(first, 13)
    assert [page.evaluate("window.__opened") for page in (first, second)] == [1, 1]


_HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_tab_that_nobody_looks_at_asks_once_a_minute(
    server: Settings,
    controller: list[live.Part],
    device: Device,
    services: Services,
    ann: Actor,
    eventually: Eventually,
) -> None:
    context, known = device(), list[str]()
    context.clock.install()
    context.on("requestfinished", lambda r: known.append(r.url) if "/api/counts" in r.url else None)
    page = _open(context)
    # A stream that opens has all counts asked for once.
    eventually(lambda: page.evaluate("true") and known)
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "/api/counts" in r.url else None)
    page.evaluate(_HIDE, True)
    with page.expect_event("console", lambda m: m.text == "new"):
        page.evaluate("""() => {
          new BroadcastChannel("eventr-live").onmessage = ({ data }) => console.log(data.kind);
        }""")
        elsewhere(lambda: _publish(services, ann, 12))
    context.clock.run_for(11_000)
    assert not asked
    context.clock.run_for(60_000)
    expect(page).to_have_title(re.compile(r"^\(12\) "))
    assert len(asked) == 1


def _read(page: Page) -> list[int]:
    return page.evaluate(
        "[...document.querySelectorAll('#rows .row')].flatMap((r, n) => (r.matches('.is-read') ? [n] : []))"
    )


def test_rows_follow_also_where_the_count_ends_as_it_was(
    server: Settings,
    controller: list[live.Part],
    device: Device,
    services: Services,
    ann: Actor,
    eventually: Eventually,
) -> None:
    page = _open(device())
    _listens(page)
    page.keyboard.press("j")
    eventually(lambda: services.reading.get_tree(ann).unread == 9)
    _unread(page, 9)
    page.wait_for_load_state("networkidle")
    page.evaluate(_HIDE, True)
    ids = [int(row.get_attribute("data-id") or 0) for row in page.locator("#rows .row").all()]
    with page.expect_event("console", lambda m: m.text == "counts"):
        page.evaluate("""() => {
          new BroadcastChannel("eventr-live").onmessage = ({ data }) => console.log(data.kind);
        }""")
        elsewhere(lambda: services.reading.mark(ann, ids[:1], False))
        elsewhere(lambda: services.reading.mark(ann, ids[1:2], True))
    page.evaluate(_HIDE, False)
    eventually(lambda: _read(page) == [1])
    _unread(page, 9)
    _quiet(page)


def test_the_count_follows_where_an_entry_older_than_those_of_its_list_is_kept_unread(
    server: Settings, controller: list[live.Part], device: Device, services: Services, ann: Actor
) -> None:
    (feed_id,) = services.gateways.subscriptions.find_feed_ids(ann.user_id)
    (old,) = services.mappers.entries.find_range(feed_id, 0, 1, 1)
    services.reading.set_starred(ann, old.id, True)
    services.subscriptions.update(ann, feed_id, keep_newest=4)
    page = _open(device())
    page.goto("/read/starred")
    _listens(page)
    _unread(page, 4)
    row = page.locator("#rows .row")
    expect(row).to_have_class(re.compile(r"\bis-read\b"))
    row.get_by_role("link").first.click()
    expect(page).to_have_title(re.compile(r"^\(4\) Entry 9"))
    # The page has the counts as they are; the next answer is that they are still the same.
    with page.expect_response("**/api/counts*"):
        services.events.notify_counts(ann.user_id)
    with page.expect_response("**/entries/mark"):
        page.keyboard.press("m")
        _unread(page, 5)
    _unread(page, 4)
    expect(row).to_have_class(re.compile(r"\bis-read\b"))
    _quiet(page)


def test_what_was_not_answered_about_rows_is_asked_again(
    server: Settings,
    controller: list[live.Part],
    device: Device,
    services: Services,
    ann: Actor,
    eventually: Eventually,
) -> None:
    context = device()
    context.route("**/entries/states", lambda route: route.abort(), times=1)
    page = _open(context)
    _listens(page)
    first = int(page.locator("#rows .row").first.get_attribute("data-id") or 0)
    with page.expect_event("requestfailed", lambda request: "/entries/states" in request.url):
        elsewhere(lambda: services.reading.mark(ann, [first], True))
    _unread(page, 9)
    assert _read(page) == []
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: _read(page) == [0])
    _quiet(page)


@pytest.fixture
def network(
    settings: Settings, ann: Actor, chromium: Browser, chromium_path: str
) -> Iterator[tuple[Settings, Browser]]:
    """A server that people reach by plain HTTP under a name of their network, and a browser there."""
    port = free_port()
    own = dataclasses.replace(settings, port=port, base_url=f"http://reader.lan:{port}")
    part = live.web(own)
    browser = chromium.browser_type.launch(
        executable_path=chromium_path,
        args=[*CHROMIUM_ARGS, f"--host-resolver-rules=MAP reader.lan 127.0.0.1, {NO_OTHERS}"],
    )
    yield own, browser
    browser.close()
    part.stop()


def test_by_plain_http_on_a_name_counts_are_asked_for_each_minute(
    network: tuple[Settings, Browser], services: Services, ann: Actor
) -> None:
    """There browsers have no locks, so no tab can lead: ux.md §2.4."""
    own, browser = network
    services.gateways.admin_accounts.set_role(ann.user_id, Role.ADMIN)
    context = browser.new_context(base_url=own.base_url, viewport={"width": 1440, "height": 900})
    context.add_init_script(_WATCH)
    context.clock.install()
    page = _open(context)
    assert page.evaluate("[isSecureContext, 'locks' in navigator]") == [False, False]
    for unread, status in ((10, 200), (10, 304), (12, 200)):
        if unread > 10:
            elsewhere(lambda: _publish(services, ann, 12))
        with page.expect_response(lambda r: "/api/counts" in r.url) as answer:
            context.clock.run_for(60_000)
        assert answer.value.status == status
        _unread(page, unread)
    assert page.evaluate("window.__opened") == 0
    _quiet(page)
    page.goto("/admin/settings")
    expect(page.get_by_text("This server uses plain HTTP.")).to_be_visible()
    context.close()


def test_without_a_controller_counts_are_asked_for_and_with_one_again_told(
    server: Settings,
    settings: Settings,
    controller: list[live.Part],
    device: Device,
    services: Services,
    ann: Actor,
    eventually: Eventually,
) -> None:
    context = device()
    context.clock.install()  # a minute of polling passes when the test says so
    page = _open(context)
    _listens(page)
    _unread(page, 10)
    controller[-1].kill()
    elsewhere(lambda: _publish(services, ann, 12))
    _listens(page, False)
    context.clock.run_for(61_000)
    _unread(page, 12)
    controller.append(live.controller(settings))

    def again() -> bool:
        context.clock.run_for(10_000)
        return bool(page.evaluate("window.__listens"))

    eventually(again)
    elsewhere(lambda: _publish(services, ann, 15))
    context.clock.run_for(11_000)
    _unread(page, 15)
    expect(page.locator("#newbar")).to_have_text("5 new")
    _quiet(page)


def test_an_import_is_told_on_every_page(
    server: Settings, controller: list[live.Part], device: Device, services: Services, ann: Actor
) -> None:
    kept = services.imports.preview(ann, listed(("a", ()), ("b", ()), ("c", ())), "mine.opml")
    services.imports.start(ann, kept.id)

    def tell(done: int) -> None:
        report = {"state": "queued", "goal": 3, "done": done, "failed": 1, "failed_now": 1, "seconds": None}
        services.events.notify_progress(
            ann.user_id, kept.id, {**report, "added": done, "already": 0, "fetching": 0}
        )

    page = _open(device())
    _listens(page)
    tell(1)
    expect(page.locator("#import-chip")).to_have_text("Importing 1 of 3")
    page.goto("/settings")
    _listens(page)
    tell(2)
    expect(page.locator("#import-chip")).to_have_text("Importing 2 of 3")
    # Beside its own page, which asks by itself now and then: here it may not.
    page.route("**/api/imports/*", lambda route: route.abort())
    page.clock.set_fixed_time(clock.now())
    page.goto(f"/imports/{kept.id}")
    _listens(page)
    tell(2)
    expect(page.locator("#words")).to_have_text("2 of 3, 1 failed")
    expect(page.locator("#bar")).to_have_js_property("value", 2)
    expect(page.locator("#import-say")).to_have_text("2 of 3, 1 failed")
    tell(3)
    expect(page.locator("#words")).to_have_text("3 of 3, 1 failed")
    assert page.locator("#import-say").inner_text() == "2 of 3, 1 failed", "spoken every five seconds at most"
    _quiet(page)
