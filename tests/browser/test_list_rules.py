"""The rules of the list (ux.md §1.3): rows stay, marks wait, back restores, 500 rows in the page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamRef
from tests.browser.conftest import Site
from tests.media.farm import make_png
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
Eventually = Callable[..., object]
URLS = ("https://one.example/feed", "https://two.example/feed")
SHIFTS = """
window.__shift = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.__shift += one.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def subscribe(site: Site, actor: Actor, count: int, url: str = URLS[0], text: str = "") -> int:
    """Let an actor have a feed with so many unread entries."""
    feed_id = site.services.subscriptions.subscribe(actor, url).subscription.feed_id
    name = url.partition("//")[2].partition(".")[0]
    items = [(f"{name} {n}", text or f"<p>Text of {name} {n}.</p>" * 12) for n in range(count)]
    pull(site.services, [feed_id], {url: rss(f"Feed {name}", items)})
    # The newest hundred of a new subscription are unread; these tests want all.
    site.services.store.database["subscriptions"].update_many(
        {"feed_id": feed_id}, {"$set": {"upto": 0, "words": {}}}
    )
    return feed_id


def kept(site: Site, actor: Actor, **changes: str) -> None:
    """Choose how the stream of everything is shown."""
    services = site.services
    user = services.gateways.accounts.find_user(actor.user_id)
    assert user is not None
    services.stream_views.set(actor, StreamRef.parse("all"), user.preferences, changes)


def titles(page: Page) -> list[str]:
    return page.eval_on_selector_all(
        "#rows .row h2 a", "(all) => all.map((a) => a.lastChild.textContent.trim())"
    )


def read_ones(page: Page) -> list[str]:
    return page.eval_on_selector_all(
        "#rows .row.is-read h2 a", "(all) => all.map((a) => a.lastChild.textContent.trim())"
    )


def unread(site: Site, actor: Actor) -> int:
    return site.services.reading.get_tree(actor).unread


def ready(page: Page) -> None:
    """Wait until all has come, and what looks at passing rows is at work."""
    page.wait_for_load_state("networkidle")
    page.evaluate("async () => { await import(document.querySelector('.pane-list').dataset.script); }")


def wheel(page: Page, by: int) -> None:
    """Turn the wheel over the list, and wait until the list has moved."""
    pane = page.locator(".pane-list")
    before = pane.evaluate("(pane) => pane.scrollTop")
    page.mouse.move(*_middle(page))
    page.mouse.wheel(0, by)
    page.wait_for_function(
        "(before) => document.querySelector('.pane-list').scrollTop !== before", arg=before
    )


def _middle(page: Page) -> tuple[float, float]:
    box = page.locator(".pane-list").bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


@pytest.fixture
def river(site: Site, ann: Actor) -> Actor:
    """Thirty whole texts, marked when they are scrolled past."""
    subscribe(site, ann, 30)
    kept(site, ann, view="expanded")
    site.services.accounts.set_preferences(ann, {"mark_on_scroll": True})
    return ann


def test_what_is_scrolled_past_by_hand_becomes_read(
    site: Site, visit: Visit, river: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    ready(page)
    heights = page.eval_on_selector_all("#rows .row", "(all) => all.map((row) => row.offsetHeight)")
    assert read_ones(page) == []  # not at load
    # Our own steps and a layout that shifts are no hand's doing.
    page.locator(".pane-list").evaluate("(pane) => pane.scrollTo(0, 0)")
    page.evaluate("document.querySelector('.row').style.minBlockSize = '900px'")
    page.locator(".pane-list").evaluate("(pane) => pane.scrollTo(0, 1200)")
    page.locator(".pane-list").evaluate("(pane) => pane.scrollTo(0, 0)")
    page.evaluate("document.querySelector('.row').style.minBlockSize = ''")
    assert read_ones(page) == []
    # A row counts when its lower edge has left; a fast turn skips none.
    wheel(page, heights[0] // 2)
    assert read_ones(page) == []
    wheel(page, sum(heights[:4]))
    eventually(lambda: read_ones(page) == [f"one {n}" for n in range(4)])
    eventually(lambda: unread(site, river) == 26)
    # What was kept unread stays so when it is passed again.
    page.locator(".row").nth(2).get_by_role("button", name="Unread").click()
    wheel(page, -3000)
    wheel(page, sum(heights[:5]) + 20)
    eventually(lambda: "one 4" in read_ones(page))
    assert "one 2" not in read_ones(page)


def test_the_end_marks_what_passed_and_no_more(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 3)
    kept(site, ann, view="expanded")
    site.services.accounts.set_preferences(ann, {"mark_on_scroll": True})
    page = visit(login="ann")
    ready(page)
    height = page.locator(".row").first.evaluate("(row) => row.offsetHeight")
    wheel(page, height + 10)
    eventually(lambda: read_ones(page) == ["one 0"])
    # Below the last one is room, so that it can leave by the upper edge.
    wheel(page, 10_000)
    eventually(lambda: read_ones(page) == ["one 0", "one 1", "one 2"])
    expect(page.locator("#rows .row")).to_have_count(3)


def test_passing_marks_nothing_unless_it_is_wished(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 12)
    kept(site, ann, view="expanded")
    page = visit(login="ann")
    ready(page)
    wheel(page, 4000)
    wheel(page, -4000)
    assert read_ones(page) == []
    assert unread(site, ann) == 12


def test_marks_wait_while_the_server_is_away_and_outlive_the_page(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 6)
    page = visit(login="ann", expect="ERR_INTERNET_DISCONNECTED", routes=True)
    page.wait_for_load_state("networkidle")
    page.context.set_offline(True)
    for place in range(2):
        page.keyboard.press("n")
        page.keyboard.press("m")
        expect(page.locator(".row").nth(place)).to_have_class(re.compile("is-read"))
    page.keyboard.press("s")
    expect(page.locator("#pending")).to_have_text("Offline: 3 changes not saved yet")
    assert read_ones(page) == ["one 0", "one 1"]
    assert unread(site, ann) == 6
    page.context.set_offline(False)
    expect(page.locator("#pending")).to_be_hidden()
    eventually(lambda: unread(site, ann) == 4)
    # A page that went away before they were sent: the next one sends them, shows them meanwhile.
    page.route("**/entries/mark", lambda route: route.abort())
    page.keyboard.press("n")
    page.keyboard.press("m")
    expect(page.locator("#pending")).to_have_text("Offline: 1 change not saved yet")
    page.unroute("**/entries/mark")
    page.reload()
    eventually(lambda: unread(site, ann) == 3)
    assert len(read_ones(page)) == 3


def test_a_server_in_trouble_is_asked_again_and_a_refusal_is_told(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", expect="status of", routes=True)
    held: list[Route] = []
    page.route("**/entries/mark", lambda route: held.append(route))
    page.route("**/entries/mark", lambda route: route.fulfill(status=503, json={"message": "Away."}), times=1)
    page.route("**/entries/star", lambda route: route.fulfill(status=404, json={"message": "It is gone."}))
    page.keyboard.press("n")
    page.keyboard.press("m")
    expect(page.locator("#pending")).to_have_text("Offline: 1 change not saved yet")
    eventually(lambda: page.evaluate("1") and held)
    held[0].continue_()
    expect(page.locator("#pending")).to_be_hidden()
    eventually(lambda: unread(site, ann) == 2)
    assert read_ones(page) == ["one 0"]
    page.keyboard.press("s")
    expect(page.locator(".toast")).to_contain_text("Couldn't save your change. It is gone.")
    expect(page.locator(".row").first.get_by_role("button", name="Star")).to_have_attribute(
        "aria-pressed", "false"
    )


def test_marks_that_wait_are_shown_in_lists_that_come_meanwhile(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    one = subscribe(site, ann, 3)
    page = visit(login="ann", expect="503", routes=True)
    page.route("**/entries/*", lambda route: route.fulfill(status=503, json={"message": "Not now."}))
    page.keyboard.press("j")
    page.keyboard.press("s")
    expect(page.locator("#pending")).to_be_visible()
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    row = page.locator("#rows .row").first
    expect(row).to_have_class(re.compile("is-read"))
    expect(row.get_by_role("button", name="Star")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#unread")).to_have_text("2 unread")
    page.unroute("**/entries/*")
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator("#pending")).to_be_hidden()
    eventually(lambda: unread(site, ann) == 2)
    expect(row).to_have_class(re.compile("is-read"))


def test_an_answer_that_comes_late_is_not_the_last_word(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    """All marked, and taken back while the counts of that are on the way: "unchanged" is said of those."""
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    count = page.locator(".tree a[data-all] b")
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        held.append((route, route.fetch()))

    with page.expect_response("**/api/counts*"):  # so that the page has a tag to compare with
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(count).to_have_text("3")
    page.route("**/api/counts*", hold, times=1)
    page.keyboard.press("Shift+A")
    eventually(lambda: page.evaluate("1") and held)
    assert read_ones(page) == ["one 0", "one 1", "one 2"]
    page.keyboard.press("z")
    expect(page.locator("#say")).to_have_text("Undone")
    page.evaluate("new Promise(requestAnimationFrame)")
    route, answer = held[0]
    with page.expect_response(lambda r: "/api/counts" in r.url and r.request != route.request):
        route.fulfill(response=answer)
    expect(count).to_have_text("3")


def _marked(site: Site, actor: Actor, page: Page, nth: int, read: bool) -> int:
    """Mark the entry of a row on another device; return its id."""
    entry = int(page.locator("#rows .row").nth(nth).get_attribute("data-id") or 0)
    site.services.reading.mark(actor, [entry], read)
    return entry


def _looks_again(page: Page) -> None:
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def _follows(page: Page, site: Site, actor: Actor) -> bool:
    """Tell whether the rows are as the server has them."""
    ids = [int(i) for i in page.eval_on_selector_all("#rows .row", "(all) => all.map((r) => r.dataset.id)")]
    shown = page.eval_on_selector_all("#rows .row", "(all) => all.map((r) => r.matches('.is-read'))")
    return site.services.reading.find_read_states(actor, ids) == dict(zip(ids, shown, strict=True))


def test_what_another_device_keeps_unread_is_not_marked_by_passing(
    site: Site, visit: Visit, river: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    ready(page)
    heights = page.eval_on_selector_all("#rows .row", "(all) => all.map((row) => row.offsetHeight)")
    wheel(page, sum(heights[:3]) + 20)
    eventually(lambda: unread(site, river) == 27)
    entry = _marked(site, river, page, 1, False)
    _looks_again(page)
    expect(page.locator("#rows .row").nth(1)).not_to_have_class(re.compile("is-read"))
    wheel(page, -3000)
    wheel(page, sum(heights[:5]) + 20)
    eventually(lambda: unread(site, river) == 26)
    assert site.services.reading.find_read_states(river, [entry]) == {entry: False}


@pytest.mark.parametrize("by", ["another answer", "a mark", "a mark in a list drawn anew", "all marked"])
def test_an_answer_about_rows_that_is_overtaken_is_not_the_last_word(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually, by: str
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    page.wait_for_load_state("networkidle")
    held: list[tuple[Route, APIResponse]] = []
    asked: list[str] = []
    page.on("requestfinished", lambda r: asked.append(r.url) if "/entries/states" in r.url else None)
    page.route("**/entries/states", lambda route: held.append((route, route.fetch())), times=1)
    if by == "all marked":
        page.keyboard.press("n")
        with page.expect_response("**/entries/mark"):
            page.keyboard.press("m")
        _marked(site, ann, page, 0, False)
    else:
        _marked(site, ann, page, 0, True)
    _looks_again(page)
    eventually(lambda: page.evaluate("1") and held)
    if by == "another answer":
        _marked(site, ann, page, 0, False)
        with page.expect_response("**/api/counts*"):
            _looks_again(page)
        expect(page.locator(".tree a[data-all] b")).to_have_text("3")
    elif by == "all marked":
        page.keyboard.press("Shift+A")
        expect(page.locator(".toast")).to_be_visible()
    else:
        if "anew" in by:
            page.keyboard.press("2")
            expect(page.locator(".pane-list")).to_have_attribute("data-view", "list")
        page.keyboard.press("n")
        row = page.locator("#rows .row").first
        if "is-read" not in (row.get_attribute("class") or ""):
            page.keyboard.press("m")
            expect(row).to_have_class(re.compile("is-read"))
        with page.expect_response("**/entries/mark"):
            page.keyboard.press("m")
    route, answer = held[0]
    with page.expect_event("requestfinished", lambda r: r == route.request):
        route.fulfill(response=answer)
    page.wait_for_load_state("networkidle")
    _looks_again(page)
    eventually(lambda: _follows(page, site, ann))


def test_an_entry_that_comes_late_has_the_star_that_it_got_meanwhile(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 2)
    page = visit(login="ann", routes=True)
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/read/all?entry=*", lambda route: held.append((route, route.fetch())))
    page.keyboard.press("j")
    eventually(lambda: page.evaluate("1") and held)
    with page.expect_response("**/entries/star"):
        page.keyboard.press("s")
    route, answer = held[0]
    route.fulfill(response=answer)
    expect(page.locator("#entry-title")).to_have_text("one 0")
    star = page.get_by_role("button", name="Star")
    for place in "#article", ".row[aria-current]":
        expect(page.locator(place).locator(star)).to_have_attribute("aria-pressed", "true")


def test_a_star_that_another_device_takes_is_gone_when_its_entry_is_opened_again(
    site: Site, visit: Visit, ann: Actor
) -> None:
    subscribe(site, ann, 2)
    page = visit(login="ann", routes=True)
    with page.expect_event("requestfinished", lambda r: r.url.endswith("/entries/mark")):
        page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    # Later marks never arrive.
    page.route("**/entries/mark", lambda route: route.abort())
    star = page.locator("#article form[data-act=star] button")
    with page.expect_event("requestfinished", lambda r: r.url.endswith("/entries/star")):
        page.keyboard.press("s")
    expect(star).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("Object.keys(localStorage).every((key) => !key.includes('star '))")
    page.keyboard.press("m")
    entry = page.locator(".row[aria-current]").get_attribute("data-id")
    assert site.services.reading.set_starred(ann, int(entry or 0), False)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 1")
    page.keyboard.press("k")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    expect(star).to_have_attribute("aria-pressed", "false")


def test_a_long_list_keeps_500_rows_in_the_page(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 900)
    kept(site, ann, density="compact")
    page = visit(login="ann")
    page.evaluate("(async () => { while (await eventrModules.m_list.more()); })()")
    pane = page.locator(".pane-list")
    assert len(titles(page)) <= 500
    assert page.evaluate("eventrModules.m_list.all().length") == 900
    height = pane.evaluate("(pane) => pane.scrollHeight")
    assert height == pytest.approx(900 * 32, rel=0.1)
    # Anywhere in it, what stands there stays there, and the rows are in order.
    for place in (0, 14_000, 3000, height):
        pane.evaluate("(pane, place) => pane.scrollTo(0, place)", place)
        page.wait_for_function(
            "() => { const e = document.querySelector('.pane-list').getBoundingClientRect();"
            " return document.elementFromPoint(e.left + 60, e.top + 300)?.closest('.row, .end-line') }"
        )
        shown = titles(page)
        assert len(shown) <= 500
        numbers = [int(title.split()[1]) for title in shown]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert pane.evaluate("(pane) => pane.scrollHeight") == pytest.approx(height, abs=4)
    # Steps lead on over what is out of the page, and marks reach it.
    page.evaluate("eventrModules.m_rows.select(eventrModules.m_list.all()[449])")
    page.keyboard.press("n")
    expect(page.locator(".row[aria-current] h2")).to_contain_text("one 450")
    page.keyboard.press("Shift+Y")
    expect(page.locator(".toast")).to_contain_text("450 entries marked as read")
    marked = page.evaluate(
        "eventrModules.m_list.all().filter((row) => row.classList.contains('is-read')).length"
    )
    assert marked == 450


def test_back_restores_a_place_far_down_and_the_choice(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 220)
    subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann")
    page.evaluate(
        "(async ({ all, more }) => { while (all().length < 180) await more(); })(eventrModules.m_list)"
    )
    page.evaluate("eventrModules.m_rows.select(eventrModules.m_list.all()[170])")
    place = page.locator(".pane-list").evaluate("(pane) => pane.scrollTop")
    chosen = page.locator(".row[aria-current]").get_attribute("data-id")
    before = titles(page)
    page.locator(".tree a", has_text="Feed two").click()
    expect(page.locator("#rows .row")).to_have_count(3)
    expect(page).to_have_title(re.compile("Feed two · Eventr$"))
    page.go_back()
    expect(page.locator(".row[aria-current]")).to_have_attribute("data-id", chosen or "")
    assert page.locator(".pane-list").evaluate("(pane) => pane.scrollTop") == pytest.approx(place, abs=1)
    assert titles(page)[: len(before)] == before


def test_nothing_moves_when_pictures_and_news_come(site: Site, visit: Visit, ann: Actor) -> None:
    picture = "<p>Before.</p><p><img src='https://pictures.example/n.png'></p><p>After.</p>"
    sized = "<img src='https://pictures.example/s.png' width='800' height='400'>"
    feed_id = subscribe(site, ann, 12, text=sized + picture)
    kept(site, ann, view="expanded")
    site.services.accounts.set_preferences(ann, {"images": "site"})
    page = visit(login="ann", routes=True)
    shapes = {"s": make_png(800, 400), "n": make_png(600, 900)}
    page.route("https://pictures.example/**", lambda route: route.fulfill(body=shapes[route.request.url[-5]]))
    page.add_init_script(SHIFTS)
    page.reload()
    # All pictures come now, also those far off. Only the last one in sight may move what is below it.
    page.evaluate("() => { for (const one of document.images) one.loading = 'eager'; }")
    expect(page.locator('#rows img[height="900"]')).to_have_count(page.locator("#rows .row").count())
    tops = page.eval_on_selector_all("#rows .row", "(all) => all.map((row) => row.offsetTop)")
    items = [("fresh", "<p>x</p>"), *((f"one {n}", sized + picture) for n in range(12))]
    pull(site.services, [feed_id], {URLS[0]: rss("Feed one", items)})
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#newbar")).to_have_text("1 new")
    assert page.eval_on_selector_all("#rows .row", "(all) => all.map((row) => row.offsetTop)") == tops
    assert page.evaluate("window.__shift") <= 0.02


@pytest.mark.parametrize("view", ["expanded", "article"])
def test_a_picture_from_its_site_gets_its_own_shape_and_what_is_read_stays(
    site: Site, visit: Visit, ann: Actor, view: str, eventually: Eventually
) -> None:
    """Defect 1: a box of 3:2 in sight stayed for ever, and a narrow picture stood beside its text."""
    names = {"high": (600, 1200), "small": (120, 150), "low": (88, 31), "wide": (1600, 400)}
    html = "".join(f"<p>{n} <img src='https://pictures.example/{n}'></p><p>After {n}</p>" for n in names)
    broken = "<p><img src='https://pictures.example/broken'></p>" + "<p>More</p>" * 40
    subscribe(site, ann, 1, text=html + broken)
    site.services.accounts.set_preferences(ann, {"images": "site"})
    page = visit(login="ann", routes=True, size=(1440, 900))
    held: dict[str, Route] = {}
    page.route("https://pictures.example/**", lambda route: held.update({route.request.url[25:]: route}))
    if view == "expanded":
        page.goto("/read/all?view=expanded")
    else:
        page.locator("#rows .row h2 a").click()
    pane = page.locator(".pane-list" if view == "expanded" else "#article")
    pane.locator(".prose").wait_for()
    pane.evaluate("(pane) => { for (const one of pane.querySelectorAll('img')) one.loading = 'eager'; }")
    eventually(lambda: page.evaluate("1") and len(held) == 5)
    top = "(p) => p.getBoundingClientRect().top"
    after = pane.locator("p", has_text="After high")
    high = pane.locator("img[src$=high]")
    # Someone reads below the first picture, of which only the lower end is in sight.
    pane.evaluate(
        "(pane, image) => { pane.scrollTop += image.getBoundingClientRect().top + 100; }",
        high.element_handle(),
    )
    before = after.evaluate(top)
    for name, route in held.items():
        body = make_png(*names[name]) if name in names else b""
        route.fulfill(body=body, content_type="image/png")
    expect(pane.locator("img[width][height]")).to_have_count(4)
    expect(pane.locator("img[src$=broken]")).to_have_class("sized")
    assert after.evaluate(top) == pytest.approx(before, abs=2)
    shape = "(e) => [e.offsetWidth / e.offsetHeight, e.offsetWidth / e.closest('.prose').offsetWidth]"
    assert high.evaluate(shape) == pytest.approx([0.5, 600 / 680], abs=0.15)
    wide = pane.locator("img[src$=wide]").evaluate(shape)
    assert wide == pytest.approx([4, 1], abs=0.1)
    # A narrow one stands alone, a badge in its line.
    beside = "(e) => [e.offsetWidth, e.offsetHeight, getComputedStyle(e).display]"
    assert pane.locator("img[src$=small]").evaluate(beside) == [120, 150, "block"]
    assert pane.locator("img[src$=low]").evaluate(beside) == [88, 31, "inline"]


def test_a_footnote_is_shown_without_loading_its_entry_again(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1, text="<p>a<a href='#n'>1</a></p>" + "<p>word</p>" * 200 + "<p id=n>Note</p>")
    page = visit(login="ann")
    page.locator("#rows .row h2 a").click()
    mark = page.locator("#article .prose a")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    mark.click()
    expect(page.locator("#article [id^=at-]")).to_be_in_viewport()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert [url for url in asked if "entry=" in url] == []
    page.go_back()
    expect(page.locator("#entry-title")).to_be_in_viewport()


def test_read_feeds_leave_the_tree_when_the_reader_goes_on(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2)
    subscribe(site, ann, 2, URLS[1])
    site.services.accounts.set_preferences(ann, {"hide_read_feeds": True, "after_mark_all": "next"})
    page = visit(login="ann")
    one, two = (page.locator(".tree a[data-feed]", has_text=f"Feed {name}") for name in ("one", "two"))
    one.click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    for _ in range(2):
        page.keyboard.press("j")
    expect(one).not_to_have_class(re.compile(r"\bhas\b"))
    expect(one).to_be_visible()
    two.click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    expect(one).to_be_hidden()
    expect(page.locator(".tree").get_by_role("link", name="Search")).to_be_visible()
    # Nothing else is unread: marking all stays here and says so, and the feed stays while it is shown.
    page.keyboard.press("Shift+A")
    expect(page.locator(".toast")).to_contain_text("2 entries marked as read")
    expect(page.locator("#say")).to_have_text("No other feed has unread entries")
    expect(two).to_be_visible()


def test_marking_all_goes_on_to_the_next_feed_if_one_wishes(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2)
    subscribe(site, ann, 2, URLS[1])
    site.services.accounts.set_preferences(ann, {"after_mark_all": "next"})
    page = visit(login="ann")
    page.locator(".tree a[data-feed]").first.click()
    expect(page.locator("#rows .row")).to_have_count(2)
    first = page.locator(".pane-list h1").inner_text()
    page.keyboard.press("Shift+A")
    expect(page.locator(".pane-list h1")).not_to_have_text(first)
    expect(page.locator(".toast")).to_contain_text("2 entries marked as read")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("a[data-all]")).to_have_attribute("data-unread", "4")


def test_more_is_loaded_by_a_button_alone_if_one_wishes(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 70)
    site.services.accounts.set_preferences(ann, {"auto_load": False})
    page = visit(login="ann", expect="status of", routes=True)
    page.locator(".row").last.scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    expect(page.locator("#rows .row")).to_have_count(50)
    more = page.locator("#more a")
    page.route("**/*cursor=*", lambda route: route.fulfill(status=503, body="away"), times=1)
    more.focus()
    page.keyboard.press("Enter")
    expect(more).to_have_text("Couldn't load more. Retry")
    page.keyboard.press("Enter")
    expect(page.locator("#rows .row")).to_have_count(70)
    # The focus is on the first of the new rows, not lost.
    expect(page.locator(".row h2 a").nth(50)).to_be_focused()
    expect(page.locator("#say")).to_have_text("20 more loaded")
