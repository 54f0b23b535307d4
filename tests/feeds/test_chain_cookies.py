"""Cookies of one redirect chain: kept for its host as browsers do, dropped after the fetch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.feeds.fetch.cookies import MAX_COOKIE, MAX_COOKIES, MAX_HEADER, CookieJar
from app.models.feeds.fetched import FetchRequest
from tests.support.rawserver import RawServer, Reply, Request
from tests.support.world import PUBLIC, World

FEED = b"<rss version='2.0'/>"
HTML = (("Content-Type", "text/html"),)


@pytest.fixture
def world() -> Iterator[World]:
    with RawServer() as server:
        world = World(server)
        world.add("other.example", PUBLIC)
        yield world


def redirect(target: str, *cookies: str) -> Reply:
    return Reply(status=302, headers=(("Location", target), *(("Set-Cookie", text) for text in cookies)))


def test_consent_loop_that_needs_its_cookie_ends_at_the_feed(world: World) -> None:
    def answer_feed(request: Request) -> Reply:
        agreed = "consent=yes" in request.headers.get("cookie", "")
        return Reply(body=FEED) if agreed else redirect("/consent")

    world.server.set("/feed", answer_feed)
    world.server.set("/consent", redirect("/feed", "consent=yes; Path=/; HttpOnly; SameSite=Lax"))
    with world.fetcher() as fetcher:
        for _ in range(2):
            got = fetcher.fetch(FetchRequest("http://pub.example/feed"))
            assert (got.error, got.body) == (None, FEED)
    # The second fetch began without the cookie of the first.
    assert [r.headers.get("cookie") for r in world.server.requests] == [None, None, "consent=yes"] * 2


def test_cookies_of_a_page_with_a_meta_refresh_count(world: World) -> None:
    page = b"<html><head><meta http-equiv=refresh content='0; url=/feed'>"
    world.server.set("/page", Reply(body=page, headers=(*HTML, ("Set-Cookie", "a=1"))))
    world.server.set("/feed", Reply(body=FEED))
    with world.fetcher() as fetcher:
        assert fetcher.fetch(FetchRequest("http://pub.example/page")).body == FEED
    assert world.server.requests[-1].headers["cookie"] == "a=1"


def test_no_cookie_goes_to_another_host_and_own_ones_come_back(world: World) -> None:
    cookies = ("a=1; Domain=example", "b=2; Domain=.other.example", "c=3; Secure")
    world.server.set("/feed", redirect("http://other.example/there", *cookies))
    world.server.set("/there", redirect("http://pub.example/end", "d=4"))
    world.server.set("/end", Reply(body=FEED))
    with world.fetcher() as fetcher:
        assert fetcher.fetch(FetchRequest("http://pub.example/feed")).body == FEED
    sent = [r.headers.get("cookie") for r in world.server.requests]
    assert sent == [None, None, "a=1; b=2"]


def test_a_cookie_header_of_the_reader_stays_the_only_one(world: World) -> None:
    world.server.set("/feed", redirect("/end", "a=1"))
    world.server.set("/end", Reply(body=FEED))
    with world.fetcher() as fetcher:
        fetcher.fetch(FetchRequest("http://pub.example/feed", headers=(("Cookie", "mine=1"),)))
    assert [r.headers.get("cookie") for r in world.server.requests] == ["mine=1", "mine=1"]


def jar(*fields: str) -> CookieJar:
    made = CookieJar()
    made.store_cookies("a.example", [f"Set-Cookie: {text}\r\n".encode("latin-1") for text in fields])
    return made


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        (("a=1", "a=2"), "a=2"),
        (("a=1", "a=; Max-Age=0"), ""),
        (("a=1", "a=x; expires=Thu, 01 Jan 1970 00:00:00 GMT"), ""),
        (("a=1; Max-Age=60",), "a=1"),
        (("a=1; Path=/x",), "a=1"),
        (("a=1; Path=/x/",), "a=1"),
        (("a=1; Path=/xy",), ""),
        (("a=1; Path=/other",), ""),
        (("a=1; Secure",), ""),
        (("a=1\tb", "b=1\x00", "=3", "noname", ""), ""),
        (("a=" + "x" * MAX_COOKIE,), ""),
        (('a="1 2"',), 'a="1 2"'),
    ],
)
def test_cookies_are_read_as_browsers_read_them(fields: tuple[str, ...], sent: str) -> None:
    assert jar(*fields).build_header("http", "a.example", "/x/y") == sent


def test_cookies_are_few_and_short_and_stay_on_their_host() -> None:
    many = jar(*(f"c{n}={'x' * 3000}" for n in range(MAX_COOKIES + 5)))
    header = many.build_header("https", "a.example", "/")
    assert 3000 < len(header) <= MAX_HEADER
    assert (
        len(jar(*(f"c{n}=1" for n in range(99))).build_header("http", "a.example", "/").split("; "))
        == MAX_COOKIES
    )
    for host in ("b.example", "example", "x.a.example", "a.example."):
        assert many.build_header("https", host, "/") == ""
    assert jar("s=1; secure").build_header("https", "a.example", "/") == "s=1"
