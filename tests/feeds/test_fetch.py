from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import xxhash

from app import clock
from app.feeds.fetch import curl_loop, transfer
from app.feeds.fetch.fetcher import Fetcher
from app.models.feeds.fetched import Fetched, FetchRequest, Target, Validators
from tests.support import corpus
from tests.support.rawserver import RawServer, Reply, Request, serve_files
from tests.support.world import local_fetcher

FEED = b"<?xml version='1.0'?><rss version='2.0'><channel><title>T</title></channel></rss>"
Eventually = Callable[..., None]


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


@pytest.fixture
def fetcher(server: RawServer) -> Iterator[Fetcher]:
    with local_fetcher(server) as running:
        yield running


def get(fetcher: Fetcher, url: str, **fields: object) -> Fetched:
    return fetcher.fetch(FetchRequest(url, **fields))  # type: ignore[arg-type]


def word(fetched: Fetched) -> str | None:
    return fetched.error.word if fetched.error else None


def test_a_feed_is_fetched_whole(server: RawServer, fetcher: Fetcher) -> None:
    fields = (("Content-Type", "application/rss+xml"), ("X-A", "1"), ("x-a", "2"))
    since = "Mon, 01 Jun 2026 10:00:00 GMT"
    server.set("/f", Reply(body=FEED, etag='"1"', last_modified=since, gzip=True, headers=fields))
    got = get(fetcher, server.url("/f#part"), key=7)
    wire = gzip.compress(FEED, 6, mtime=0)
    assert (got.status, got.body, got.error, got.unchanged) == (200, FEED, None, False)
    assert (got.url, got.permanent_url, got.request.key) == (server.url("/f"), None, 7)
    assert (got.content_type, got.headers["x-a"]) == ("application/rss+xml", "1, 2")
    assert got.wire_bytes == len(wire)
    assert got.validators == Validators('"1"', "Mon, 01 Jun 2026 10:00:00 GMT", xxhash.xxh3_128_digest(wire))


def test_the_request_says_who_asks(server: RawServer) -> None:
    server.set("/f", Reply(body=FEED))
    with local_fetcher(server, base_url="https://reader.example") as fetcher:
        get(fetcher, server.url("/f"))
        get(fetcher, server.url("/f"), target=Target.PAGE)
    feed, page = server.seen("/f")
    assert feed.headers["user-agent"].startswith("Eventr/")
    assert "https://reader.example" in feed.headers["user-agent"]
    assert feed.headers["accept-encoding"] == "gzip"
    assert feed.headers["accept"].startswith("application/atom+xml")
    assert page.headers["accept"].startswith("text/html")
    assert "cookie" not in feed.headers


@pytest.mark.parametrize("field", ["etag", "last_modified"])
def test_not_modified_costs_no_body(server: RawServer, fetcher: Fetcher, field: str) -> None:
    value = {"etag": '"1"', "last_modified": "Mon, 01 Jun 2026 10:00:00 GMT"}[field]
    server.set("/f", Reply(body=FEED, **{field: value}))  # type: ignore[arg-type]
    first = get(fetcher, server.url("/f"))
    second = get(fetcher, server.url("/f"), validators=first.validators)
    assert (second.status, second.unchanged, second.body, second.error) == (304, True, None, None)
    assert second.validators == first.validators


def test_an_equal_body_is_not_decoded(
    server: RawServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.set("/f", Reply(body=FEED, gzip=True))
    first = get(fetcher, server.url("/f"))
    monkeypatch.setattr(transfer, "decode", None)
    second = get(fetcher, server.url("/f"), validators=Validators(body_hash=first.validators.body_hash))
    assert (second.status, second.unchanged, second.body, second.error) == (200, True, None, None)


def test_a_304_nobody_asked_for_is_an_error(server: RawServer, fetcher: Fetcher) -> None:
    server.set("/f", Reply(status=304))
    assert word(get(fetcher, server.url("/f"))) == "http_304"
    assert word(get(fetcher, server.url("/f"), validators=Validators(body_hash=b"x" * 16))) == "http_304"


def test_validators_that_are_too_long_are_not_kept(server: RawServer, fetcher: Fetcher) -> None:
    server.set("/f", Reply(body=FEED, etag='"' + "e" * 600 + '"'))
    assert get(fetcher, server.url("/f")).validators.etag is None


@pytest.mark.parametrize("field", ["etag", "last_modified"])
def test_validators_beyond_ascii_go_back_as_they_came(
    server: RawServer, fetcher: Fetcher, field: str
) -> None:
    """RFC 9110, 8.8.3 and 5.5: a tag may hold bytes above 0x7f; as a date they are odd, and harmless."""
    server.set("/f", Reply(body=FEED, **{field: '"M\xe4rz \xe9"'}))  # type: ignore[arg-type]
    first = get(fetcher, server.url("/f"))
    second = get(fetcher, server.url("/f"), validators=first.validators)
    assert (second.status, second.unchanged, second.error) == (304, True, None)


def test_a_fetch_that_cannot_begin_ends_alone(server: RawServer) -> None:
    """What no header can hold is kept out elsewhere; if it comes, the others get their answers."""
    server.set("/f", Reply(body=FEED))
    bad = Validators(etag='"\u20ac"')

    async def work() -> list[str | None]:
        with local_fetcher(server) as fetcher:
            asked = [FetchRequest(server.url("/f"), key=n, validators=bad) for n in range(3)]
            asked += [FetchRequest(server.url("/f"), key=n) for n in range(3, 6)]
            found = {fetched.request.key: word(fetched) async for fetched in fetcher.stream_fetches(asked)}
        return [found[n] for n in range(6)]

    assert asyncio.run(asyncio.wait_for(work(), 60)) == ["bad_response"] * 3 + [None] * 3


ENDS = {
    "gone": Reply(status=410),
    "http_404": Reply(status=404, body=b"<html>no</html>"),
    "http_401": Reply(status=401),
    "http_500": Reply(status=500, body=b"x" * 300_000),
    "http_300": Reply(status=300),
    "http_599": Reply(status=599),
    "empty": Reply(),
    "bad_redirect": Reply(status=302),
}


@pytest.mark.parametrize("expected", ENDS)
def test_each_bad_end_has_its_word(server: RawServer, fetcher: Fetcher, expected: str) -> None:
    server.set("/f", ENDS[expected])
    got = get(fetcher, server.url("/f"))
    assert (word(got), got.status, got.body) == (expected, ENDS[expected].status, None)
    assert got.error is not None
    assert got.error.message.endswith(".")


ZIPPED = gzip.compress(FEED * 50)
GZIP = (("Content-Encoding", "gzip"),)
BODIES: dict[str, tuple[Reply, str | None]] = {
    "no content": (Reply(status=204), "empty"),
    "white space": (Reply(body=b" \r\n\t"), "empty"),
    "half a gzip": (Reply(body=ZIPPED[: len(ZIPPED) // 2], headers=GZIP), "bad_encoding"),
    "gzip header only": (Reply(body=ZIPPED[:10], headers=GZIP), "bad_encoding"),
    "not gzip": (Reply(body=FEED, headers=GZIP), "bad_encoding"),
    "wrong checksum": (Reply(body=ZIPPED[:-8] + b"\0" * 8, headers=GZIP), "bad_encoding"),
    "cut off": (Reply(body=FEED, cut=20), "bad_encoding"),
    "cut off in chunks": (
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nab"), "bad_encoding"),
    "part": (Reply(status=206, body=FEED), "bad_response"),
    "no http": (Reply(raw=b"SSH-2.0-OpenSSH\r\n"), "bad_response"),
    "http/0.9": (Reply(raw=FEED), "bad_response"),
    "closed": (Reply(raw=b""), "bad_response"),
    "reset": (Reply(reset=True), "connect_failed"),
    "reset in the body": (Reply(body=FEED * 9, cut=100, reset=True), "connect_failed"),
    "two lengths": (
        Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"), "bad_response"),
    "negative length": (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc"), "bad_response"),
    "brotli": (Reply(body=FEED, headers=(("Content-Encoding", "br"),)), "bad_encoding"),
    "binary": (Reply(body=bytes(range(256)) * 40), None),
    "gzip file": (Reply(body=ZIPPED), None),
    "two members": (Reply(body=ZIPPED + ZIPPED, headers=GZIP), None),
    "padding": (Reply(body=ZIPPED + b"\0" * 600, headers=GZIP), None),
    "odd coding name": (Reply(body=FEED, headers=(("Content-Encoding", "utf-8"),)), None),
    "until close": (Reply(raw=b"HTTP/1.0 200 OK\r\n\r\n" + FEED), None),
}  # fmt: skip


@pytest.mark.parametrize("case", BODIES)
def test_bad_bodies_have_their_word(server: RawServer, fetcher: Fetcher, case: str) -> None:
    reply, expected = BODIES[case]
    server.set("/f", reply)
    got = get(fetcher, server.url("/f"))
    assert word(got) == expected, got.error and got.error.detail
    assert (got.body is None) == (expected is not None)


def test_a_dead_host_is_named(fetcher: Fetcher, server: RawServer) -> None:
    url = server.url("/f")
    server.stop()
    assert word(get(fetcher, url)) == "connect_failed"


def test_limits_of_size_hold_for_feeds_and_pages(server: RawServer) -> None:
    server.set("/5k", Reply(body=b"x" * 5000))
    server.set("/5k-chunked", Reply(body=b"x" * 5000, chunked=True))
    server.set("/5k-zipped", Reply(body=b"x" * 5000, gzip=True))
    with local_fetcher(server, fetch_max_feed=4000, fetch_max_page=6000) as fetcher:
        for path in ("/5k", "/5k-chunked", "/5k-zipped"):
            page = get(fetcher, server.url(path), target=Target.PAGE)
            assert (word(page), page.limit, len(page.body or b"")) == (None, 0, 5000)
            feed = get(fetcher, server.url(path))
            assert (word(feed), feed.limit, len(feed.body or b"")) == (None, 4000, 4000)
    with local_fetcher(server, fetch_max_feed=5000, fetch_max_page=4000) as fetcher:
        for path in ("/5k", "/5k-chunked", "/5k-zipped"):
            assert word(get(fetcher, server.url(path), target=Target.PAGE)) == "too_large"
            feed = get(fetcher, server.url(path))
            assert (feed.limit, len(feed.body or b"")) == (0, 5000)


AT = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
WAITS = {
    "120": 120,
    "0": 0,
    "999999": 86400,
    "9" * 5000: 86400,
    "Mon, 01 Jun 2026 12:10:00 GMT": 600,
    "Mon, 01 Jun 2026 11:00:00 GMT": 0,
    "Fri, 01 Jan 2100 00:00:00 GMT": 86400,
    "-5": None,
    "1.5": None,
    "soon": None,
    "٣": None,
}


def test_V08_retry_after_is_read_and_clamped(server: RawServer, fetcher: Fetcher) -> None:
    found = {}
    with clock.set_source(lambda: AT):
        for text in WAITS:
            value = text.encode("utf-8").decode("latin-1")
            server.set("/f", Reply(status=429, headers=(("Retry-After", value),)))
            found[text] = get(fetcher, server.url("/f")).retry_after
    assert found == WAITS
    server.set("/f", Reply(status=503, headers=(("Retry-After", "60"),)))
    assert get(fetcher, server.url("/f")).retry_after == 60
    server.set("/f", Reply(status=500, headers=(("Retry-After", "60"),)))
    assert get(fetcher, server.url("/f")).retry_after is None


def test_an_address_that_cannot_be_fetched_ends_without_a_connection(
    server: RawServer, fetcher: Fetcher
) -> None:
    assert word(get(fetcher, "ftp://127.0.0.1/")) == "invalid_url"
    assert word(get(fetcher, "http://10.0.0.1/")) == "refused"
    assert word(get(fetcher, server.url("/"), headers=(("Host", "x"),))) == "refused"
    assert server.connections == 0


# -- many at once


def test_every_captured_feed_arrives_as_it_was_sent() -> None:
    files = {f"/{n}": row.read() for n, row in enumerate(corpus.genuine_feeds()[:150])}
    with serve_files(files) as server:
        assert isinstance(server, RawServer)
        with local_fetcher(server) as fetcher:
            first = list(fetcher.fetch_many(FetchRequest(server.url(path)) for path in files))
            wrong = [got.url for got in first if got.body != files[got.url.removeprefix(server.url(""))]]
            again = [FetchRequest(got.url, validators=got.validators) for got in first]
            second = list(fetcher.fetch_many(again))
            bodies = [dataclasses.replace(r, validators=r.validators._replace(etag=None)) for r in again]
            third = list(fetcher.fetch_many(bodies))
    assert len(first) == len(files)
    assert wrong == []
    assert {(got.status, got.unchanged) for got in second} == {(304, True)}
    assert {(got.status, got.unchanged) for got in third} == {(200, True)}


def test_connections_are_used_again_and_few_per_host(server: RawServer) -> None:
    server.set("/f", Reply(body=FEED, delay=0.001))
    with local_fetcher(server, fetch_per_host=2) as fetcher:
        got = list(fetcher.fetch_many([FetchRequest(server.url("/f"))] * 40))
    assert [g.status for g in got] == [200] * 40
    assert server.connections == 2
    assert server.peak == 2


def test_nothing_waits_for_the_watchdog(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # With the watchdog asleep, whatever is missed on the way hangs until the test is killed.
    monkeypatch.setattr(curl_loop, "_sweep_interval", lambda _settings: 3600.0)
    server.set("/r", Reply(status=302, headers=(("Location", "/f"),)))
    server.set("/f", Reply(body=FEED))
    with local_fetcher(server) as fetcher:
        for _ in range(200):
            assert get(fetcher, server.url("/r")).body == FEED


def test_what_came_in_time_counts_when_it_is_read_late(
    server: RawServer, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when this process stood still for longer than it waits for anybody."""
    go, answered = threading.Event(), threading.Event()

    def play(_request: Request) -> Reply:
        assert go.wait(30)
        asyncio.get_running_loop().call_soon(answered.set)  # after it has been written
        return Reply(body=FEED)

    server.set("/f", play)
    got: list[Fetched] = []
    with local_fetcher(server) as fetcher:
        fetcher._engine.submit(FetchRequest(server.url("/f")), got.append)

        def asked() -> bool:
            fetcher._engine.run_once(0)
            return bool(server.requests)

        eventually(asked)
        go.set()
        assert answered.wait(30)
        late = time.monotonic() + 3600
        monkeypatch.setattr(curl_loop, "time", SimpleNamespace(monotonic=lambda: late))
        eventually(lambda: fetcher._engine.run_once(0) or got)
    assert [(g.status, word(g)) for g in got] == [(200, None)]


def test_connections_are_limited_in_all() -> None:
    hosts = tuple(f"127.0.0.{n}" for n in range(2, 22))
    with RawServer({"/f": Reply(body=FEED, delay=0.01, close=True)}, hosts=hosts) as server:
        with local_fetcher(server, fetch_connections=5) as fetcher:
            urls = [server.url("/f", host) for host in hosts] * 2
            got = list(fetcher.fetch_many(FetchRequest(url) for url in urls))
        assert sorted(g.url for g in got) == sorted(urls)
        assert server.peak == 5


def test_leaving_the_iterator_frees_the_places(server: RawServer, eventually: Eventually) -> None:
    server.set("/slow", Reply(body=FEED, delay=60))
    server.set("/f", Reply(body=FEED))
    with local_fetcher(server, fetch_per_host=2) as fetcher:
        results = fetcher.fetch_many([FetchRequest(server.url(path)) for path in ("/f", "/slow", "/slow")])
        assert next(results).status == 200
        results.close()  # type: ignore[attr-defined]
        assert fetcher.running == 0
        assert get(fetcher, server.url("/f")).status == 200
        eventually(lambda: server.open_connections <= 1)


def test_streams_share_the_places_of_one_fetcher() -> None:
    hosts = tuple(f"127.0.0.{n}" for n in range(2, 12))
    with RawServer({"/f": Reply(body=FEED, delay=0.01, close=True)}, hosts=hosts) as server:
        urls = [server.url("/f", host) for host in hosts]

        async def batch(fetcher: Fetcher, key: int) -> list[int]:
            requests = [FetchRequest(url, key=key) for url in urls * 2]
            return [got.request.key async for got in fetcher.stream_fetches(requests) if got.status == 200]

        async def work() -> list[list[int]]:
            with local_fetcher(server, fetch_connections=6, fetch_per_host=1) as fetcher:
                return await asyncio.gather(*(batch(fetcher, key) for key in range(4)))

        assert asyncio.run(work()) == [[key] * 20 for key in range(4)]
        assert server.peak == 6


def test_a_slow_host_holds_back_its_own_batch_only(server: RawServer) -> None:
    server.set("/f", Reply(body=FEED))
    release = asyncio.Event()

    def slow(_request: Request) -> Reply:
        return Reply(body=FEED, delay=0.0 if release.is_set() else 60)

    server.set("/slow", slow)

    async def work() -> int:
        with local_fetcher(server) as fetcher:
            stream = fetcher.stream_fetches([FetchRequest(server.url("/slow"))])
            blocked = asyncio.ensure_future(anext(stream))
            quick = [got async for got in fetcher.stream_fetches([FetchRequest(server.url("/f"))] * 5)]
            assert not blocked.done()
            blocked.cancel()
            await asyncio.gather(blocked, return_exceptions=True)
            await stream.aclose()  # type: ignore[attr-defined]
            assert fetcher.running == 0
            return len(quick)

    assert asyncio.run(work()) == 5


def test_a_cancelled_stream_frees_its_places(server: RawServer, eventually: Eventually) -> None:
    server.set("/slow", Reply(body=FEED, delay=60))
    server.set("/f", Reply(body=FEED))

    async def consume(fetcher: Fetcher) -> None:
        async for _ in fetcher.stream_fetches([FetchRequest(server.url("/slow"))] * 10):
            pass

    async def work() -> list[int]:
        with local_fetcher(server, fetch_per_host=2) as fetcher:
            task = asyncio.create_task(consume(fetcher))
            while len(server.seen("/slow")) < 2:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert fetcher.running == 0
            return [got.status async for got in fetcher.stream_fetches([FetchRequest(server.url("/f"))] * 3)]

    assert asyncio.run(work()) == [200] * 3
    assert len(server.seen("/slow")) == 2
    eventually(lambda: server.open_connections == 0)


def test_one_fetcher_serves_loop_after_loop_and_blocking_calls(server: RawServer, fetcher: Fetcher) -> None:
    server.set("/f", Reply(body=FEED))

    async def once() -> list[int]:
        return [got.status async for got in fetcher.stream_fetches([FetchRequest(server.url("/f"))])]

    assert asyncio.run(once()) == [200]
    assert get(fetcher, server.url("/f")).status == 200
    assert asyncio.run(once()) == [200]
    assert server.connections == 1


def test_a_stream_without_requests_ends(fetcher: Fetcher) -> None:
    async def none() -> list[Fetched]:
        return [got async for got in fetcher.stream_fetches([])]

    assert asyncio.run(none()) == []
    assert list(fetcher.fetch_many([])) == []


def test_refused_addresses_come_back_from_a_stream(fetcher: Fetcher) -> None:
    async def work() -> list[str | None]:
        return [word(got) async for got in fetcher.stream_fetches([FetchRequest("http://10.0.0.1/")] * 2)]

    assert asyncio.run(work()) == ["refused", "refused"]
