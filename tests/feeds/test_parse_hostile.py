"""Feeds that attack the parser: entities, depth, sizes, slow inputs, broken figures (security.md X01–X12)."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import pkgutil
import random
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import feeds
from app.errors import FeedError, ParseError
from app.feeds.identity import diff_feed
from app.feeds.parse import Limits, parse
from app.models.feeds.parsed import ParsedFeed, ParserPath, has_picture
from tests.feeds.mutate import mutate
from tests.support.corpus import rows
from tests.support.rawserver import RawServer, Reply

URL = "http://example.org/feed.xml"
MIB = 1 << 20
#: Any of these may take that long on a busy machine; a quadratic step takes minutes.
pytestmark = pytest.mark.timeout(60)


def rss(item: str, head: str = "") -> str:
    return (
        f'{head}<rss version="2.0"><channel><title>T</title>'
        f"<item><title>A</title>{item}</item></channel></rss>"
    )


def read(document: str | bytes, **limits: int) -> ParsedFeed:
    body = document.encode() if isinstance(document, str) else document
    return parse(body, url=URL, limits=Limits(**limits))


# -- X01: entities and external resources

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
BOMBS = {
    "billion laughs": f'<!DOCTYPE rss [<!ENTITY l0 "lol">{LAUGHS}]>',
    "quadratic": f'<!DOCTYPE rss [<!ENTITY l11 "{"lol" * 100_000}">]>',
    "parameter": "<!DOCTYPE rss [<!ENTITY % p \"<!ENTITY l11 'lol'>\">%p;]>",
    "in an attribute": f'<!DOCTYPE rss [<!ENTITY l0 "lol">{LAUGHS}<!ATTLIST rss version CDATA "&l11;">]>',
    "behind a comment": f"<!-- ' [ > --><?x > ?>\n<!DOCTYPE rss [<!-- ' > --><!ENTITY l0 \"lol\">{LAUGHS}]>",
}


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("kind", sorted(BOMBS))
def test_X01_no_entity_is_expanded(kind: str, charset: str) -> None:
    text = rss("<description>&l11;" + "&l11;" * 1000 + "</description>", BOMBS[kind])
    tracemalloc.start()
    try:
        feed = read(text.encode(charset))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "lol" not in feed.entries[0].summary
    assert peak < 50 * MIB


@pytest.mark.parametrize("broken", ["", "<br>"])
@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "utf-32"])
def test_X01_nothing_outside_the_document_is_read(tmp_path: Path, charset: str, broken: str) -> None:
    canary = tmp_path / "canary.dtd"
    canary.write_text("<!ENTITY secret 'CANARY'>")
    text = tmp_path / "canary.txt"
    text.write_text("CANARY")
    with RawServer({"/evil.dtd": Reply(body=b"<!ENTITY secret 'CANARY'>")}) as server:
        heads = [
            f'<!DOCTYPE rss SYSTEM "{address}" [<!ENTITY file SYSTEM "{text.as_uri()}">'
            f'<!ENTITY % remote SYSTEM "{server.url("/evil.dtd")}"> %remote;]>'
            for address in (canary.as_uri(), server.url("/evil.dtd"))
        ]
        for head in heads:
            body = rss(f"<description>x&secret;&file;{broken}</description>", head).encode(charset)
            feed = parse(body, url=URL)
            assert "CANARY" not in repr(feed)
        assert server.requests == []


@pytest.mark.parametrize(
    ("declared", "references"),
    [
        (f'<!ENTITY e "{"x" * 1024}">', 65),  # more than 64 KiB in all
        (f'<!ENTITY e "{"x" * 1025}">', 1),
        ('<!ENTITY e "x">' + "".join(f'<!ENTITY e{n} "y">' for n in range(100)), 1),
        ('<!ENTITY e "&a;"><!ENTITY a "&b;"><!ENTITY b "&c;"><!ENTITY c "x">', 1),
        (f'<!ENTITY e "{"&a;" * 200}"><!ENTITY a "xxxxxx">', 1),
        (f'<!ENTITY e "x"><!-- {"x" * (128 << 10)} -->', 1),
        ("<!ENTITY % p '<!ENTITY e \"x\">'> %p;", 1),
    ],
)
def test_X01_entities_beyond_the_budget_are_not_expanded(declared: str, references: int) -> None:
    feed = read(rss(f"<description>{'&e;' * references}</description>", f"<!DOCTYPE rss [{declared}]>"))
    assert feed.entries[0].summary == "&e;" * references


def test_X01_entities_within_the_budget_are_expanded() -> None:
    declared = f'<!ENTITY e "{"x" * 1024}">' + "".join(f'<!ENTITY e{n} "y">' for n in range(99))
    feed = read(rss(f"<description>{'&e;' * 64}</description>", f"<!DOCTYPE rss [{declared}]>"))
    assert feed.entries[0].summary == "x" * (64 << 10)


@pytest.mark.parametrize(
    "document",
    [
        "<!DOCTYPE rss [<!ENTITY e 'x'>" + "<!--" * 30_000 + "]>" + rss("&e;"),
        "<!DOCTYPE rss [<!ENTITY e 'x'>" + '"' * 60_000 + "]>" + rss("&e;"),
        "<!DOCTYPE rss [<!ENTITY e 'x'>]>" + rss("<![CDATA[" * 500_000),
        "<!DOCTYPE rss [<!ENTITY e 'x'>]>" + rss("<!--" * 1_000_000),
        "<!DOCTYPE rss [" + "<!ENTITY e 'x" * 10_000 + "]>" + rss("&e;"),
        rss("&#55357;" * 500_000),
        rss("&#55357" * 500_000),
    ],
)
def test_X01_reading_entities_takes_linear_time(document: str) -> None:
    with contextlib.suppress(ParseError):
        read(document)


def test_X01_a_doctype_alone_is_tolerated() -> None:
    head = '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://127.0.0.1:1/rss-0.91.dtd">'
    feed = read(rss("<description>caf&eacute;&nbsp;&#151;</description>", head))
    assert feed.entries[0].summary == "café\xa0—"


@pytest.mark.parametrize("row", rows("xml"), ids=str)
def test_X01_the_evil_documents_of_the_corpus_are_refused(row: object) -> None:
    with pytest.raises(ParseError) as caught:
        parse(row.read(), url=URL)  # type: ignore[attr-defined]
    assert caught.value.word in ("not_a_feed", "html_page", "broken_feed")


#: What the slow parser keeps of an element that it does not know: its attributes, or its text.
_UNKNOWN = ("<{0} a='b'/>", "<{0} a='b'>x</{0}>", "<{0}>x</{0}>")
_NAMES = [
    *("author", "category", "content", "created", "description", "enclosure", "enclosures", "guid", "icon"),
    *("id", "image", "language", "link", "links", "logo", "media_content", "media_thumbnail", "published"),
    *("subtitle", "summary", "summary_detail", "tags", "title", "title_detail", "ttl", "updated"),
    *("feedburner:origLink", "media:content", "media:thumbnail"),
]


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("form", _UNKNOWN)
def test_elements_with_the_names_of_the_slow_parsers_fields_are_harmless(name: str, form: str) -> None:
    element = form.format(name)
    space = " xmlns:media='http://search.yahoo.com/mrss/' xmlns:feedburner='http://rssnamespace.org/feedburner/ext/1.0'"
    text = f"<rss{space}><channel>{element}<item><guid>1</guid>{element}<br></item></channel></rss>"
    found = parse(text.encode(), url=URL)
    assert (found.parser, len(found.entries)) == (ParserPath.FEEDPARSER, 1)


# -- X02: what is quadratic in feedparser, and limits of nesting

BROKEN = "<br>"  # an element without end: the strict parser refuses the document
SLOW = {
    "attributes": "<x " + " ".join(f'a{n}="1"' for n in range(90_000)) + "/>",
    "attributes without values": "<x " + " ".join(f"a{n}" for n in range(120_000)) + "/>",
    "depth": "<a>" * 100_000,
    "div depth": "<div>" * 100_000,
    "long names": "<author>" + " ".join(["a" * 2000] * 500) + "</author>",
    "mail names": "<author>" + " ".join(["a" * 1000 + "@" + "b." * 480] * 500) + "</author>",
    "unclosed names": "<author>a</creator>" * 50_000,
    "categories": "".join(f"<category>{n}</category>" for n in range(40_000)),
    "links": "<link>http://e.org/</link>" * 30_000,
    "contents": "<content:encoded>x</content:encoded>" * 20_000,
    "media": '<media:content url="http://e.org/"/>' * 25_000,
    "open tags": "<a " * (MIB // 3),
    "end tags": "</" * (MIB // 2),
    "declarations": "<!" * (MIB // 2),
    "comments": "<!--" * (MIB // 4),
    "ampersands": "&" * MIB,
    "references": "&#" * (MIB // 2),
    "brackets": "<" * MIB,
    "cdata": "<![CDATA[" * (MIB // 9),
}


@pytest.mark.parametrize("kind", sorted(SLOW))
def test_X02_a_mebibyte_of_trouble_ends_soon(kind: str) -> None:
    try:
        read(rss(BROKEN + SLOW[kind]))
    except ParseError as e:
        assert e.word == "too_large"  # noqa: PT017 — some are read, some refused, none may hang


@pytest.mark.parametrize("attributes", [16_000, 90_000])
def test_X02_attributes_do_not_slow_the_strict_parser(attributes: int) -> None:
    many = " ".join(f'a{n}="1"' for n in range(attributes))
    assert read(rss(f"<x {many}/><link>http://e.org/1</link>")).entries[0].url == "http://e.org/1"


@pytest.mark.parametrize(("depth", "fits"), [(100, True), (128 - 4, True), (140, False), (400, False)])
def test_X02_nesting_has_a_limit(depth: int, fits: bool) -> None:
    body = rss("<x>" * depth + "</x>" * depth)
    if fits:
        assert read(body).parser == ParserPath.STRICT
        return
    with pytest.raises(ParseError) as caught:
        read(body)
    assert caught.value.word == "too_large"
    assert "depth" in caught.value.detail or "deeper" in caught.value.detail


# -- X04: a cut is told


def _items(count: int) -> str:
    return "".join(f"<item><guid>{n}</guid><title>{n}</title></item>" for n in range(count))


def test_X04_items_beyond_the_limit_are_left_out_and_told() -> None:
    body = f"<rss version='2.0'><channel><title>T</title>{_items(30)}</channel></rss>"
    assert not read(body, items=30).truncated
    feed = read(body, items=29)
    assert (len(feed.entries), feed.truncated) == (29, True)


def _dated(days: list[int]) -> str:
    """Return items whose text is inline markup, which reading takes out of its element."""
    return "".join(
        f"<item><guid>{day}</guid><pubDate>{day:02} Mar 2026 10:00:00 GMT</pubDate>"
        f"<description><p>{day}</p></description></item>"
        for day in days
    )


RDF = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
LISTS = {
    "rss": "<rss version='2.0'><channel><title>T</title>%s</channel></rss>",
    "rdf": RDF + "<channel><title>T</title></channel>%s</rdf:RDF>",
    "feedparser": "<rss version='2.0'><channel><title>T</title><docs>a<br>b</docs>%s</channel></rss>",
}


@pytest.mark.parametrize("form", LISTS)
def test_X04_where_the_newest_stand_last_those_in_front_are_left_out(form: str) -> None:
    days = list(range(1, 8))
    feed = read(LISTS[form] % _dated(days), items=3)
    assert [(entry.guid, entry.summary) for entry in feed.entries] == [
        (f"{n}", f"<p>{n}</p>") for n in (5, 6, 7)
    ]
    assert feed.truncated
    assert (feed.parser == ParserPath.FEEDPARSER) == (form == "feedparser")
    feed = read(LISTS[form] % _dated(days[::-1]), items=3)
    assert [(entry.guid, entry.summary) for entry in feed.entries] == [
        (f"{n}", f"<p>{n}</p>") for n in (7, 6, 5)
    ]
    assert feed.truncated
    assert not read(LISTS[form] % _dated(days), items=7).truncated


FIRST = "<item><guid>first</guid><pubDate>%s</pubDate></item>"
LAST = "<item><guid>last</guid><pubDate>%s</pubDate></item>"


@pytest.mark.parametrize("form", LISTS)
@pytest.mark.parametrize("rises", [True, False])
@pytest.mark.parametrize("odd", ["01 Jan 2005 00:00:00 GMT", "01 Jan 2040 00:00:00 GMT", ""])
def test_X04_no_odd_date_tells_where_the_newest_stand(form: str, rises: bool, odd: str) -> None:
    """As of a pinned entry in front, or of one whose year is wrong."""
    days = list(range(1, 29)) if rises else list(range(28, 0, -1))
    items = _dated(days)
    for body in (FIRST % odd + items, items + LAST % odd, FIRST % odd + items + LAST % odd):
        guids = {entry.guid for entry in read(LISTS[form] % body, items=25).entries}
        assert {f"{day}" for day in range(10, 29)} < guids


@pytest.mark.parametrize("days", [[5] * 9, [1, 9, 2, 8, 3, 7, 4, 6, 5], [8, 9, 7, 6, 5, 4, 3, 2, 1]])
def test_X04_in_doubt_the_entries_in_front_are_read(days: list[int]) -> None:
    items = "".join(
        f"<item><guid>g{place}</guid><pubDate>{day:02} Mar 2026 10:00:00 GMT</pubDate></item>"
        for place, day in enumerate(days)
    )
    for body in (items, f"{_items(20)}{items}"):
        feed = read(LISTS["rss"] % body, items=4)
        assert feed.entries[0].guid in ("g0", "0")


def test_X04_json_is_read_from_its_end_too_where_the_newest_stand_there() -> None:
    items = [{"id": f"{n}", "date_published": f"2026-03-0{n}T10:00:00Z"} for n in range(1, 8)]
    body = json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [7, *items]})
    feed = read(body, items=3)
    assert ([entry.guid for entry in feed.entries], feed.truncated) == (["5", "6", "7"], True)


def test_X04_long_content_is_cut_and_told() -> None:
    feed = read(rss(f"<description>{'&lt;p&gt;x&lt;/p&gt;' * 100}</description>"), html=100)
    assert feed.truncated
    assert feed.entries[0].summary == "<p>x</p>" * 12 + "<p>x"
    assert not read(rss("<description>short</description>"), html=100).truncated


@pytest.mark.parametrize(
    "end", ["<title>2</title><guid>2", "<title>2</title><desc", "<title><![CDATA[ab", "<title>2"]
)
def test_X04_a_document_that_ends_in_the_middle_is_told_and_its_last_entry_left_out(end: str) -> None:
    body = f"<rss version='2.0'><channel><title>T</title>{_items(2)}<item>{end}"
    feed = read(body)
    assert feed.truncated
    assert feed.cut
    assert [entry.guid for entry in feed.entries] == ["0", "1"]


@pytest.mark.parametrize("end", ["</rss>", "</item>", "</channel>", "a </item> b"])
def test_X04_end_tags_in_a_text_are_none(end: str) -> None:
    feed = read(f"<rss version='2.0'><channel>{_items(2)}<item><guid>2</guid><title><![CDATA[{end}")
    assert feed.cut
    assert [entry.guid for entry in feed.entries] == ["0", "1"]


@pytest.mark.parametrize(
    "body",
    [
        f"<rss version='2.0'><channel>{_items(2)}</channel>\n",
        f"<rss version='2.0'><channel>{_items(2)}<!-- a --> <!-- b > c -->",
        f"{RDF}<channel><title>T</title></channel>{_items(2)}",
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>0</id></entry><entry><id>1</id></entry >",
        f"<rss version='2.0'><channel><title>a & b</title>{_items(2)}</channel></rss>{'<!-- a -->' * 300}",
    ],
)
def test_a_document_that_ends_behind_its_entries_is_not_cut(body: str) -> None:
    feed = read(body)
    assert (feed.cut, feed.truncated) == (False, False)
    assert [entry.guid for entry in feed.entries] == ["0", "1"]


def test_X04_behind_the_channel_of_rss_1_0_stand_its_entries() -> None:
    assert read(f"{RDF}<channel><title>T</title></channel>").cut


def test_X02_a_million_comments_at_the_end_are_looked_through_once() -> None:
    """One by one from the end, with what is left copied each time, they take minutes (the time-out)."""
    assert len(read(f"<rss version='2.0'><channel>{_items(2)}{'<!---->' * 1_000_000}").entries) == 2


def test_X04_nothing_is_lost_behind_a_fault() -> None:
    """libxml2's recovery would drop every "<", ">" and "&" behind the first fault."""
    feed = read(rss("<description>AT&T &lt;p&gt;x&lt;/p&gt; &amp;amp; y</description>"))
    assert feed.parser == ParserPath.REPAIRED
    assert feed.entries[0].summary == "AT&T <p>x</p> &amp; y"


def test_too_large_a_document_is_refused() -> None:
    with pytest.raises(ParseError, match="larger"):
        read(rss("x" * 5000), body=4000)


def test_X05_a_gzipped_file_is_unpacked_to_the_limit_only() -> None:
    assert read(gzip.compress(rss("").encode())).title == "T"
    with pytest.raises(ParseError) as caught:
        read(gzip.compress(rss("x" * 10 * MIB).encode()), body=MIB)
    assert caught.value.word == "too_large"
    with pytest.raises(ParseError) as caught:
        read(b"\x1f\x8b\x08broken")
    assert caught.value.word == "broken_feed"


# -- X07: charsets (the order of claims is tested in test_charset.py)


@pytest.mark.parametrize(
    "charset", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
def test_X07_feeds_in_unicode_charsets(charset: str) -> None:
    assert (
        read(rss("<link>http://e.org/é</link>", "<?xml version='1.0'?>").encode(charset)).entries[0].title
        == "A"
    )


def test_X07_utf_7_hides_no_markup() -> None:
    body = '<?xml version="1.0" encoding="utf-7"?>' + rss("<description>+ADw-script+AD4-</description>")
    assert read(body).entries[0].summary == "+ADw-script+AD4-"


# -- X08: regular expressions


def _expressions() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    for found in pkgutil.walk_packages(feeds.__path__, "app.feeds."):
        for name, value in vars(importlib.import_module(found.name)).items():
            if isinstance(value, re.Pattern):
                yield f"{found.name}.{name}", value


EXPRESSIONS = dict(_expressions())
#: Only ever tried at the start of a text, or on an address of at most 2,048 characters.
ANCHORED = {
    "app.feeds.html.allow_list._ADDRESS",
    "app.feeds.html.allow_list._LOOPBACK",
    "app.feeds.html.code._INSIDE",
    "app.feeds.html.embeds._INNER_IMAGE",  # from one <object> to the next
    "app.feeds.fetch.refresh._TARGET",
    "app.feeds.fetch.transfer._PAGE",
    "app.feeds.html.lazy_images._PLACEHOLDER",
    "app.feeds.fetch.address_policy._HOST",
    "app.feeds.fetch.address_policy._SCHEME",
    "app.feeds.sites._ACCOUNT",
    "app.feeds.urls._ACCESS_NAME",
    "app.feeds.urls._BARE",
    "app.feeds.urls._HEX",
    "app.feeds.urls._SCHEME",
    "app.feeds.urls._SHORT_KEY",
}
ADVERSARIES = (
    "a", "<", "<a", "<a ", "&", "&#", "&a", "=", '"', "' ", " ", "<!--", "\t\n", "1", "1:", "+", "a@", "a.",
    "(", "<meta ", "<?xml ", "charset=", "é", "\x85", "-1", "a-", "T1", "~{",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXPRESSIONS))
def test_X08_no_expression_backtracks(name: str) -> None:
    """100 KB of each adversary: linear ones take milliseconds, quadratic ones minutes (the time-out)."""
    pattern = EXPRESSIONS[name]
    for piece in ADVERSARIES:
        text = piece * (100_000 // len(piece))
        if name in ANCHORED:
            start = text.encode() if isinstance(pattern.pattern, bytes) else text
            pattern.match(start), pattern.fullmatch(start)  # type: ignore[call-overload, arg-type]
        elif isinstance(pattern.pattern, bytes):
            pattern.sub(b"", text.encode())  # type: ignore[call-overload, arg-type]
        elif not name.startswith("app.feeds.parse.dates"):  # these see 80 characters at most
            pattern.sub("", text)  # type: ignore[call-overload, arg-type]


def test_X08_no_picture_is_looked_through_for_those_in_front_of_it() -> None:
    """Half a kilobyte read again for each tag: minutes for 64 MiB."""
    assert has_picture(("<img " * 98 + " width=1 ") * (64 * MIB // 499))
    for signs in "<img width=1 ", "<img class='" + 20 * "emojis ", "<img " + "rel=class='" * 100:
        has_picture(signs * (64 * MIB // len(signs)))
    assert has_picture("<img width=1>" * 10 + "<img>")


# -- X09: JSON Feed

JSON = '{"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [{"id": "1"%s}]%s}'


@pytest.mark.parametrize(
    ("item", "rest", "word"),
    [
        (', "x": ' + "[" * 40 + "]" * 40, "", "too_large"),
        (', "x": ' + "[" * 20 + "]" * 20, "", None),
        (', "x": ' + "[" * 100_000, "", "broken_feed"),
        (', "x": ' + '{"a":' * 100_000 + "1", "", "broken_feed"),
        (', "content_html": "' + "x" * (MIB + 1) + '"', "", "too_large"),
        (', "content_html": "' + "x" * 1000 + '"', "", None),
        (', "x": NaN', "", "broken_feed"),
        (', "x": Infinity', "", "broken_feed"),
        (', "x": 1e400', "", "broken_feed"),
        (', "x": ' + "9" * 5000, "", "broken_feed"),
        (', "x": ' + "9" * 20, "", None),
        ("", ', "title": "second"', None),
        (', "title": "\\u0000a\\ud800b"', "", None),
    ],
)
def test_X09_json_has_limits(item: str, rest: str, word: str | None) -> None:
    body = JSON % (item, rest)
    if word is None:
        feed = read(body)
        assert [entry.guid for entry in feed.entries] == ["1"]
        assert feed.title == ("second" if rest else "T"), "of equal keys the last one wins"
        repr(feed).encode()  # what cannot be UTF-8 did not get through
        return
    with pytest.raises(ParseError) as caught:
        read(body)
    assert caught.value.word == word


# -- X12: whatever comes, only FeedError comes out


@pytest.mark.parametrize("seed", range(4))
def test_X12_mutated_feeds_raise_nothing_but_feed_errors(seed: int) -> None:
    rng = random.Random(seed)
    seeds = [
        row for row in rows("atom", "rss", "rdf", "json", "xml", "encoding") if row.data["bytes"] < 30_000
    ]
    read_well = 0
    for _ in range(150):
        body = mutate(rng.choice(seeds).read(), rng)
        try:
            feed = parse(body, url=rng.choice((URL, "", "http://[")))
        except FeedError:
            continue
        read_well += 1
        diff_feed(feed, b"")
        repr(feed).encode()
    assert read_well > 60, "the damage is so great that nothing is tested"


@pytest.mark.parametrize("body", [b"", b" \n\t", b"\0" * 100, b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_body_is_told(body: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        read(body)
    assert caught.value.word == "empty"


@pytest.mark.parametrize("address", ["http://[x/", "https://a]b/", "http://a\u2100b.example/"])
def test_an_address_without_a_readable_host_is_no_site(address: str) -> None:
    def read_site(link: str) -> str | None:
        return read(rss("").replace("<item>", f"<link>{link}</link><item>", 1)).site_url

    assert read_site(address) is None
    assert read_site("http://a.example/x[1]") == "http://a.example/x[1]"
