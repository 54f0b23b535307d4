"""Servers that mean harm: bombs (X05), slow and endless answers (X06), heads beyond all limits."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import pytest

from app.errors import FEED_MESSAGES, FetchError, get_feed_message, get_public_word
from app.feeds.fetch import slot
from app.feeds.fetch.body import MAX_MEMBERS, decode
from app.feeds.fetch.fetcher import Fetcher
from app.models.feeds.fetched import Fetched, FetchRequest
from tests.support.rawserver import RawServer, Reply
from tests.support.world import World, local_fetcher

FEED = b"<rss version='2.0'/>"
GZIP = (("Content-Encoding", "gzip"),)
Eventually = Callable[..., None]


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer({"/f": Reply(body=FEED)}) as running:
        yield running


def word(fetched: Fetched) -> str | None:
    return fetched.error.word if fetched.error else None


def fetch(server: RawServer, reply: Reply, **settings: object) -> Fetched:
    server.set("/x", reply)
    with local_fetcher(server, **settings) as fetcher:
        return fetcher.fetch(FetchRequest(server.url("/x")))


def bomb(size: int) -> bytes:
    """Return a gzip of ``size`` zero bytes: one flushed block, many times (RFC 1951 §2)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * (size >> 20) + packer.flush()


# -- X05


@pytest.mark.parametrize("chunked", [False, True])
def test_X05_a_bomb_is_stopped_while_it_grows(server: RawServer, chunked: bool) -> None:
    wire = bomb(4 << 30)
    assert 4_000_000 < len(wire) < 5_000_000
    server.set("/x", Reply(body=wire, headers=GZIP, chunked=chunked))
    with local_fetcher(server) as fetcher:
        tracemalloc.start()
        try:
            got = fetcher.fetch(FetchRequest(server.url("/x")))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert word(got) == "too_large"
    assert peak < 32 << 20


def test_X05_the_ratio_counts_from_a_mebibyte_on(server: RawServer) -> None:
    small = gzip.compress(b"x" * (1 << 20))
    assert len(small) * 100 < 1 << 20
    assert word(fetch(server, Reply(body=small, headers=GZIP))) is None
    larger = gzip.compress(b"x" * (2 << 20))
    assert word(fetch(server, Reply(body=larger, headers=GZIP))) == "too_large"
    assert word(fetch(server, Reply(body=larger, headers=GZIP), fetch_max_ratio=10_000)) is None


CODINGS = [
    "gzip, gzip",
    ", ".join(["gzip"] * 60),
    "gzip, identity, gzip",
    "br",
    "deflate",
    "zstd",
    "compress",
]


@pytest.mark.parametrize("value", CODINGS)
def test_X05_one_coding_and_only_gzip(server: RawServer, value: str) -> None:
    twice = gzip.compress(gzip.compress(FEED))
    assert word(fetch(server, Reply(body=twice, headers=(("Content-Encoding", value),)))) == "bad_encoding"


def test_X05_codings_in_many_fields_are_many(server: RawServer) -> None:
    reply = Reply(body=gzip.compress(gzip.compress(FEED)), headers=GZIP * 2)
    assert word(fetch(server, reply)) == "bad_encoding"


def test_X05_a_second_layer_is_refused(server: RawServer) -> None:
    twice = gzip.compress(gzip.compress(FEED))
    assert word(fetch(server, Reply(body=twice, headers=GZIP))) == "bad_encoding"
    assert word(fetch(server, Reply(body=twice))) == "bad_encoding"


def test_X05_a_coding_of_the_transfer_is_not_decoded(server: RawServer) -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + b"gzip, " * 60 + b"chunked\r\n\r\n"
    got = fetch(server, Reply(raw=raw + b"5\r\nabcde\r\n0\r\n\r\n"))
    assert word(got) in ("bad_response", "bad_encoding")


def test_X05_members_are_counted() -> None:
    member = gzip.compress(b"a")
    assert decode(member * MAX_MEMBERS, "gzip", limit=1000, ratio=100) == b"a" * MAX_MEMBERS
    with pytest.raises(FetchError, match="compressed"):
        decode(member * (MAX_MEMBERS + 1), "gzip", limit=1000, ratio=100)


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001])
def test_X05_the_limit_is_exact(size: int) -> None:
    wire = gzip.compress((bytes(range(250)) * 5)[:size])
    if size <= 1000:
        assert len(decode(wire, "gzip", limit=1000, ratio=100)) == size
        return
    with pytest.raises(FetchError) as caught:
        decode(wire, "gzip", limit=1000, ratio=100)
    assert caught.value.word == "too_large"


def test_half_of_every_gzip_is_an_error() -> None:
    wire = gzip.compress(bytes(range(256)) * 20)
    for end in range(2, len(wire), 7):
        with pytest.raises(FetchError) as caught:
            decode(wire[:end], "gzip", limit=1 << 20, ratio=100)
        assert caught.value.word == "bad_encoding"


# -- heads

OK = b"HTTP/1.1 200 OK\r\n"
END = b"Content-Length: 3\r\n\r\nabc"
HEADS = {
    "a line of 8191": OK + b"X: " + b"a" * 8186 + b"\r\n" + END,
    "129 fields": OK + b"X: a\r\n" * 128 + END,
    "64 KiB": OK + (b"X: " + b"a" * 6000 + b"\r\n") * 11 + END,
    "100 KB in a line": OK + b"X: " + b"a" * 100_000 + b"\r\n" + END,
    "1 MB": OK + (b"X: " + b"a" * 8000 + b"\r\n") * 125 + END,
    "many 1xx": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 2000 + OK + END,
    "a NUL": OK + b"X: a\0b\r\n" + END,
}
FINE = {
    "a line of 8190": OK + b"X: " + b"a" * 8185 + b"\r\n" + END,
    "128 fields": OK + b"X: a\r\n" * 127 + END,
    "a few 1xx": b"HTTP/1.1 103 Early Hints\r\nContent-Encoding: br\r\n\r\n" * 3 + OK + END,
    "trailers": OK
    + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Encoding: br\r\nETag: x\r\n\r\n",
    "folded": OK + b"X: a\r\n b\r\n" + END,
}


@pytest.mark.parametrize("case", HEADS)
def test_X06_heads_have_limits(server: RawServer, case: str) -> None:
    assert word(fetch(server, Reply(raw=HEADS[case]))) == "bad_response"


@pytest.mark.parametrize("case", FINE)
def test_heads_within_the_limits_are_read(server: RawServer, case: str) -> None:
    got = fetch(server, Reply(raw=FINE[case]))
    assert (word(got), got.body, got.validators.etag) == (None, b"abc", None)


# -- X06

HINT = b"HTTP/1.1 103 Early Hints\r\n\r\n"
SLOW = {
    "never answers": Reply(delay=3600),
    "head byte by byte": Reply(body=FEED, drip=(1, 0.2)),
    "body byte by byte": Reply(raw=OK + b"Content-Length: 99999\r\n\r\n", endless=b"x", drip=(1 << 20, 0.2)),
    "body stops": Reply(raw=OK + b"Content-Length: 99999\r\n\r\nabc", unfinished=True),
    "chunks never end": Reply(body=FEED, chunked=True, unfinished=True),
    "chunks for ever": Reply(
        raw=OK + b"Transfer-Encoding: chunked\r\n\r\n", endless=b"1\r\nx\r\n", drip=(1 << 20, 0.2)
    ),
    "fields for ever": Reply(raw=OK, endless=b"X: y\r\n", drip=(1 << 20, 0.2)),
    "fields for ever and fast": Reply(raw=OK, endless=b"X: " + b"y" * 1000 + b"\r\n"),
    "1xx for ever": Reply(raw=HINT, endless=HINT, drip=(1 << 20, 0.2)),
    "1xx for ever and fast": Reply(raw=HINT, endless=HINT),
    "error for ever": Reply(raw=b"HTTP/1.1 500 X\r\n\r\n", endless=b"x" * 999, drip=(1 << 20, 0.2)),
    "one line for ever": Reply(raw=OK + b"X: ", endless=b"y", drip=(1 << 20, 0.2)),
}  # fmt: skip
SHORT = {
    "fetch_connect_timeout": 1.5,
    "fetch_first_byte_timeout": 1.0,
    "fetch_idle_timeout": 1.0,
    "fetch_total_timeout": 2.0,
}


def test_X06_slow_servers_keep_nobody_waiting(server: RawServer, eventually: Eventually) -> None:
    world = World(server)
    urls = []
    for number in range(200):
        name, reply = list(SLOW.items())[number % len(SLOW)]
        world.add(f"slow{number}.example", f"93.184.{number // 100}.{number % 100 + 1}")
        server.set(f"/{name.replace(' ', '-')}", reply)
        urls.append(f"http://slow{number}.example/{name.replace(' ', '-')}")
    for number in range(50):
        world.add(f"good{number}.example", f"93.185.0.{number + 1}")
        urls.insert(number * 5, f"http://good{number}.example/f")
    # Twice as long as elsewhere: one busy thread answers all of them, and the good ones must end in time.
    patience = {name: 2 * seconds for name, seconds in SHORT.items()}
    with world.fetcher(fetch_connections=120, **patience) as fetcher:
        got = {g.request.url: g for g in fetcher.fetch_many(map(FetchRequest, urls))}
        assert fetcher.running == 0
    assert len(got) == 250
    assert [g.error.detail for url, g in got.items() if "good" in url and g.error] == []
    slow = {word(g) for url, g in got.items() if "slow" in url}
    assert slow <= {"timeout", "bad_response", "http_500"}, slow
    # A connection of every one of them was closed, not left to the server.
    eventually(lambda: server.open_connections == 0)


def test_X06_each_slow_answer_is_ended_and_named() -> None:
    hosts = tuple(f"127.0.0.{n}" for n in range(2, 2 + len(SLOW)))
    with RawServer({f"/{n}": reply for n, reply in enumerate(SLOW.values())}, hosts=hosts) as server:
        requests = [FetchRequest(server.url(f"/{n}", host), key=n) for n, host in enumerate(hosts)]
        with local_fetcher(server, **SHORT) as fetcher:
            ends = {name: "" for name in SLOW}
            for got in fetcher.fetch_many(requests):
                assert got.error is not None
                ends[list(SLOW)[got.request.key]] = f"{got.error.word}: {got.error.detail}"
    assert ends == {
        "never answers": "timeout: waited too long for the first byte",
        # Only whole lines of a head count as progress.
        "head byte by byte": "timeout: waited too long for the first byte",
        "body byte by byte": "timeout: the whole fetch took too long",
        "body stops": "timeout: waited too long for the next byte",
        "chunks never end": "timeout: waited too long for the next byte",
        "chunks for ever": "timeout: the whole fetch took too long",
        "fields for ever": "timeout: the whole fetch took too long",
        "fields for ever and fast": "bad_response: the headers are too long",
        "1xx for ever": "timeout: the whole fetch took too long",
        "1xx for ever and fast": "bad_response: the headers are too long",
        "error for ever": "timeout: the whole fetch took too long",
        "one line for ever": "timeout: waited too long for the next byte",
    }


def test_X06_redirects_share_one_total_time(server: RawServer) -> None:
    for hop in range(5):
        server.set(f"/{hop}", Reply(status=302, headers=(("Location", f"/{hop + 1}"),), delay=0.3))
    server.set("/5", Reply(body=FEED, delay=0.3))
    with local_fetcher(server, fetch_total_timeout=0.8) as fetcher:
        got = fetcher.fetch(FetchRequest(server.url("/0")))
    assert word(got) == "timeout"
    assert len(server.requests) < 5


def test_X06_waiting_for_a_place_costs_no_time(server: RawServer) -> None:
    server.set("/slow", Reply(body=FEED, delay=0.5))
    with local_fetcher(server, fetch_per_host=1, fetch_total_timeout=6.0) as fetcher:
        got = list(fetcher.fetch_many([FetchRequest(server.url("/slow"))] * 14))
    assert [word(g) for g in got] == [None] * 14


# -- memory of all together


def test_X05_long_bodies_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot, "BUFFERED", 3 << 20)
    hosts = tuple(f"127.0.0.{n}" for n in range(2, 6))
    stalled = Reply(raw=OK + b"Content-Length: 4000000\r\n\r\n" + b"x" * (2 << 20), unfinished=True)
    with RawServer({"/long": stalled, "/f": Reply(body=FEED)}, hosts=hosts) as server:
        urls = [server.url("/long", host) for host in hosts] + [server.url("/f")] * 5
        with local_fetcher(server, **SHORT) as fetcher:
            for _ in range(2):
                words = [word(got) for got in fetcher.fetch_many(map(FetchRequest, urls))]
                assert sorted(words, key=str)[:5] == [None] * 5
                assert "too_large" in words
                assert fetcher._engine._setup.buffered.bytes == 0


def test_X05_many_dense_bodies_are_decoded_a_few_at_a_time() -> None:
    hosts = tuple(f"127.0.0.{n}" for n in range(2, 34))
    wire = gzip.compress(random.Random(1).randbytes(90_000) + bytes(8_000_000))
    served = RawServer({"/x": Reply(body=wire, headers=GZIP)}, hosts=hosts)
    with served as server, local_fetcher(server) as fetcher:
        tracemalloc.start()
        try:
            requests = [FetchRequest(server.url("/x", host)) for host in hosts]
            sizes = {len(got.body or b"") for got in fetcher.fetch_many(requests)}
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sizes == {8_090_000}
    assert peak < 120_000_000


# -- S13


def test_S13_refused_closed_and_slow_look_alike_outside(server: RawServer) -> None:
    closed = RawServer().start()
    closed.stop()
    server.set("/slow", Reply(delay=3600))
    ports = (80, server.port, closed.port)
    with local_fetcher(server, fetch_ports=ports, **SHORT) as fetcher:
        ends = [
            fetcher.fetch(FetchRequest(url))
            for url in ("http://10.0.0.1/", "http://localhost/", closed.url("/"), server.url("/slow"))
        ]
    assert {word(e) for e in ends} == {"refused", "connect_failed", "timeout"}
    outside = {get_public_word(word(e) or "") for e in ends}
    assert outside == {"unreachable"}
    assert {get_feed_message(w) for w in outside} == {FEED_MESSAGES["unreachable"]}
    assert get_public_word("refused", admin=True) == "refused"
    assert get_public_word("http_404") == "http_404"


def test_S13_no_message_holds_a_part_of_the_answer(server: RawServer) -> None:
    secret = b"internal-secret"
    for reply in (
        Reply(status=500, body=secret), Reply(raw=secret), Reply(raw=OK + b"X: " + secret * 999 + b"\r\n"),
        Reply(body=secret, headers=GZIP), Reply(body=secret, cut=10),
    ):  # fmt: skip
        got = fetch(server, reply)
        assert got.error is not None
        assert "secret" not in got.error.message + got.error.detail
        assert got.body is None


def test_a_fetcher_ends_what_runs_when_it_is_closed(server: RawServer, eventually: Eventually) -> None:
    server.set("/slow", Reply(delay=3600))
    fetcher: Fetcher = local_fetcher(server)
    results = fetcher.fetch_many([FetchRequest(server.url("/f")), FetchRequest(server.url("/slow"))])
    assert next(results).status == 200
    fetcher.close()
    fetcher.close()
    results.close()  # type: ignore[attr-defined]
    eventually(lambda: server.open_connections == 0)
