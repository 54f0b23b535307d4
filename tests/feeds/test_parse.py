"""What is read out of feeds, format by format: the oddities that the parser promises to handle."""

# ruff: noqa: E501 — documents stand on one line, beside what they mean

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

from app.config import Settings
from app.errors import ParseError
from app.feeds.html.sanitize import sanitize
from app.feeds.parse import Limits, parse
from app.models.feeds.parsed import Enclosure, FileRole, Format, ParsedEntry, ParsedFeed, ParserPath, Replies
from tests.support import corpus

URL = "http://example.org/dir/feed.xml"
SPACES = (
    'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:atom="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/" '
    'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" '
    'xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0" '
    'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/" '
    'xmlns:slash="http://purl.org/rss/1.0/modules/slash/" '
    'xmlns:wfw="http://wellformedweb.org/CommentAPI/"'
)


def feed_of(text: str | bytes, url: str = URL) -> ParsedFeed:
    return parse(text.encode() if isinstance(text, str) else text, url=url)


def rss(item: str = "", channel: str = "") -> ParsedFeed:
    return feed_of(f'<rss version="2.0" {SPACES}><channel>{channel}<item>{item}</item></channel></rss>')


def item(text: str) -> ParsedEntry:
    return rss(text).entries[0]


def atom(entry: str = "", feed: str = "") -> ParsedFeed:
    return feed_of(f'<feed xmlns="http://www.w3.org/2005/Atom" {SPACES}>{feed}<entry>{entry}</entry></feed>')


def entry(text: str) -> ParsedEntry:
    return atom(text).entries[0]


RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'


@pytest.mark.parametrize(
    ("text", "format", "entries"),
    [
        ("<rss version='2.0'><channel><title>T</title><item><title>A</title></item></channel></rss>", "rss20", 1),
        ("<rss><channel><title>T</title><item/></channel></rss>", "rss20", 1),
        ("<rss version='0.91'><channel><title>T</title><item/></channel></rss>", "rss09x", 1),
        ("<rss version='0.92'><channel><title>T</title></channel><item/><item/></rss>", "rss09x", 2),
        ("<rss version='2.0' xmlns='http://backend.userland.com/rss2'><channel><title>T</title><item/></channel></rss>", "rss20", 1),
        ("<rss version='2.0' xmlns='http://unknown.example/'><channel><title>T</title><item/></channel></rss>", "rss20", 1),
        (f"<rdf:RDF {RDF} xmlns='http://purl.org/rss/1.0/'><channel><title>T</title></channel><item/></rdf:RDF>", "rss10", 1),
        (f"<rdf:RDF {RDF} xmlns='http://my.netscape.com/rdf/simple/0.9/'><channel><title>T</title></channel><item/></rdf:RDF>", "rss09x", 1),
        (f"<r:RDF {RDF.replace('rdf=', 'r=')} xmlns:x='http://purl.org/rss/1.0/'><x:channel><x:title>T</x:title></x:channel><x:item/></r:RDF>", "rss10", 1),
        (f"<Channel {RDF} xmlns='http://purl.org/net/rss1.1#'><title>T</title><items><item/><item/></items></Channel>", "rss11", 2),
        ("<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry/></feed>", "atom10", 1),
        ("<a:feed xmlns:a='http://www.w3.org/2005/Atom'><a:title>T</a:title><a:entry/></a:feed>", "atom10", 1),
        ("<feed version='0.3' xmlns='http://purl.org/atom/ns#'><title>T</title><entry/></feed>", "atom03", 1),
        ("<feed><title>T</title><entry/></feed>", "atom10", 1),
        ('{"version": "https://jsonfeed.org/version/1", "title": "T", "items": [{"id": 1}]}', "json10", 1),
        ('{"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": []}', "json11", 0),
        (' \n\ufeff<?xml version="1.0"?>\n<rss version="2.0"><channel><title>T</title></channel></rss>junk', "rss20", 0),
    ],
)  # fmt: skip
def test_formats(text: str, format: str, entries: int) -> None:
    feed = feed_of(text)
    assert (feed.format, feed.title, len(feed.entries)) == (Format(format), "T", entries)


def test_a_lone_entry_is_a_feed_of_one() -> None:
    feed = feed_of("<entry xmlns='http://www.w3.org/2005/Atom'><id>1</id><title>A</title></entry>")
    assert [(e.guid, e.title) for e in feed.entries] == [("1", "A")]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("<!DOCTYPE html><html><head><title>x</title></head></html>", "html_page"),
        ("  <HTML><body>x", "html_page"),
        (
            "<?xml version='1.0'?><!DOCTYPE html><html xmlns='http://www.w3.org/1999/xhtml'><body/></html>",
            "html_page",
        ),
        ("<opml version='2.0'><body/></opml>", "not_a_feed"),
        ("plain text", "not_a_feed"),
        ("<a>", "not_a_feed"),
        ("<rss/>", "broken_feed"),
        ('{"a": 1}', "not_a_feed"),
        ("[1]", "not_a_feed"),
        ("{x", "broken_feed"),
        ("\x89PNG\r\n", "not_a_feed"),
    ],
)
def test_what_is_no_feed_is_told_apart(text: str, word: str) -> None:
    with pytest.raises(ParseError) as caught:
        feed_of(text)
    assert caught.value.word == word


def test_limits_come_from_the_settings() -> None:
    limits = Limits.from_settings(Settings(feed_max_items=7, title_max=20, xml_max_depth=9))
    assert (limits.items, limits.title, limits.depth) == (7, 20, 9)


# -- content and summary


@pytest.mark.parametrize(
    ("text", "content", "summary"),
    [
        ("<description>d</description><content:encoded>c</content:encoded>", "c", "d"),
        ("<content:encoded>c</content:encoded><description>d</description>", "c", "d"),
        ("<content:encoded><![CDATA[]]></content:encoded><description>d</description>", "", "d"),
        ("<description>a <b>bold</b> word &lt;br&gt;</description>", "", "a <b>bold</b> word <br>"),
        ("<description>3 &lt; 4 <i>x</i></description>", "", "3 &lt; 4 <i>x</i>"),
        ("<media:description>caption</media:description><description>d</description>", "", "d"),
        (
            "<media:group><media:description>a &lt; b\nc</media:description></media:group>",
            "",
            "a &lt; b<br>\nc",
        ),
        ("<itunes:summary>s</itunes:summary>", "", "s"),
        ("<itunes:subtitle>sub</itunes:subtitle><itunes:summary>s</itunes:summary>", "", "s"),
        ("<description>x&#151;y</description>", "", "x—y"),
        ("<atom:summary type='text'>a &lt;b&gt;</atom:summary>", "", "a &lt;b&gt;"),
    ],
)
def test_rss_content(text: str, content: str, summary: str) -> None:
    found = item(text)
    assert (found.content, found.summary) == (content, summary)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Abstract: for all $n<m$ we show the rest", "Abstract: for all $n&lt;m$ we show the rest"),
        ("Use Map<String, Integer> and List<Foo>", "Use Map&lt;String, Integer&gt; and List&lt;Foo&gt;"),
        ("Jane Roe <jane@example.org> wrote", "Jane Roe &lt;jane@example.org&gt; wrote"),
        ("see <ftp://e.org/>", "see &lt;ftp://e.org/&gt;"),
        ("<p>We have $a<b$ and then</p>", "<p>We have $a&lt;b$ and then</p>"),
        ("a<b", "a&lt;b"),
        (
            "<p>$a<b$ of <jane@example.org>; Map<K, V></p>",
            "<p>$a&lt;b$ of &lt;jane@example.org&gt;; Map&lt;K, V&gt;</p>",
        ),
        ("a<b<c", "a&lt;b&lt;c"),
        ("<x-foo>a</x-foo> <x-bar>b", "a b"),
        ("<o:p>a</o:p> b<v:shape> c", "a b c"),
        ("<unknown>y</unknown> <other/><clear>$z", "y &lt;clear&gt;$z"),
        ("<bgsound src='x'>a <SPAN>b</SPAN> <Center>c</Center>", "a <span>b</span> <div>c</div>"),
        ("<svg><script>a<c$</script></svg>a <!-- <foo> -->", "a "),
        ("<a title='List<String>'>x</a>", None),
    ],
)
def test_what_is_no_tag_is_text(text: str, shown: str | None) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    for found in (
        item(f"<description>{escaped}</description>"),
        entry(f"<summary type='html'>{escaped}</summary>"),
    ):
        clean = sanitize(found.summary, URL)
        assert clean == shown if shown else 'title="List&lt;String&gt;"' in clean


WRAPPED = """
In this episode two people who have known each other for a while talk
about what happened when the machine in the cellar stopped, and who it

was that started it again: AT&amp;amp;T.
- a man
* a woman
1. a cat
(1:02:03) the end, which took rather longer than anybody had expected
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Line one…\n\n00:00 Intro\n12:34 Main topic", ["Line one…", "", "00:00 Intro", "12:34 Main topic"]),
        (" One \n two\r\n\n\n three ", ["One", "two", "", "three"]),
        ("\n  One two\n    three\n\n  four\n  - five", ["One two\nthree", "", "four", "- five"]),
        ("One\n    two\n     three", ["One\n    two\n     three"]),
        ("One n&lt;m\ntwo &amp;lt; three", ["One n&lt;m", "two &lt; three"]),
        ("x" * 200 + "\n" + "y " * 90, ["x" * 200, ("y " * 90).strip()]),
        ("One\n&lt;p&gt;two", ["One\n<p>two"]),
        ("One &lt;i&gt;two&lt;/i&gt;\nthree", ["One <i>two</i>\nthree"]),
        (
            WRAPPED,
            [
                "In this episode two people who have known each other for a while talk\n"
                "about what happened when the machine in the cellar stopped, and who it",
                "", "was that started it again: AT&amp;T.", "- a man", "* a woman", "1. a cat",
                "(1:02:03) the end, which took rather longer than anybody had expected",
            ],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["description", "itunes:summary"])
def test_plain_text_keeps_its_line_breaks(name: str, text: str, lines: list[str]) -> None:
    assert item(f"<{name}>{text}</{name}>").summary.split("<br>\n") == lines


def test_content_in_plain_text_is_what_its_description_is() -> None:
    """PeerTube writes what a film is about into both."""
    found = item("<description>One\ntwo</description><content:encoded>One\ntwo</content:encoded>")
    assert found.content == found.summary == "One<br>\ntwo"


DIV = '<div xmlns="http://www.w3.org/1999/xhtml">'


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<content type='html'>&lt;p&gt;x&lt;/p&gt;</content>", "<p>x</p>"),
        ("<content type='text'>a &lt; b</content>", "a &lt; b"),
        ("<content>a &amp; b</content>", "a &amp; b"),
        (f"<content type='xhtml'>{DIV}<p>a &lt; b<br/>c</p></div></content>", "<p>a &lt; b<br>c</p>"),
        (f"<content type='xhtml'>{DIV}<p>a</p></div> tail</content>", "<div><p>a</p></div> tail"),
        ("<content type='xhtml'><h:div xmlns:h='http://www.w3.org/1999/xhtml'><h:p>a</h:p></h:div></content>", "<p>a</p>"),
        (f"<content type='xhtml'>{DIV}<p title='a&gt;b'></p><img src='x'/></div></content>", '<p title="a&gt;b"></p><img src="x">'),
        ("<content type='text/plain'>x</content>", "x"),
        ("<content type='text/html' mode='escaped'>&lt;i&gt;x&lt;/i&gt;</content>", "<i>x</i>"),
        ("<content type='text/html' mode='base64'>PGk+eDwvaT4=</content>", "<i>x</i>"),
        ("<content type='image/png'>aGFsbG8=</content>", ""),
        ("<content type='CDATA'><![CDATA[<p>Hello <b>x</b></p>]]></content>", "<p>Hello <b>x</b></p>"),
        ("<content type='escaped'>&lt;p&gt;x&lt;/p&gt;</content>", "<p>x</p>"),
        ("<content type='htm'>a &lt;br&gt; b</content>", "a <br> b"),
        ("<content type='escaped'>caf&amp;eacute;</content>", "caf&eacute;"),
        ("<content type='markdown'>a *word*\n1 &lt; 2</content>", "a *word*<br>\n1 &lt; 2"),
        ("<content type='HTML'>&lt;p&gt;x&lt;/p&gt;</content>", "<p>x</p>"),
        ("<content type='Text'>a &lt; b</content>", "a &lt; b"),
        ("<content type='text/html; charset=utf-8'>&lt;p&gt;x&lt;/p&gt;</content>", "<p>x</p>"),
        ("<content type='text/plain;charset=utf-8'>a &lt;b&gt; c</content>", "a &lt;b&gt; c"),
        ("<content Type='html'>&lt;i&gt;x&lt;/i&gt;</content>", "<i>x</i>"),
        ("<content type='application/octet-stream'>&lt;p&gt;x&lt;/p&gt;</content>", "<p>x</p>"),
        ("<content type='application/octet-stream'>PHA+eDwvcD4=</content>", "<p>x</p>"),
        ("<content type='application/zip'>Hello123</content>", "Hello123"),
        ("<content type='image/png'>&lt;img src='x'&gt; a drawing</content>", "<img src='x'> a drawing"),
        ("<content type='text/html' mode='Base64'>PGk+eDwvaT4=</content>", "<i>x</i>"),
        ("<content type='html' mode='base64'>PGk+eDwvaT4=</content>", "<i>x</i>"),
        ("<content type='text' mode='base64'>YSA8IGI=</content>", "a &lt; b"),
        ("<content type='html'>&lt;p&gt;a <b>b</b> c&lt;/p&gt;</content>", "<p>a <b>b</b> c</p>"),
        ("<content>&lt;h2 id='a'&gt;H&lt;/h2&gt;&lt;p&gt;x &amp;lt; y&lt;/p&gt;\n</content>", "<h2 id='a'>H</h2><p>x &lt; y</p>"),
        ("<content type='text'>&lt;div&gt;x&lt;/div&gt;</content>", "<div>x</div>"),
        ("<content>Use &lt;p&gt;x&lt;/p&gt;</content>", "Use &lt;p&gt;x&lt;/p&gt;"),
        ("<content>&lt;p&gt; begins a paragraph</content>", "&lt;p&gt; begins a paragraph"),
        ("<content>&lt;b&gt;x&lt;/b&gt;</content>", "&lt;b&gt;x&lt;/b&gt;"),
        ("<body>&lt;p&gt;x&lt;/p&gt;</body>", "<p>x</p>"),
        ("<content type='video/mp4' src='http://e.org/v.mp4'/>", ""),
        ("<content type='text'>t</content><content type='html'>h</content>", "h"),
    ],
)  # fmt: skip
def test_atom_content(text: str, content: str) -> None:
    assert entry(text).content.replace("a>b", "a&gt;b") == content


@pytest.mark.parametrize("kind", ["markdown", "CDATA", "Text", "text/x-markdown", "application/x"])
def test_a_title_of_any_type_is_kept(kind: str) -> None:
    feed = atom(f"<title type='{kind}'>A *word*</title>", f"<title type='{kind}'>My *notes*</title>")
    assert (feed.title, feed.entries[0].title) == ("My *notes*", "A *word*")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<body>&lt;p&gt;x &lt;a href='/y'&gt;y&lt;/a&gt;&lt;/p&gt;</body>", "<p>x <a href='/y'>y</a></p>"),
        ("<body><p>x</p></body>", "<p>x</p>"),
        ("<body>one\ntwo</body>", "one<br>\ntwo"),
        ("<body>b</body><content:encoded>c</content:encoded>", "c"),
        ("<content:encoded>c</content:encoded><body>b</body>", "c"),
        ("<xhtml:body xmlns:xhtml='http://www.w3.org/1999/xhtml'>&lt;p&gt;x&lt;/p&gt;</xhtml:body>", "<p>x</p>"),
        ("<fulltext>&lt;p&gt;x&lt;/p&gt;</fulltext>", "<p>x</p>"),
        ("<yandex:full-text xmlns:yandex='http://news.yandex.ru'>&lt;p&gt;x&lt;/p&gt;</yandex:full-text>", "<p>x</p>"),
    ],
)  # fmt: skip
def test_the_body_of_an_item_is_its_content(text: str, content: str) -> None:
    assert item(f"<description>d</description>{text}").content == content


@pytest.mark.parametrize(
    ("item", "content"),
    [
        ({"content_text": "<p>x</p>\n<p>y</p>"}, "<p>x</p>\n<p>y</p>"),
        ({"content_text": "Use <p> and </p>"}, "Use &lt;p&gt; and &lt;/p&gt;"),
    ],
)
def test_json_text_that_is_html_is_html(item: dict[str, str], content: str) -> None:
    assert feed_of(json.dumps({"title": "T", "items": [{"id": "1", **item}]})).entries[0].content == content


ROCKET = "&#55357;&#56960;"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (ROCKET, "🚀"),
        ("&#xD83D;&#XDE80;", "🚀"),
        ("&#xd83d;&#56960;", "🚀"),
        (ROCKET.replace("&", "&amp;"), "&#128640;"),
        (f"<![CDATA[{ROCKET}]]>", "&#128640;"),
        (f"a{ROCKET}{ROCKET}&#55357;b&#56960;c", "a🚀🚀bc"),
        ("&#55357;x&#56960;", "x"),
        ("&amp;#55357;x", "x"),
        ("&#55000;&#xD55C;", "훘한"),
        (f"&#55000;{ROCKET}", "훘🚀"),
        ("a#55357;&amp;amp;#55357;", "a#55357;&amp;#55357;"),
    ],
)
def test_references_to_halves_of_a_character_are_joined(text: str, shown: str) -> None:
    assert item(f"<description>{text}</description>").summary == shown


def test_halves_are_joined_in_titles_attributes_and_json() -> None:
    found = item(f"<title>Rocket {ROCKET} day</title><category text='{ROCKET}'/>")
    assert (found.title, found.categories) == ("Rocket 🚀 day", ("🚀",))
    for mark in ("&", "\\u0026"):
        text = (
            f"""{{"title": "T", "items": [{{"id": "1", "content_html": "{ROCKET.replace("&", mark)}"}}]}}"""
        )
        assert feed_of(text).entries[0].content == "&#128640;"


DECLARED = """<!DOCTYPE rss [
<!-- <!ENTITY firm "no"> --> <!ENTITY firm "Baker &amp; Sons"><!ENTITY firm 'second'>
<!ENTITY home 'http://example.org/'> <!ENTITY eacute "&#233;"><!ENTITY both "&firm; of &home;">
<!ENTITY quote 'say "yes" > no'> <!ENTITY markup "<b>x</b>"> <!ENTITY self "&self;"> <!ENTITY amp "no">
<!ENTITY one "&both;!"><!ENTITY two "&one;!"> <!ENTITY file SYSTEM "file:///etc/passwd">
]>"""


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("News of &firm;", "News of Baker & Sons"),
        ("caf&eacute;", "café"),
        ("&both;", "Baker & Sons of http://example.org/"),
        ("&one;", "Baker & Sons of http://example.org/!"),
        ("&two;", "&two;"),
        ("&self;", "&self;"),
        ("&quote;", 'say "yes" > no'),
        ("&markup;", "&markup;"),
        ("&file;", "&file;"),
        ("a &amp; b", "a & b"),
        ("<![CDATA[&firm;]]>", "&firm;"),
    ],
)
def test_entities_of_the_document_are_expanded(text: str, title: str) -> None:
    feed = feed_of(f"{DECLARED}<rss version='2.0'><channel><title>{text}</title></channel></rss>")
    assert feed.title == title


def test_entities_are_expanded_in_attributes() -> None:
    feed = feed_of(
        f"{DECLARED}<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='&home;1'/><category term='&quote;'/></entry></feed>"
    )
    assert (feed.entries[0].url, feed.entries[0].categories) == ("http://example.org/1", ('say "yes" > no',))
    assert feed.parser is ParserPath.STRICT


@pytest.mark.parametrize("prefix", ["rss", "x", "ns0"])
@pytest.mark.parametrize("version", ["version='2.0'", "version=2.0"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_prefix_that_nothing_declares_is_that_of_the_format(prefix: str, version: str, whole: bool) -> None:
    name = f"{prefix}:rss" if whole else "rss"
    feed = feed_of(
        f"<{name} {version}><{prefix}:channel><{prefix}:title>Garden notes</{prefix}:title><{prefix}:item>"
        f"<{prefix}:title>First frost</{prefix}:title><{prefix}:link>http://example.org/1</{prefix}:link>"
        f"</{prefix}:item></{prefix}:channel></{name}>"
    )
    assert feed.title == "Garden notes"
    assert [(e.title, e.url) for e in feed.entries] == [("First frost", "http://example.org/1")]


@pytest.mark.parametrize("head", ["<a:feed>", "<a:feed x=y>", "<zz:feed>", "<zz:feed x=y>"])
def test_atom_may_have_such_a_prefix_too(head: str) -> None:
    p = head[1:].partition(":")[0]
    feed = feed_of(
        f"{head}<{p}:title>T</{p}:title><{p}:entry><{p}:id>1</{p}:id><{p}:title>A</{p}:title></{p}:entry></{p}:feed>"
    )
    assert (feed.title, [(e.guid, e.title) for e in feed.entries]) == ("T", [("1", "A")])


@pytest.mark.parametrize(
    "text", ["<rss x=y><foo>bar</foo></rss>", "<rss x=y><channel></channel></rss>", "<feed x=y/>"]
)
def test_the_slow_path_refuses_a_feed_without_title_and_entries(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        feed_of(text)
    assert caught.value.word == "broken_feed"


def test_no_namespace_of_the_feed_shows_in_content() -> None:
    found = entry(
        f"<content type='xhtml'>{DIV}<p>a</p>b</div></content><summary type='xhtml'><b>x</b></summary>"
    )
    assert "xmlns" not in found.content + found.summary


# -- titles


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title>a &amp;amp; b</title>", "a & b"),
        ("<title>a &amp;amp;#8217; b</title>", "a ’ b"),
        ("<title>&lt;b&gt;bold&lt;/b&gt; &amp;lt;tag&amp;gt;</title>", "bold <tag>"),
        ("<title><![CDATA[ a\n b ]]></title>", "a b"),
        ("<title>AT&amp;T</title>", "AT&T"),
        ("<title>it&#146;s &#x97; x</title>", "it’s — x"),
        ("<dc:title>dc</dc:title>", "dc"),
        ("<media:title>m</media:title><title>t</title>", "t"),
        ("<media:title>m</media:title>", "m"),
        ("<title/><itunes:title>i</itunes:title>", "i"),
    ],
)
def test_rss_titles_are_plain_text(text: str, title: str) -> None:
    assert item(text).title == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title>List&lt;String> and &lt;div></title>", "List<String> and <div>"),
        ("<title type='html'>&lt;b>x&lt;/b> &amp;amp; y</title>", "x & y"),
        (f"<title type='xhtml'>{DIV}<b>x</b> &lt;y&gt;</div></title>", "x <y>"),
        ("<title type='text'>a &amp;#8217; b</title>", "a ’ b"),
    ],
)
def test_atom_titles_are_plain_text(text: str, title: str) -> None:
    assert entry(text).title == title


def test_long_titles_are_cut() -> None:
    assert len(item(f"<title>{'x' * 5000}</title>").title) == 1024


def test_utf8_encoded_twice_is_undone_where_the_whole_feed_shows_it() -> None:
    text = "<rss><channel><title>Zürich</title><item><title>Größe „x“</title></item></channel></rss>"
    broken = text.encode().decode("cp1252", "replace").replace("\ufffd", "\x9d").encode()
    assert feed_of(broken).title == "Zürich"
    about = text.replace("Größe", "Ã©" + "ö" * 60)
    assert feed_of(about).entries[0].title.startswith("Ã©ö")


# -- links, guids, addresses


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("<link>http://e.org/1</link>", "http://e.org/1"),
        ("<link> http://e.org/a b </link>", "http://e.org/a%20b"),
        ("<link>1.html</link>", "http://example.org/dir/1.html"),
        ("<link>/1</link>", "http://example.org/1"),
        ("<link>//cdn.example/1</link>", "http://cdn.example/1"),
        ("<guid>http://e.org/1</guid>", "http://e.org/1"),
        ("<guid isPermaLink='true'>p/1</guid>", "http://example.org/dir/p/1"),
        ("<guid isPermaLink='false'>p/1</guid>", None),
        ("<guid>p/1</guid>", None),
        (
            "<link>http://e.org/1</link><feedburner:origLink>http://o.org/1</feedburner:origLink>",
            "http://o.org/1",
        ),
        ("<atom:link href='http://e.org/2'/><link>http://e.org/1</link>", "http://e.org/1"),
        ("<atom:link href='http://e.org/2'/>", "http://e.org/2"),
        ("<link>javascript:alert(1)</link>", None),
        ("<link>mailto:a@b</link>", None),
        ("<link>http://[broken</link>", "http://[broken"),
        ("<link xml:base='http://b.org/x/'>1</link>", "http://b.org/x/1"),
    ],
)
def test_rss_links(text: str, url: str | None) -> None:
    assert item(text).url == url


@pytest.mark.parametrize(
    "original", ["(none)", "not an address", "http://", "x http://e.org/", "mailto:a@e.org"]
)
def test_an_original_link_that_is_none_counts_for_nothing(original: str) -> None:
    found = item(
        f"<link>http://e.org/a</link><enclosure url='http://e.org/a.mp3'/><feedburner:origLink>{original}"
        f"</feedburner:origLink><feedburner:origEnclosureLink>{original}</feedburner:origEnclosureLink>"
    )
    assert (found.url, [file.url for file in found.enclosures]) == ("http://e.org/a", ["http://e.org/a.mp3"])


def test_an_empty_reference_is_the_base_that_the_feed_states() -> None:
    base = "xml:base='http://e.org/a'"
    assert entry(f"<link href='' {base}/>").url == "http://e.org/a"
    assert item(f"<link {base}/>").url == "http://e.org/a"
    assert atom(f"</entry><entry {base}><link href=''/>").entries[1].url == "http://e.org/a"
    assert entry("<link href=''/>").url is None
    assert item("<link/>").url is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("<link rel='self' href='/s'/><link rel='alternate' href='/a'/>", "http://example.org/a"),
        ("<link rel='alternate' type='application/json' href='/j'/><link type='text/html' href='/h'/>", "http://example.org/h"),
        ("<link rel='enclosure' href='/e'/><link rel='replies' href='/r'/>", None),
        ("<link rel='via' href='/v'/>", "http://example.org/v"),
        ("<link rel='http://www.iana.org/assignments/relation/alternate' href='/a'/>", "http://example.org/a"),
        ("<id>http://e.org/1</id>", "http://e.org/1"),
        ("<id>tag:e.org,2020:1</id>", None),
        ("<content src='http://e.org/c' type='text/html'/>", "http://e.org/c"),
    ],
)  # fmt: skip
def test_atom_links(text: str, url: str | None) -> None:
    assert entry(text).url == url


def test_xml_base_of_feed_entry_and_content() -> None:
    feed = feed_of(
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://a.org/"><entry xml:base="b/"><link href="1"/>'
        '<content type="html" xml:base="c/">x</content></entry><entry><link href="2"/><summary>s</summary></entry></feed>'
    )
    assert [(e.url, e.base_url) for e in feed.entries] == [
        ("http://a.org/b/1", "http://a.org/b/c/"),
        ("http://a.org/2", "http://a.org/"),
    ]


def test_content_is_relative_to_its_entry() -> None:
    assert item("<link>http://e.org/p/1</link><description>x</description>").base_url == "http://e.org/p/1"
    assert item("<description>x</description>").base_url == URL
    assert (
        item("<link>http://e.org/p/1</link><content:encoded>x</content:encoded>").base_url
        == "http://e.org/p/1"
    )
    assert item("<link>http://e.org/p/1</link><xhtml:body>x</xhtml:body>").base_url == "http://e.org/p/1"
    assert entry("<link href='http://e.org/p/1'/><content>x</content>").base_url == "http://e.org/p/1"


def test_content_of_a_link_blog_is_relative_to_its_own_page() -> None:
    link, text = "<link>https://other.example/article/</link>", "<description>x</description>"
    own = item(link + "<guid isPermaLink='true'>http://example.org/linked/1</guid>" + text)
    assert (own.url, own.base_url) == ("https://other.example/article/", "http://example.org/linked/1")
    for guid in "http://third.example/1", "tag:example.org,2020:1", "urn://example.org/1":
        assert item(f"{link}<guid>{guid}</guid>{text}").base_url == "https://other.example/article/"
    both = item("<link>http://example.org/1</link><guid>http://example.org/?p=1</guid>" + text)
    assert both.base_url == "http://example.org/1"


def test_summaries_have_a_base_of_their_own() -> None:
    summary = "<summary type='html' xml:base='http://z.example/'>s</summary>"
    base = 'xmlns="http://www.w3.org/2005/Atom" xml:base="http://b.example/"'
    content = "<content type='html'>c</content>"
    feed = feed_of(f"<feed {base}><entry>{summary}</entry><entry>{summary}{content}</entry></feed>")
    assert [entry.base_url for entry in feed.entries] == ["http://z.example/", "http://b.example/"]


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("atom/quartzlibrary.com-9fc8ba.xml", "https://quartzlibrary.com/copy/"),
        ("atom/daringfireball.net-df410e.xml", "https://daringfireball.net/2017/05/moore_spy_who_loved_me"),
        (
            "rss/codehollow.com-d0a446.xml",
            "https://codehollow.com/2016/12/export-azure-ratecard-data-csv-csharp-billing-api/",
        ),
    ],
)
def test_footnotes_are_on_the_page_of_their_entry(path: str, page: str) -> None:
    feed = feed_of((corpus.root() / "feeds" / path).read_bytes())
    found = next(e for e in feed.entries if e.url == page)
    notes = re.findall(r'href="([^"]*#[^"]*)"', sanitize(found.content, found.base_url))
    assert [note for note in notes if note.startswith("#at-")]
    assert [note for note in notes if "example.org" in note or "daringfireball.net/#" in note] == []


def test_a_note_at_the_foot_does_not_change_what_is_relative_to_the_base() -> None:
    text = "&lt;a href='#n'&gt;1&lt;/a&gt; &lt;a href='b'&gt;2&lt;/a&gt; &lt;img src='#c'&gt;"
    feed = feed_of(
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://a.org/x/"><entry><link href="p/1"/>'
        f'<content type="html">{text}</content></entry></feed>'
    )
    (found,) = feed.entries
    assert re.findall(r'(?:href|src)="([^"]*)"', sanitize(found.content, found.base_url)) == [
        "http://a.org/x/p/1#n",
        "http://a.org/x/b",
        "http://a.org/x/#c",
    ]


@pytest.mark.parametrize(
    ("text", "guid"),
    [
        ("<guid> a  b </guid>", "a  b"),
        ("<guid isPermaLink='true'>../x?a=1&amp;b=2</guid>", "../x?a=1&b=2"),
        ("<atom:id>i</atom:id><guid>g</guid>", "i"),
        ("<dc:identifier>d</dc:identifier>", "d"),
        ("<guid> </guid>", None),
    ],
)
def test_guids_are_the_raw_text(text: str, guid: str | None) -> None:
    assert item(text).guid == guid


def test_rdf_about_is_the_guid() -> None:
    feed = feed_of(
        f"<rdf:RDF {RDF} {SPACES} xmlns='http://purl.org/rss/1.0/'><item rdf:about='about'>"
        "<dc:identifier>d</dc:identifier></item></rdf:RDF>"
    )
    assert feed.entries[0].guid == "about"


# -- people, dates, categories, files, pictures


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("<author>a@b.org (Ann Lee)</author>", "Ann Lee"),
        ("<author>Ann Lee &lt;a@b.org&gt;</author>", "Ann Lee"),
        ("<author>Ann Lee (mailto:a@b.org)</author>", "Ann Lee"),
        ("<author>a@b.org</author>", "a@b.org"),
        ("<author>a@b.org (Foo (Bar))</author>", "Foo (Bar)"),
        ("<author>Foo (Bar) (a@b.org)</author>", "Foo (Bar)"),
        (
            "<dc:creator>Jun Liu</dc:creator><dc:creator>Jun Li</dc:creator><dc:creator>Wei Wang</dc:creator>"
            "<dc:creator>Jun Li</dc:creator>",
            "Jun Liu, Jun Li, Wei Wang",
        ),
        ("<dc:creator>Liu, Jun</dc:creator><dc:creator>Liu, Jun</dc:creator>", "Liu, Jun"),
        ("<author>a@b.org (Ann)</author><dc:creator>Bob</dc:creator>", "Bob"),
        ("<dc:creator>Bob</dc:creator><dc:creator>Eve</dc:creator>", "Bob, Eve"),
        ("<itunes:author>Pod</itunes:author>", "Pod"),
        ("<atom:author><atom:name>N</atom:name><atom:email>e@f</atom:email></atom:author>", "N"),
        ("<author><name>N</name></author>", "N"),
        ("<dc:creator>&lt;b&gt;N&lt;/b&gt;</dc:creator>", "N"),
    ],
)
def test_authors(text: str, author: str) -> None:
    assert item(text).author == author


def test_entries_without_author_have_that_of_the_feed() -> None:
    feed = atom("<title>x</title>", "<author><name>Ann</name></author><author><name>Bob</name></author>")
    assert feed.entries[0].author == "Ann, Bob"
    names = "".join(f"<author><name>{name}</name></author>" for name in ("Anna", "Ann", "Anna"))
    assert atom("<title>x</title>", names).entries[0].author == "Anna, Ann"


def test_dates() -> None:
    found = item("<dc:date>2020-01-01</dc:date><pubDate>Thu, 02 Jan 2020 00:00:00 GMT</pubDate>")
    assert found.published == dt.datetime(2020, 1, 2, tzinfo=dt.UTC)
    assert found.updated is None
    found = entry("<updated>2020-01-03T00:00:00Z</updated><published>9999-01-01T00:00:00Z</published>")
    assert found.updated == dt.datetime(2020, 1, 3, tzinfo=dt.UTC)
    assert found.published == dt.datetime(9999, 1, 1, tzinfo=dt.UTC), "as claimed; the pull clamps"


@pytest.mark.parametrize(
    "text",
    [
        "<pubDate>Fri, 15 Nov 2019 10:00:00 +0800</pubDate>",
        "<date>2019-11-15T02:00:00Z</date>",
        "<published>2019-11-15T02:00:00Z</published><pubDate>Fri, 15 Nov 2020 10:00:00 +0800</pubDate>",
        "<pubDate>Fri, 15 Nov 2020 10:00:00 +0800</pubDate><published>2019-11-15T02:00:00Z</published>",
    ],
)
def test_atom_entries_may_have_the_dates_of_rss(text: str) -> None:
    assert entry(text).published == dt.datetime(2019, 11, 15, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize("name", ["issued", "created", "published"])
def test_rss_items_may_have_the_dates_of_atom(name: str) -> None:
    assert item(f"<{name}>2019-11-15T02:00:00Z</{name}>").published == dt.datetime(
        2019, 11, 15, 2, tzinfo=dt.UTC
    )
    assert item("<modified>2019-11-15T02:00:00Z</modified>").updated == dt.datetime(
        2019, 11, 15, 2, tzinfo=dt.UTC
    )


@pytest.mark.parametrize(
    ("dates", "hour"),
    [
        ({"pubDate": "Fri, 15 Nov 2019 02:00:00 GMT"}, 2),
        ({"published": 1573783200}, 2),
        ({"date_published": "2019-11-15T02:00:00Z", "date": "2019-11-15T03:00:00Z"}, 2),
    ],
)
def test_json_items_may_have_the_dates_of_other_formats(dates: dict[str, object], hour: int) -> None:
    feed = feed_of(
        json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", **dates}]})
    )
    assert feed.entries[0].published == dt.datetime(2019, 11, 15, hour, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "date",
    [
        '<time datetime="2019-05-03T19:21:28Z">Fri, 05/03/2019 - 15:21</time>',
        '\n <time datetime="2019-05-03T19:21:28Z" class="datetime"/>\n',
        "<time>Fri, 03 May 2019 15:21:28 -0400</time>",
        '<span><time datetime="2019-05-03T21:21:28+0200">a while ago</time></span>',
    ],
)
def test_dates_in_the_element_of_a_time(date: str) -> None:
    assert item(f"<pubDate>{date}</pubDate>").published == dt.datetime(2019, 5, 3, 19, 21, 28, tzinfo=dt.UTC)


REPLIES = (
    "<comments>/item?id=1</comments><wfw:commentRss>/item/1/feed"
    "</wfw:commentRss><slash:comments>12</slash:comments>"
)
THR = "xmlns:thr='http://purl.org/syndication/thread/1.0'"


@pytest.mark.parametrize(
    ("text", "replies"),
    [
        (REPLIES, Replies("http://example.org/item?id=1", "http://example.org/item/1/feed", 12)),
        ("<comments>http://e.org/1</comments>", Replies("http://e.org/1")),
        ("<comments>12</comments>", None),
        ("<comments>javascript:alert(1)</comments>", None),
        ("<comments/>", None),
        ("<comments>http://e.org/1</comments><slash:comments>many</slash:comments>", Replies("http://e.org/1")),
    ],
)  # fmt: skip
def test_comments_of_items(text: str, replies: Replies | None) -> None:
    assert item(text).replies == replies


@pytest.mark.parametrize(
    ("text", "replies"),
    [
        (f"<link rel='replies' type='text/html' href='/c' {THR} thr:count='3'/>", Replies("http://example.org/c", None, 3)),
        ("<link rel='replies' type='application/atom+xml' href='/f'/><link rel='replies' href='/c'/>", Replies("http://example.org/c", "http://example.org/f")),
        (f"<link rel='replies' href='c' xml:base='http://e.org/a/'/><thr:total {THR}>4</thr:total>", Replies("http://e.org/a/c", None, 4)),
        ("<comments>/c</comments>", Replies("http://example.org/c")),
    ],
)  # fmt: skip
def test_comments_of_atom_entries(text: str, replies: Replies) -> None:
    assert entry(text).replies == replies


def test_comments_of_rdf_and_json_items() -> None:
    spaces = f"{RDF} xmlns='http://purl.org/rss/1.0/' xmlns:slash='http://purl.org/rss/1.0/modules/slash/'"
    body = "<item><comments>/c</comments><slash:comments>5</slash:comments></item>"
    (found,) = feed_of(f"<rdf:RDF {spaces}><channel><title>T</title></channel>{body}</rdf:RDF>").entries
    assert found.replies == Replies("http://example.org/c", None, 5)
    (found,) = feed_of('{"title": "T", "items": [{"id": "1", "comments_url": "/c"}]}').entries
    assert found.replies == Replies("http://example.org/c")


PODCAST = "xmlns:podcast='https://podcastindex.org/namespace/1.0'"


def test_files_of_the_podcast_namespace() -> None:
    found = item(
        "<enclosure url='/e.mp3' type='audio/mpeg' length='5'/><itunes:duration>60</itunes:duration>"
        f"<podcast:alternateEnclosure {PODCAST} type='audio/opus' length='3' title='Small &amp;amp; good'>"
        "<podcast:source uri='/e.opus'/><podcast:source uri='ipfs://x'/></podcast:alternateEnclosure>"
        f"<podcast:transcript {PODCAST} url='/e.vtt' type='text/vtt'/>"
        f"<podcast:chapters {PODCAST} url='/e.json' type='application/json+chapters'/>"
        f"<podcast:transcript {PODCAST} url='javascript:x' type='text/vtt'/>"
    )
    assert found.enclosures == (
        Enclosure("http://example.org/e.mp3", "audio/mpeg", 5, duration=60),
        Enclosure("http://example.org/e.opus", "audio/opus", 3, "Small & good", role=FileRole.ALTERNATE),
        Enclosure("http://example.org/e.vtt", "text/vtt", role=FileRole.TRANSCRIPT),
        Enclosure("http://example.org/e.json", "application/json+chapters", role=FileRole.CHAPTERS),
    )


PSC = "xmlns:psc='http://podlove.org/simple-chapters'"
FILE = "<enclosure url='/e.mp3' type='audio/mpeg' length='5'/>"


def chapters(*rows: tuple[str, str]) -> str:
    inside = "".join(f"<psc:chapter start='{start}' title='{title}'/>" for start, title in rows)
    return f"<psc:chapters {PSC} version='1.2'>{inside}</psc:chapters>"


def test_simple_chapters_are_listed_below_the_text() -> None:
    rows = chapters(
        ("0", "Intro"), ("01:02", "A &lt;b&gt; C"), ("01:02:03.400", "End"), ("x", "No"), ("5", " ")
    )
    expected = "<ul><li>0:00 Intro</li><li>1:02 A &lt;b&gt; C</li><li>1:02:03 End</li></ul>"
    assert item(f"<description>Notes</description>{FILE}{rows}").summary.endswith(expected)
    assert item(f"{FILE}{rows}").content == expected
    encoded = (
        "<content:encoded xmlns:content='http://purl.org/rss/1.0/modules/content/'>&lt;p&gt;Long&lt;/p&gt;"
    )
    both = item(f"<description>Notes</description>{encoded}</content:encoded>{FILE}{rows}")
    assert both.content == f"<p>Long</p>{expected}"
    assert both.summary == "Notes"


@pytest.mark.parametrize(
    "body",
    [
        f"<description>At 1:02 it goes on</description>{FILE}{chapters(('0', 'Intro'), ('62', 'Rest'))}",
        f"<description>Notes</description>{chapters(('0', 'Intro'), ('62', 'Rest'))}",
        f"<description>Notes</description>{FILE}{chapters()}",
    ],
)
def test_chapters_are_listed_once_and_only_of_recordings(body: str) -> None:
    assert "<ul>" not in item(body).summary


@pytest.mark.parametrize(
    ("channel", "is_unlisted"),
    [
        ("<itunes:block>Yes</itunes:block>", True),
        ("<itunes:block> yes </itunes:block>", True),
        ("<itunes:block>no</itunes:block>", False),
        ("<itunes:block/>", False),
        (f"<podcast:block {PODCAST}>yes</podcast:block>", True),
        (f"<podcast:block {PODCAST} id='acast'>yes</podcast:block>", False),
        ("<googleplay:block>yes</googleplay:block>", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("broken", ["", "<x y=z></x>"])
def test_a_feed_may_ask_to_be_in_no_directory(channel: str, is_unlisted: bool, broken: str) -> None:
    if not broken or "podcast:block" not in channel:
        assert rss(channel=f"<title>T</title>{broken}{channel}").unlisted is is_unlisted


@pytest.mark.parametrize("broken", ["", "<x y=z></x>"])
def test_a_feed_names_its_new_address(broken: str) -> None:
    def read(address: str) -> str | None:
        return rss(
            channel=f"<title>T</title>{broken}<itunes:new-feed-url>{address}</itunes:new-feed-url>"
        ).new_url

    assert read(" https://new.example.org/feed.xml ") == "https://new.example.org/feed.xml"
    assert [read(other) for other in ("", "(none)", "/new.xml", "feed://x", "javascript:x")] == [None] * 5


def test_a_genuine_feed_of_drupal_has_dates() -> None:
    body = (corpus.root() / "feeds/rss/fda.gov-217595.xml").read_bytes()
    found = parse(body, url="https://www.fda.gov/feed").entries
    assert [entry.published is not None for entry in found] == [True] * 20
    assert found[0].published == dt.datetime(2019, 5, 3, 19, 21, 28, tzinfo=dt.UTC)


def test_categories() -> None:
    found = item(
        "<category>a</category><category>a</category><dc:subject>b</dc:subject><itunes:keywords>c, d</itunes:keywords>"
    )
    assert found.categories == ("a", "b", "c", "d")
    assert entry("<category term='t' label='L'/><category term='u'/>").categories == ("L", "u")


def test_enclosures() -> None:
    found = item(
        "<enclosure url='/1.mp3' type='audio/MPEG' length='12'/><enclosure url='http://e.org/2' length='?'/>"
        "<enclosure url='/1.mp3'/><enclosure/>"
        "<media:content url='/3.mp4' type='video/mp4' fileSize='7'/><media:content url='/p' type='text/html'/>"
    )
    assert found.enclosures == (
        Enclosure("http://example.org/1.mp3", "audio/mpeg", 12),
        Enclosure("http://e.org/2", None, None),
        Enclosure("http://example.org/3.mp4", "video/mp4", 7),
    )
    found = entry("<link rel='enclosure' href='/a' type='audio/ogg' length='-1'/>")
    assert found.enclosures == (Enclosure("http://example.org/a", "audio/ogg", None),)
    old = feed_of((corpus.root() / "feeds/atom/cheapstingybargains.com-e1b6ab.xml").read_bytes())
    assert [file.type for file in old.entries[1].enclosures] == ["audio/mpeg"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1:02:33", 3753),
        ("32:05", 1925),
        (" 1925 ", 1925),
        ("3661,5", 3661),
        ("00:09:59.5", 599),
        ("90:00", 5400),
        ("0", None),
        ("00:00:00", None),
        ("1925000", None),
        ("-5", None),
        ("1:2:3:4", None),
        ("an hour", None),
        ("٣٢:٠٥", None),
        ("9" * 5000, None),
    ],
)
def test_durations(text: str, seconds: int | None) -> None:
    sound = "<enclosure url='/1.mp3' type='audio/mpeg'/>"
    picture = "<enclosure url='/1.jpg' type='image/jpeg'/><enclosure url='/1.pdf' type='application/pdf'/>"
    told = f"<itunes:duration>{text}</itunes:duration>"
    for found in item(told + picture + sound), item(picture + sound + told):
        assert [file.duration for file in found.enclosures] == [None, None, seconds]
    assert item(told).enclosures == ()


@pytest.mark.parametrize(
    ("file", "is_recording"),
    [
        ("url='/a' type='mp3'", True),
        ("url='/a' type='x-audio/mp3'", True),
        ("url='/a.m4a?x=1' type='application/force-download'", True),
        ("url='/a' type='application/octet-stream'", True),
        ("url='/a.MP3'", True),
        ("url='/a'", True),
        ("url='/a.jpg'", False),
        ("url='/a.pdf' type='application/pdf'", False),
        ("url='/a.mp3.torrent' type='application/x-bittorrent'", False),
    ],
)
def test_durations_are_of_what_plays(file: str, is_recording: bool) -> None:
    told = "<itunes:duration>9</itunes:duration><itunes:duration/>"
    assert item(f"<enclosure {file}/>{told}").enclosures[0].duration == (9 if is_recording else None)
    before = item(f"<enclosure url='/notes'/><enclosure url='/cover'/><enclosure {file}/>{told}")
    if "type" in file and "octet" not in file:
        assert [f.duration for f in before.enclosures][1:] == [None, 9 if is_recording else None]


def test_durations_of_single_files() -> None:
    """What a file says of itself counts; what the entry says is about its first recording."""
    short = "<media:content url='/1.mp4' type='video/mp4' duration='61'/>"
    long = "<enclosure url='/2.mp3' type='audio/mpeg'/><media:content url='/2.mp3' medium='audio' duration='3600'/>"
    told = "<itunes:duration>99</itunes:duration>"
    assert [file.duration for file in item(told + short + long).enclosures] == [61, 3600]
    assert [file.duration for file in item("<enclosure url='/3'/>" + told + short).enclosures] == [None, 61]
    burnt = "<feedburner:origEnclosureLink>http://e.org/4.mp4</feedburner:origEnclosureLink>"
    assert item(short + burnt).enclosures == (Enclosure("http://e.org/4.mp4", "video/mp4", duration=61),)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [(1925, 1925), (61.7, 61), ("61", 61), (True, None), (-1, None), (1e300, None), (None, None), ([], None)],
)
def test_durations_of_attachments(told: object, seconds: int | None) -> None:
    file = {"url": "/a.mp3", "mime_type": "audio/mpeg", "duration_in_seconds": told}
    items = [{"id": "1", "attachments": [file]}]
    found = feed_of(json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": items}))
    assert [file.duration for file in found.entries[0].enclosures] == [seconds]


def test_durations_are_read_on_each_path() -> None:
    """A genuine podcast, whole and broken in two ways."""
    body = (corpus.root() / "feeds/rss/fallthrough.fm-726143.xml").read_bytes()
    broken = body.replace(b"</title>", b" &  </title>")
    lost = body.replace(b"<itunes:duration>", b"<enclosure url=x.mp3><itunes:duration>")
    paths = ParserPath.STRICT, ParserPath.REPAIRED, ParserPath.FEEDPARSER
    for markup, path in zip((body, broken, lost), paths, strict=True):
        found = feed_of(markup)
        assert found.parser is path
        seconds = [entry.enclosures[0].duration for entry in found.entries]
        assert (len(seconds), seconds[0], None in seconds) == (64, 3380, False)


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("<media:thumbnail url='/t.jpg'/>", "/t.jpg"),
        ("<media:content url='/a.jpg' medium='image'/><media:thumbnail url='/t.jpg'/>", "/a.jpg"),
        ("<media:group><media:content url='/s.jpg' medium='image' width='100'/><media:content url='/l.jpg' medium='image' width='900'/></media:group>", "/l.jpg"),
        ("<media:content url='/v.mp4' type='video/mp4'><media:thumbnail url='/t.jpg'/></media:content>", "/t.jpg"),
        ("<itunes:image href='/i.jpg'/>", "/i.jpg"),
        ("<enclosure url='/e.jpg' type='image/jpeg'/>", "/e.jpg"),
        ("<image><url>/x.jpg</url></image>", "/x.jpg"),
        ("<media:content url='/a.jpg'/>", "/a.jpg"),
        ("<description>&lt;img src='/c.jpg'&gt;</description>", None),
        ("<media:thumbnail url='/face.jpg' width='30' height='30'/>", None),
        ("<media:thumbnail url='/sign.jpg' width='100' height='30'/>", "/sign.jpg"),
        ("<media:content url='https://0.gravatar.com/avatar/abc?s=96' medium='image'/>", None),
    ],
)  # fmt: skip
def test_pictures(text: str, image: str | None) -> None:
    assert item(text).image == (f"http://example.org{image}" if image else None)


def test_pictures_of_their_own_are_files_where_the_text_has_none() -> None:
    one = "<media:content url='/1.jpg' type='image/jpeg' fileSize='7' medium='image'><media:description>A &amp;amp; B</media:description></media:content>"
    two = "<media:content url='/2' medium='image' type=' IMAGE/PNG '/>"
    found = (
        Enclosure("http://example.org/1.jpg", "image/jpeg", 7, "A & B"),
        Enclosure("http://example.org/2", "image/png"),
    )
    assert all(file.is_picture for file in found)
    assert item(one + two).enclosures == found
    assert item("<description>text</description>" + one + two).enclosures == found
    assert item("<description>&lt;IMG src='/1.jpg'&gt;</description>" + one + two).enclosures == ()
    sizes = "<media:content url='/s.jpg' width='140'/><media:content url='/l.jpg' width='460'/>"
    assert item(sizes).enclosures == ()
    for sign in (
        "width='16' height='16' rel='emoji' src='/blobcat.png'",
        "src='/images/core/emoji/15/72x72/1f642.png' alt='x'",
        "src='/x.gif' alt=':)' class='wp-smiley'",
        "height=20 src='/1.png'",
        "src='/count.gif' width='1' height='1'",
    ):
        text = f"<description>&lt;p&gt;Look &lt;img {sign}&gt;</description>"
        assert item(text + one + two).enclosures == found, sign
    for shown in (
        "width='160' height='48%' src='/1.png'",
        "src='/a-film-about-emoji.jpg'",
        "src='/a.jpg?width=20' srcset='/a.jpg?width=800 800w' width='800'",
        "src='/a.jpg' width='5em' alt='set width = 40 in css'",
    ):
        assert item(f"<description>&lt;img {shown}&gt;</description>{one}").enclosures == (), shown
    assert item(f"<media:group>{one}{two}</media:group>").enclosures == ()
    (bare,) = item("<media:content url='/photo/1' medium='image'/>").enclosures
    assert (bare.type, bare.is_picture) == ("image/*", True)
    known = "<enclosure url='/1.jpg' type='image/webp' length='9000'/>"
    assert item(known + one).enclosures == (
        Enclosure("http://example.org/1.jpg", "image/webp", 9000, "A & B"),
    )
    (raw,) = item("<media:content url='/raw' type='image/tiff'/>").enclosures
    assert not raw.is_picture
    pixel = "<description>Text &lt;img src='/p' width='1' height='1'&gt;</description>"
    assert item(pixel + one + two).enclosures == found
    many = "".join(f"<media:content url='/{n}.jpg'/>" for n in range(5000))
    assert len(item(many).enclosures) < 1000


def test_posts_of_mastodon_have_their_pictures_and_what_those_show() -> None:
    body = (corpus.root() / "feeds/rss/mastodon.art-29bf9a.xml").read_bytes()
    first = parse(body, url="https://mastodon.art/@nuclearpasta.rss").entries[0]
    assert [file.type for file in first.enclosures] == ["image/jpeg"] * 4
    assert first.enclosures[0].text == "Raiders ride giant lizards across the desert."
    assert first.image == first.enclosures[0].url


# -- the feed itself


def test_the_head_of_an_rss_feed() -> None:
    feed = rss(
        channel="<title>T &amp;amp; U</title><link>/site</link><description>D</description><language>de-AT</language>"
        "<atom:link rel='self' href='/self'/><atom:link rel='hub' href='http://hub.org/'/><ttl>90</ttl>"
        "<image><title>not this</title><url>/logo.png</url></image><skipHours><hour>0</hour><hour>24</hour>"
        "<hour>5</hour><hour>x</hour></skipHours>"
    )
    assert (feed.title, feed.site_url, feed.description) == ("T & U", "http://example.org/site", "D")
    assert (feed.language, feed.self_url, feed.hub) == ("de-AT", "http://example.org/self", "http://hub.org/")
    assert (feed.ttl_minutes, feed.skip_hours, feed.icon) == (90, {0, 5}, "http://example.org/logo.png")


@pytest.mark.parametrize(
    ("channel", "minutes"),
    [
        ("<sy:updatePeriod> hourly </sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>", 30),
        ("<sy:updatePeriod>daily</sy:updatePeriod>", 1440),
        ("<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>999</sy:updateFrequency>", 1),
        ("<ttl>60</ttl><sy:updatePeriod>daily</sy:updatePeriod>", 60),
        ("<ttl>soon</ttl>", None),
        ("<ttl>-5</ttl>", None),
        ("<ttl>0</ttl>", None),
        ("<ttl>999999999</ttl>", 525600),
    ],
)
def test_how_often_a_feed_changes(channel: str, minutes: int | None) -> None:
    assert rss(channel=channel).ttl_minutes == minutes


def test_the_head_of_an_atom_feed() -> None:
    feed = feed_of(
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="fr"><title type="html">a &amp;amp; b</title>'
        '<subtitle>s</subtitle><link rel="alternate" type="text/html" href="/"/><link rel="self" href="/f"/>'
        "<link rel='hub' href='http://hub.org/'/><icon>/i.ico</icon><logo>/l.png</logo></feed>"
    )
    assert (feed.title, feed.description, feed.language) == ("a & b", "s", "fr")
    assert (feed.site_url, feed.self_url) == ("http://example.org/", "http://example.org/f")
    assert (feed.hub, feed.icon) == ("http://hub.org/", "http://example.org/i.ico")


def test_json_with_raw_line_breaks_is_read() -> None:
    feed = feed_of(
        '{"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [{"id": "1", "content_text": "a\n\tb"}]}'
    )
    assert feed.entries[0].content == "a<br>\n\xa0\xa0\xa0\xa0b"


@pytest.mark.parametrize(
    ("hubs", "hub"),
    [
        ('[{"type": "rssCloud", "url": "http://c/"}, {"type": "WebSub", "url": "http://h/"}]', "http://h/"),
        ('[{"url": "http://h/"}]', "http://h/"),
        ('[{"type": "rssCloud", "url": "http://c/"}]', None),
    ],
)
def test_the_hub_of_a_json_feed_speaks_websub(hubs: str, hub: str | None) -> None:
    assert (
        feed_of(
            '{"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": [], "hubs": ' + hubs + "}"
        ).hub
        == hub
    )


def test_json_feed() -> None:
    feed = feed_of(
        '{"version": "https://jsonfeed.org/version/1.1", "title": "T", "home_page_url": "/", "feed_url": "/f.json",'
        ' "language": "en", "favicon": "/i.ico", "authors": [{"name": "Ann"}], "hubs": [{"url": "http://hub.org/"}],'
        ' "items": [{"id": 7, "url": "/1", "title": "a &amp; <b>", "content_text": "1 < 2\\n3", "summary": "s",'
        ' "image": "/p.png", "tags": ["x", 3], "date_published": "2020-01-02T00:00:00+01:00",'
        ' "attachments": [{"url": "/a.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 5}]},'
        ' {"id": "2", "content_html": "<p>h</p>", "content_text": "t", "external_url": "/x", "authors": {"name": "Bob"}}]}'
    )
    assert (feed.parser, feed.site_url, feed.hub) == (
        ParserPath.JSON,
        "http://example.org/",
        "http://hub.org/",
    )
    one, two = feed.entries
    assert (one.guid, one.url, one.content, one.summary) == (
        "7",
        "http://example.org/1",
        "1 &lt; 2<br>\n3",
        "s",
    )
    assert (one.author, one.categories, one.image) == ("Ann", ("x", "3"), "http://example.org/p.png")
    assert one.published == dt.datetime(2020, 1, 1, 23, tzinfo=dt.UTC)
    assert one.enclosures == (Enclosure("http://example.org/a.mp3", "audio/mpeg", 5),)
    assert (two.content, two.author, two.url) == ("<p>h</p>", "Bob", "http://example.org/x")


# -- broken XML


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("<x:y>undeclared</x:y><guid>1</guid>", ParserPath.REPAIRED),
        ("<title>AT&T</title><guid>1</guid>", ParserPath.REPAIRED),
        ("<title>caf&eacute;</title><guid>1</guid>", ParserPath.REPAIRED),
        ("<title>a\x08b</title><guid>1</guid>", ParserPath.REPAIRED),
        ("<title>a &#0; b &#xFFFF;</title><guid>1</guid>", ParserPath.REPAIRED),
        ("<title>1 < 2</title><guid>1</guid>", ParserPath.REPAIRED),
        ("<description>a<br>b</description><guid>1</guid>", ParserPath.FEEDPARSER),
        ("<enclosure url=x.mp3><guid>1</guid>", ParserPath.FEEDPARSER),
    ],
)
def test_broken_xml_is_read_by_the_cheapest_path(text: str, path: ParserPath) -> None:
    feed = rss(text + "<link>http://e.org/?a=1&amp;b=2</link>")
    assert feed.parser == path
    assert (feed.entries[0].guid, feed.entries[0].url) == ("1", "http://e.org/?a=1&b=2")


def test_guids_with_bare_ampersands_are_the_same_on_every_path() -> None:
    guid = "<guid isPermaLink='false'>http://e.org/?a=1&utm_x=2&amp;y</guid>"
    guids = {rss(guid + extra).entries[0].guid for extra in ("", "<x:y/>", "<br>")}
    assert guids == {"http://e.org/?a=1&utm_x=2&y"}


WARNING = (
    "<br />\n<b>Warning</b>:  Undefined variable $x in <b>/var/www/feed.php</b> on line <b>3</b><br />\n"
)


@pytest.mark.parametrize(
    "start",
    [
        WARNING + '<?xml version="1.0"?>\n',
        WARNING,
        '<font size="1"><table><tr><th>Notice: x</th></tr></table></font><?xml version="1.0"?><!-- x --><?xml-stylesheet href="x"?>',
        "Deprecated: x\n",
        "<script>x()</script>",
    ],
)
def test_warnings_of_a_server_before_a_feed_do_not_hide_it(start: str) -> None:
    feed = feed_of(
        start + '<rss version="2.0"><channel><title>T</title><item><title>A</title></item></channel></rss>'
    )
    assert (feed.format, feed.title, [e.title for e in feed.entries]) == ("rss20", "T", ["A"])


def test_a_cdata_section_that_was_escaped_does_not_show() -> None:
    assert (
        item("<description>&lt;![CDATA[&lt;p&gt;a &amp;amp; b&lt;/p&gt;]]&gt;</description>").summary
        == "<p>a &amp; b</p>"
    )
    assert (
        item("<description>&lt;pre&gt;&amp;lt;![CDATA[x]]&amp;gt;&lt;/pre&gt;</description>").summary
        == "<pre>&lt;![CDATA[x]]&gt;</pre>"
    )
