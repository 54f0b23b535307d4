"""Rows of lists: what feeds and people wrote is only text."""

from __future__ import annotations

import datetime as dt
import random
from types import SimpleNamespace

import lxml.html
import pytest
from flask import Flask
from jinja2 import Environment

from app.config import Settings
from app.models.reading.stream import EntryRow, Page, RowSource
from app.models.reading.tag import Tag
from app.models.sharing.sharing import Sharer
from app.web.view import i18n
from app.web.view.rows import TITLE, RowRenderer, separate_title, truncate_text

EVIL = "<i title='x\" onload=\"y'>&amp;</i>"
AT = dt.datetime(2026, 3, 14, 9, 5, tzinfo=dt.UTC)

_SHARES = ((1, "Ann", ""), (2, "Bob", "Worth it."), (3, "Cleo", "Later."))


def _make_row(**changes: object) -> EntryRow:
    fields: dict[str, object] = {
        "id": 5,
        "feed_id": 7,
        "feed_title": EVIL,
        "language": "de",
        "title": EVIL,
        "url": None,
        "author": EVIL,
        "excerpt": EVIL,
        "at": AT,
        "published": None,
        "read": False,
        "starred": True,
        "image": f"https://site.example/{EVIL.replace(' ', '')}",
        "tags": (Tag(1, 1, EVIL, 1),),
    }
    return EntryRow(**(fields | changes))  # type: ignore[arg-type]


def _render(row: EntryRow, *, split: int | None = None, divided: bool = True) -> str:
    app = Flask(__name__)
    i18n.install(app)
    settings = Settings(images="direct")  # the one part of all that is built which rows need
    app.extensions["eventr"] = SimpleNamespace(settings=settings)
    with app.test_request_context("/"):
        page = Page((row,), None, "token", split, None)
        stars = {True: "<b>{id} on</b>", False: "<b>{id} off</b>"}
        renderer = RowRenderer(
            page, here="/read/all?a=1", stars=stars, open_id=5, density="card", view="panes", divided=divided
        )
        return str(renderer.render())


@pytest.mark.parametrize("shared", [False, True])
def test_H16_rows_show_foreign_values_as_text(shared: bool) -> None:
    sharers = tuple(Sharer(n, n, EVIL, EVIL, note="" if n == 1 else f"Note {EVIL}") for n in range(1, 6))
    html = _render(_make_row(sharers=sharers if shared else ()))
    row = lxml.html.fromstring(html)
    assert not row.xpath("//*[@onload] | //i[@title]")
    assert row.xpath("string(//h2/a)") == f"Unread: {EVIL}"
    assert EVIL in row.xpath("string(//bdi[@class='src'])")
    assert row.xpath("string(//span[@class='tag'])") == EVIL
    assert row.xpath("//h2/a/@href") == ["/read/all?a=1&entry=5"]
    assert row.xpath("//article/@aria-current") == ["true"]
    assert "5 on" in html
    if shared:
        assert row.xpath("string(//bdi[@class='src'])").endswith("+4")
        assert len(row.xpath("//bdi[@class='faces']/i")) == 4
        assert row.xpath("string(//span[@class='said'])") == f" “Note {EVIL}”"
        names = row.xpath("//span[@class='said']/preceding-sibling::*/@class")
        assert names[-1] == "labels", "a note has lines of its own, below the tags"


def test_a_note_stands_beside_the_name_of_its_author() -> None:
    sharers = tuple(Sharer(n, n, name, name, note) for n, name, note in _SHARES)
    row = lxml.html.fromstring(_render(_make_row(sharers=sharers)))
    assert row.xpath("string(//bdi[@class='src'])") == "Bob +2"
    assert row.xpath("string(//span[@class='said'])") == " “Worth it.”"
    assert row.xpath("string(//bdi[@class='faces']/i[1])") == "B"
    sharers = tuple(Sharer(n, n, name, name) for n, name, _ in _SHARES)
    row = lxml.html.fromstring(_render(_make_row(sharers=sharers)))
    assert row.xpath("string(//bdi[@class='src'])") == "Ann, Bob, Cleo"
    assert not row.xpath("//span[@class='said']")


def test_an_own_share_names_its_feed_instead_of_oneself() -> None:
    source = RowSource(3, EVIL, None, False)
    row = lxml.html.fromstring(
        _render(_make_row(sharers=(Sharer(1, 1, "ann", "Ann", "Mine."),), source=source))
    )
    assert row.xpath("string(//bdi[@class='src'])") == EVIL
    assert row.xpath("string(//span[@class='said'])") == " “Mine.”"
    assert not row.xpath("//bdi[@class='faces']")


def test_rows_without_a_title_show_their_text() -> None:
    long = "word " * 80
    row = lxml.html.fromstring(_render(_make_row(title="", excerpt=long, read=True, markable=False)))
    assert row.xpath("string(//h2/a)") == truncate_text(long, TITLE)
    assert not row.xpath("//article/@data-feed")
    assert "is-read" in row.xpath("//article/@class")[0]
    assert "(no title)" in _render(_make_row(title="", excerpt=""))


def test_the_heading_of_read_rows_comes_once() -> None:
    assert "Already read" in _render(_make_row(), split=0)
    assert "Already read" not in _render(_make_row(), split=0, divided=False)
    assert "Already read" not in _render(_make_row(), split=1)


def test_texts_are_cut_like_in_templates() -> None:
    dice, template = random.Random(1), Environment().from_string("{{ text|truncate(9, false, '…', 0) }}")
    for _ in range(200):
        text = "".join(dice.choice("ab  ü") for _ in range(dice.randint(0, 20)))
        assert truncate_text(text, 9) == template.render(text=text)


@pytest.mark.parametrize(
    ("title", "text", "shown"),
    [
        ("News", "Other words.", ("News", "Other words.")),
        ("News", "", ("News", "")),
        ("", "All of it.", ("", "All of it.")),
        # The feed has cut the title from the text.
        ("The first words of…", "The first words of a post.", ("", "The first words of a post.")),
        ("The first wor...", "The first words of a post.", ("", "The first words of a post.")),
        ("The first words […]", "The first words of a post.", ("", "The first words of a post.")),
        # The text begins with its title, or is nothing else.
        ("A new release", "A new release. It mends much.", ("A new release", "It mends much.")),
        ("A new release", "A new release – It mends much.", ("A new release", "It mends much.")),
        ("A post", "A post", ("A post", "")),
        # Other words that begin alike.
        ("A new", "A newer release", ("A new", "A newer release")),
        ("…", "Three dots.", ("…", "Three dots.")),
    ],
)
def test_a_row_says_nothing_twice(title: str, text: str, shown: tuple[str, str]) -> None:
    assert separate_title(title, text) == shown
