"""Forms by POST: what a hub is asked with. The same walls as for a GET, and no redirect that changes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.feeds.fetch.fetcher import Fetcher
from app.models.feeds.fetched import Fetched, FetchRequest
from tests.support.rawserver import RawServer, Reply
from tests.support.world import World, local_fetcher

TLS = Path(__file__).parents[1] / "support" / "tls"
FORM = b"hub.mode=subscribe&hub.secret=abc"


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture
def fetcher(server: RawServer) -> Iterator[Fetcher]:
    with local_fetcher(server, fetch_per_host=1) as running:
        yield running


def post(fetcher: Fetcher, url: str, referred_by: str | None = None) -> Fetched:
    return fetcher.fetch(FetchRequest(url, form=FORM, referred_by=referred_by))


def word(fetched: Fetched) -> str | None:
    return fetched.error.word if fetched.error else None


@pytest.mark.parametrize("reply", [Reply(202), Reply(204), Reply(200, body=b"x" * 200_000)])
def test_a_form_is_sent_and_its_answer_not_read(server: RawServer, fetcher: Fetcher, reply: Reply) -> None:
    server.set("/hub", reply)
    got = post(fetcher, server.url("/hub"))
    (seen,) = server.seen("/hub")
    assert (got.status, got.error, got.body) == (reply.status, None, None)
    assert (seen.method, seen.body) == ("POST", FORM)
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"
    assert seen.headers["content-length"] == str(len(FORM))
    assert "expect" not in seen.headers


def test_the_same_handle_asks_by_get_afterwards(server: RawServer, fetcher: Fetcher) -> None:
    server.set("/hub", Reply(202))
    server.set("/feed", Reply(body=b"<rss/>"))
    post(fetcher, server.url("/hub"))
    got = fetcher.fetch(FetchRequest(server.url("/feed")))
    (seen,) = server.seen("/feed")
    assert (got.body, seen.method, seen.body) == (b"<rss/>", "GET", b"")
    assert "content-type" not in seen.headers


def test_an_error_of_the_hub_has_its_word(server: RawServer, fetcher: Fetcher) -> None:
    server.set("/hub", Reply(400, body=b"no such topic"))
    assert word(post(fetcher, server.url("/hub"))) == "http_400"


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_the_method_is_followed(
    server: RawServer, fetcher: Fetcher, status: int
) -> None:
    server.set("/hub", Reply(status, headers=(("Location", "/other"),)))
    server.set("/other", Reply(202))
    got = post(fetcher, server.url("/hub"))
    assert (got.status, got.url, got.error) == (202, server.url("/other"), None)
    assert [(r.method, r.body) for r in server.seen("/other")] == [("POST", FORM)]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_changes_the_method_is_not(server: RawServer, fetcher: Fetcher, status: int) -> None:
    server.set("/hub", Reply(status, headers=(("Location", "/other"),)))
    server.set("/other", Reply(202))
    assert word(post(fetcher, server.url("/hub"))) == "bad_redirect"
    assert server.seen("/other") == []


def test_several_forms_at_once(server: RawServer, fetcher: Fetcher) -> None:
    server.set("/hub", Reply(202))

    async def run() -> list[int]:
        requests = [FetchRequest(server.url("/hub"), key=n, form=b"n=%d" % n) for n in range(20)]
        return [fetched.request.key async for fetched in fetcher.stream_fetches(requests)]

    assert sorted(asyncio.run(run())) == list(range(20))
    assert {r.body for r in server.seen("/hub")} == {b"n=%d" % n for n in range(20)}


def test_S01_a_hub_inside_is_refused_whoever_names_it() -> None:
    with RawServer({"/hub": Reply(202)}) as server:
        world = World(server, {"inside.example": [["10.0.0.7"]]})
        with world.fetcher(fetch_allow=("10.0.0.0/8",)) as fetcher:
            feed = "http://pub.example/feed"
            for hub in ("http://inside.example/hub", "http://10.0.0.7/hub", "http://127.0.0.1/hub"):
                assert word(post(fetcher, hub, referred_by=feed)) == "refused", hub
            assert post(fetcher, "http://pub.example/hub", referred_by=feed).status == 202
        assert {r.headers["host"] for r in server.requests} == {"pub.example"}


def test_S09_a_hub_does_not_lead_a_form_inside() -> None:
    away = Reply(307, headers=(("Location", "http://127.0.0.1/hub"),))
    with RawServer({"/hub": away}) as server, World(server).fetcher() as fetcher:
        assert word(post(fetcher, "http://pub.example/hub")) == "bad_redirect"


def test_a_redirect_is_an_end_where_none_may_be_followed() -> None:
    away = Reply(308, headers=(("Location", "/there"),))
    with RawServer({"/cb": away, "/there": Reply(202)}) as server, World(server).fetcher() as fetcher:
        for form in (FORM, None):
            got = fetcher.fetch(FetchRequest("http://pub.example/cb", form=form, follow=False))
            assert (word(got), got.status, got.url) == ("http_308", 308, "http://pub.example/cb")
        assert server.seen("/there") == []


def test_S09_a_form_that_came_by_https_is_not_shown_in_the_open() -> None:
    away = Reply(308, headers=(("Location", "http://pub.example/hub"),))
    tls = (str(TLS / "cert.pem"), str(TLS / "key.pem"))
    with RawServer({"/hub": away}, tls=tls) as secure, RawServer({"/hub": Reply(202)}) as plain:
        world = World(secure)
        world.ports[80] = plain
        world.cafile = tls[0]
        with world.fetcher() as fetcher:
            assert word(post(fetcher, "https://pub.example/hub")) == "bad_redirect"
        assert [r.body for r in secure.requests] == [FORM]
        assert plain.requests == []
