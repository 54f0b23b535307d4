"""The published HTML is kept and cleaned anew by a newer sanitiser (H03)."""

from __future__ import annotations

import zlib

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.feeds import entry_bodies as bodies
from app.gateways.reading import entries
from app.mappers.feeds import entry_bodies
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedUpdate
from app.models.reading.entry import NewEntry
from app.models.reading.stream import StreamQuery, StreamRef

ALICE = Actor(1)
RAW = "<p onclick=x>Hello <i>you</i></p>"


def shout(html: str, _base: str) -> str:
    return html.upper()


def test_H03_what_cleaning_changes_is_kept_as_published() -> None:
    body = bodies.clean_body(RAW, "", "https://a.example/")

    assert body.content == "<p>Hello <i>you</i></p>"
    assert bodies.reclean_body(body, shout, 99).content == RAW.upper()
    assert bodies.reclean_body(body, shout, 99).cleaned_by == 99


def test_H03_what_cleaning_does_not_change_is_not_stored_twice() -> None:
    body = bodies.clean_body("<p>plain</p>", "", "https://a.example/")

    assert body.raw == b""
    assert bodies.reclean_body(body, shout, 99).content == "<P>PLAIN</P>"


def test_H03_any_text_survives_the_packing() -> None:
    body = bodies.clean_body("<b onx=1>a\0b\ud800</b>", "<i onx=1>s\0t</i>", "https://a.example/?q=ä")

    again = bodies.reclean_body(body, lambda html, base: f"{base} {html}", 99)

    assert again.summary == "https://a.example/?q=ä <i onx=1>st</i>"
    assert again.content.startswith("https://a.example/?q=ä <b onx=1>a\0b")


def test_summary_that_repeats_the_content_is_dropped() -> None:
    assert bodies.clean_body("<p>a</p>", "<p>a</p>", "").summary == ""


@pytest.mark.parametrize(
    "blank",
    [
        *("<p></p><p>&nbsp;</p>", " \u200b<br>", "<div><a name=x></a></div>", "<script>x</script>", "\xa0"),
        "<p><a href=x></a></p>",
    ],
)
def test_content_in_which_nothing_is_to_be_seen_hides_no_summary(blank: str) -> None:
    body = bodies.clean_body(blank, "Real text", "https://a.example/")

    assert (body.content, body.summary, body.excerpt) == ("", "Real text", "Real text")
    assert bodies.reclean_body(body) == body
    assert bodies.clean_body("Real text", blank, "https://a.example/").excerpt == "Real text"


@pytest.mark.parametrize(
    "seen", ["<p>.</p>", "<img src=a>", "<p><a href=x>y</a></p>", "<hr>", "<p>&amp;</p>", "<audio src=a>"]
)
def test_content_in_which_anything_is_to_be_seen_stays(seen: str) -> None:
    assert bodies.clean_body(seen, "Real text", "https://a.example/").content


@pytest.mark.parametrize(
    ("content", "summary", "raw"),
    [("<p>ä</p>" * 9, "", b""), ("", "\0", b"\xff"), ("a\0b", "c\0", b"d\0e"), ("x", "😀", "😀".encode())],
)
def test_stored_html_comes_back_as_it_was(content: str, summary: str, raw: bytes) -> None:
    packed = entry_bodies.pack(content, summary, raw)

    assert packed
    assert entry_bodies.unpack(packed) == (content, summary, raw)


def test_an_entry_without_html_stores_none() -> None:
    assert entry_bodies.pack("", "", b"") is None
    assert entry_bodies.unpack(None) == ("", "", b"")


def test_an_entry_that_was_stored_before_html_was_packed_is_read() -> None:
    doc = {
        "content": "<p>x</p>",
        "summary": "s",
        "raw": zlib.compress(b"https://a.example/\0s\0<p onx>x</p>"),
    }
    found = entry_bodies.read_html(doc)
    assert found == ("<p>x</p>", "s", b"https://a.example/\0s\0<p onx>x</p>")
    # Once it was revised, what is left of the old form no longer counts.
    assert entry_bodies.read_html({**doc, "body": None}) == ("", "", b"")
    assert entry_bodies.read_html({}) == ("", "", b"")


def _stored(services: Services) -> int:
    feed = services.subscriptions.subscribe(ALICE, "https://a.example/feed").subscription.feed_id
    gateway, now = services.gateways.feeds, clock.now()
    gateway.claim([feed], "t", now, 60)
    body = bodies.clean_body(RAW, "", "https://a.example/")
    entry = NewEntry(guid_hash=b"12345678", at=now, arrived=now, title="x", **body._asdict())
    gateway.store_updates([FeedUpdate(feed, "t", now, (entry,))], now)
    (row,) = services.reading.load_page(ALICE, StreamQuery(StreamRef.parse("all"))).rows
    return row.id


def test_H03_a_newer_sanitiser_reaches_what_is_stored(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = _stored(services)
    before = services.reading.get_article(ALICE, entry_id).entry.content
    monkeypatch.setattr(entries, "SANITIZER_VERSION", 99)
    monkeypatch.setattr(bodies, "reclean_body", lambda body, _: bodies.clean_body(RAW, "", "", shout, 99))

    after = services.reading.get_article(ALICE, entry_id).entry.content

    assert before == "<p>Hello <i>you</i></p>"
    assert after == RAW.upper()
    stored = services.store.database["entries"].find_one({"_id": entry_id})
    assert stored is not None
    assert (entry_bodies.unpack(stored["body"]).content, stored["cleaned_by"]) == (RAW.upper(), 99)
