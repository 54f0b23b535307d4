"""Icons of feeds: from a real site on loopback through the real tasks to the pages and programs."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from app import clock
from app.bootstrap.services import Services
from app.feeds.fetch.fetcher import Fetcher
from app.models.accounts.actor import Actor
from app.models.accounts.user import Role
from app.models.jobs.jobs import Task
from app.models.media.blob import ORIGINAL, BlobKind, Content
from app.models.media.icon import build_icon_path, get_icon_number
from tests.media.farm import Worker, build_services, make_png
from tests.support.media import add_file
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import add_user, elsewhere, pull, rss
from tests.web.conftest import Visitor
from workers import registry
from workers.updater.updater import queue_due_work

PAGE = b'<html><head><link rel="icon" href="/page.png" sizes="64x64"></head><body>Text</body></html>'
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4"/></svg>'


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture
def site(services: Services, server: RawServer) -> Iterator[Services]:
    with contextlib.closing(build_services(services, server)) as built:
        yield built


@pytest.fixture
def worker(site: Services, redis_client: redis.Redis) -> Worker:
    return Worker(site, redis_client)


def subscribe(site: Services, server: RawServer, count: int = 1, body: bytes = b"") -> list[int]:
    """Subscribe a new user to feeds of this server and pull them."""
    actor = add_user(site)
    bodies = {server.url(f"/{n}/feed"): body or feed(server) for n in range(count)}
    ids = [site.subscriptions.subscribe(actor, url).subscription.feed_id for url in bodies]
    pull(site, ids, bodies)
    return ids


def feed(server: RawServer, icon: str = "") -> bytes:
    made = rss("Notes", [("One", "<p>Text</p>")]).replace(
        b"</title>", f"</title><link>{server.url('/')}</link>".encode(), 1
    )
    image = f"<image><url>{icon}</url></image>".encode() if icon else b""
    return made.replace(b"<item>", image + b"<item>", 1)


def look(site: Services, worker: Worker, now: dt.datetime | None = None) -> list[str]:
    jobs = site.icons.find_due_jobs(now or clock.now())
    site.jobs.enqueue_many(jobs)
    return worker.work()


def get_icon(site: Services, feed_id: int) -> str | None:
    return site.gateways.feeds.find_cards([feed_id])[feed_id].icon


def test_an_icon_of_the_page_is_shown_everywhere(
    site: Services, server: RawServer, worker: Worker, app_of: Any
) -> None:
    server.set("/", Reply(body=PAGE, headers=(("Content-Type", "text/html"),)))
    server.set("/page.png", Reply(body=make_png(64, 64)))
    (feed_id,) = subscribe(site, server)
    assert look(site, worker) == [Task.MEDIA_ICONS, Task.DRAW]
    icon = get_icon(site, feed_id)
    assert icon is not None
    assert re.fullmatch(r"/icon/[0-9a-f]{16}\.png", icon)
    visitor = app_of(site)
    visitor.log_in()
    for path in ("/read/all", f"/read/feed/{feed_id}", "/subscriptions", f"/feeds/{feed_id}"):
        assert f'src="{icon}"' in visitor.get(path).text, path
    served = visitor.get(icon)
    assert (served.status_code, served.content_type) == (200, "image/png")
    assert served.data.startswith(b"\x89PNG")
    assert len(served.data) <= 3000
    assert "immutable" in served.headers["Cache-Control"]
    assert "Set-Cookie" not in served.headers
    assert "sandbox" in served.headers["Content-Security-Policy"]
    assert visitor.get(icon, headers={"If-None-Match": served.headers["ETag"]}).status_code == 304


def test_the_updater_has_icons_looked_for(site: Services, server: RawServer, worker: Worker) -> None:
    server.set("/icon.png", Reply(body=make_png()))
    (feed_id,) = subscribe(site, server, body=feed(server, server.url("/icon.png")))
    registry.load_tasks()
    for task in (Task.MEDIA_ICONS, Task.MEDIA_FETCH):
        spec = registry.find_task(task)
        assert spec is not None
        assert spec.mode == "loop"
    queue_due_work(site)
    queue_due_work(site)
    assert worker.work() == [Task.MEDIA_ICONS, Task.DRAW]
    assert worker.queues[-1] == (Task.DRAW, "media-sys")
    assert get_icon(site, feed_id) is not None


def test_feeds_of_one_site_ask_once(site: Services, server: RawServer, worker: Worker) -> None:
    server.set("/", Reply(body=PAGE, headers=(("Content-Type", "text/html"),)))
    server.set("/page.png", Reply(body=make_png()))
    ids = subscribe(site, server, count=20)
    assert look(site, worker) == [Task.MEDIA_ICONS, Task.DRAW]
    assert len({get_icon(site, i) for i in ids}) == 1
    assert get_icon(site, ids[0])
    assert len(server.seen("/page.png")) == len(server.seen("/")) == 1


def test_two_sites_with_the_same_picture_draw_it_once(
    site: Services, server: RawServer, worker: Worker
) -> None:
    """The body is known by its hash, whatever its address is."""
    server.set("/a.png", Reply(body=make_png()))
    server.set("/b.png", Reply(body=make_png()))
    actor = add_user(site)
    bodies = {server.url(f"/{n}/feed"): feed(server, server.url(f"/{n}.png")) for n in "ab"}
    first, second = (site.subscriptions.subscribe(actor, url).subscription.feed_id for url in bodies)
    pull(site, [first], bodies)
    assert look(site, worker) == [Task.MEDIA_ICONS, Task.DRAW]
    pull(site, [second], bodies)
    assert look(site, worker, clock.now() + dt.timedelta(minutes=1)) == [Task.MEDIA_ICONS]
    assert get_icon(site, first) == get_icon(site, second) is not None


def test_a_second_look_asks_with_validators_and_only_after_a_week(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/icon.png", Reply(body=make_png(), etag='"1"'))
    subscribe(site, server, body=feed(server, server.url("/icon.png")))
    look(site, worker)
    now = clock.now()
    for days, requests in ((1, 1), (6.9, 1), (7.1, 2)):
        with clock.set_source(lambda days=days: now + dt.timedelta(days=days)):  # type: ignore[misc]
            look(site, worker)
        assert len(server.seen("/icon.png")) == requests
    assert server.seen("/icon.png")[-1].headers["if-none-match"] == '"1"'


def test_a_quiet_poll_writes_nothing_about_icons(
    site: Services, server: RawServer, worker: Worker, db: Any
) -> None:
    server.set("/icon.png", Reply(body=make_png()))
    body = feed(server, server.url("/icon.png"))
    (feed_id,) = subscribe(site, server, body=body)
    look(site, worker)
    names = ("icon", "icon_next", "icon_source", "icon_blob")
    before = {name: db["feeds"].find_one({"_id": feed_id})[name] for name in names}
    pull(site, [feed_id], {server.url("/0/feed"): body})
    assert {name: db["feeds"].find_one({"_id": feed_id})[name] for name in names} == before


def test_a_new_icon_in_the_feed_replaces_the_old_one(
    site: Services, server: RawServer, worker: Worker
) -> None:
    for n in (1, 2):
        server.set(f"/{n}.png", Reply(body=make_png(color=(n, 0, 0))))
    (feed_id,) = subscribe(site, server, body=feed(server, server.url("/1.png")))
    look(site, worker)
    old = get_icon(site, feed_id)
    pull(site, [feed_id], {server.url("/0/feed"): feed(server, server.url("/2.png"))})
    look(site, worker, clock.now() + dt.timedelta(minutes=1))
    assert old
    assert get_icon(site, feed_id) not in (None, old)


@pytest.mark.parametrize(
    "answer",
    [
        Reply(status=404),
        Reply(body=b"<html>not a picture</html>"),
        Reply(body=make_png()[:40]),
        Reply(body=make_png(144, 40)),
        Reply(body=b"\x89PNG\r\n\x1a\n" + b"x" * (600 << 10)),
        Reply(body=b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
    ],
)
def test_what_is_no_icon_is_passed_over(
    site: Services, server: RawServer, worker: Worker, answer: Reply
) -> None:
    server.set("/own.png", answer)
    server.set("/", Reply(body=PAGE, headers=(("Content-Type", "text/html"),)))
    server.set("/page.png", Reply(body=make_png()))
    (feed_id,) = subscribe(site, server, body=feed(server, server.url("/own.png")))
    look(site, worker)
    look(site, worker, clock.now() + dt.timedelta(minutes=1))
    assert get_icon(site, feed_id) is not None
    assert len(server.seen("/page.png")) == 1


def test_without_an_icon_a_letter_stands_for_the_feed(
    site: Services, server: RawServer, worker: Worker, app_of: Any
) -> None:
    (feed_id,) = subscribe(site, server)
    look(site, worker)
    assert get_icon(site, feed_id) is None
    assert len(server.seen("/favicon.ico")) == 1
    visitor = app_of(site)
    visitor.log_in()
    assert '<i class="av h' in visitor.get("/read/all").text
    assert look(site, worker, clock.now() + dt.timedelta(days=1)) == []


def test_a_site_that_is_down_is_asked_again_the_same_day(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/", Reply(status=503))
    (feed_id,) = subscribe(site, server)
    look(site, worker)
    assert get_icon(site, feed_id) is None
    server.set("/", Reply(body=PAGE, headers=(("Content-Type", "text/html"),)))
    server.set("/page.png", Reply(body=make_png()))
    now = clock.now()
    with clock.set_source(lambda: now + dt.timedelta(hours=7)):
        look(site, worker)
    assert get_icon(site, feed_id) is not None


@pytest.mark.parametrize("address", ["http://[x/", "http://a]b/", "http://a\u2100b.example/"])
def test_a_broken_site_address_stops_no_other_feed(
    site: Services, server: RawServer, worker: Worker, app_of: Any, db: Any, address: str
) -> None:
    server.set("/icon.png", Reply(body=make_png()))
    broken, good = subscribe(site, server, 2, feed(server, server.url("/icon.png")))
    # As versions before stored it; its own icon is missing.
    db["feeds"].update_one({"_id": broken}, {"$set": {"site_url": address}, "$unset": {"icon": ""}})
    look(site, worker)
    assert get_icon(site, good) is not None
    assert get_icon(site, broken) is None
    visitor = app_of(site)
    visitor.log_in()
    assert visitor.post(f"/feeds/{broken}/icon").status_code == 303
    assert worker.work() == [Task.MEDIA_ICONS]
    assert look(site, worker, clock.now() + dt.timedelta(days=6)) == []


def test_one_feed_that_cannot_be_searched_stops_no_other(
    site: Services, server: RawServer, worker: Worker, db: Any
) -> None:
    server.set("/icon.png", Reply(body=make_png()))
    broken, good = subscribe(site, server, 2, feed(server, server.url("/icon.png")))
    db["feeds"].update_one({"_id": broken}, {"$set": {"icon": 5}})
    look(site, worker)
    assert get_icon(site, good) is not None
    assert look(site, worker, clock.now() + dt.timedelta(days=6)) == []


def test_someone_may_have_the_icon_looked_for_again(
    site: Services, server: RawServer, worker: Worker, app_of: Any
) -> None:
    (feed_id,) = subscribe(site, server)
    look(site, worker)
    server.set("/favicon.ico", Reply(body=make_png()))
    visitor = app_of(site)
    visitor.log_in()
    assert visitor.post(f"/feeds/{feed_id}/icon").status_code == 303
    worker.work()
    assert get_icon(site, feed_id) is not None
    add_user(site, "bob")
    other = app_of(site)
    other.log_in("bob")
    assert other.post(f"/feeds/{feed_id}/icon").status_code == 404


@pytest.mark.parametrize("first", ["icon", "file"])
def test_an_svg_icon_stays_one_when_somebody_uploads_it(
    site: Services, server: RawServer, worker: Worker, app_of: Any, first: str
) -> None:
    server.set("/icon.svg", Reply(body=SVG))
    (feed_id,) = subscribe(site, server, body=feed(server, server.url("/icon.svg")))
    eve = add_user(site, "eve")
    if first == "icon":
        look(site, worker)
    content = Content(
        id=hashlib.sha256(SVG).digest(),
        kind=BlobKind.FILE,
        size=len(SVG),
        type="application/octet-stream",
        files={ORIGINAL: SVG},
    )
    file = add_file(site, eve.user_id, content)
    look(site, worker)
    visitor = app_of(site)
    icon = get_icon(site, feed_id)
    assert icon
    served = visitor.get(icon)
    assert (served.content_type, served.data) == ("image/svg+xml", SVG)
    assert served.headers["Content-Disposition"].startswith("attachment")
    assert site.icons.read_icons([icon]) == {icon: ("image/svg+xml", SVG)}
    (blob,) = site.gateways.blobs.find([file.blob]).values()
    assert {"original", "i32", "i64"} == blob.names.keys()
    assert file.get_type(blob) == "application/octet-stream"


def discover(site: Services, url: str) -> None:
    found = site.discovery.discover(add_user(site, "finder"), url, wait=0)
    with Fetcher(site.settings) as fetcher:
        elsewhere(lambda: asyncio.run(site.discovery.run(found.key, fetcher, lambda **_: None)))


LINK = b'<link rel="alternate" type="application/rss+xml" href="/0/feed">'
ANNOUNCING = PAGE.replace(b"<head>", b"<head>" + LINK)


def test_icons_of_a_page_that_discovery_read_are_handed_on(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/", Reply(body=ANNOUNCING, headers=(("Content-Type", "text/html"),)))
    server.set("/0/feed", Reply(body=feed(server)))
    server.set("/page.png", Reply(body=make_png()))
    discover(site, server.url("/"))
    assert len(server.seen("/")) == 1
    (feed_id,) = subscribe(site, server)
    assert look(site, worker) == [Task.MEDIA_ICONS, Task.DRAW]
    assert get_icon(site, feed_id) is not None
    assert len(server.seen("/")) == 1
    assert len(server.seen("/page.png")) == 1


@pytest.mark.parametrize("again", [True, False])
def test_a_later_look_reads_the_page_itself(
    site: Services, server: RawServer, worker: Worker, again: bool
) -> None:
    """Discovery may have read the page again meanwhile; someone who asks wants what the page says now."""
    server.set("/", Reply(body=ANNOUNCING, headers=(("Content-Type", "text/html"),)))
    server.set("/0/feed", Reply(body=feed(server)))
    server.set("/page.png", Reply(body=make_png()))
    discover(site, server.url("/"))
    (feed_id,) = subscribe(site, server)
    look(site, worker)
    before = get_icon(site, feed_id)
    page = ANNOUNCING.replace(b"/page.png", b"/new.png")
    server.set("/", Reply(body=page, headers=(("Content-Type", "text/html"),)))
    server.set("/new.png", Reply(body=make_png(color=(4, 5, 6))))
    if again:
        site.icons.look_again(Actor(1, Role.USER), feed_id)
        worker.work()
    else:
        now = clock.now()
        with clock.set_source(lambda: now + dt.timedelta(days=8)):
            look(site, worker)
    assert get_icon(site, feed_id) not in (None, before)


def test_a_page_that_could_not_be_read_hands_nothing_on(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/", Reply(status=503))
    server.set("/feed", Reply(body=feed(server)))  # a common address
    discover(site, server.url("/"))
    server.set("/", Reply(body=PAGE, headers=(("Content-Type", "text/html"),)))
    server.set("/page.png", Reply(body=make_png()))
    (feed_id,) = subscribe(site, server)
    look(site, worker)
    assert get_icon(site, feed_id) is not None


def test_V02_a_drawing_is_kept_as_it_is_and_only_downloaded(
    site: Services, server: RawServer, worker: Worker, app_of: Any
) -> None:
    """An SVG opened as a page could run scripts on this origin."""
    server.set("/icon.svg", Reply(body=SVG))
    (feed_id,) = subscribe(site, server, body=feed(server, server.url("/icon.svg")))
    assert look(site, worker) == [Task.MEDIA_ICONS]
    icon = get_icon(site, feed_id)
    assert icon
    served = app_of(site).get(icon)
    assert (served.content_type, served.data) == ("image/svg+xml", SVG)
    assert served.headers["Content-Disposition"].startswith("attachment")
    assert served.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in served.headers["Content-Security-Policy"]


def test_programs_get_icons(site: Services, server: RawServer, worker: Worker, app_of: Any, db: Any) -> None:
    server.set("/icon.png", Reply(body=make_png()))
    (feed_id,) = subscribe(site, server, body=feed(server, server.url("/icon.png")))
    look(site, worker)
    icon = get_icon(site, feed_id)
    assert icon
    kinds = site.icons.read_icons([icon, "/icon/0000000000000000.png", "/icon/x.png"])
    assert list(kinds) == [icon]
    assert kinds[icon][0] == "image/png"
    assert get_icon_number(icon) > 1


@pytest.mark.parametrize("name", ["0" * 16, "xyz", "0" * 15, "0" * 64, "..%2f..%2fetc"])
def test_an_unknown_icon_is_not_found(site: Services, app_of: Any, name: str) -> None:
    answer = app_of(site).get(f"/icon/{name}.png")
    assert answer.status_code == 404
    assert name not in answer.text


def test_a_picture_is_no_icon_for_those_who_guess_its_digits(site: Services, app_of: Any) -> None:
    from app.models.media.blob import BlobKind, Content

    content = Content(
        id=b"p" * 32, kind=BlobKind.PICTURE, size=1, type="image/png", files={"w640": b"secret"}
    )
    site.gateways.blobs.keep(content, lambda _session, _blob: None)
    assert app_of(site).get(build_icon_path(b"p" * 32)).status_code == 404


@pytest.fixture
def app_of() -> Any:
    from app import create_app

    return lambda built: Visitor(create_app(built.settings, built).test_client())
