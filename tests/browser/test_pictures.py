"""Pictures in a real browser: no other host is contacted, nothing moves, and boxes become pictures."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
import redis
from playwright.sync_api import Page, Route, expect

from app.bootstrap.services import Services
from tests.browser.conftest import PHONE, WIDE, Site, serve
from tests.media.farm import Worker, build_services, make_png
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import add_user, pull, rss

FOREIGN = '<p><img src="https://one.example/1.jpg" srcset="https://two.example/2.jpg 2x"></p>'


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture
def site(services: Services, server: RawServer) -> Iterator[Site]:
    with contextlib.closing(build_services(services, server)) as built, serve(built) as found:
        yield found


def follow(
    site: Site, server: RawServer, *names: str, attributes: str = "", before: str = FOREIGN
) -> tuple[int, int]:
    """Subscribe ann to a feed with pictures of this server; return the feed and its newest entry."""
    actor = add_user(site.services)
    url = server.url("/feed")
    feed_id = site.services.subscriptions.subscribe(actor, url).subscription.feed_id
    html = before + "".join(
        f'<p><img src="{server.url(name)}" alt="Picture" {attributes}></p>' for name in names
    )
    body = rss("Pictures", [("Entry", html + "<p>The end</p>")])
    pull(site.services, [feed_id], {url: body.replace(b"https://site.example/", server.url("/").encode())})
    (entry,) = site.services.store.database["entries"].find({}, {"_id": 1})
    return feed_id, entry["_id"]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_box_becomes_the_picture_and_no_other_host_is_asked(
    site: Site,
    server: RawServer,
    visit: Callable[..., Page],
    redis_client: redis.Redis,
    eventually: Callable[..., object],
    size: tuple[int, int],
) -> None:
    server.set("/a.png", Reply(body=make_png(900, 600)))
    server.set("/tall.png", Reply(body=make_png(300, 1200)))
    feed_id, entry = follow(site, server, "/a.png", "/tall.png")
    page = visit(login="ann", size=size)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    expect(page.locator(".prose img.wait")).to_have_count(3)
    Worker(site.services, redis_client).work()
    expect(page.locator('.prose img[src^="/i/"]')).to_have_count(2)
    expect(page.locator('.prose img[height="1200"]')).to_have_count(1)
    drawn = "(all) => all.some((one) => one.naturalWidth)"
    eventually(lambda: page.locator('.prose img[src^="/i/"]').evaluate_all(drawn))
    assert {url for url in asked if not url.startswith((site.url, "data:"))} == set()


def test_nothing_moves_when_the_pictures_come(
    site: Site, server: RawServer, visit: Callable[..., Page], redis_client: redis.Redis
) -> None:
    for n, shape in enumerate([(900, 600), (300, 1200), (1600, 200)]):
        server.set(f"/{n}.png", Reply(body=make_png(*shape, color=(n, 90, 90))))
    feed_id, entry = follow(site, server, "/0.png", "/1.png", "/2.png")
    actor = site.services.mappers.users.find_credentials("ann").user.actor  # type: ignore[union-attr]
    article = site.services.reading.get_article(actor, entry)
    from app.models.media.rewriting import list_pictures
    from app.services.media.pictures import WantedPicture

    wanted = [
        WantedPicture(url, None, server.url("/feed"))
        for url in list_pictures(article.entry.content or article.entry.summary)
    ]
    site.services.pictures.prepare(wanted, actor.user_id)
    Worker(site.services, redis_client).work()
    page = visit(login="ann", size=PHONE)
    page.add_init_script(
        "window.__moved = 0; new PerformanceObserver((list) => list.getEntries().forEach((e) => "
        "(window.__moved += e.value))).observe({ type: 'layout-shift', buffered: true });"
    )
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    images = page.locator('.prose img[src^="/i/"]')
    expect(images).to_have_count(3)
    for n in range(3):
        images.nth(n).scroll_into_view_if_needed()
    page.wait_for_function(
        "[...document.querySelectorAll('.prose img[src^=\"/i/\"]')].every((i) => i.complete)"
    )
    assert page.evaluate("window.__moved") <= 0.02
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("images", ["eventr", "site"])
@pytest.mark.parametrize("shape", [(900, 506), (900, 600), (900, 400)])
def test_a_picture_in_sight_moves_no_text_below_it(
    site: Site,
    server: RawServer,
    visit: Callable[..., Page],
    redis_client: redis.Redis,
    eventually: Callable[..., object],
    images: str,
    shape: tuple[int, int],
) -> None:
    server.set("/a.png", Reply(body=make_png(*shape)))
    feed_id, entry = follow(site, server, "/a.png", before="<p>First</p>")
    ann = site.services.mappers.users.find_credentials("ann").user.actor  # type: ignore[union-attr]
    site.services.accounts.set_preferences(ann, {"images": images})
    page = visit(login="ann")
    held: list[Route] = []
    page.route("**/a.png", lambda route: held.append(route))
    page.goto(f"/read/feed/{feed_id}?entry={entry}", wait_until="load" if images == "eventr" else "commit")
    end, picture = page.get_by_text("The end", exact=True), page.get_by_alt_text("Picture")
    place = "(e) => e.getBoundingClientRect().top"
    if images == "eventr":
        expect(picture).to_have_class(re.compile("wait"))
        before = end.evaluate(place)
        Worker(site.services, redis_client).work()
    else:
        page.wait_for_load_state("domcontentloaded")
        # A wait that asks the page nothing would keep the browser's messages from being handled.
        eventually(lambda: page.evaluate("1") and held)
        before = end.evaluate(place)
        held[0].continue_()
    expect(picture).to_have_attribute("height", str(shape[1]))
    assert abs(end.evaluate(place) - before) < 2
    assert end.bounding_box()["y"] < WIDE[1]  # type: ignore[index]


def test_without_scripts_the_next_visit_shows_the_pictures(
    site: Site, server: RawServer, visit: Callable[..., Page], redis_client: redis.Redis
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    feed_id, entry = follow(site, server, "/a.png")
    page = visit(login="ann", js=False)
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    expect(page.locator(".prose img.wait")).to_have_count(2)
    Worker(site.services, redis_client).work()
    page.reload()
    expect(page.locator('.prose img[src^="/i/"]')).to_have_count(1)
    # From their sites, they have the sizes that this server knows by then.
    ann = site.services.mappers.users.find_credentials("ann").user.actor  # type: ignore[union-attr]
    site.services.accounts.set_preferences(ann, {"images": "site"})
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    known = page.locator(".prose img[width]")
    expect(known).to_have_attribute("src", server.url("/a.png"))
    assert known.get_attribute("class") == "sign"


def test_a_picture_is_enlarged_with_click_and_keys(
    site: Site, server: RawServer, visit: Callable[..., Page], redis_client: redis.Redis
) -> None:
    for name in ("/a.png", "/b.png"):
        server.set(name, Reply(body=make_png(900, 600, color=(len(name), ord(name[1]), 90))))
    feed_id, entry = follow(site, server, "/a.png", "/b.png")
    page = visit(login="ann")
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    expect(page.locator(".prose img.wait")).to_have_count(3)
    Worker(site.services, redis_client).work()
    first, second = (page.locator(".prose img[data-full]").nth(n) for n in range(2))
    expect(second).to_have_attribute("role", "button")
    first.click()
    large = page.locator("dialog.lightbox img")
    expect(large).to_have_attribute("src", first.get_attribute("data-full") or "")
    expect(large).to_have_attribute("alt", "Picture")
    page.keyboard.press("ArrowRight")
    expect(large).to_have_attribute("src", second.get_attribute("data-full") or "")
    page.keyboard.press("z")
    expect(page.locator("dialog.zoomed")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.lightbox")).to_be_hidden()
    expect(second).to_be_focused()
    page.keyboard.press("Enter")
    expect(large).to_be_visible()


def test_a_box_whose_picture_fails_says_why(
    site: Site, server: RawServer, visit: Callable[..., Page], redis_client: redis.Redis
) -> None:
    server.set("/a.png", Reply(status=403))
    feed_id, entry = follow(site, server, "/a.png")
    page = visit(login="ann")
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    expect(page.locator(".prose img.wait")).to_have_count(2)
    Worker(site.services, redis_client).work()
    expect(page.locator(".prose .no-picture").last).to_contain_text("HTTP 403")
    page.reload()
    expect(page.locator(".prose .no-picture a").last).to_have_attribute("href", server.url("/a.png"))


_RATIO = "(image) => { const box = image.getBoundingClientRect(); return box.height / box.width; }"


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("stated", [None, (900, 600), (300, 1200), (1600, 200)], ids=str)
def test_a_box_has_the_shape_that_the_entry_states(
    site: Site,
    server: RawServer,
    visit: Callable[..., Page],
    stated: tuple[int, int] | None,
    size: tuple[int, int],
) -> None:
    """It must not become a square as soon as its blank picture is loaded."""
    attributes = f'width="{stated[0]}" height="{stated[1]}"' if stated else ""
    feed_id, entry = follow(site, server, "/a.png", attributes=attributes)
    page = visit(login="ann", size=size)
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    box = page.locator(".prose img.wait").last
    box.evaluate("(image) => image.decode().catch(() => 0)")
    width, height = stated or (960, 640)
    assert box.evaluate(_RATIO) == pytest.approx(height / width, rel=0.02)


def test_a_comic_strip_is_as_wide_as_the_text(
    site: Site, server: RawServer, visit: Callable[..., Page], redis_client: redis.Redis
) -> None:
    """Not as high as the window, as its words would be too small; a portrait still fits the window."""
    server.set("/comic.png", Reply(body=make_png(900, 3600)))
    server.set("/portrait.png", Reply(body=make_png(900, 1600, color=(9, 90, 90))))
    feed_id, entry = follow(site, server, "/comic.png", "/portrait.png")
    page = visit(login="ann", size=PHONE)
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    expect(page.locator(".prose img.wait")).to_have_count(3)
    Worker(site.services, redis_client).work()
    comic, portrait = (page.locator(".prose img[data-full]").nth(n) for n in range(2))
    for _ in range(2):
        expect(portrait).to_be_visible()
        text = page.locator(".prose p").last.bounding_box() or {}
        drawn = comic.bounding_box() or {}
        assert drawn["width"] == pytest.approx(text["width"], abs=1)
        assert drawn["height"] == pytest.approx(4 * drawn["width"], rel=0.01)
        assert (portrait.bounding_box() or {})["height"] <= PHONE[1]
        # The first time as the script shows them, then as the server does.
        page.reload()
    comic.click()
    large = page.locator("dialog.lightbox img")
    expect(large).to_be_visible()
    expect(large).to_have_js_property("complete", True)
    assert (large.bounding_box() or {})["width"] == pytest.approx(PHONE[0], abs=20)
    page.get_by_role("button", name="Next picture").click()
    expect(large).to_have_js_property("complete", True)
    assert (large.bounding_box() or {})["height"] < PHONE[1]


def test_large_pictures_are_turned_over_with_buttons_and_small_ones_stay_small(
    site: Site, server: RawServer, visit: Callable[..., Page], redis_client: redis.Redis
) -> None:
    server.set("/a.png", Reply(body=make_png(120, 90)))
    server.set("/b.png", Reply(body=make_png(900, 600, color=(9, 90, 90))))
    feed_id, entry = follow(site, server, "/a.png", "/b.png")
    page = visit(login="ann")
    page.goto(f"/read/feed/{feed_id}?entry={entry}")
    expect(page.locator(".prose img.wait")).to_have_count(3)
    Worker(site.services, redis_client).work()
    small = page.locator(".prose img[data-full]")
    first, second = (small.nth(n).get_attribute("data-full") for n in range(2))
    small.first.click()
    large = page.locator("dialog.lightbox img")
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    assert large.evaluate("(image) => getComputedStyle(image).objectFit") == "scale-down"
    for name, shown in (("Next", second), ("Next", first), ("Previous", second)):
        page.get_by_role("button", name=f"{name} picture").click()
        expect(large).to_have_attribute("src", shown or "")
    assert page.get_by_role("button", name="Close").bounding_box() is not None
    top = page.locator("dialog.lightbox div").bounding_box() or {}
    assert (large.bounding_box() or {})["y"] >= top["y"] + top["height"] - 1
