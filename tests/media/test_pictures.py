"""Pictures of entries: a farm of sites on loopback, the real tasks, and the pages that show them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from app import clock, config, create_app
from app.bootstrap.services import Services
from app.errors import ConflictError, StoreError
from app.feeds.fetch.fetcher import Fetcher
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import FetchRequest
from app.models.jobs.jobs import Task
from app.models.media.addresses import encode_bytes, parse_id
from app.models.media.blob import Purpose
from app.models.media.drawn import RECIPE
from app.models.media.shown import PictureState, ShownPicture
from app.models.media.source import Source, SourceState
from app.services.media import fetching, pictures
from app.services.media.pictures import BATCH, WantedPicture
from tests.media.farm import Worker, build_services, make_png
from tests.support.commands import build_logged_services
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import add_user, pull, rss
from tests.web.conftest import Visitor

SIZES = ("t208", "t416", "w640", "w1280")


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture
def site(services: Services, server: RawServer) -> Iterator[Services]:
    with contextlib.closing(build_services(services, server, fetch_total_timeout=2.0)) as built:
        yield built


@pytest.fixture
def worker(site: Services, redis_client: redis.Redis) -> Worker:
    return Worker(site, redis_client)


def open_site(site: Services) -> Visitor:
    return Visitor(create_app(site.settings, site).test_client())


def show(site: Services, server: RawServer, *names: str, user_id: int | None = 1) -> list[ShownPicture]:
    """Show pictures of a feed of this server."""
    feed = server.url("/feed")
    wanted = [
        WantedPicture(name if "//" in name else server.url(name), server.url("/post"), feed) for name in names
    ]
    return list(site.pictures.prepare(wanted, user_id).values())


def fetch(site: Services, server: RawServer, worker: Worker, name: str = "/a.png") -> ShownPicture:
    show(site, server, name)
    worker.work()
    return show(site, server, name)[0]


def test_a_picture_is_fetched_once_and_shown_from_here(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/a.png", Reply(body=make_png(900, 600)))
    first = show(site, server, "/a.png", "/a.png")
    assert [shown.state for shown in first] == [PictureState.PENDING]
    assert worker.work() == [Task.MEDIA_FETCH, Task.DRAW]
    assert worker.queues == [(Task.MEDIA_FETCH, "media-fetch"), (Task.DRAW, "media")]
    (ready,) = show(site, server, "/a.png")
    assert (ready.state, ready.width, ready.height) == (PictureState.READY, 900, 600)
    visitor = open_site(site)
    for size in SIZES:
        served = visitor.get(ready.build_path(size))
        assert (served.status_code, served.content_type) == (200, "image/webp"), size
        assert served.data[:4] == b"RIFF"
        assert served.headers["Cache-Control"] == "public, max-age=2592000, immutable"
        assert served.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert visitor.get(ready.build_path("i64")).status_code == 404
    assert worker.work() == []
    assert len(server.seen("/a.png")) == 1


def test_the_same_picture_at_another_address_is_not_drawn_again(
    site: Services, server: RawServer, worker: Worker
) -> None:
    for name in ("/a.png", "/b.png"):
        server.set(name, Reply(body=make_png()))
    assert fetch(site, server, worker, "/a.png").state is PictureState.READY
    show(site, server, "/b.png")
    assert worker.work() == [Task.MEDIA_FETCH]
    assert show(site, server, "/b.png")[0].state is PictureState.READY


def test_all_new_pictures_of_a_page_are_one_job(site: Services, server: RawServer, redis_client: Any) -> None:
    show(site, server, *(f"/{n}.png" for n in range(40)))
    show(site, server, *(f"/{n}.png" for n in range(40)))
    assert redis_client.llen("rq:queue:media-fetch") == 1


def test_H12_the_sites_learn_nothing_about_the_reader(
    site: Services, server: RawServer, worker: Worker
) -> None:
    """The request is the same for every reader."""
    server.set("/a.png", Reply(body=make_png()))
    fetch(site, server, worker)
    (request,) = server.seen("/a.png")
    assert set(request.headers) <= {"host", "user-agent", "accept", "accept-encoding", "referer"}
    assert request.headers["referer"] == server.url("/")
    assert request.headers["user-agent"].startswith("Eventr/")


def test_a_hotlink_guard_is_asked_once_more_without_referer(
    site: Services, server: RawServer, worker: Worker
) -> None:
    def guard(request: Any) -> Reply:
        return Reply(status=403) if "referer" in request.headers else Reply(body=make_png())

    server.set("/a.png", guard)
    assert fetch(site, server, worker).state is PictureState.READY
    assert [("referer" in r.headers) for r in server.seen("/a.png")] == [True, False]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Reply(status=403), "http_403"),
        (Reply(status=410), "gone"),
        (Reply(body=b"<html>no picture</html>", headers=(("Content-Type", "image/png"),)), "not_a_picture"),
        (Reply(body=b"\x00\x00\x01\x00" + bytes(40)), "not_a_picture"),  # an icon is none in an entry
        (Reply(body=b'<svg xmlns="http://www.w3.org/2000/svg"/>'), "not_a_picture"),
        (Reply(endless=b"\x89PNG\r\n\x1a\n" * 8000), "too_large"),
        (Reply(body=b"\x89PNG\r\n\x1a\n" * 500, drip=(8, 0.2)), "timeout"),
        (Reply(status=302, headers=(("Location", "http://127.0.0.2:1/x.png"),)), "bad_redirect"),
    ],
)
def test_a_failure_has_a_name_and_is_not_tried_again_at_once(
    site: Services, server: RawServer, worker: Worker, answer: Reply, error: str
) -> None:
    server.set("/a.png", answer)
    shown = fetch(site, server, worker)
    assert (shown.state, shown.error) == (PictureState.FAILED, error)
    count = len(server.seen("/a.png"))
    assert worker.work() == []
    assert len(server.seen("/a.png")) == count
    assert open_site(site).get(shown.build_path("w640")).status_code == 404


def test_a_site_that_limits_requests_pauses_pictures_and_feeds(
    site: Services, server: RawServer, worker: Worker
) -> None:
    for n in range(4):
        server.set(f"/{n}.png", Reply(status=429, headers=(("Retry-After", "600"),)))
        fetch(site, server, worker, f"/{n}.png")
    assert all(left > 0 for left in site.budget.find_pauses(["127.0.0.1", "img:127.0.0.1"]))
    server.set("/later.png", Reply(body=make_png()))
    assert fetch(site, server, worker, "/later.png").state is PictureState.PENDING
    assert server.seen("/later.png") == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/x.png",
        "http://10.0.0.1/x.png",
        "http://[::1]/x.png",
        "http://localhost/x.png",
    ],
)
def test_V01_a_private_address_is_never_asked(
    site: Services, server: RawServer, worker: Worker, address: str
) -> None:
    """Another site's feed can't name a host of this network, even one that the list allows."""
    server.set("/x.png", Reply(body=make_png()))
    url = address.format(port=server.port)
    site.pictures.prepare([WantedPicture(url, "https://site.example/1", "https://site.example/feed")], 1)
    worker.work()
    (shown,) = site.pictures.prepare([WantedPicture(url)], 1).values()
    assert (shown.state, shown.error) == (PictureState.FAILED, "refused")
    assert server.connections == 0


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/x.png", "http://10.0.0.1/x.png", "http://site.example:22/x.png"]
)
def test_V01_a_signature_does_not_make_an_address_safe(site: Services, url: str, redis_client: Any) -> None:
    """We have signed it, and yet refuse to fetch it."""
    path = site.pictures.create_signer("").sign_url(url, None)
    assert path
    answer = open_site(site).get(path)
    assert answer.status_code == 403
    assert url not in answer.text
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert redis_client.llen("rq:queue:media-fetch") == 0


def test_own_pictures_are_not_fetched(site: Services, server: RawServer, worker: Worker) -> None:
    own = f"{site.settings.own_origin}/logout"
    assert show(site, server, own)[0].state is PictureState.PENDING
    worker.work()
    assert show(site, server, own)[0].error == "refused"


def test_H12_a_flipped_bit_is_refused_before_anything_is_answered(
    site: Services, server: RawServer, worker: Worker, db: Any
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    fetch(site, server, worker)
    good = site.pictures.create_signer("").sign_url(server.url("/a.png"), None) or ""
    visitor = open_site(site)
    served = db["sources"].count_documents({})
    for place in range(len("/i/u/"), len(good)):
        if good[place] == "/":
            continue
        other = good[:place] + ("A" if good[place] != "A" else "B") + good[place + 1 :]
        answer = visitor.get(other, headers={"If-None-Match": "*"})
        assert answer.status_code == 403, other
        assert "ETag" not in answer.headers
    assert db["sources"].count_documents({}) == served


def test_V03_errors_echo_nothing(site: Services) -> None:
    visitor = open_site(site)
    for path in (
        "/i/<script>alert(1)<script>/w640.webp",
        f"/i/{'A' * 22}/<script>alert(1).webp",
        "/i/u/x/<script>alert(1)",
        f"/i/{'A' * 22}/w640.webp",
        "/icon/<script>alert(1).png",
    ):
        answer = visitor.get(path)
        assert answer.status_code in (403, 404), path
        assert "<script" not in answer.text
        assert "<html" not in answer.text
        assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_a_program_gets_the_picture_that_nobody_has_fetched(
    site: Services, server: RawServer, worker: Worker
) -> None:
    path = site.pictures.create_signer("").sign_url("http://pictures.example/a.png", "https://site.example/1")
    visitor = open_site(site)
    answer = visitor.get(path or "")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (503, "no-store")
    assert int(answer.headers["Retry-After"]) > 0


def test_strangers_cause_no_fetches(site: Services, server: RawServer, redis_client: Any, db: Any) -> None:
    assert show(site, server, "/a.png", user_id=None)[0].state is PictureState.PENDING
    assert redis_client.llen("rq:queue:media-fetch") == 0
    assert db["sources"].count_documents({}) == 0


def test_one_user_cannot_have_everything_fetched(services: Services, server: RawServer, db: Any) -> None:
    with contextlib.closing(build_services(services, server, pictures_per_hour=20)) as site:
        for n in range(6):
            show(site, server, *(f"/{n}-{m}.png" for m in range(10)))
        assert db["sources"].count_documents({}) == 20
        show(site, server, "/other.png", user_id=2)
        assert db["sources"].count_documents({}) == 21


def test_a_page_with_more_new_pictures_than_are_left_gets_as_many_as_are_left(
    services: Services, server: RawServer, db: Any
) -> None:
    with contextlib.closing(build_services(services, server, pictures_per_hour=20)) as site:
        show(site, server, *(f"/{n}.png" for n in range(30)))
        assert db["sources"].count_documents({}) == 20


def test_a_page_of_very_many_pictures_is_shown_and_fetched_in_parts(
    site: Services, server: RawServer, redis_client: Any
) -> None:
    """One job can't name them all, and could not fetch them in its time."""
    site.gateways.sources.add(
        [
            Source(id=site.pictures._keys.derive_id(f"http://a.example/{n}"), url="", purpose=Purpose.PICTURE)
            for n in range(2000)
        ],
        clock.now(),
    )
    shown = show(site, server, *(f"http://a.example/{n}" for n in range(2000)))
    assert {one.state for one in shown} == {PictureState.PENDING}
    assert redis_client.llen("rq:queue:media-fetch") == 2000 // BATCH


@pytest.mark.parametrize("why", ["postponed", "lost"])
def test_nobody_needs_to_show_a_page_again_for_its_pictures(
    site: Services, server: RawServer, worker: Worker, redis_client: Any, why: str
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    if why == "postponed":
        for n in range(4):
            server.set(f"/{n}.png", Reply(status=429, headers=(("Retry-After", "600"),)))
            fetch(site, server, worker, f"/{n}.png")
        assert fetch(site, server, worker).state is PictureState.PENDING
    else:
        show(site, server, "/a.png")
    redis_client.flushdb()
    now = clock.now()
    with clock.set_source(lambda: now + dt.timedelta(seconds=700)):
        site.jobs.enqueue_many(site.pictures.find_due_jobs(clock.now()))
        assert site.pictures.find_due_jobs(clock.now()) == []
        assert Task.DRAW in worker.work()
    (found,) = site.pictures.find_states([site.pictures._keys.derive_id(server.url("/a.png"))]).values()
    assert found.state is PictureState.READY


def test_a_job_begins_no_picture_late(
    site: Services, server: RawServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    monkeypatch.setattr(pictures, "BEGIN_SECONDS", 0.0)
    show(site, server, "/a.png")
    assert worker.work() == [Task.MEDIA_FETCH]
    assert server.seen("/a.png") == []
    monkeypatch.undo()
    site.jobs.enqueue_many(site.pictures.find_due_jobs(clock.now()))
    assert worker.work() == [Task.MEDIA_FETCH, Task.DRAW]


@pytest.mark.parametrize("odd", [ValueError("odd"), ConflictError()], ids=["fault", "claim"])
def test_one_odd_picture_stops_no_other_of_its_page(
    site: Services, server: RawServer, worker: Worker, monkeypatch: pytest.MonkeyPatch, odd: Exception
) -> None:
    names = ["/odd.png", *(f"/{n}.png" for n in range(4))]
    for name in names:
        server.set(name, Reply(body=make_png()))
    build = fetching.build_request

    def build_request(source: Source) -> FetchRequest:
        if source.url.endswith("/odd.png"):
            raise odd
        return build(source)

    monkeypatch.setattr(fetching, "build_request", build_request)
    show(site, server, *names)
    worker.work()
    states = [one.state for one in show(site, server, *names)]
    assert states[1:] == [PictureState.READY] * 4
    assert states[0] is (PictureState.FAILED if isinstance(odd, ValueError) else PictureState.PENDING)


def test_a_store_that_fails_for_one_picture_lets_the_others_finish_and_the_job_fail(
    site: Services, server: RawServer, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs again; what it has fetched already isn't requested twice."""
    names = [f"/{n}.png" for n in range(3)]
    for name in names:
        server.set(name, Reply(body=make_png()))
    ids = [site.pictures._keys.derive_id(server.url(name)) for name in names]
    put = site.picture_bodies.put

    def refuse(name: str, source: Any) -> None:
        if name == ids[1].hex():
            raise StoreError
        put(name, source)

    show(site, server, *names)
    redis_client.flushdb()
    with Fetcher(site.settings) as fetcher:
        with monkeypatch.context() as m:
            m.setattr(site.picture_bodies, "put", refuse)
            with pytest.raises(StoreError):
                asyncio.run(site.pictures.fetch_many(ids, fetcher, "one"))
        found = site.gateways.sources.find(ids)
        assert [found[i].is_waiting for i in ids] == [True, False, True]
        now = clock.now()
        with clock.set_source(lambda: now + dt.timedelta(minutes=4)):
            done = asyncio.run(site.pictures.fetch_many(ids, fetcher, "two"))
    assert done == {"fetched": 1}
    assert [len(server.seen(name)) for name in names] == [1, 2, 1]


def test_pictures_wait_without_redis(site: Services, server: RawServer) -> None:
    broken = build_services(site, server, redis_url="redis://127.0.0.1:1/0")
    with contextlib.closing(broken):
        assert show(broken, server, "/a.png")[0].state is PictureState.PENDING


@pytest.mark.parametrize(("lowered", "tasks"), [(0, []), (1, [Task.DRAW])])
def test_a_picture_of_an_older_recipe_is_drawn_again_when_it_is_fetched(
    site: Services, server: RawServer, worker: Worker, lowered: int, tasks: list[Task]
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    fetch(site, server, worker)
    blobs = site.store.database.blobs
    blobs.update_one({}, {"$inc": {"recipe": -lowered}})
    now = clock.now()
    with clock.set_source(lambda: now + dt.timedelta(days=14.5)):
        show(site, server, "/a.png")
        assert worker.work() == [Task.MEDIA_FETCH, *tasks]
    assert [doc["recipe"] for doc in blobs.find()] == [RECIPE]


def test_a_picture_is_asked_for_again_after_the_window(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/a.png", Reply(body=make_png(), etag='"1"'))
    fetch(site, server, worker)
    now = clock.now()
    for days, requests in ((13, 1), (14.5, 2)):
        with clock.set_source(lambda days=days: now + dt.timedelta(days=days)):  # type: ignore[misc]
            assert show(site, server, "/a.png")[0].state is PictureState.READY
            worker.work()
        assert len(server.seen("/a.png")) == requests


# -- pages


def follow(site: Services, server: RawServer, *bodies: str, name: str = "ann") -> tuple[Actor, int]:
    actor = add_user(site, name)
    url = server.url("/feed")
    feed_id = site.subscriptions.subscribe(actor, url).subscription.feed_id
    made = rss("Pictures", [(f"Entry {n}", body) for n, body in enumerate(bodies)])
    # Pictures of a private host may only be on a page of this host.
    pull(site, [feed_id], {url: made.replace(b"https://site.example/", server.url("/").encode())})
    return actor, feed_id


def list_loads(html: str) -> list[str]:
    """Return the addresses that a browser would load without a click."""
    tags = re.findall(r"<(?:img|source|video|audio|iframe|script|link)\b[^>]*>", html)
    found = [re.findall(r' (?:src|srcset|poster|href)="([^"]*)"', tag) for tag in tags]
    return [url for urls in found for url in urls]


def entry_id(site: Services, feed_id: int) -> int:
    (found,) = site.store.database["entries"].find({"feed_id": feed_id}, {"_id": 1}).sort("_id", -1).limit(1)
    return int(found["_id"])


IMAGES = (
    '<p><img src="http://one.example/1.jpg" srcset="http://two.example/2.jpg 2000w" width="30" height="60">'
    '<a href="http://x.example/"><img src="http://three.example/3.png"></a></p>'
)


def test_H13_a_page_loads_nothing_from_other_hosts(site: Services, server: RawServer) -> None:
    """For pages of all kinds."""
    _, feed_id = follow(site, server, IMAGES)
    visitor = open_site(site)
    visitor.log_in()
    entry = entry_id(site, feed_id)
    for path in (
        f"/read/feed/{feed_id}?entry={entry}",
        f"/read/feed/{feed_id}?view=expanded",
        f"/read/feed/{feed_id}?density=card",
    ):
        page = visitor.get(path)
        assert page.status_code == 200
        assert [url for url in list_loads(page.text) if "example" in url] == [], path
        assert "img-src 'self' data:;" in page.headers["Content-Security-Policy"]


def test_a_box_has_the_shape_that_the_html_states(site: Services, server: RawServer) -> None:
    _, feed_id = follow(site, server, IMAGES)
    visitor = open_site(site)
    visitor.log_in()
    page = visitor.get(f"/read/feed/{feed_id}?density=compact&entry={entry_id(site, feed_id)}").text
    boxes = re.findall(r'<img [^>]*class="wait[^>]*>', page)
    assert ['width="30" height="60"' in box for box in boxes] == [True, False], boxes
    assert all(re.search(r' width="\d+" height="\d+"', box) for box in boxes)


@pytest.mark.parametrize(("choice", "loads"), [("site", 3), ("none", 0)])
def test_people_choose_how_pictures_are_shown(
    site: Services, server: RawServer, choice: str, loads: int
) -> None:
    actor, feed_id = follow(site, server, IMAGES)
    site.accounts.set_preferences(actor, {"images": choice})
    visitor = open_site(site)
    visitor.log_in()
    page = visitor.get(f"/read/feed/{feed_id}?density=compact&entry={entry_id(site, feed_id)}")
    assert len([url for url in list_loads(page.text) if "example" in url]) == loads
    assert ("http:" in page.headers["Content-Security-Policy"].partition("img-src")[2].partition(";")[0]) == (
        choice == "site"
    )
    if choice == "none":
        assert 'href="http://two.example/2.jpg"' in page.text
        assert page.text.count('<a href="http://three.example/3.png"') == 0  # it's in a link already


@pytest.mark.parametrize(("choice", "loads"), [("eventr", 3), ("site", 3), ("none", 0)])
def test_without_pillow_pictures_come_from_their_sites_unless_people_want_none(
    site: Services, server: RawServer, choice: str, loads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "can_draw", lambda: False)
    actor, feed_id = follow(site, server, IMAGES)
    site.accounts.set_preferences(actor, {"images": choice})
    visitor = open_site(site)
    visitor.log_in()
    page = visitor.get(f"/read/feed/{feed_id}?density=compact&entry={entry_id(site, feed_id)}")
    assert len([url for url in list_loads(page.text) if "example" in url]) == loads
    assert ("http:" in page.headers["Content-Security-Policy"].partition("img-src")[2].partition(";")[0]) == (
        choice != "none"
    )
    assert site.store.database.sources.count_documents({}) == 0


def test_a_failed_picture_is_named_and_linked(site: Services, server: RawServer, worker: Worker) -> None:
    server.set("/a.png", Reply(status=403))
    _, feed_id = follow(site, server, f'<img src="{server.url("/a.png")}" alt="The sea">')
    visitor = open_site(site)
    visitor.log_in()
    path = f"/read/feed/{feed_id}?entry={entry_id(site, feed_id)}"
    visitor.get(path)
    worker.work()
    page = visitor.get(path).text
    (line,) = re.findall(r'<span class="no-picture">.*?</span>', page)
    assert "HTTP 403" in line
    assert "The sea" in line
    assert f'href="{server.url("/a.png")}"' in line


def test_a_ready_picture_reserves_its_box(site: Services, server: RawServer, worker: Worker) -> None:
    server.set("/a.png", Reply(body=make_png(900, 3600)))
    _, feed_id = follow(site, server, f'<img src="{server.url("/a.png")}">')
    visitor = open_site(site)
    visitor.log_in()
    path = f"/read/feed/{feed_id}?density=compact&entry={entry_id(site, feed_id)}"
    visitor.get(path)
    worker.work()
    page = visitor.get(path).text
    (tag,) = re.findall(r'<img [^>]*src="/i/[^>]*>', page)
    assert 'width="900" height="3600"' in tag
    assert 'loading="lazy"' in tag
    assert re.search(r'srcset="(/i/[\w-]{22})/w640.webp 640w, \1/w1280.webp 900w"', tag)
    states = visitor.get(f"/i/states?ids={re.findall(r'/i/([^/]+)/', tag)[0]},bad").json
    assert [state["state"] for state in states.values()] == ["ready"]


def test_the_pictures_of_a_page_cost_two_queries(
    site: Services, server: RawServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"/{n}.png" for n in range(5)]
    for name in names:
        server.set(name, Reply(body=make_png()))
    show(site, server, *names)
    worker.work()
    with build_logged_services(site.settings, monkeypatch) as (logged, log):
        shown = show(logged, server, *names)
        assert {one.state for one in shown} == {PictureState.READY}
        assert [command.split()[:2] for command in log.commands] == [["find", "sources"], ["find", "blobs"]]


def test_ids_are_the_same_on_all_pages(site: Services, server: RawServer) -> None:
    (one,) = show(site, server, "/a.png")
    assert parse_id(encode_bytes(one.source)) == one.source


def test_a_program_has_a_picture_whose_site_was_down_fetched_again(
    services: Services, server: RawServer, redis_client: Any
) -> None:
    with contextlib.closing(build_services(services, server, picture_patience=0.0)) as site:
        worker, visitor = Worker(site, redis_client), open_site(site)
        path = site.pictures.create_signer("").sign_url("http://down.invalid/a.png", None) or ""
        assert visitor.get(path).status_code == 503
        assert worker.work() == [Task.MEDIA_FETCH]
        assert visitor.get(path).status_code == 404
        assert worker.work() == []
        now = clock.now()
        with clock.set_source(lambda: now + dt.timedelta(hours=2)):
            assert visitor.get(path).status_code == 503
            assert worker.work() == [Task.MEDIA_FETCH]


def test_strangers_do_not_cause_fetches_of_known_pictures_either(
    site: Services, server: RawServer, worker: Worker
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    fetch(site, server, worker)
    now = clock.now()
    with clock.set_source(lambda: now + dt.timedelta(days=15)):
        assert show(site, server, "/a.png", user_id=None)[0].state is PictureState.READY
        assert worker.work() == []
        show(site, server, "/a.png")
        assert worker.work() == [Task.MEDIA_FETCH]


@pytest.mark.parametrize("purpose", ["picture", "icon"])
@pytest.mark.parametrize("is_body_lost", [False, True])
def test_a_drawing_that_was_lost_with_redis_is_done_soon(
    site: Services, server: RawServer, worker: Worker, redis_client: Any, purpose: str, is_body_lost: bool
) -> None:
    server.set("/a.png", Reply(body=make_png()))
    show(site, server, "/a.png")
    source_id = site.pictures._keys.derive_id(server.url("/a.png"))
    site.store.database["sources"].update_one({"_id": source_id}, {"$set": {"kind": purpose}})
    (source,) = site.gateways.sources.claim([source_id], "token", clock.now())
    site.picture_bodies.put(source_id.hex(), io.BytesIO(make_png()))
    site.gateways.sources.record_fetched(source, "token", clock.now())
    redis_client.flushdb()
    if is_body_lost:
        site.picture_bodies.delete(source_id.hex())
    now = clock.now()
    assert site.pictures.find_due_jobs(now) == []
    with clock.set_source(lambda: now + dt.timedelta(minutes=3)):
        site.jobs.enqueue_many(site.pictures.find_due_jobs(clock.now()))
        assert worker.work() == [Task.DRAW]
    with clock.set_source(lambda: now + dt.timedelta(minutes=4)):
        jobs = site.pictures.find_due_jobs(clock.now())
        assert len(jobs) == (is_body_lost and purpose == "picture")
        site.jobs.enqueue_many(jobs)
        assert worker.work() == ([Task.MEDIA_FETCH, Task.DRAW] if jobs else [])
    found = site.gateways.sources.find([source_id])[source_id]
    is_lost = is_body_lost and purpose == "icon"
    assert found.state is (SourceState.WANTED if is_lost else SourceState.READY)
