from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.errors import EventrError, InvalidError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.models.imports.opml import ABOUT_MAX, Outline
from tests.support import corpus

HEAD = b"<opml version='2.0'><head><title>Mine</title></head><body>"
TAIL = b"</body></opml>"

#: Where the manifest's own reading lost something: it drops what follows a bare "&" in an address,
#: and the outline whose value holds raw quotes or markup.
LOST = {
    "opml/plenaryapp-Russia.opml": 1,
    "opml/plenaryapp-Tech.opml": 1,
    "opml/spacecowboy-Programming.opml": 1,
}
#: Folders with nothing in them or named by ``category``, which the manifest does not count.
EMPTY = {
    "opml/holllo-valid-opml-1-0.opml": 1,
    "opml/holllo-valid-opml-with-everything.opml": 1,
    "opml/readrops-subscriptions.opml": 1,
}
FIRST_URLS = {"opml/miniflux/TestParseOpmlWithInvalidCharacterEntity.opml": ["http://example.org/feed1/a&b"]}


def outlines(count: int) -> bytes:
    return b"".join(b"<outline xmlUrl='https://a.example/%d'/>" % i for i in range(count))


def test_corpus_has_the_counts_that_its_manifest_states() -> None:
    wrong = []
    for row in corpus.rows("opml"):
        said = row.data["reference"]
        try:
            found = opml.read(row.read())
        except EventrError as e:
            wrong.append(f"{row}: {e.message}")
            continue
        counts = {
            "feeds": len(found.feeds),
            "distinct_feed_urls": len({feed.url for feed in found.feeds}),
            "folders": len(found.folders),
            "max_folder_depth": found.max_folder_depth,
        }
        for name in ("feeds", "distinct_feed_urls"):
            counts[name] -= LOST.get(row.path, 0)
        counts["folders"] -= EMPTY.get(row.path, 0)
        wrong += [f"{row}: {k} {v} not {said[k]}" for k, v in counts.items() if v != said[k]]
        first = FIRST_URLS.get(row.path, said["first_urls"])
        if [f.url for f in found.feeds][: len(first)] != first:
            wrong.append(f"{row}: first addresses {[f.url for f in found.feeds][:5]}")
        for check in (row.expect or {}).get("asserts", ()):
            assert check["path"] == "subscriptions.length"
            assert len(found.feeds) == check["value"]
    assert not wrong, "\n".join(wrong)


def test_corpus_survives_writing_and_reading() -> None:
    for row in corpus.rows("opml"):
        found = opml.read(row.read())
        again = opml.read(opml.write(found.title, found.feeds, found.folders))

        # Order is kept within a folder; what lies in none may come before or after them.
        assert sorted((f.folders, f.url, f.site_url or "") for f in again.feeds) == sorted(
            (f.folders, f.url, f.site_url or "") for f in found.feeds
        ), row.path
        assert {f.folders for f in found.feeds} - {()} <= set(again.folders), row.path


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=20), max_size=3))
def test_any_title_and_folder_can_be_written(title: str, folders: list[str]) -> None:
    feed = Outline("https://a.example/?a=1&b=<2>", title, folders=tuple(folders))

    (found,) = opml.read(opml.write("t", [feed])).feeds

    assert found.url == feed.url
    assert len(found.folders) == len(folders)


def test_a_description_is_read_as_short_plain_text_and_written() -> None:
    long = "<b>All&nbsp;of</b>\n it\x01 & more " + "word " * 400
    (written,) = opml.read(opml.write("t", [Outline("https://a.example/", about=long)])).feeds
    assert written.about.startswith("All of it & more word word")
    assert written.about.endswith(" word…")
    assert 190 <= len(written.about) <= ABOUT_MAX
    (again,) = opml.read(opml.write("t", [written])).feeds
    assert again.about == written.about
    assert b"description" not in opml.write("t", [Outline("https://a.example/")])
    turned = (
        "<outline xmlUrl='https://a.example/' description=' a\u202eb&lt;script>x&lt;/script> '/>".encode()
    )
    assert [feed.about for feed in opml.read(HEAD + turned + TAIL).feeds] == ["ab"]


def test_mended_file_keeps_its_addresses_and_says_what_was_wrong() -> None:
    body = HEAD + b"\n<outline text='A & B' xmlUrl='https://a.example/?a=1&amp;b=2'/>" + TAIL

    found = opml.read(body)

    assert found.feeds[0].title == "A & B"
    assert found.feeds[0].url == "https://a.example/?a=1&b=2"
    assert found.repaired is not None
    assert found.repaired.startswith("Line 2:")


A, B = (b'<outline text="%c" xmlUrl="https://%c.example/f"/>' % (c, c) for c in b"ab")


@pytest.mark.parametrize(
    ("body", "feeds", "lost"),
    [
        (HEAD + A + B + b"</body>", 2, False),
        (HEAD + b"<outline text='News'>" + A + B + b"</outline></body>", 2, False),
        (HEAD + b"<outline text='News'>" + A + b"\n" + B, 2, True),
        (HEAD + A + B[:-9], 1, True),
        (HEAD + b"<outline text='News'>" + A + b"</outl", 1, True),
    ],
)
def test_list_without_its_end_is_read_as_far_as_it_is_whole(body: bytes, feeds: int, lost: bool) -> None:
    found = opml.read(body)
    assert [feed.url for feed in found.feeds] == [f"https://{c}.example/f" for c in "ab"[:feeds]]
    assert found.repaired is not None
    assert ("Later feeds are missing" in found.repaired) is lost


@pytest.mark.parametrize(
    ("category", "folders"),
    [
        ("Science", [("Science",)]),
        ("/Tech/Linux,/News", [("Tech", "Linux"), ("News",)]),
        ("Tech/ Linux , , News,News", [("Tech", "Linux"), ("News",)]),
        ("", [()]),
        (" , / ", [()]),
        ("/".join("x" * 40), [()]),
        (",".join("abcdefghijkl"), [(name,) for name in "abcdefgh"]),
    ],
)
def test_category_names_the_folders_of_an_outline(category: str, folders: list[tuple[str, ...]]) -> None:
    line = f"<outline text='A' xmlUrl='https://a.example/f' category='{category}'/>".encode()
    found = opml.read(HEAD + line + line + TAIL)
    assert [feed.folders for feed in found.feeds] == folders * 2
    assert len(set(found.folders)) == len(found.folders)
    assert set(folders) - {()} <= set(found.folders)
    (nested,) = opml.read(HEAD + b"<outline text='Mine'>" + line + b"</outline>" + TAIL).feeds
    assert nested.folders == ("Mine",)


@pytest.mark.parametrize(("kind", "count"), [("rss", 1), ("ATOM", 1), ("link", 0), ("include", 0), ("", 0)])
def test_url_of_an_outline_of_a_feed_type_is_its_feed(kind: str, count: int) -> None:
    line = f"<outline text='A' type='{kind}' url='https://a.example/f'/>".encode()
    assert [feed.url for feed in opml.read(HEAD + line + TAIL).feeds] == ["https://a.example/f"] * count


FOAF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:foaf="http://xmlns.com/foaf/0.1/"
 xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:rss="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><foaf:Group><foaf:name>Planet</foaf:name>
<foaf:member><foaf:Agent><foaf:name>Ann</foaf:name><foaf:weblog>
 <foaf:Document rdf:about="https://a.example/"><dc:title>Ann's blog</dc:title>
 <rdfs:seeAlso><rss:channel rdf:about="https://a.example/f"/></rdfs:seeAlso></foaf:Document></foaf:weblog></foaf:Agent>
</foaf:member><foaf:member><foaf:Agent><foaf:name>Bob</foaf:name><foaf:weblog rdf:resource="https://b.example/"/>
</foaf:Agent></foaf:member></foaf:Group></rdf:RDF>"""
RSS_LIST = b"""<rss version="2.0"><channel><title>My feeds</title>
<item><title>A</title><link>https://a.example/rss.xml</link></item>
<item><title>B</title><link>https://b.example/</link>
<enclosure url="https://b.example/x" type="application/atom+xml"/></item></channel></rss>"""


@pytest.mark.parametrize(
    ("body", "feeds"),
    [
        (
            FOAF,
            [
                ("https://a.example/f", "Ann's blog", "https://a.example/", ()),
                ("https://b.example/", "Bob", "https://b.example/", ()),
            ],
        ),
        (
            RSS_LIST,
            [
                ("https://a.example/rss.xml", "A", None, ()),
                ("https://b.example/x", "B", "https://b.example/", ()),
            ],
        ),
        (
            b'["https://a.example/f", "b.example/f"]',
            [("https://a.example/f", "", None, ()), ("b.example/f", "", None, ())],
        ),
        (
            b'\xef\xbb\xbf [{"feed_url": "https://a.example/f", "title": "A", "site_url": "https://a.example/",'
            b' "category": {"title": "News"}}]',
            [("https://a.example/f", "A", "https://a.example/", ("News",))],
        ),
        (
            b'{"subscriptions": [{"id": "feed/https://a.example/f", "title": "A",'
            b' "categories": [{"label": "News"}]}]}',
            [("https://a.example/f", "A", None, ("News",))],
        ),
    ],
    ids=["foaf", "rss", "addresses", "objects", "google-reader"],
)
def test_lists_in_other_forms_are_read(
    body: bytes, feeds: list[tuple[str, str, str | None, tuple[str, ...]]]
) -> None:
    found = opml.read(body)
    assert [(f.url, f.title, f.site_url, f.folders) for f in found.feeds] == feeds
    assert {f[3] for f in feeds} - {()} == set(found.folders)
    assert found.outlines == len(feeds)


@pytest.mark.parametrize(
    "item",
    [
        "<link>https://a.example/2026/post.html</link>",
        "<link>https://a.example/rss.xml</link></item><item><link>https://a.example/post</link>",
        "<enclosure url='https://a.example/x.mp3' type='audio/mpeg'/>",
        "<link>https://[/rss</link>",
    ],
)
def test_feed_is_not_taken_for_a_list(item: str) -> None:
    body = f"<rss><channel><item><title>A</title>{item}</item></channel></rss>".encode()
    with pytest.raises(InvalidError, match="this is a feed"):
        opml.read(body)
    rss1 = FOAF.replace(b"</rdf:RDF>", b"<rss:item rdf:about='https://a.example/1'/></rdf:RDF>")
    with pytest.raises(InvalidError, match="this is a feed"):
        opml.read(rss1)


@pytest.mark.parametrize(
    "name", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "windows-1251", "gzip"]
)
@pytest.mark.parametrize("form", ["opml", "rss"])
def test_lists_in_any_charset_are_read(name: str, form: str) -> None:
    label = name if name in ("koi8-r", "windows-1251") else "utf-8"
    start = f"<?xml version='1.0' encoding='{label}'?>"
    line = "<outline text='Новости дня' xmlUrl='https://a.example/rss'/>"
    item = "<item><title>Новости дня</title><link>https://a.example/rss</link></item>"
    text = start + (
        f"<opml><body>{line}</body></opml>" if form == "opml" else f"<rss><channel>{item}</channel></rss>"
    )
    body = gzip.compress(text.encode()) if name == "gzip" else text.encode(name)
    (found,) = opml.read(body).feeds
    assert (found.title, found.url) == ("Новости дня", "https://a.example/rss")


def test_X05_packed_list_is_unpacked_to_the_limit_only() -> None:
    limits = opml.Limits(max_bytes=4000)
    assert len(opml.read(gzip.compress(HEAD + A + TAIL), limits).feeds) == 1
    cut = gzip.compress(HEAD + A + B + b"<!-- %s -->" % bytes(range(33, 127)) + TAIL)[:-20]
    assert "cut off" in (opml.read(cut, limits).repaired or "")
    with pytest.raises(TooLargeError):
        opml.read(gzip.compress(HEAD + b" " * (1 << 20) + TAIL), limits)
    with pytest.raises(InvalidError, match="damaged"):
        opml.read(b"\x1f\x8b\x08broken")


def test_X10_other_lists_have_the_same_bounds() -> None:
    many = json.dumps([f"https://a.example/{n}" for n in range(21)]).encode()
    assert len(opml.read(many).feeds) == 21
    with pytest.raises(TooLargeError):
        opml.read(many, opml.Limits(max_outlines=20))
    bad, good = opml.read(b'["file:///etc/x.y", "a.example/f"]', policy=Policy(Settings())).feeds
    assert (bool(bad.problem), good.problem, good.url) == (True, None, "http://a.example/f")


def test_raw_markup_in_a_value_is_mended() -> None:
    value = b'By <a href="https://b.example" rel="x">B</a> & "co"'
    body = (
        HEAD + b'<outline text="A" description="' + value + b'" xmlUrl="https://a.example/?x=1&y=2" />' + TAIL
    )

    (found,) = opml.read(body).feeds

    assert (found.title, found.url) == ("A", "https://a.example/?x=1&y=2")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0", "isn't an OPML file"),
        (b"just words", "isn't an OPML file"),
        (b"<html><body>hello</body></html>", "<html>"),
        (b"<rss version='2.0'><channel/></rss>", "this is a feed"),
        (b"\n<feed xmlns='http://www.w3.org/2005/Atom'/>", "Line 2: this is a feed"),
        (b"<svg/>", "<svg>"),
        (b"[1, null, {}]", "JSON file without a list of feeds"),
        (b"[" * 100_000, "JSON file without a list of feeds"),
        (
            b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "https://a.example/1"}]}',
            "JSON",
        ),
        (HEAD + b"\n\n<outline text='a'>" + TAIL, "Line 3"),
    ],
)
def test_wrong_file_is_refused_with_a_sentence(body: bytes, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        opml.read(body)


def test_X10_bounds_of_size_outlines_and_depth() -> None:
    limits = opml.Limits(max_bytes=4000, max_outlines=20, max_depth=4)

    def nested(depth: int) -> bytes:
        return HEAD + b"<outline text='f'>" * depth + outlines(1) + b"</outline>" * depth + TAIL

    assert len(opml.read(HEAD + outlines(20) + TAIL, limits).feeds) == 20
    assert opml.read(nested(4), limits).max_folder_depth == 4
    for body in (HEAD + outlines(21) + TAIL, nested(5), HEAD + b" " * 4000 + TAIL):
        with pytest.raises(TooLargeError):
            opml.read(body, limits)


def test_X10_what_is_too_deep_for_the_parser_is_told_in_our_words() -> None:
    body = HEAD + b"<outline text='f'>\n" * 300 + outlines(1) + b"</outline>" * 300 + TAIL
    with pytest.raises(TooLargeError, match=r"^Line 25\d: outlines can be nested at most 32\ levels deep.$"):
        opml.read(body)


def test_X10_ten_thousand_outlines_are_read() -> None:
    assert len(opml.read(HEAD + outlines(10_000) + TAIL).feeds) == 10_000


def test_X10_nothing_is_expanded_or_loaded(tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("canary")
    bomb = b"<!DOCTYPE opml [<!ENTITY a 'xxxxxxxxxx'>%s<!ENTITY x SYSTEM 'file://%s/canary'>]>" % (
        b"".join(b"<!ENTITY %c '&%c;&%c;&%c;'>" % (98 + i, *[97 + i] * 3) for i in range(20)),
        str(tmp_path).encode(),
    )

    found = opml.read(bomb + HEAD + b"<outline text='&u;&x;' xmlUrl='https://a.example/'/>" + TAIL)

    assert "canary" not in found.feeds[0].title
    assert len(found.feeds[0].title) < 20


def test_addresses_that_cannot_be_fetched_are_named() -> None:
    body = HEAD + b"<outline xmlUrl='file:///etc/passwd'/><outline xmlUrl='https://a.example/f'/>" + TAIL

    bad, good = opml.read(body, policy=Policy(Settings())).feeds

    assert bad.problem
    assert bad.line == 1
    assert good.problem is None


@pytest.mark.parametrize(("name", "code"), [("picofeed-google-reader.opml", 0), ("missing.opml", 1)])
def test_check_command_prints_one_document(name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "app", "opml", "check", str(corpus.root() / "opml" / name)],
        capture_output=True,
        text=True,
        check=False,
    )

    document = json.loads(done.stdout)
    assert done.returncode == code
    assert (document["feeds"] == 22) if code == 0 else document["message"]


def test_what_has_a_title_and_nothing_in_it_is_a_folder_as_far_as_there_is_room() -> None:
    rows = [f'<outline text="e{n}" title="e{n}"/>' for n in range(4)]
    others = (
        '<outline text="a note"/>',
        '<outline text="x" title="x" type="rss"/>',
        '<outline text="x" title="x" htmlUrl="https://example.org/"/>',
        '<outline text="x" title="x" url="https://example.org/"/>',
        '<outline title=" "/>',
    )
    full = '<outline text="full" title="full"><outline xmlUrl="https://example.org/feed"/></outline>'
    inner = f'<outline text="top" title="top">{rows[3]}</outline>'
    body = f"<opml><body>{rows[0]}{full}{rows[1]}{''.join(others)}{inner}{rows[2]}</body></opml>".encode()
    found = opml.read(body)
    assert found.folders == (("e0",), ("full",), ("e1",), ("top",), ("top", "e3"), ("e2",))
    assert opml.read(body, opml.Limits(max_folders=3)).folders == (("e0",), ("full",), ("top",))


def test_settings_that_programs_put_into_their_lists_are_no_folders() -> None:
    body = b"""<opml><body><outline text="News"><outline text="a" xmlUrl="https://example.org/a"/></outline>
      <outline text="tt-rss-prefs" schema-version="139"><outline pref-name="DIGEST">true</outline></outline>
      <outline text="tt-rss-labels"><outline label-name="Later" label-fg-color=""/></outline>
      <outline text="tt-rss-filters"><outline><outline filter-type="2">{}</outline></outline></outline>
      <outline text="Notes"><outline text="remember"/></outline>
      <outline text="Saved" title="Saved"/>
      <outline text="Outer"><outline text="Inner" title="Inner"/></outline>
      <outline text="Deep"><outline text="Down"><outline xmlUrl="https://example.org/b"/></outline></outline>
    </body></opml>"""
    expected = (
        *(("News",), ("Notes",), ("Saved",), ("Outer",), ("Outer", "Inner")),
        *(("Deep",), ("Deep", "Down")),
    )
    assert opml.read(body).folders == expected
    assert opml.read(body, opml.Limits(max_folders=6)).folders == expected[:4] + expected[5:]
