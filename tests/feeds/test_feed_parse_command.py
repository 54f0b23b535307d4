"""``eventr feed parse``: one JSON document per file, as the engine reads it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import root

FEED_KEYS = [
    "format",
    "title",
    "site_url",
    "description",
    "language",
    "hub",
    "ttl_minutes",
    "icon",
    "unlisted",
    "new_url",
    "entries",
]
ENTRY_KEYS = [
    "guid", "url", "title", "author", "published", "updated", "content", "summary", "categories",
    "enclosures", "image", "comments",
]  # fmt: skip
FEED = """<rss version="2.0"><channel><title>T &amp;amp; U</title><link>/</link><ttl>30</ttl>
<item><guid>1</guid><link>a</link><title>&lt;b&gt;A&lt;/b&gt;</title>
<pubDate>Thu, 02 Jan 2020 01:00:00 +0100</pubDate><category>c</category>
<description>&lt;script&gt;alert(1)&lt;/script&gt;&lt;a href="x"&gt;x&lt;/a&gt;</description>
<enclosure url="/e.mp3" type="audio/mpeg" length="5"/></item></channel></rss>"""


def run(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, list[dict[str, Any]]]:
    done = started(*arguments, stdin=stdin)
    return done.returncode, [json.loads(line) for line in done.stdout.decode().splitlines()]


def started(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-c", "from app.cli import main; main()", "feed", "parse", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "feed.xml"
    path.write_text(FEED)
    return path


def test_a_feed_is_one_document_with_these_keys(saved: Path) -> None:
    code, (feed,) = run(saved, "--url", "http://e.org/f/feed.xml")
    assert code == 0
    assert list(feed) == FEED_KEYS
    assert (feed["format"], feed["title"], feed["site_url"], feed["ttl_minutes"]) == (
        "rss20", "T & U", "http://e.org/", 30,
    )  # fmt: skip
    (entry,) = feed["entries"]
    assert list(entry) == ENTRY_KEYS
    assert (entry["guid"], entry["url"], entry["title"]) == ("1", "http://e.org/f/a", "A")
    assert (entry["published"], entry["updated"]) == ("2020-01-02T00:00:00Z", None)
    assert entry["enclosures"] == [{"url": "http://e.org/e.mp3", "type": "audio/mpeg", "length": 5}]
    assert "script" not in entry["summary"]
    assert 'href="http://e.org/f/x"' in entry["summary"]


def test_raw_leaves_out_sanitising(saved: Path) -> None:
    _, (feed,) = run("--raw", saved)
    assert feed["entries"][0]["summary"] == '<script>alert(1)</script><a href="x">x</a>'


def test_stdin_gzip_and_charset() -> None:
    body = gzip.compress("<rss><channel><title>Привет</title></channel></rss>".encode("koi8-r"))
    code, (feed,) = run("-", "--content-type", "text/xml; charset=koi8-r", stdin=body)
    assert (code, feed["title"]) == (0, "Привет")


def test_several_files_are_told_apart_and_one_bad_one_fails_the_command(saved: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>x</title>")
    text = tmp_path / "text"
    text.write_text("text")
    code, documents = run(saved, page, text, tmp_path / "missing")
    assert code == 1
    assert [d["file"] for d in documents] == [str(p) for p in (saved, page, text, tmp_path / "missing")]
    assert [d.get("error") for d in documents] == [None, "not_a_feed", "not_a_feed", "invalid"]
    assert all(d["message"].endswith(".") for d in documents[1:])


def test_people_are_told_which_of_several_files_is_no_feed(saved: Path, tmp_path: Path) -> None:
    empty, missing = tmp_path / "empty", tmp_path / "missing"
    empty.touch()
    assert started(saved, empty, missing).stderr.decode().splitlines() == [
        f"eventr: {empty}: This file is empty.",
        f"eventr: {missing} can't be read: No such file or directory.",
    ]
    assert started(empty).stderr.decode() == "eventr: This file is empty.\n"


def test_not_a_feed_alone(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"\x00\x01binary")
    code, (document,) = run(text)
    assert code == 1
    assert list(document) == ["error", "message"]
    assert document["error"] == "not_a_feed"


@pytest.mark.parametrize(
    "body", [b"", b"\xef\xbb\xbf \n", b"<html><body>Hi", b"{}", b"[]", b"text", b"\x89PNG\r\n\x1a\n"]
)
def test_whatever_is_no_feed_is_told_in_one_word(body: bytes) -> None:
    code, (document,) = run("-", stdin=body)
    assert (code, document["error"]) == (1, "not_a_feed")


def test_a_feed_without_an_address_uses_its_own() -> None:
    _, (feed,) = run(root() / "feeds" / "atom" / "daringfireball.net-df410e.xml")
    assert feed["entries"][0]["url"].startswith("http")
