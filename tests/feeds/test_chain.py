"""Chains in feeds: what one server writes another reads, and nothing but that."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from app.feeds import entry_hashes
from app.feeds.parse import Limits, parse
from app.feeds.parse.incremental import LastFetch, find_changes
from app.models.feeds.chain import JSON_NAME, NAMESPACE, Chain, Hop, make_share_id, to_json, to_xml

AT = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.UTC)
ANN = Hop("tag:a.example,2026:share/123", "Ann & “Co” <ann>", "https://a.example/@ann/123", AT)
CHAIN = Chain(
    (ANN, Hop(state="private"), Hop(state="removed"), ANN), "https://blog.example/1?a=1&b=2", "A “root”"
)
URL = "https://a.example/@ann/atom.xml"


def atom(inside: str, space: str = NAMESPACE) -> bytes:
    return (
        f'<feed xmlns="http://www.w3.org/2005/Atom" xmlns:ev="{space}"><title>Ann</title><id>urn:a</id>'
        f"<entry><id>urn:1</id><title>One</title>{inside}</entry></feed>"
    ).encode()


def json_feed(said: Any) -> bytes:
    item = {"id": "1", "content_text": "One", JSON_NAME: said}
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "A", "items": [item]}).encode()


def read(body: bytes, **limits: int) -> Chain | None:
    (entry,) = parse(body, url=URL, limits=Limits(**limits)).entries
    assert entry.title or entry.content, "the entry itself is read in any case"
    return entry.chain


def test_what_is_written_is_read() -> None:
    assert read(atom(to_xml(CHAIN))) == CHAIN
    assert read(json_feed(to_json(CHAIN, "https://a.example/docs"))) == CHAIN


def test_an_entry_without_one_has_none() -> None:
    assert read(atom("")) is None
    assert read(json_feed(None)) is None
    assert read(atom(to_xml(CHAIN), space="https://other.example/ns")) is None


HOP = '<ev:hop id="urn:1" name="Ann" href="https://a.example/1" at="2026-03-01T12:30:00Z"/>'
WRONG = {
    "no hop": "",
    "javascript": HOP.replace("https://a.example/1", "javascript:alert(1)"),
    "relative": HOP.replace("https://a.example/1", "/@ann/1"),
    "space in the address": HOP.replace("a.example/1", "a.example/ 1"),
    "long address": HOP.replace("a.example/1", "a.example/" + "x" * 2048),
    "no id": HOP.replace('id="urn:1"', ""),
    "long id": HOP.replace("urn:1", "urn:" + "x" * 512),
    "id with controls": HOP.replace("urn:1", "urn:&#10;1"),
    "no name": HOP.replace('name="Ann"', ""),
    "long name": HOP.replace("Ann", "A" * 101),
    "a name of markup": HOP.replace("Ann", "&lt;b&gt;&lt;/b&gt;"),
    "unknown state": '<ev:hop state="famous"/>',
    "one bad among good": HOP + '<ev:hop state="famous"/>' + HOP,
    "bad root": '<ev:root href="data:text/html,x"/>' + HOP,
    "long title": f'<ev:root title="{"x" * 301}"/>' + HOP,
    "too many": HOP * 101,
}


@pytest.mark.parametrize("inside", WRONG.values(), ids=WRONG)
def test_a_chain_that_does_not_fit_is_none(inside: str) -> None:
    assert read(atom(f"<ev:chain>{HOP}</ev:chain>")) is not None
    assert read(atom(f"<ev:chain>{inside}</ev:chain>")) is None


@pytest.mark.parametrize(
    "said",
    [
        [],
        "x",
        {"chain": {}},
        {"chain": []},
        {"chain": [1]},
        {"chain": [{"id": 7, "name": "Ann"}]},
        {"chain": [{"id": "urn:1", "name": ["Ann"]}]},
        {"chain": [{"id": "urn:1", "name": "Ann", "url": 5}]},
        {"chain": [{"state": True}]},
        {"chain": [{"state": ["private"]}]},
        {"chain": [{"state": "private"}], "root": "x"},
        {"chain": [{"state": "private"}], "root": {"url": "ftp://x/"}},
    ],
)
def test_json_that_does_not_fit_is_none(said: Any) -> None:
    assert read(json_feed(said)) is None


def test_a_hop_without_address_or_time_is_one_and_odd_times_are_left_out() -> None:
    assert read(atom('<ev:chain><ev:hop id="urn:1" name="A" at="soon"/></ev:chain>')) == Chain(
        (Hop("urn:1", "A"),)
    )


def test_names_hold_nothing_that_turns_the_text_around_them() -> None:
    found = read(json_feed({"chain": [{"id": "urn:1", "name": "A\u202eB\u200bC"}]}))
    assert found is not None
    assert found.hops[0].name == "ABC"


def test_the_limit_is_the_reader_s() -> None:
    assert read(atom(f"<ev:chain>{HOP * 3}</ev:chain>"), hops=3) is not None
    assert read(atom(f"<ev:chain>{HOP * 3}</ev:chain>"), hops=2) is None


def test_a_chain_that_changes_is_a_change_and_others_have_the_hash_of_before() -> None:
    def found(inside: str, known: LastFetch) -> Any:
        return find_changes(atom(inside), known, url=URL, content_type=None, limits=Limits())

    first = found(to_xml(CHAIN), LastFetch())
    known = LastFetch(first.diff.seen, chunks=first.chunks)
    other = CHAIN._replace(hops=(Hop(state="removed"),))
    assert len(found(to_xml(other), known).diff.changed) == 1
    assert found(to_xml(CHAIN), known).diff.changed == ()
    (plain,) = parse(atom(""), url=URL, limits=Limits()).entries
    files = ""
    parts = ("c", plain.title, plain.content, plain.summary, plain.author, "", files)
    assert entry_hashes.hash_content(plain)[4:] == entry_hashes._hash(*parts)[:4]


def test_ids_are_tags() -> None:
    assert make_share_id("https://a.example:8443", 5) == "tag:a.example,1970-01-01:share/5"
    assert (
        make_share_id("https://a.example", 1771400000000000)
        == "tag:a.example,2026-02-18:share/1771400000000000"
    )


def test_what_cannot_stand_in_xml_is_not_written() -> None:
    odd = Chain((Hop("urn:1", "A\x00\x1b\nB", "javascript:1", AT),), "ftp://x", "T" * 400)
    text = to_xml(odd)
    assert "javascript" not in text
    assert "ftp:" not in text
    found = read(atom(text))
    assert found is not None
    assert (found.hops[0].name, found.hops[0].url, len(found.title)) == ("A B", "", 300)
