"""Reading only what has other bytes gives the same as reading everything, for all that may happen to a feed.

Two readers follow the same feed: one keeps the hashes of its entries' bytes, the other parses everything
each time. After every fetch they must want the same to be stored.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import random

import pytest

from app.config import Settings
from app.feeds.parse import Limits, parse
from app.feeds.parse import incremental as reading
from app.gateways.feeds.digest import Digest, Digester
from app.models.feeds.feed import UNSET, Feed, FeedFields
from app.models.feeds.fetched import Fetched, FetchRequest
from tests.feeds.mutate import mutate
from tests.support.corpus import Row, genuine_feeds
from tests.support.edits import EDITS, cut, edited

NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
URL = "https://blog.example/dir/feed"
SETTINGS = Settings()


class Reader:
    """One way of reading, and the feed as it is stored by it."""

    def __init__(self, *, everything: bool, settings: Settings = SETTINGS) -> None:
        self._rng = random.Random(1)
        self._digester = Digester(settings, self._rng, parse=parse if everything else None)
        self.feed = Feed(id=7, url=URL, url_key="k", created=NOW, claim_token="t")

    def read(self, body: bytes, now: dt.datetime, url: str = URL) -> Digest:
        """Return what is to be stored, without the memory of bytes."""
        self._rng.seed(1)
        found = self._digester.digest_fetch(
            self.feed, Fetched(FetchRequest(url, key=7), 200, url, body=body), now
        )
        told = {f.name: getattr(found.update.fields, f.name) for f in dataclasses.fields(FeedFields)}
        stored = {name: value for name, value in told.items() if value is not UNSET}
        self.feed = dataclasses.replace(self.feed, **stored)
        fields = dataclasses.replace(found.update.fields, chunks=UNSET)
        return dataclasses.replace(found, update=dataclasses.replace(found.update, fields=fields))


class Pair:
    """Two readers of one feed that must agree."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.quick, self.full = (Reader(everything=e, settings=settings) for e in (False, True))
        self._now = NOW

    def read(self, body: bytes, what: str, url: str = URL) -> Digest:
        self._now += dt.timedelta(minutes=10)
        found = self.quick.read(body, self._now, url)
        assert found == self.full.read(body, self._now, url), what
        quick, full = (dataclasses.replace(r.feed, chunks=b"") for r in (self.quick, self.full))
        assert quick == full, what
        return found


@pytest.mark.parametrize("row", genuine_feeds(), ids=str)
def test_genuine_feeds_that_change(row: Row) -> None:
    rng, body, pair = random.Random(str(row)), row.read(), Pair()
    pair.read(body, "first")
    for name in rng.sample(sorted(EDITS), 3 if len(body) < 30_000 else 2):
        changed = EDITS[name](body, rng)
        pair.read(changed, name)
        # Most edits go on from the feed as it was, some from what the last ones left.
        body = changed if rng.random() < 0.3 else body
        pair.read(body, f"after {name}")


@pytest.mark.parametrize("seed", range(16))
def test_damaged_feeds(seed: int) -> None:
    rng = random.Random(seed)
    body = rng.choice([row for row in genuine_feeds() if row.data["bytes"] < 60_000]).read()
    pair = Pair()
    for step in range(8):
        pair.read(body, f"step {step}")
        pair.read(mutate(body, rng), f"damage {step}")


def test_most_genuine_feeds_are_read_in_part() -> None:
    """So that the tests above do not compare the full way with itself."""
    feeds, quick = 0, dict.fromkeys(("head_stamp", "new_first", "new_last", "edited"), 0)
    for row in genuine_feeds():
        body = row.read()
        first = _news(body, reading.LastFetch())
        known = reading.LastFetch(first.diff.seen, first.diff.volatile, first.chunks)
        feeds += len(first.parsed.entries) > 2
        for name in quick:
            again = _news(EDITS[name](body, random.Random(1)), known)
            quick[name] += len(first.parsed.entries) > 2 >= len(again.parsed.entries)
    assert feeds > 250
    # One edit in ten is that of a guid: then an entry left that may be the same, and all is parsed.
    assert quick["edited"] > 0.75 * feeds, (feeds, quick)
    assert all(count > 0.85 * feeds for name, count in quick.items() if name != "edited"), (feeds, quick)


def _news(body: bytes, known: reading.LastFetch, **limits: int) -> reading.FeedChanges:
    return reading.find_changes(body, known, url=URL, content_type=None, limits=Limits(**limits))


# -- single cases


def item(number: int, more: str = "") -> bytes:
    return f"<item><guid>g{number}</guid><title>T{number}</title>{more}</item>".encode()


def rss(*items: bytes, head: bytes = b"") -> bytes:
    return b"".join((b"<rss><channel><title>Blog</title>", head, *items, b"</channel></rss>"))


SIX = [item(n) for n in range(6)]


def in_part(before: bytes, after: bytes) -> bool:
    """Tell whether the second document was read in part; both ways must agree on it."""
    pair = Pair()
    pair.read(before, "before")
    pair.read(after, "after")
    first = _news(before, reading.LastFetch())
    second = _news(after, reading.LastFetch(first.diff.seen, first.diff.volatile, first.chunks))
    # an empty entry is read in front of the unseen ones
    return len(second.parsed.entries) <= 2


@pytest.mark.parametrize("name", sorted(EDITS))
def test_each_edit_of_a_plain_feed(name: str) -> None:
    rng, pair = random.Random(name), Pair()
    for step in range(5):
        pair.read(rss(*SIX), f"before {step}")
        pair.read(EDITS[name](rss(*SIX), rng), f"{name} {step}")


@pytest.mark.parametrize(
    "after",
    [
        rss(*SIX, head=b"<lastBuildDate>now</lastBuildDate>"),
        rss(item(9), *SIX),
        rss(*SIX[:3], item(3, "<description>edited</description>"), *SIX[4:]),
        rss(*SIX[2:]),
        rss(*reversed(SIX)),
        rss(*(one + b"\n " for one in SIX)),
        rss(item(9, "<description><![CDATA[ <!-- > ]] ]]></description>"), *SIX),
        rss(item(9, "<!-- ]]> -->"), *SIX),
        rss(item(9, "<description><![CDATA[ <?php ?> <!DOCTYPE html> ]]></description>"), *SIX),
        rss(*SIX, head=b"<!-- ]]> <![CDATA[ --><x><![CDATA[ <!-- ]]></x>"),
        rss(*SIX).decode().encode("utf-16"),
    ],
)
def test_what_is_read_in_part(after: bytes) -> None:
    assert in_part(rss(*SIX), after)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(rss(*SIX, head=b"<author>A</author>"), id="author_for_all"),
        pytest.param(rss(*SIX).replace(b"<rss", b"<rss xmlns:a='http://a.example/'"), id="namespace"),
        pytest.param(rss(*SIX).replace(b"<rss", b"<rss xml:base='http://a.example/'"), id="base"),
        pytest.param(rss(item(1), item(1), *SIX), id="same_twice"),
        pytest.param(rss(item(1, "<link>/other</link>"), *SIX), id="guid_twice"),
        pytest.param(rss(item(9, "<x><item/></x>"), *SIX), id="nested"),
        pytest.param(rss(item(9, "<x><![CDATA[ </item><item> ]]></x>"), *SIX), id="ends_in_cdata"),
        pytest.param(rss(item(9, "<!-- </item><item> -->"), *SIX), id="ends_in_comment"),
        pytest.param(rss(b"<!--", *SIX, b"-->", *SIX[2:]), id="commented_out"),
        pytest.param(rss(b"<x><![CDATA[", *SIX, b"]]></x>", *SIX[2:]), id="in_cdata"),
        pytest.param(rss(item(9, "<?x <item>?>"), *SIX), id="instruction"),
        pytest.param(rss(*SIX[:3], b"<author>A</author>", *SIX[3:]), id="element_between"),
        pytest.param(rss(*SIX[:3], b"</channel><channel>", *SIX[3:]), id="two_channels"),
        pytest.param(rss(item(9, "<category>A & B</category>"), *SIX), id="broken"),
        pytest.param(rss(item(9, "<category>don&#146;t</category>"), *SIX), id="c1"),
        pytest.param(rss(*SIX, b"<entry xmlns='http://www.w3.org/2005/Atom'/>"), id="other_kind"),
        pytest.param(rss(*(item(n) for n in range(20, 40)), SIX[0]), id="nearly_all_new"),
    ],
)
def test_what_is_read_in_full(after: bytes) -> None:
    assert not in_part(rss(*SIX), after)


@pytest.mark.parametrize("other", [b"entry", b"x:item", b"Item", "é:item".encode()])
@pytest.mark.parametrize("behind", [False, True])
def test_elements_that_only_look_like_entries_are_not_taken_for_them(other: bytes, behind: bool) -> None:
    space = " xmlns:x='http://x.example/' xmlns:é='http://purl.org/rss/1.0/'".encode()
    pair = Pair()
    for step in range(4):
        ones = [b"<%s></%s>" % (other, other), item(step // 2)]
        body = rss(*(reversed(ones) if behind else ones)).replace(b"<rss", b"<rss" + space)
        pair.read(body, f"step {step}")


def test_after_an_odd_document_the_next_ones_are_read_in_part_again() -> None:
    pair = Pair()
    for body in (rss(*SIX), rss(item(1), *SIX), rss(*SIX)):
        pair.read(body, "odd")
    assert pair.quick.feed.chunks
    found = _news(rss(*SIX), reading.LastFetch(pair.quick.feed.seen, False, pair.quick.feed.chunks))
    assert len(found.parsed.entries) == 1


def test_feeds_stored_before_chunks_were_kept_are_read_in_full_once() -> None:
    pair = Pair()
    pair.read(rss(*SIX), "first")
    assert pair.quick.feed.chunks
    pair.quick.feed = dataclasses.replace(pair.quick.feed, chunks=b"")
    found = pair.read(rss(*SIX, head=b"<ttl>9</ttl>"), "second")
    assert (found.update.new, found.update.changed) == ((), ())
    assert pair.quick.feed.chunks


def test_two_of_many_entries_that_go_over_to_https_are_known() -> None:
    links = [f"<link>http://blog.example/l{n}</link><guid>http://blog.example/{n}</guid>" for n in range(8)]
    links += [link.replace("http:", "https:") for link in links[:2]]
    ones = [f"<item><title>Post {n % 8}</title>{link}</item>".encode() for n, link in enumerate(links)]
    pair = Pair()
    pair.read(rss(*ones[:8]), "first")
    found = pair.read(rss(*ones[8:], *ones[2:8]), "two of them")
    assert ([e.title for e in found.update.new], len(found.update.changed)) == ([], 2)
    pair.read(rss(item(9), *ones[8:], *ones[2:7]), "one more")


def test_another_address_or_limit_counts_as_another_setting() -> None:
    pair = Pair()
    relative = [item(n, f"<link>p{n}</link>") for n in range(6)]
    pair.read(rss(*relative), "first")
    assert pair.read(rss(*relative), "moved", "https://moved.example/feed").update.changed
    long = rss(*(item(n, f"<description>{'x' * 300}</description>") for n in range(6)))
    first = _news(long, reading.LastFetch())
    known = reading.LastFetch(first.diff.seen, False, first.chunks)
    assert not _news(long, known).diff.changed
    assert len(_news(long, known, html=200).diff.changed) == 6


def test_items_above_the_limit_are_left_to_the_parser() -> None:
    limited = Settings(feed_max_items=5)
    pair = Pair(limited)
    for body in (rss(*SIX), rss(*SIX[1:]), rss(item(9), *SIX), rss(*SIX[2:])):
        pair.read(body, "limited")


def test_an_entry_of_thousands_of_sections_is_left_to_the_parser() -> None:
    sections = b"<![CDATA[]]>" * 5000
    first = _news(rss(item(1, sections.decode()), *SIX), reading.LastFetch())
    assert (first.chunks, len(first.parsed.entries)) == (b"", 7)


@pytest.mark.parametrize("row", [r for r in genuine_feeds() if r.kind == "rdf"], ids=str)
def test_items_beside_the_channel(row: Row) -> None:
    body = row.read()
    first = _news(body, reading.LastFetch())
    if not first.chunks:
        pytest.fail(f"{row} is not read in part")
    head, items, tail = cut(body)
    other = edited(items[1], random.Random(1))
    after = b"".join((head, items[0], other, *items[2:], tail))
    again = _news(after, reading.LastFetch(first.diff.seen, False, first.chunks))
    assert len(again.parsed.entries) == 2
