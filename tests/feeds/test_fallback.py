"""A feed that only feedparser can read says what it would say in well-formed XML."""

# ruff: noqa: E501 — documents stand on one line, beside what they mean

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import pytest

from app.feeds.parse import Limits, parse
from app.feeds.parse.feedparser_input import prepare_for_feedparser
from app.feeds.parse.repair import repair
from app.models.feeds.parsed import Enclosure, ParsedEntry, ParsedFeed, ParserPath
from tests.feeds.test_parse import REPLIES, SPACES, URL, feed_of

#: In the head of the feed: no way to read it as XML is left, and nothing else changes.
BROKEN = "<x y=z></x>"
PICTURE = "<media:content url='http://x.example/n.jpg' medium='image'><media:description>A man on a bridge.</media:description></media:content>"
OTHER = "<media:content url='http://x.example/o.jpg' medium='image'><media:description>A dog &amp;amp; a cat.</media:description></media:content>"


def both(document: str) -> tuple[ParsedFeed, ParsedFeed]:
    """Return a feed as it is read whole, and broken."""
    whole, broken = feed_of(document.replace(BROKEN, "")), feed_of(document)
    assert (whole.parser, broken.parser) == (ParserPath.STRICT, ParserPath.FEEDPARSER)
    return whole, broken


def rss(item: str, channel: str = "<title>T</title>") -> tuple[ParsedFeed, ParsedFeed]:
    return both(f'<rss version="2.0" {SPACES}><channel>{BROKEN}{channel}<item>{item}</item></channel></rss>')


def atom(entry: str, feed: str = "<title>T</title>", attributes: str = "") -> tuple[ParsedFeed, ParsedFeed]:
    return both(
        f'<feed xmlns="http://www.w3.org/2005/Atom" {SPACES} {attributes}>{BROKEN}{feed}<entry>{entry}</entry></feed>'
    )


def one(feeds: Iterable[ParsedFeed]) -> ParsedEntry:
    """Return the entry of a feed, the same on both paths."""
    whole, broken = (feed.entries[0] for feed in feeds)
    assert whole == broken
    return broken


# -- texts


@pytest.mark.parametrize(
    ("text", "content", "summary"),
    [
        (f"<description>The lead.</description>{PICTURE}", "", "The lead."),
        (f"{PICTURE}<description>The lead.</description>", "", "The lead."),
        (f"<description>The lead.</description>{PICTURE}{OTHER}", "", "The lead."),
        (f"{PICTURE}{OTHER}<description>The lead.</description>", "", "The lead."),
        (f"<description>d</description><content:encoded>c</content:encoded>{PICTURE}", "c", "d"),
        (f"<content:encoded>c</content:encoded>{PICTURE}", "c", "A man on a bridge."),
        (f"<media:group>{PICTURE}</media:group><description>d</description>", "", "d"),
        (PICTURE, "", "A man on a bridge."),
        (
            "<media:group><media:description>3 &lt; 4\nTwo</media:description></media:group>",
            "",
            "3 &lt; 4<br>\nTwo",
        ),
        (
            "<media:group><media:description type='html'>&lt;b&gt;x</media:description></media:group>",
            "",
            "<b>x",
        ),
        ("<media:description><![CDATA[a <b>c</b> &amp; d]]></media:description>", "", "a <b>c</b> &amp; d"),
        ("<media:description/><description>d</description>", "", "d"),
        ("<description>d</description><itunes:summary>s</itunes:summary>", "", "d"),
        ("<itunes:summary>s</itunes:summary><description>d</description>", "", "d"),
        ("<itunes:summary>s</itunes:summary><content:encoded>c</content:encoded>", "c", "s"),
        ("<itunes:subtitle>t</itunes:subtitle><itunes:summary>s</itunes:summary>", "", "s"),
        ("<itunes:summary>a &lt;p&gt;b&lt;/p&gt; &amp;amp; c</itunes:summary>", "", "a <p>b</p> &amp; c"),
        ("<itunes:summary>one\ntwo</itunes:summary>", "", "one<br>\ntwo"),
        ("<itunes:summary>a <b>c</b> d</itunes:summary>", "", "a <b>c</b> d"),
        ("<dc:description>e</dc:description><description>d</description>", "", "d"),
        ("<description>d</description><dc:description>e</dc:description>", "", "d"),
        ("<content:encoded>c</content:encoded>", "c", ""),
        (
            "<description><![CDATA[In <code><media:description></code> stands]]></description>",
            "",
            "In <code><media:description></code> stands",
        ),
    ],
)
def test_the_text_is_that_of_the_article(text: str, content: str, summary: str) -> None:
    found = one(rss(text))
    assert (found.content, found.summary) == (content, summary)


def test_comments_are_the_same() -> None:
    found = one(rss(f"<title>N</title><guid>1</guid>{REPLIES}"))
    assert found.replies is not None
    assert found.replies.total == 12


@pytest.mark.parametrize(
    "kind", ["CDATA", "htm", "HTML", "text/html; charset=utf-8", "text", "", "text/plain;x=y"]
)
@pytest.mark.parametrize(
    "text", ["&lt;p&gt;Hello &lt;b&gt;x&lt;/b&gt;&lt;/p&gt;", "Hello abcd", "a &amp;lt; b"]
)
def test_types_of_atom_texts_mean_the_same(kind: str, text: str) -> None:
    one(
        atom(
            f"<id>1</id><title>t</title><content type='{kind}'>{text}</content><summary type='{kind}'>{text}</summary>"
        )
    )


@pytest.mark.parametrize(
    ("prefix", "space"),
    [
        ("media", "http://search.yahoo.com/mrss/"),
        ("m", "http://search.yahoo.com/mrss"),
        ("m", "https://Search.Yahoo.com/mrss/"),
    ],
)
def test_captions_are_known_by_their_namespace(prefix: str, space: str) -> None:
    picture = PICTURE.replace("media:", f"{prefix}:")
    for feed in both(
        f"<rss version='2.0' xmlns:{prefix}='{space}'><channel><title>T</title>{BROKEN}"
        f"<item><description>d</description>{picture}</item></channel></rss>"
    ):
        assert (feed.entries[0].content, feed.entries[0].summary) == ("", "d")


def test_markup_in_a_summary_that_breaks_the_feed_is_kept() -> None:
    text = "<itunes:summary><p>a<br>b</p></itunes:summary><title>N</title><guid>1</guid>"
    feed = feed_of(f'<rss version="2.0" {SPACES}><channel><item>{text}</item></channel></rss>')
    assert feed.parser is ParserPath.FEEDPARSER
    (found,) = feed.entries
    assert (found.summary, found.title, found.guid) == ("<p>a<br>b</p>", "N", "1")


def test_a_summary_without_an_end_takes_nothing_from_the_next_entry() -> None:
    items = "<item><title>A</title><itunes:summary>s</item><item><title>B</title><itunes:summary>t</itunes:summary></item>"
    feed = feed_of(f'<rss version="2.0" {SPACES}><channel>{items}</channel></rss>')
    assert [(e.title, e.summary) for e in feed.entries if e.title == "B"] == [("B", "t")]


def test_the_head_of_a_feed_is_read_on_both_paths() -> None:
    head = (
        "<title>T</title><itunes:author>Ann</itunes:author><itunes:summary>s</itunes:summary>"
        "<media:description>no</media:description>"
    )
    for feed in rss("<title>N</title>", head):
        assert (feed.description, feed.entries[0].author) == ("s", "Ann")
    for feed in rss("<title>N</title>", f"{head}<description>d</description>"):
        assert feed.description == "d"
    for feed in atom(
        "<title>N</title>", "<author><name>Ann</name></author><author><name>Bob</name></author>"
    ):
        assert feed.entries[0].author == "Ann, Bob"


# -- people, dates, guids


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("<dc:creator>Jun Liu</dc:creator><dc:creator>Jun Li</dc:creator>", "Jun Liu, Jun Li"),
        ("<dc:creator>Liu &amp;amp; Li</dc:creator>", "Liu & Li"),
        ("<dc:creator>Foo (Bar)</dc:creator><dc:creator>Eve</dc:creator>", "Foo (Bar), Eve"),
        ("<dc:creator>Bob</dc:creator><itunes:author>Pod</itunes:author>", "Bob"),
        ("<itunes:author>Pod</itunes:author><dc:creator>Bob</dc:creator>", "Bob"),
        ("<author>a@b.org (Ann)</author><dc:creator>Bob</dc:creator>", "Bob"),
        ("<author>a@b.org (Ann)</author>", "Ann"),
        ("<author>a@b.org (Ann)</author><author>c@b.org (Bob)</author>", "Ann, Bob"),
        ("<author>Foo (Bar)</author><author>Bob</author>", "Foo (Bar), Bob"),
        ("<author>a@b.org (Ann)</author><itunes:author>Pod</itunes:author>", "Ann"),
        ("<itunes:author>Pod</itunes:author>", "Pod"),
        ("<dc:creator><![CDATA[Ann & Bob]]></dc:creator>", "Ann & Bob"),
    ],
)
def test_all_authors_are_told(text: str, author: str) -> None:
    assert one(rss(text)).author == author


def test_all_authors_of_atom_are_told() -> None:
    text = "<author><name>Ann</name><email>a@b.org</email></author><author><name>Bob</name></author>"
    assert one(atom(f"<title>N</title>{text}")).author == "Ann, Bob"
    mail = "<author><email>a@b.org</email></author><author><name>Bob</name></author>"
    assert one(atom(f"<title>N</title>{mail}")).author == "a@b.org, Bob"


@pytest.mark.parametrize(
    ("text", "published", "updated"),
    [
        ("<dc:date>2020-01-01T00:00:00Z</dc:date>", 1, None),
        ("<dc:date>2020-01-01T00:00:00Z</dc:date><pubDate>Thu, 02 Jan 2020 00:00:00 GMT</pubDate>", 2, None),
        (
            "<dc:date>2020-01-01T00:00:00Z</dc:date><atom:updated>2020-01-03T00:00:00Z</atom:updated>",
            1,
            3,
        ),
    ],
)
def test_dates_of_dublin_core_are_of_publishing(text: str, published: int, updated: int | None) -> None:
    found = one(rss(text))
    assert found.published == dt.datetime(2020, 1, published, tzinfo=dt.UTC)
    assert found.updated == (dt.datetime(2020, 1, updated, tzinfo=dt.UTC) if updated else None)


@pytest.mark.parametrize(
    "text",
    [
        "<id>1</id>",
        "<id>../x?a=1&amp;b=2</id>",
        "<id> tag:b.example,2020:x </id>",
        "<id>HTTP://B.example:80/x/../y</id>",
    ],
)
def test_guids_are_raw_under_a_base(text: str) -> None:
    for feed in atom(f"{text}<title>N</title>", attributes='xml:base="http://b.example/q/"'):
        assert feed.entries[0].guid == text[4:-5].replace("&amp;", "&").strip()


@pytest.mark.parametrize(
    ("text", "guid", "url"),
    [
        ("<guid>../x</guid>", "../x", None),
        ("<guid isPermaLink='true'>../x?a=1&amp;b=2</guid>", "../x?a=1&b=2", "http://example.org/x?a=1&b=2"),
        ("<guid isPermaLink='false'>http://e.org/1</guid>", "http://e.org/1", "http://e.org/1"),
        ("<guid>1</guid><link>http://e.org/l</link>", "1", "http://e.org/l"),
        ("<dc:identifier>d</dc:identifier>", "d", None),
        ("<dc:identifier>d</dc:identifier><guid>g</guid>", "g", None),
        ("<guid>g</guid><atom:id>i</atom:id>", "i", None),
        (
            "<media:content url='/p'><dc:identifier>1</dc:identifier></media:content><title>N</title>",
            None,
            None,
        ),
    ],
)
def test_guids_are_the_raw_text(text: str, guid: str | None, url: str | None) -> None:
    found = one(rss(text))
    assert (found.guid, found.url) == (guid, url)


def test_what_stands_inside_a_file_yields_to_what_the_entry_says() -> None:
    inside = (
        "<dc:date>2010-01-01</dc:date><dc:creator>Photographer</dc:creator><dc:description>p</dc:description>"
    )
    own = "<dc:date>2020-01-01</dc:date><dc:creator>Ann</dc:creator><dc:description>d</dc:description>"
    found = one(rss(f"<media:content url='/n.jpg'>{inside}</media:content>{own}"))
    assert (found.author, found.summary, found.published) == (
        "Ann",
        "d",
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    )
    # the end of a file is easily lost
    lost = f"<media:content url='/n.jpg'><media:group>{own}<guid>1</guid>"
    feed = feed_of(f'<rss version="2.0" {SPACES}><channel>{BROKEN}<item>{lost}</item></channel></rss>')
    (entry,) = feed.entries
    assert (entry.guid, entry.author, entry.summary, entry.published is None) == ("1", "Ann", "d", False)


def test_rdf_about_is_the_guid() -> None:
    found = one(
        both(
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>T</title></channel>'
            f'{BROKEN}<item rdf:about="about"><dc:identifier>d</dc:identifier><title>N</title></item></rdf:RDF>'
        )
    )
    assert found.guid == "about"


def test_pages_that_do_not_call_themselves_html_are_linked() -> None:
    link = "<link rel='alternate' type='application/pdf' href='/n.pdf'/>"
    home = "<id>http://b.example/</id><link type='text' href='/home'/>"
    for feed in atom(f"<id>1</id>{link}", home):
        assert (feed.entries[0].url, feed.site_url) == ("http://example.org/n.pdf", "http://example.org/home")


# -- files and pictures


def test_files_of_media_rss_are_told() -> None:
    video = "<media:content url='/v.mp4' type='video/mp4' fileSize='7' duration='90'/>"
    page = "<media:content url='/p' medium='video' type='text/html'/>"
    found = one(rss(f"<description>d</description>{video}{page}"))
    assert found.enclosures == (Enclosure("http://example.org/v.mp4", "video/mp4", 7, duration=90),)


def test_pictures_tell_what_they_show() -> None:
    found = one(
        rss(f"<description>d</description>{PICTURE}{OTHER}<media:description>All</media:description>")
    )
    assert [file.text for file in found.enclosures] == ["A man on a bridge.", "A dog & a cat."]
    assert found.image == "http://x.example/n.jpg"
    assert one(rss(f"<media:group>{PICTURE}</media:group><title>N</title>")).enclosures == ()
    beside = "<media:content url='http://x.example/n.jpg'/><media:description>no</media:description>"
    assert [file.text for file in one(rss(beside)).enclosures] == [""]


def test_the_widest_picture_stands_for_the_entry() -> None:
    sizes = "".join(f"<media:content url='/{width}.jpg' width='{width}'/>" for width in (100, 900, 400))
    assert one(rss(f"<media:group>{sizes}</media:group>")).image == "http://example.org/900.jpg"


# -- comments


@pytest.mark.parametrize(
    "comment", ["<!-- a -- b -->", "<!---->", "<!----->", "<!-- <item> & <![CDATA[ -- -->", "<!--a--\n-->"]
)
@pytest.mark.parametrize("place", range(4))
def test_comments_with_two_hyphens_do_not_break_a_feed(comment: str, place: int) -> None:
    parts = ["", "", "", ""]
    parts[place] = comment
    item = f"<item>{parts[1]}<title>A{parts[2]}B</title><guid>1</guid></item>"
    feed = feed_of(f"{parts[0]}<rss version='2.0'><channel>{item}</channel></rss>{parts[3]}")
    assert feed.parser is not ParserPath.FEEDPARSER
    assert [(e.guid, e.title) for e in feed.entries] == [("1", "AB")]


def test_comments_in_cdata_are_text() -> None:
    text = "<description><![CDATA[a<!-- x -- y -->b]]></description><title>A & B</title><!-- x -- y -->"
    feed = feed_of(f"<rss version='2.0'><channel><item>{text}</item></channel></rss>")
    assert (feed.parser, feed.entries[0].summary) == (ParserPath.REPAIRED, "a<!-- x -- y -->b")


def test_what_a_comment_parts_is_no_declaration() -> None:
    body = b"<rss>&am<!---->p;<!DOC<!-- -->TYPE rss [<!ENTITY<!-- --> a 'b'>]><<!-- -->!ENTITY c 'd'></rss>"
    mended = repair(body)
    assert mended is not None
    assert b"<!" not in mended
    assert b"&amp;amp;" not in mended.replace(b"&amp;am", b"", 1)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part", ["<!--", "<!-- -->", "<!---- -- ", "<![CDATA[<!--", "<!--<![CDATA[", "<![CDATA[]]><!--"]
)
def test_X08_repairing_comments_is_linear(part: str) -> None:
    body = b"<rss>" + part.encode() * ((10 << 20) // len(part)) + b"</rss>"
    assert repair(body) is not None


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part",
    [
        "<media:description>",
        "<media:description/>",
        "</media:description>",
        "<media:content url='x'>",
        "<media:content ",
        "<media:content url ",
        "<![CDATA[",
        "<id ",
        " xmlns:a=",
        "<a:",
        " ",
    ],
)
def test_X08_setting_apart_is_linear(part: str) -> None:
    prepare_for_feedparser(part.encode() * ((2 << 20) // len(part)))


def test_X02_no_address_is_repeated_for_each_caption() -> None:
    caption = "<media:description>x</media:description>"
    body = f"<media:content url='{'u' * (1 << 20)}'>{caption * 300}".encode()
    assert len(prepare_for_feedparser(body)) < 2 * len(body) + 300 * 200


@pytest.mark.timeout(60)
def test_X02_what_is_set_apart_keeps_to_the_limits() -> None:
    text = "x" * 1000
    item = "".join(
        f"<{name}>{text}</{name}>"
        for name in ("guid", "dc:creator", "itunes:summary", "media:description", "dc:date")
        for _ in range(60)
    )
    body = f'<rss version="2.0" {SPACES}><channel>{BROKEN}<item>{item}</item></channel></rss>'.encode()
    feed = parse(body, url=URL, limits=Limits(html=100, title=50))
    assert (feed.parser, feed.truncated) == (ParserPath.FEEDPARSER, True)
    (found,) = feed.entries
    assert (len(found.summary), len(found.author)) <= (100, 50)


@pytest.mark.parametrize(
    "text",
    [
        "<media_credit>x</media_credit><dc:creator>y</dc:creator>",
        "<media_credit a='b'/><dc:creator>y</dc:creator>",
        "<media:credit content='c' eventr-kind='guid'/>",
        "<media:credit eventr-kind='media:description' eventr-picture='x'><credit>y</credit></media:credit>",
        "<eventr-media:credit eventr-kind='guid'>z</eventr-media:credit>",
        "<dc:creator eventr-kind='guid' ispermalink=''><credit>y</dc:creator></credit>",
        "</dc:date></dc:date><dc:date><dc:date>",
        "<authors name='x'/><authors>y</authors><media_content url='x' type='video/mp4' duration='x'/>",
    ],
)
def test_what_feigns_to_be_set_apart_is_harmless(text: str) -> None:
    item = f"<item>{text}<title>N</title></item><item><title>O</title></item>"
    feed = feed_of(f'<rss version="2.0" {SPACES}><channel>{BROKEN}{item}</channel></rss>')
    assert feed.parser is ParserPath.FEEDPARSER
    assert [entry.title for entry in feed.entries][-1:] == ["O"]
