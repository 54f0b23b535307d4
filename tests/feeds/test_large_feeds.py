"""Feeds over the size limit: the entries before the limit are read, and the feed's health says so."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random

import pytest

from app.errors import FetchError
from app.feeds.fetch.body import decode_start
from tests.feeds.test_pull import Site, site
from tests.support.rawserver import Reply, file_reply

__all__ = ["site"]

LIMIT = 20_000
HEAD = b"<rss version='2.0'><channel><title>Blog</title>"
END = b"</channel></rss>"


def item(number: int, *, cdata: bool = False) -> bytes:
    # Random digits, so that compressed feeds are over the limit of the wire, too.
    text = "".join(random.Random(number).choices("0123456789abcdefghij", k=900))
    shown = f"<![CDATA[<p>{text}</p>]]>" if cdata else text
    head = f"<item><title>Post {number}</title><guid>g{number}</guid>"
    return f"{head}<description>{shown}</description></item>".encode()


def rss(newest: int, *, cdata: bool = False) -> bytes:
    return HEAD + b"".join(item(n, cdata=cdata) for n in range(newest, 0, -1)) + END


@pytest.fixture
def small(site: Site) -> Site:
    """A site whose feeds are read up to 20,000 bytes."""
    site._settings = dataclasses.replace(site._settings, fetch_max_feed=LIMIT)
    return site


KINDS = {
    "plain": Reply(body=rss(100)),
    "chunked": Reply(body=rss(100), chunked=True),
    "compressed": Reply(body=rss(100), gzip=True),
    "compressed below the limit": Reply(body=rss(30), gzip=True),
    "cdata": Reply(body=rss(100, cdata=True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_feed_over_the_limit_is_read_up_to_it(small: Site, kind: str) -> None:
    small.server.set("/feed", KINDS[kind])
    feed = small.follow("/feed")

    first = small.pull([feed.id])
    stored = small.feed(feed.id)

    assert 15 <= first.new == stored.last_seq <= 22
    assert (stored.error, stored.error_detail, stored.errors) == ("read_in_part", str(LIMIT), 1)
    assert stored.title == "Blog"
    assert stored.checked_at is not None
    assert dict(first.words) == {"read_in_part": 1}


def test_entries_behind_the_limit_are_neither_removed_nor_new_again(small: Site) -> None:
    small.server.set("/feed", file_reply(rss(18)))
    feed = small.follow("/feed")
    assert small.pull([feed.id]).new == 18
    assert small.feed(feed.id).error is None

    # The feed grows past the limit: its oldest entries are no longer read.
    small.server.set("/feed", file_reply(rss(40)))
    assert 10 <= small.pull([feed.id]).new <= 22
    grown = small.feed(feed.id)
    assert grown.error == "read_in_part"

    # An equal answer is a quiet poll and keeps the word, with validators or by its hash.
    assert small.pull([feed.id]).not_modified == 1
    small.server.set("/feed", file_reply(rss(40), etag=False))
    assert small.pull([feed.id]).unchanged == 1
    same = small.feed(feed.id)
    assert (same.error, same.last_seq, same.errors) == ("read_in_part", grown.last_seq, 1)

    # It shrinks again: nothing that was stored comes back as new.
    small.server.set("/feed", file_reply(rss(18)))
    assert small.pull([feed.id]).new == 0
    assert (small.feed(feed.id).error, small.unread(feed.id)) == (None, grown.last_seq)


def test_json_feed_over_the_limit_is_too_large(small: Site) -> None:
    items = [{"id": str(n), "content_text": "word " * 100} for n in range(100)]
    body = json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "J", "items": items})
    small.server.set("/feed", Reply(body=body.encode()))
    feed = small.follow("/feed")
    assert small.pull([feed.id]).errors == 1
    stored = small.feed(feed.id)
    assert (stored.error, stored.error_detail) == ("too_large", f"more than {LIMIT} bytes")


def test_feed_that_answers_once_in_full_has_no_problem_left(small: Site) -> None:
    small.server.set("/feed", file_reply(rss(100)))
    feed = small.follow("/feed")
    small.pull([feed.id])
    small.server.set("/feed", file_reply(rss(5)))
    small.pull([feed.id])
    after = small.feed(feed.id)
    assert (after.error, after.errors, after.error_since) == (None, 0, None)


def test_X05_a_start_is_decoded_to_the_limit_and_no_bomb_at_all() -> None:
    text = rss(50)
    wire = gzip.compress(text)
    assert decode_start(wire, "gzip", limit=1000, ratio=100) == (text[:1000], True)
    assert decode_start(wire, "gzip", limit=len(text), ratio=100) == (text, False)
    start, is_cut = decode_start(wire[:9000], "gzip", limit=1 << 20, ratio=100, is_over=True)
    assert is_cut
    assert text.startswith(start)
    assert len(start) > 9000
    for size, limit in ((4 << 20, 8 << 20), (64 << 20, 2 << 20)):
        with pytest.raises(FetchError) as caught:
            decode_start(gzip.compress(bytes(size)), "gzip", limit=limit, ratio=100, is_over=True)
        assert caught.value.detail == "more than 100 times its compressed size"
