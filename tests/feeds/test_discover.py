"""Candidates of saved pages, and the whole search against a scripted web."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from click.testing import CliRunner

from app import clock
from app.cli import cli
from app.feeds.discover import Discoverer, find_candidates
from app.feeds.discover.rank import count_weekly_entries
from app.feeds.parse import parse
from app.models.feeds.discovery import Candidate, Discovered, Source
from app.models.feeds.fetched import Fetched, FetchRequest
from tests.feeds import discover_exceptions
from tests.support import corpus
from tests.support.rawserver import RawServer, Reply
from tests.support.world import World

PAGE = "http://www.example.org/a/b/page.html"
ANNOUNCED = (Source.SITE, Source.LINK)


# -- candidates of saved pages


def announced(row: corpus.Row) -> list[str]:
    """Return what a page's reference says it announces, absolute."""
    reference = row.data["reference"]
    base = urljoin(_url(row), reference.get("base") or "")
    found = (urljoin(base, link["href"].strip()) for link in reference["feed_links"])
    return list(dict.fromkeys(url for url in found if discover_exceptions.REST_API not in url))


def _url(row: corpus.Row) -> str:
    return urljoin(PAGE, row.data["reference"].get("page_url") or PAGE)


CHANNEL = "UCabcdefghijklmnopqrstuv"
VIDEOS = f"https://www.youtube.com/feeds/videos.xml?channel_id={CHANNEL}"


@pytest.mark.parametrize(
    ("url", "markup", "feed"),
    [
        ("https://www.youtube.com/@a", f"<link rel=canonical href=/channel/{CHANNEL}>", VIDEOS),
        ("https://www.youtube.com/@a", f'<meta itemprop="identifier" content="{CHANNEL}">', VIDEOS),
        ("https://m.youtube.com/c/A", f'<script>x={{"externalId":"{CHANNEL}"}}</script>', VIDEOS),
        ("https://www.youtube.com/watch?v=a", f'<script>x={{"channelId": "{CHANNEL}"}}</script>', VIDEOS),
        ("https://www.youtube.com/watch?v=a", "<script>x={}</script>", None),
        ("https://other.example/@a/b/c", f'<script>x={{"channelId":"{CHANNEL}"}}</script>', None),
        ("https://other.example/", "<link rel=canonical href=https://github.com/a>", None),
    ],
)
def test_page_of_a_known_site_names_its_feed_in_its_data(url: str, markup: str, feed: str | None) -> None:
    found = find_candidates(f"<html><head>{markup}</head><body>x</body></html>".encode(), url)
    assert [c.url for c in found if c.source is Source.SITE] == ([feed] if feed else [])


@pytest.mark.parametrize(
    ("anchor", "is_feed"),
    [
        ("<a href=/COMICRSS.xml><img src=/images/x.gif alt=''></a>", True),
        ("<a href=/blog.rss.xml>Blog</a>", True),
        ("<a href=/news.php?rss=1>News</a>", True),
        ("<a href=/x><i class='icon-rss'></i></a>", True),
        ("<a href=/x class='fa fa-feed'></a>", True),
        ("<a href=/x><img src=/i/rss.gif></a>", True),
        ("<a href=/x>Feed abonnieren</a>", True),
        ("<a href=/x>Flux RSS</a>", True),
        ("<a href=/x>RSS-лента</a>", True),
        ("<a href=/x>订阅</a>", True),
        ("<a href=/x>Assinar o feed</a>", True),
        ("<a href=/x>Iscriviti al feed RSS</a>", True),
        ("<a href=/x>Suscríbete por RSS</a>", True),
        ("<a href=/x>Kanał RSS</a>", True),
        ("<a href=/x>RSS odběr</a>", True),
        ("<a href=/x>RSS-стрічка</a>", True),
        ("<a href=/x>RSS-syöte</a>", True),
        ("<a href=/x>RSS 피드</a>", True),
        ("<a href=/x>RSSフィード</a>", True),
        ("<a href=/x>خلاصة RSS</a>", True),
        ("<a href='?feed=rss2'>x</a>", True),
        ("<a href='/index.php?format=feed&amp;type=rss'>x</a>", True),
        ("<a href='/p' data-href=/x>x</a>", False),
        ("<a type=text/html href=/x>x</a>", False),
        ("<a type=application/json href=/x>x</a>", False),
        ("<button data-url=/x>Save</button>", False),
        ("<a href='#' data-href='javascript:rss()'>RSS</a>", False),
        ("<a href=/x>Iscriviti alla newsletter</a>", False),
        ("<a href=/x><img src=/i/dross.gif></a>", False),
        ("<a href=/x class=newsfeedback></a>", False),
        ("<a href=/news.php?rss=0>News</a>", False),
        ("<a href=/archive.php>Archive</a>", False),
        ("<a href=/x class=rss>Our staff</a>", False),
    ],
)
def test_link_to_a_feed_is_known_by_address_icon_or_text(anchor: str, is_feed: bool) -> None:
    found = find_candidates(f"<html><body>{anchor}".encode(), "https://blog.example/")
    assert any(c.source is Source.ANCHOR for c in found) is is_feed


def test_pages_of_the_corpus_give_what_they_announce() -> None:
    wrong: dict[str, Any] = {}
    compared = 0
    for row in corpus.rows("html"):
        if "reference" not in row.data:
            continue
        compared += 1
        more, _ = discover_exceptions.MORE.get(row.path, ([], ""))
        found = [c.url for c in find_candidates(row.read(), _url(row)) if c.source in ANNOUNCED]
        if found != [*more, *announced(row)]:
            wrong[row.path] = (found, announced(row))
    assert wrong == {}
    assert compared == 100


def test_autodiscovery_suite() -> None:
    rows = [r for r in corpus.rows("html") if (r.expect or {}).get("style") == "autodiscovery"]
    assert len(rows) == 28
    for row in rows:
        expect = row.expect or {}
        base = urljoin(PAGE, row.data["reference"].get("base") or "")
        found = find_candidates(row.read(), PAGE)
        assert [found[0].url] == [urljoin(base, href.strip()) for href in expect["feed_links"]], row.path
        assert (found[0].source, found[0].type) == (Source.LINK, "atom")


def test_pages_of_miniflux_suite() -> None:
    rows = [r for r in corpus.rows("html") if (r.expect or {}).get("style") == "asserts"]
    assert len(rows) == 11
    for row in rows:
        found = [c for c in find_candidates(row.read(), "http://example.org/") if c.source is Source.LINK]
        for check in (row.expect or {})["asserts"]:
            assert _miniflux(found, check["path"]) == check["value"], (row.path, check)


def _miniflux(found: list[Candidate], path: str) -> object:
    if path == "subscriptions.length":
        return len(found)
    first = found[0]
    return {"[0].Title": first.title or first.url, "[0].URL": first.url, "[0].Type": first.type}[path]


def test_every_saved_page_is_asserted_or_listed() -> None:
    # Two of Miniflux's pages are about canonical addresses and say nothing of feeds.
    silent = [r.path for r in corpus.rows("html") if "reference" not in r.data and r.expect is None]
    assert [path.rpartition("/")[2] for path in silent] == [
        "TestFindCanonicalURL.html",
        "TestFindCanonicalURLNotFound.html",
    ]
    assert len(corpus.rows("html")) == 113


def test_titles_are_read_in_the_page_s_charset() -> None:
    page = '<title>x</title><link rel=alternate type="application/rss+xml" title="Новости" href=/r>'
    for charset in ("utf-8", "windows-1251", "koi8-r"):
        found = find_candidates(page.encode(charset), PAGE, f"text/html; charset={charset}")
        assert (found[0].title, found[0].url) == ("Новости", "http://www.example.org/r")


@pytest.mark.parametrize(
    "html",
    [
        "<link rel='alternate' type='application/rss+xml' href='/r'>",
        "<LINK REL='ALTERNATE home' TYPE=' Application/RSS+XML; charset=utf-8' HREF=' /r '>",
        "<body><p>late <link rel=alternate type=application/atom+xml href=/r>",
        "<link rel=feed href=/r>",
        "<link rel=alternate type=application/rss+xml href='feed://www.example.org/r'>",
        "<link rel=alternate type=application/rdf href='/r#news'>",
        "<link rel=alternate type=application/atom href='feed:http://www.example.org/r'>",
        "<a href='pcast://www.example.org/r'>Listen</a>",
        "<a href='itpc://www.example.org/r'>Listen</a>",
        "<base href='http://www.example.org/'><link rel=alternate type=text/xml href=r>",
        "<svg></svg><table><link rel=alternate type=application/feed+json href=/r></table>",
        "<body><div><link rel=FEED type=text/html href=/r></div>",
        "<link rel=alternate type='application/rss+xml,charset=utf-8' href=/r>",
        "<link rel=alternate type='application/atom+xml charset=utf-8' href=/r>",
        "<link rel=alternate type=rss href=/r>",
        "<link rel=alternate type=application/xml+rss href=/r>",
        "<link rel=alternate type=application/rss+xml data-href=/r>",
        "<link rel=alternate type=application/rss+xml href='//www.example.org/r'>",
        "<base target=_top><base href='//www.example.org/'><link rel=alternate type=rss href=r>",
        "<base href='javascript:x'><link rel=alternate type=application/rss+xml href=/r>",
        "<noscript><link rel=alternate type=application/rss+xml href=/r></noscript>",
        "<a type=application/rss+xml href=/r>here</a>",
        "<a rel=feed href=/r>here</a>",
        "<a data-href=/r>RSS</a>",
        "<a href='#' data-url=/r>RSS</a>",
        "<a href='javascript:void(0)' data-feed=/r>here</a>",
        "<button data-feed-url='//www.example.org/r'>Follow</button>",
    ],
)
def test_ways_to_announce_a_feed(html: str) -> None:
    assert find_candidates(html.encode(), PAGE)[0].url == "http://www.example.org/r"


@pytest.mark.parametrize(
    "html",
    [
        "<link rel=alternate type=application/rss+xml href='/r?utm_source=page&amp;sig=a%2Bb'>",
        "<a href='/r?sig=a%2Bb&amp;fbclid=x'>RSS</a>",
    ],
)
def test_H13_what_a_page_names_comes_without_tracking(html: str) -> None:
    assert find_candidates(html.encode(), PAGE)[0].url == "http://www.example.org/r?sig=a%2Bb"


def test_H13_rules_for_sites_do_not_take_tracking_along() -> None:
    found = find_candidates(b"", "https://www.reddit.com/r/python/?sort=new&utm_source=share")
    assert found[0].url == "https://www.reddit.com/r/python/.rss?sort=new"


@pytest.mark.parametrize("path", ["feed.xml", "blog.rss", "?feed=rss2"])
def test_a_link_without_a_type_is_announced_where_it_looks_like_a_feed(path: str) -> None:
    found = find_candidates(f"<link rel=alternate href='/{path}'>".encode(), PAGE)[0]
    assert (found.url, found.source) == (f"http://www.example.org/{path}", Source.LINK)


@pytest.mark.parametrize(
    "html",
    [
        "<link rel='alternate stylesheet' type='text/xml' href='/r'>",
        "<link rel=stylesheet type=application/rss+xml href=/r>",
        "<link rel=alternate type=application/json href=/wp-json/wp/v2/posts/1>",
        "<link rel=alternate type=application/json+oembed href=/r>",
        "<link rel=alternate hreflang=de href=/r>",
        "<link rel=alternate hreflang=de href=/de/feed>",
        "<link rel=alternate type=text/html href=/feed>",
        "<link rel=alternate href=/r>",
        "<link rel=alternate type=application/rss+xml href=javascript:alert(1)>",
        "<link rel=alternate type=application/rss+xml>",
        "<!-- <link rel=alternate type=application/rss+xml href=/r> -->",
        "<a href='https://feedly.com/i/subscription/feed/x/rss'>RSS</a>",
        "<a href=/about>About feeds</a>",
        "",
    ],
)
def test_what_announces_nothing(html: str) -> None:
    assert {c.source for c in find_candidates(html.encode(), PAGE)} == {Source.GUESS}


def test_links_that_look_like_feeds_come_after_the_announced() -> None:
    html = (
        "<a href=/index.xml>x</a><a href='http://feeds.feedburner.com/blog'>x</a><a href=/sub>RSS feed</a>"
        "<a href='feed://www.example.org/f'>f</a><a href=/x><img alt=RSS></a><a href=/?feed=rss2>s</a>"
        "<link rel=alternate type=application/rss+xml href=/first>"
    )
    found = [c for c in find_candidates(html.encode(), PAGE) if c.source is not Source.GUESS]
    assert [c.url.removeprefix("http://www.example.org") for c in found] == [
        *("/first", "/index.xml", "http://feeds.feedburner.com/blog", "/sub", "/f", "/x", "/?feed=rss2")
    ]


def test_usual_places_are_at_the_root_and_in_the_folder() -> None:
    guesses = [c.url for c in find_candidates(b"", "https://example.org/~me/blog/post.html")]
    assert guesses[:2] == ["https://example.org/feed/", "https://example.org/~me/blog/feed/"]
    assert "https://example.org/~me/blog/index.rss" in guesses
    assert len(guesses) == len(set(guesses))


@pytest.mark.parametrize(
    "body", [b"\x00\xff" * 500, b"<" * 100_000, b"<div>" * 20_000, "\ud83d".encode("utf-16", "surrogatepass")]
)
def test_X08_hostile_pages_are_no_error(body: bytes) -> None:
    assert all(c.source is Source.GUESS for c in find_candidates(body, PAGE))


# -- the whole search, with the real fetcher and parser

FEEDS = "http://blog.example"
NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def rss(title: str, count: int = 3, *, path: str = "p", day: int = 20) -> bytes:
    items = "".join(
        f"<item><title>{n}</title><link>http://blog.example/{path}{n}</link>"
        f"<pubDate>{day - n:02d} Feb 2026 10:00:00 GMT</pubDate></item>"
        for n in range(count)
    )
    return f"<rss version='2.0'><channel><title>{title}</title>{items}</channel></rss>".encode()


def atom(title: str, count: int = 3, *, path: str = "p") -> bytes:
    items = "".join(
        f"<entry><id>{n}</id><title>{n}</title><link href='http://blog.example/{path}{n}'/>"
        f"<updated>2026-02-{20 - n:02d}T10:00:00Z</updated></entry>"
        for n in range(count)
    )
    return f"<feed xmlns='http://www.w3.org/2005/Atom'><title>{title}</title>{items}</feed>".encode()


def page(*feeds: str, body: str = "") -> Reply:
    links = "".join(f"<link rel=alternate type=application/rss+xml title='{f}' href='{f}'>" for f in feeds)
    return html(f"<title>The page</title>{links}{body}")


def html(text: str, **reply: Any) -> Reply:
    return Reply(body=text.encode(), headers=(("Content-Type", "text/html; charset=utf-8"),), **reply)


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as server:
        yield server


@pytest.fixture
def world(server: RawServer) -> World:
    world = World(server)
    world.add("blog.example", "93.184.215.20")
    return world


def search(
    world: World, address: str, steps: list[str] | None = None, *, connect: float = 10.0, **settings: Any
) -> Discovered:
    async def run() -> Discovered:
        report = (lambda words: None) if steps is None else steps.append
        with world.fetcher(fetch_connect_timeout=connect, **settings) as fetcher:
            return await Discoverer(fetcher, parse, 100).run(address, report)

    with clock.set_source(lambda: NOW):
        return asyncio.run(run())


def test_a_feed_s_own_address(world: World, server: RawServer) -> None:
    server.set("/rss", Reply(body=rss("Blog", 4)))
    (feed,) = search(world, "http://blog.example/rss").feeds
    assert (feed.url, feed.title, feed.format, feed.entries) == (
        "http://blog.example/rss",
        "Blog",
        "rss20",
        4,
    )
    assert feed.last_published == dt.datetime(2026, 2, 20, 10, tzinfo=dt.UTC)
    assert feed.per_week == pytest.approx(4 / 11.58 * 7, rel=0.02)


def test_a_bare_name_falls_back_to_http(world: World, server: RawServer) -> None:
    server.set("/", page("/rss"))
    server.set("/rss", Reply(body=rss("Blog")))
    steps: list[str] = []
    # The server speaks no TLS: an https connection hangs until its time is over.
    found = search(world, "Blog.Example", steps, connect=1.5)
    assert [f.url for f in found.feeds] == ["http://blog.example/rss"]
    assert steps == ["Reading the page", "Checking feeds announced by the page"]
    assert ("93.184.215.20", 443) in world.connects


def test_candidates_are_proven_and_described_by_themselves(world: World, server: RawServer) -> None:
    server.set("/", page("/gone", "/html", "/rss", "/comments/feed"))
    server.set("/html", html("<p>no feed"))
    server.set("/rss", Reply(body=rss("Real title", path="r")))
    server.set("/comments/feed", Reply(body=rss("Comments on Blog", path="c")))
    found = search(world, "http://blog.example/")
    assert [(f.url, f.title) for f in found.feeds] == [
        ("http://blog.example/rss", "Real title"),
        ("http://blog.example/comments/feed", "Comments on Blog"),
    ]


@pytest.mark.parametrize(("atom_count", "kept"), [(3, "/atom"), (10, "/atom"), (1, "/rss")])
def test_of_twins_atom_is_kept_unless_poorer(
    world: World, server: RawServer, atom_count: int, kept: str
) -> None:
    server.set("/", page("/rss", "/atom", "/other"))
    server.set("/rss", Reply(body=rss("Blog", 9)))
    server.set("/atom", Reply(body=atom("Blog", atom_count if atom_count != 3 else 9)))
    server.set("/other", Reply(body=rss("Another", 9, path="other")))
    found = search(world, "http://blog.example/")
    assert [f.url for f in found.feeds] == [f"http://blog.example{kept}", "http://blog.example/other"]


def test_a_page_without_announcement_uses_its_links(world: World, server: RawServer) -> None:
    server.set("/", page(body="<a href='/syndicate'>RSS</a>"))
    server.set("/syndicate", Reply(body=rss("", 2)))
    (feed,) = search(world, "http://blog.example/").feeds
    assert (feed.url, feed.title) == ("http://blog.example/syndicate", "RSS")


def test_the_usual_places_are_tried_last(world: World, server: RawServer) -> None:
    server.set("/", page(body="<p>hello"))
    server.set("/atom.xml", Reply(body=atom("Blog")))
    steps: list[str] = []
    (feed,) = search(world, "http://blog.example/", steps).feeds
    assert feed.url == "http://blog.example/atom.xml"
    assert steps[-1] == "Trying common feed addresses"
    # The first six at once held one, so the rest was left in peace.
    assert len(server.requests) == 7


def test_other_pages_of_the_site_are_read_when_nothing_else_helps(world: World, server: RawServer) -> None:
    server.set(
        "/", page(body="<a href=/contact>c</a><a href=/blog/>Blog</a><a href='http://pub.example/blog'>x</a>")
    )
    server.set("/blog/", page("/blog/syndication.php"))
    server.set("/blog/syndication.php", Reply(body=rss("Blog")))
    steps: list[str] = []
    (feed,) = search(world, "http://blog.example/", steps).feeds
    assert feed.url == "http://blog.example/blog/syndication.php"
    assert "Reading other pages on the site" in steps
    assert not server.seen("/contact")
    assert "pub.example" not in world.lookups


@pytest.mark.parametrize("deep", [html("<a href='/'>Home</a>"), html("<p>Gone", status=404)])
def test_the_home_page_is_read_when_a_page_deep_in_the_site_names_no_feed(
    world: World, server: RawServer, deep: Reply
) -> None:
    server.set("/article/1", deep)
    server.set("/", page("/custom/thing-stream"))
    server.set("/custom/thing-stream", Reply(body=rss("Blog")))
    (feed,) = search(world, "http://blog.example/article/1").feeds
    assert feed.url == "http://blog.example/custom/thing-stream"
    assert len(server.seen("/")) == 1


def test_what_a_deep_page_names_wins_over_the_home_page(world: World, server: RawServer) -> None:
    server.set("/article/1", page("/mine"))
    server.set("/mine", Reply(body=rss("Mine")))
    server.set("/", page("/custom/thing-stream"))
    (feed,) = search(world, "http://blog.example/article/1").feeds
    assert feed.url == "http://blog.example/mine"
    assert not server.seen("/")


def test_what_other_pages_announce_comes_before_what_they_link_to(world: World, server: RawServer) -> None:
    links = "".join(f"<a href=/a{n}.rss>RSS</a>" for n in range(20))
    server.set("/article/1", html("<a href=/blog/>Blog</a>"))
    server.set("/", html(links))
    server.set("/blog/", page("/custom/thing-stream"))
    server.set("/custom/thing-stream", Reply(body=rss("Blog")))
    (feed,) = search(world, "http://blog.example/article/1").feeds
    assert feed.url == "http://blog.example/custom/thing-stream"


def test_a_page_that_refuses_us_may_still_have_a_known_feed(world: World, server: RawServer) -> None:
    world.add("me.blogspot.com", "93.184.215.21")
    server.set("/2009/post.html", Reply(status=403))
    server.set("/feeds/posts/default", Reply(body=atom("Blog")))
    (feed,) = search(world, "http://me.blogspot.com/2009/post.html").feeds
    assert feed.url == "http://me.blogspot.com/feeds/posts/default"
    assert len(server.requests) == 3


class Scripted:
    """A fetcher with a page for each address: (final address, body)."""

    def __init__(self, pages: dict[str, tuple[str, bytes]]) -> None:
        self.pages, self.requests = pages, list[FetchRequest]()

    async def stream_fetches(self, requests: list[FetchRequest]) -> Any:
        for request in requests:
            self.requests.append(request)
            url, body = self.pages.get(request.url, (request.url, b""))
            yield Fetched(request, 200 if body else 404, url, body=body or None)


def test_directory_of_podcasts_names_the_feed_of_a_show() -> None:
    show, lookup = (
        "https://podcasts.apple.com/us/podcast/a-show/id1234",
        "https://itunes.apple.com/lookup?entity=podcast&id=1234",
    )
    answer = b'{"resultCount":1, "results": [{"kind":"podcast", "feedUrl":"http://blog.example/show"}]}'
    web = Scripted(
        {show: (show, b"<p>"), lookup: (lookup, answer), "http://blog.example/show": ("", rss("A"))}
    )
    found = asyncio.run(Discoverer(web, parse, 100).run(show))
    assert [f.url for f in found.feeds] == ["http://blog.example/show"]
    assert [r.url for r in web.requests] == [show, lookup, "http://blog.example/show"]


CONSENT = "https://consent.youtube.com/m?continue=https%3A%2F%2Fwww.youtube.com%2F%40me%3Fcbrd%3D1&gl=DE"


@pytest.mark.parametrize("typed", ["https://www.youtube.com/@me", CONSENT])
def test_consent_page_is_passed_with_a_cookie_that_refuses(typed: str) -> None:
    asked = typed if typed != CONSENT else "https://www.youtube.com/@me?cbrd=1"
    channel = f'<script>{{"externalId":"{CHANNEL}"}}</script>'.encode()

    class Site(Scripted):
        async def stream_fetches(self, requests: list[FetchRequest]) -> Any:
            if requests and requests[0].headers:
                assert requests[0].headers == (("Cookie", "SOCS=CAI"),)
                self.pages[asked] = (asked, channel)
            async for fetched in super().stream_fetches(requests):
                yield fetched

    web = Site({typed: (CONSENT, b"<p>Before you continue"), VIDEOS: (VIDEOS, rss("Channel"))})
    found = asyncio.run(Discoverer(web, parse, 100).run(typed))
    assert [f.url for f in found.feeds] == [VIDEOS]
    assert web.requests[1].referred_by == CONSENT


@pytest.mark.parametrize(
    "wall",
    [
        "/consent?returnUrl=/news",
        "/cookiewall/?redirect=http://blog.example/news",
        "http://myprivacy.pub.example/x?callbackUrl=http%3A%2F%2Fblog.example%2Fnews",
    ],
)
def test_feed_behind_a_consent_page_is_sought_at_the_site_itself(
    world: World, server: RawServer, wall: str
) -> None:
    world.add("myprivacy.pub.example", "93.184.215.21")
    server.set("/news", Reply(status=302, headers=(("Location", wall),)))
    server.set("/consent?returnUrl=/news", page("/of-the-wall"))
    server.set("/cookiewall/?redirect=http://blog.example/news", html("<p>We value your privacy"))
    server.set("/x?callbackUrl=http%3A%2F%2Fblog.example%2Fnews", html("<p>We value your privacy"))
    server.set("/of-the-wall", Reply(body=rss("Not the site's")))
    assert search(world, "http://blog.example/news").error == "consent_page"
    server.set("/feed/", Reply(body=rss("News")))
    (feed,) = search(world, "http://blog.example/news").feeds
    assert feed.url == "http://blog.example/feed/"


@pytest.mark.parametrize("behind", ["http://10.0.0.7/", "http://inside.example/", "http://["])
def test_S11_consent_page_leads_to_no_private_address(world: World, server: RawServer, behind: str) -> None:
    world.add("inside.example", "10.0.0.7")
    world.served.add("10.0.0.7")
    server.set(f"/consent?continue={behind}", html("<p>We value your privacy"))
    found = search(world, f"http://blog.example/consent?continue={behind}", fetch_allow=("10.0.0.0/8",))
    assert found.error in ("no_feed_found", "consent_page", "http_404")
    assert {ip for ip, _ in world.connects} == {"93.184.215.20"}


def test_a_page_about_consent_is_searched_like_any_other(world: World, server: RawServer) -> None:
    server.set("/consent/", page("/rss"))
    server.set("/rss", Reply(body=rss("About consent")))
    assert search(world, "http://blog.example/consent/").feeds[0].url == "http://blog.example/rss"


def test_a_meta_refresh_is_followed_once(world: World, server: RawServer) -> None:
    server.set("/", html("<meta http-equiv=Refresh content='0; URL=/en/'>"))
    server.set("/en/", page("/rss", body="<meta http-equiv=refresh content='0;url=/loop'>"))
    server.set("/rss", Reply(body=rss("Blog")))
    (feed,) = search(world, "http://blog.example/").feeds
    assert feed.url == "http://blog.example/rss"
    assert not server.seen("/loop")


def test_a_feed_larger_than_a_page_is_read(world: World, server: RawServer) -> None:
    body = rss("Large").replace(b"</channel>", b"<!-- " + b"x" * (6 << 20) + b" --></channel>")
    server.set("/rss", Reply(body=body))
    assert search(world, "http://blog.example/rss").feeds[0].title == "Large"


def test_where_a_feed_moved_for_good_is_what_counts(world: World, server: RawServer) -> None:
    server.set("/old", Reply(status=301, headers=(("Location", "/new"),)))
    server.set("/new", Reply(body=rss("Moved")))
    server.set("/short", Reply(status=302, headers=(("Location", "/new"),)))
    assert search(world, "http://blog.example/old").feeds[0].url == "http://blog.example/new"
    assert search(world, "http://blog.example/short").feeds[0].url == "http://blog.example/short"


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("no address", "invalid_url"),
        ("http://nowhere.example/", "dns_failed"),
        ("http://blog.example/missing", "http_404"),
        ("http://blog.example/plain", "no_feed_found"),
        ("http://blog.example/binary", "no_feed_found"),
        ("http://10.0.0.1/", "refused"),
    ],
)
def test_no_feed_is_an_error_word(world: World, server: RawServer, address: str, error: str) -> None:
    server.set("/plain", html("<p>Just text"))
    server.set("/binary", Reply(body=bytes(range(256)) * 10))
    assert dataclasses.replace(search(world, address), detail="") == Discovered(address, error=error)


_BROKEN = Reply(body=b'{"version": "https://jsonfeed.org/version/1.1", "title": ')


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=503), "http_503"),
        (Reply(status=403), "http_403"),
        (Reply(status=429), "http_429"),
        (_BROKEN, "broken_feed"),
        (Reply(status=404), "no_feed_found"),
        (Reply(body=b"<html><p>Text</html>"), "no_feed_found"),
    ],
)
def test_why_the_feed_that_a_page_names_cannot_be_read_is_told(
    world: World, server: RawServer, reply: Reply, error: str
) -> None:
    server.set("/", page("/feed"))
    server.set("/feed", reply)
    assert search(world, "http://blog.example/").error == error


def test_a_broken_feed_is_not_said_to_be_none(world: World, server: RawServer) -> None:
    server.set("/feed.json", _BROKEN)
    assert search(world, "http://blog.example/feed.json").error == "broken_feed"


def test_S01_candidates_on_private_addresses_are_not_fetched(world: World, server: RawServer) -> None:
    world.add("inside.example", "10.0.0.7")
    server.set("/", page("http://127.0.0.1/feed", "http://inside.example/feed", "http://169.254.169.254/rss"))
    found = search(world, "http://blog.example/")
    assert found.error == "no_feed_found"
    assert {ip for ip, _ in world.connects} == {"93.184.215.20"}


def test_X02_a_page_full_of_candidates_costs_a_bounded_number_of_fetches(
    world: World, server: RawServer
) -> None:
    server.set(
        "/",
        page(*(f"/f{n}" for n in range(500)), body="".join(f"<a href=/a{n}.rss>RSS</a>" for n in range(500))),
    )
    assert search(world, "http://blog.example/").error == "no_feed_found"
    assert len(server.requests) < 80


def test_all_feeds_that_were_proven_are_shown(world: World, server: RawServer) -> None:
    for n in range(20):
        server.set(f"/f{n}", Reply(body=rss(f"Feed {n}", path=f"p{n}-")))
    server.set("/", page(*(f"/f{n}" for n in range(15))))
    found = search(world, "http://blog.example/")
    assert (len(found.feeds), found.more) == (15, False)
    server.set("/", page(*(f"/f{n}" for n in range(20))))
    found = search(world, "http://blog.example/")
    assert (len(found.feeds), found.more) == (18, True)


def echo(path: str) -> bytes:
    """Return a feed that repeats the requested path in its links, as some servers do."""
    return rss("Blog", path=path.strip("/") + "/")


def own_address(path: str) -> bytes:
    link = b"<link xmlns='http://www.w3.org/2005/Atom' rel='self' href='http://blog.example/atom.xml'/><item>"
    return rss("Blog").replace(b"<item>", link, 1)


@pytest.mark.parametrize(
    ("announced", "feed", "kept"),
    [
        ((), lambda path: rss("Blog"), "/feed/"),
        ((), lambda path: rss("Blog", 0), "/feed/"),
        ((), echo, "/feed/"),
        ((), own_address, "/atom.xml"),
        (("/comments/feed", "/my/rss"), lambda path: rss("Blog"), "/my/rss"),
        (("/my/rss", "/comments/feed", "/tag/feed"), echo, "/my/rss"),
        (("/my/rss", "/atom.xml", "/tag/feed"), own_address, "/atom.xml"),
    ],
)
def test_server_that_answers_each_path_with_the_same_feed_has_one(
    announced: tuple[str, ...], feed: Callable[[str], bytes], kept: str
) -> None:
    class Same:
        async def stream_fetches(self, requests: list[FetchRequest]) -> Any:
            for request in requests:
                path = request.url.removeprefix("http://blog.example")
                body = page(*announced).body if path == "/news" else feed(path)
                yield Fetched(request, 200, request.url, body=body)

    found = asyncio.run(Discoverer(Same(), parse, 100).run("http://blog.example/news"))
    assert [f.url for f in found.feeds] == [f"http://blog.example{kept}"]


def test_feeds_with_different_entries_are_not_taken_for_copies(world: World, server: RawServer) -> None:
    server.set("/", page("/posts", "/photos", "/notes"))
    for path in ("posts", "photos"):
        body = rss("Me", path=path).replace(b"<title>0", b"<title>" + path.encode())
        server.set(f"/{path}", Reply(body=body))
    # Notes have no titles of their own.
    notes = "".join(f"<item><link>http://blog.example/n{n}</link></item>" for n in range(3))
    server.set("/notes", Reply(body=f"<rss><channel><title>Me</title>{notes}</channel></rss>".encode()))
    assert len(search(world, "http://blog.example/").feeds) == 3


def test_at_most_six_candidates_are_asked_at_once() -> None:
    class Counting:
        running = most = 0

        async def stream_fetches(self, requests: list[FetchRequest]) -> Any:
            self.running += len(requests)
            self.most = max(self.most, self.running)
            for request in requests:
                self.running -= 1
                first = request.url == "http://blog.example/"
                body = page(*(f"/f{n}" for n in range(30))).body if first else b"<p>"
                yield Fetched(request, 200, request.url, body=body, content_type="text/html")

    fetcher = Counting()
    asyncio.run(Discoverer(fetcher, parse, 100).run("http://blog.example/"))
    assert fetcher.most == 6


@pytest.mark.parametrize("limit", [10, 25])
def test_S01_a_search_sends_no_more_requests_than_allowed(limit: int) -> None:
    class Endless:
        asked = 0

        async def stream_fetches(self, requests: list[FetchRequest]) -> Any:
            for request in requests:
                self.asked += 1
                body = page(*(f"{request.url}/f{n}" for n in range(30))).body
                yield Fetched(request, 200, request.url, body=body, content_type="text/html")

    fetcher = Endless()
    found = asyncio.run(Discoverer(fetcher, parse, limit).run("http://blog.example/"))
    assert (fetcher.asked, found.error) == (limit, "no_feed_found")


def test_real_feeds_are_found_behind_a_page(world: World, server: RawServer) -> None:
    # Every genuine feed that parses and has entries, announced by a page each, in the order of the corpus.
    rows = [row for row in corpus.genuine_feeds() if row.kind in ("atom", "rdf", "json")][:40]
    missed = []
    for row in rows:
        server.set("/", page("/feed"))
        server.set("/feed", Reply(body=row.read()))
        found = search(world, "http://blog.example/")
        if [f.url for f in found.feeds] != ["http://blog.example/feed"]:
            missed.append((row.path, found.error))
    assert missed == []


def test_entries_a_week() -> None:
    week = [NOW - dt.timedelta(days=d) for d in (14, 10, 7, 1)]
    assert count_weekly_entries(week, NOW) == 2.0
    assert count_weekly_entries(week[:1], NOW) is None
    assert count_weekly_entries([NOW, NOW], NOW) == 14.0


# -- the command


def run(*args: str, data: bytes = b"") -> tuple[int, Any]:
    result = CliRunner().invoke(cli, ["feed", "discover", *args], input=data)
    return result.exit_code, json.loads(result.stdout)


def test_command_prints_candidates_in_order(tmp_path: Any) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(page("/rss").body)
    code, document = run(str(file), "--url", "http://blog.example/")
    assert (code, document["url"]) == (0, "http://blog.example/")
    assert document["candidates"][0] == {
        **{"url": "http://blog.example/rss", "title": "/rss", "type": "rss", "source": "link"}
    }
    assert {c["source"] for c in document["candidates"][1:]} == {"guess"}


def test_command_reads_stdin_and_knows_a_feed(tmp_path: Any) -> None:
    code, document = run("-", "--url", "http://blog.example/x", data=atom("Blog"))
    assert code == 0
    assert [(c["url"], c["title"], c["type"]) for c in document["candidates"]] == [
        ("http://blog.example/x", "Blog", "atom")
    ]


def test_command_names_a_file_that_is_not_there(tmp_path: Any) -> None:
    code, document = run(str(tmp_path / "none"), "--url", "http://e.org/")
    assert (code, document["error"]) == (1, "invalid")


def test_sanitize_command(tmp_path: Any) -> None:
    result = CliRunner().invoke(
        cli,
        ["feed", "sanitize", "-", "--url", "http://e.org/a/"],
        input=b"<a href=b onclick=x>\xe9</a><script>1</script>",
    )
    assert result.exit_code == 0
    assert 'href="http://e.org/a/b">é</a>' in json.loads(result.stdout)["html"]
    assert "onclick" not in result.stdout
