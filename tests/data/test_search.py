"""Searching one's own subscriptions: the engine against a naive reference, the index, the stream."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.database import Database

from app import clock
from app.gateways import textsearch
from app.models.actor import Actor
from app.models.entry import EntryChange, EntryKey, NewEntry
from app.models.search import Searchable, Term, Wanted, Where
from app.models.stream import EntryRow, Sort, StreamKind, StreamQuery, StreamRef
from app.models.words import words
from tests.data.conftest import NOW, World, guid

VOCABULARY = ("sea", "level", "ice", "Ärger", "日本語", "don't", "rare")
MINUTE = 60_000


def search(query: str) -> StreamRef:
    return StreamRef(StreamKind.SEARCH, query=query)


def say(number: int, title: str, text: str = "", author: str = "", age: int = 0) -> NewEntry:
    at = NOW - dt.timedelta(minutes=age)
    html = f"<p>{text}</p>"
    return NewEntry(guid(number), at, at, title, author=author, content=html, excerpt=text[:300])


@pytest.fixture
def library(world: World, alice: Actor) -> World:
    """Two feeds that alice reads, one that she does not, all indexed."""
    for name in ("nature", "sport"):
        world.services.subscriptions.subscribe(alice, f"https://{name}.example.org/feed", title=name.title())
    nature, sport, other = (world.feed(name) for name in ("nature", "sport", "other"))
    world.store(
        nature,
        [
            say(1, "Sea level report", "The ice is melting fast.", "Ann Mann", 50),
            say(2, "Ice cores", "Level of the sea, and the sea level.", "Bob Mann", 40),
            say(3, "Ärger über Straßen", "Ein Café in Zürich.", "Ann", 30),
        ],
    )
    world.store(sport, [say(4, "Ice hockey", "A report.", "Zoe", 20), say(5, "日本語の記事", "東京", "", 10)])
    world.store(other, [say(6, "Sea of others", "ice")])
    index(world)
    return world


def index(world: World, now: dt.datetime = NOW) -> dict[str, int]:
    return world.services.indexing.run(now, 30.0)


def found(world: World, actor: Actor, query: str, sort: Sort = Sort.NEWEST) -> list[str]:
    with clock.set_source(lambda: NOW):
        page = world.services.reading.page(actor, StreamQuery(search(query), sort, limit=100))
    return [row.title for row in page.rows]


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("ice", ["Ice hockey", "Ice cores", "Sea level report"]),
        ("ICE report", ["Ice hockey", "Sea level report"]),
        ('"sea level"', ["Ice cores", "Sea level report"]),
        ('"level sea"', []),
        ("ice -report", ["Ice cores"]),
        ('ice -"sea level"', ["Ice hockey"]),
        ("title:ice", ["Ice hockey", "Ice cores"]),
        ("intitle:report", ["Sea level report"]),
        ("-title:ice report", ["Sea level report"]),
        ('title:"sea level"', ["Sea level report"]),
        ("author:mann", ["Ice cores", "Sea level report"]),
        ('author:"ann mann"', ["Sea level report"]),
        ("feed:sport", ["日本語の記事", "Ice hockey"]),
        ("ice -feed:sport", ["Ice cores", "Sea level report"]),
        ("arger", ["Ärger über Straßen"]),
        ("strassen cafe", ["Ärger über Straßen"]),
        ("zürich ÜBER", ["Ärger über Straßen"]),
        ("日本語", ["日本語の記事"]),
        ("本語", ["日本語の記事"]),
        ("本日", []),
        ("東京", ["日本語の記事"]),
        ("-ice", ["日本語の記事", "Ärger über Straßen"]),
        ("before:2026-03-02 ice", ["Ice hockey", "Ice cores", "Sea level report"]),
        ("after:2026-03-02 ice", []),
        ("before:2026-03-01 ice", []),
        ("is:read ice", []),
        ("is:starred", []),
        ("nothing", []),
        ("", []),
        ("-", []),
    ],
)
def test_a_query_finds_what_it_says(library: World, alice: Actor, query: str, titles: list[str]) -> None:
    if query:
        assert found(library, alice, query) == titles
        assert found(library, alice, query, Sort.OLDEST) == titles[::-1]
