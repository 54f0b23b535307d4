"""Searching one's own subscriptions: the engine against a naive reference, the index, the stream."""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.database import Database

from app import clock
from app.adapters.search import tantivy_index
from app.errors import SearchUnavailableError
from app.gateways.reading import indexing
from app.mappers.feeds.entries import EntryMapper
from app.models.accounts.actor import Actor
from app.models.reading.entry import EntryChange, EntryKey, NewEntry
from app.models.reading.search import SearchDocument, SearchRequest, Term, TermField
from app.models.reading.stream import Show, Sort, StreamKind, StreamQuery, StreamRef
from app.models.reading.tokenizer import split_words
from tests.support.database import NOW, World, guid


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


def remove_index(world: World) -> None:
    """Lose the index while nobody writes it."""
    world.services.search_index.close()
    for path in (world.services.settings.home / "search").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def count_indexed(world: World) -> dict[str, int]:
    """Return the number of indexed entries of each feed of the library."""
    ids = {name: world.feed(name) for name in ("nature", "sport", "other")}
    counts = world.services.search_index.count_entries(dict.fromkeys(ids.values(), (1, 1 << 40)))
    return {name: counts[feed_id] for name, feed_id in ids.items()}


def found(world: World, actor: Actor, query: str, sort: Sort = Sort.NEWEST) -> list[str]:
    with clock.set_source(lambda: NOW):
        page = world.services.reading.load_page(actor, StreamQuery(search(query), sort, limit=100))
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
        ("nothing either", []),
        ("", []),
        ("-", []),
    ],
)
def test_a_query_finds_what_it_says(library: World, alice: Actor, query: str, titles: list[str]) -> None:
    if query:
        assert found(library, alice, query) == titles
        assert found(library, alice, query, Sort.OLDEST) == titles[::-1]


def test_read_starred_and_tagged_entries_are_told_apart(library: World, alice: Actor) -> None:
    reading, tags = library.services.reading, library.services.tags
    rows = {
        row.title: row.id
        for row in reading.load_page(alice, StreamQuery(StreamRef(StreamKind.ALL), limit=9)).rows
    }
    reading.mark(alice, [rows["Ice hockey"]], True)
    reading.set_starred(alice, rows["Ice cores"], True)
    tags.change_tags(alice, rows["Sea level report"], add=["For Work"])
    assert found(library, alice, "ice is:read") == ["Ice hockey"]
    assert found(library, alice, "ice is:unread") == ["Ice cores", "Sea level report"]
    assert found(library, alice, "is:starred") == ["Ice cores"]
    assert found(library, alice, "ice -is:starred") == ["Ice hockey", "Sea level report"]
    assert found(library, alice, 'tag:"for work"') == ["Sea level report"]
    assert found(library, alice, 'ice -tag:"FOR WORK"') == ["Ice hockey", "Ice cores"]
    assert found(library, alice, "is:starred tag:work") == []
    both = reading.load_page(alice, StreamQuery(search("ice"), Sort.NEWEST, limit=9, show=Show.UNREAD))
    assert len(both.rows) == 3, (
        "who reads only what is unread still finds what he has read; is:unread says so"
    )


def test_folders_narrow_a_search(library: World, alice: Actor) -> None:
    services = library.services
    outer = services.folders.create(alice, "News")
    inner = services.folders.create(alice, "Sports", parent=outer.id)
    services.subscriptions.update(alice, library.feed("sport"), folder_ids=[inner.id])
    assert found(library, alice, "ice folder:news") == ["Ice hockey"]
    assert found(library, alice, "ice -folder:sports") == ["Ice cores", "Sea level report"]
    assert found(library, alice, "ice folder:none") == []


def test_nobody_finds_what_he_does_not_read(library: World, alice: Actor, bob: Actor) -> None:
    assert found(library, bob, "sea") == []
    library.services.subscriptions.unsubscribe(alice, library.feed("nature"))
    assert found(library, alice, "ice") == ["Ice hockey"]


def test_a_found_list_stays_as_it_was_while_it_is_read(library: World, alice: Actor) -> None:
    reading = library.services.reading
    with clock.set_source(lambda: NOW):
        query = StreamQuery(search("ice is:unread"), Sort.NEWEST, limit=1)
        page = reading.load_page(alice, query)
        titles = [row.title for row in page.rows]
        while page.cursor:
            reading.mark(alice, [page.rows[0].id], True)
            library.store(library.feed("sport"), [say(50 + len(titles), "New ice", age=0)])
            index(library)
            page = reading.load_page(alice, StreamQuery(query.ref, query.sort, page.cursor, page.snapshot, 1))
            titles += [row.title for row in page.rows]
        assert reading.count_newer(alice, page.snapshot) == 0, "what is new need not be what is searched for"
    assert titles == ["Ice hockey", "Ice cores", "Sea level report"]


def test_new_and_changed_entries_are_indexed_once(library: World, alice: Actor) -> None:
    nature, later = library.feed("nature"), NOW + dt.timedelta(hours=1)
    assert index(library) == {"feeds": 0, "entries": 0}
    change = EntryChange(guid_hash=guid(2), title="Glaciers")
    library.store(nature, [say(9, "A new one")], changed=[change], now=later)
    assert library.services.indexing.find_due_jobs(NOW) == [], "not before its time"
    assert len(library.services.indexing.find_due_jobs(later)) == 1
    assert index(library, later) == {"feeds": 1, "entries": 2}
    assert index(library, later) == {"feeds": 0, "entries": 0}
    assert found(library, alice, "glaciers") == ["Glaciers"]
    assert found(library, alice, "cores") == []
    library.store(nature, [], changed=[EntryChange(guid_hash=guid(1), title="Alone")], now=later)
    index(library, later)
    assert found(library, alice, "alone") == ["Alone"]


def test_what_a_crash_left_is_indexed_the_next_time(
    library: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = library.services.gateways.indexing
    library.store(library.feed("nature"), [say(9, "Fresh")])

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(gateway, "mark_indexed", killed)
        with pytest.raises(SystemExit):
            index(library)
    assert index(library)["entries"] == 1
    assert found(library, alice, "fresh") == ["Fresh"]


def test_news_that_comes_while_a_feed_is_indexed_is_not_forgotten(library: World, alice: Actor) -> None:
    nature, gateway = library.feed("nature"), library.services.gateways.indexing
    library.store(nature, [say(9, "First")])
    [feed] = gateway.find_unindexed(NOW, 10)
    library.store(nature, [say(10, "Second")], now=NOW + dt.timedelta(seconds=1))
    gateway.mark_indexed(feed)
    index(library, NOW + dt.timedelta(seconds=1))
    assert found(library, alice, "second") == ["Second"]


def test_all_can_be_made_anew(library: World, alice: Actor, db: Database[Any]) -> None:
    remove_index(library)
    with pytest.raises(SearchUnavailableError):
        found(library, alice, "ice")
    assert library.services.indexing.rebuild(NOW) == 3
    assert index(library)["entries"] == 6
    assert len(found(library, alice, "ice")) == 3


def test_the_first_start_with_a_search_indexes_what_was_there_before(
    library: World, alice: Actor, db: Database[Any]
) -> None:
    remove_index(library)
    with clock.set_source(lambda: NOW):
        library.services.migrate()
    assert len(library.services.indexing.find_due_jobs(NOW + dt.timedelta(hours=1))) == 1
    assert index(library)["entries"] == 6
    assert len(found(library, alice, "ice")) == 3
    library.services.migrate()
    assert index(library)["feeds"] == 0, "once"


def test_a_feed_that_cannot_be_indexed_holds_no_other_up(
    library: World, alice: Actor, db: Database[Any]
) -> None:
    bad = {"feed_id": library.feed("sport"), "seq": 1}
    body = db.entries.find_one(bad).get("body")
    db.entries.update_one(bad, {"$set": {"body": b"damaged"}})
    remove_index(library)
    library.services.indexing.rebuild(NOW)
    assert index(library)["feeds"] == 3
    assert count_indexed(library) == {"nature": 3, "sport": 0, "other": 1}
    db.entries.update_one(bad, {"$set": {"body": body}})
    assert index(library, NOW + dt.timedelta(minutes=59))["feeds"] == 0
    assert index(library, NOW + dt.timedelta(hours=1))["feeds"] == 1
    assert count_indexed(library) == {"nature": 3, "sport": 2, "other": 1}


@pytest.mark.parametrize("size", [1, 2, 100])
def test_news_of_several_feeds_is_read_together(
    library: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    later = NOW + dt.timedelta(minutes=1)
    for number, name in enumerate(("nature", "sport"), 20):
        change = EntryChange(guid_hash=guid(1 if name == "nature" else 4), title=f"Walrus {name}")
        news = [say(number, f"Walrus {number}"), say(number + 10, f"Walrus {number + 10}")]
        library.store(library.feed(name), news, changed=[change], now=later)
    monkeypatch.setattr(indexing, "BATCH", size)
    read = []

    def spy(name: str) -> None:
        real = getattr(EntryMapper, name)

        def find(*args: Any) -> Any:
            read.append(name)
            return real(*args)

        monkeypatch.setattr(EntryMapper, name, find)

    spy("find_range")
    spy("find_ranges")
    assert index(library, later) == {"feeds": 2, "entries": 6}
    assert len(read) <= {1: 10, 2: 6, 100: 1}[size]
    wanted = {"20", "21", "30", "31", "nature", "sport"}
    assert set(found(library, alice, "walrus")) == {f"Walrus {name}" for name in wanted}


def test_retention_takes_entries_out_but_not_marked_ones(
    library: World, alice: Actor, db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, nature = library.services, library.feed("nature")
    oldest = db.entries.find_one({"feed_id": nature, "seq": 1})["_id"]
    services.tags.change_tags(alice, oldest, add=["keep"])
    monkeypatch.setattr(services.gateways.retention, "_keep", 1)
    assert services.gateways.retention.apply_retention(nature) == 1, (
        "of three one is kept by number and one by its tag"
    )
    services.indexing.rebuild(NOW)
    index(library)
    assert count_indexed(library)["nature"] == 2, "the newest, and the one with a tag"
    title = services.reading.get_article(alice, oldest).entry.title
    assert found(library, alice, "tag:keep") == [title], "it is found by its mark"
    assert found(library, alice, "tag:keep is:unread") == []
    assert services.reading.get_article(alice, oldest).tags[0].name == "keep"


def test_an_entry_that_went_to_another_feed_is_found_there_alone(library: World, db: Database[Any]) -> None:
    engine, (one, two) = library.services.search_index, (11, 22)
    engine.add([SearchDocument(id=1, feed_id=one, seq=1, at=1, title="Moved")])
    engine.add([SearchDocument(id=1, feed_id=two, seq=1, at=1, title="Moved")])
    engine.commit_batch(())
    wanted = SearchRequest(feeds={one: (1, 9), two: (1, 9)}, newest=9, terms=(Term(("moved",)),))
    assert engine.find(wanted, 9).keys == [EntryKey(1, two, 1, 1)]
    assert engine.count_entries(dict.fromkeys((one, two), (1, 9))) == {one: 0, two: 1}


# -- the engine against a naive reference
WORDS = ("sea", "level", "ice", "melts", "日本語", "rare")
FEEDS = (11, 22, 33)
_texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
_term = st.builds(
    Term,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(lambda w: tuple(split_words(" ".join(w)))),
    st.sampled_from(TermField),
)
_entry = st.tuples(
    st.sampled_from(FEEDS), st.integers(0, 40), _texts, st.sampled_from(("", "sea rare")), _texts
)


def _holds(entry: SearchDocument, term: Term) -> bool:
    fields = {TermField.TITLE: [entry.title], TermField.AUTHOR: [entry.author]}
    for text in fields.get(term.where, [entry.title, entry.author, entry.text]):
        found_words = split_words(text)
        size = len(term.words)
        if any(tuple(found_words[i : i + size]) == term.words for i in range(len(found_words))):
            return True
    return False


def _naive(entries: list[SearchDocument], wanted: SearchRequest) -> list[EntryKey]:
    keys = [
        EntryKey(e.id, e.feed_id, e.seq, e.at)
        for e in entries
        if all(_holds(e, t) for t in wanted.terms)
        and not any(_holds(e, t) for t in wanted.without)
        and (wanted.since is None or e.at >= wanted.since)
        and (wanted.until is None or e.at <= wanted.until)
        and (wanted.ids is None or e.id in wanted.ids)
    ]
    return sorted((k for k in keys if wanted.is_match(k)), key=wanted.make_sort_key)


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_go_on_behind_many_entries_of_one_time(
    services: Any, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    """As those of a first fetch: the hits behind a page may be all of its last time, but for one."""
    monkeypatch.setattr(tantivy_index, "_BEYOND", 1)
    engine = services.search_index
    engine.open(answer_early=True)
    for many in range(1, 12):
        engine.remove(FEEDS[0], 1 << 40)
        times = [5, *[6] * many, 7, 8] if not newest_first else [5, 6, *[7] * many, 8]
        entries = [
            SearchDocument(id=1000 + i, feed_id=FEEDS[0], seq=i + 1, at=at, title="", author="", text="word")
            for i, at in enumerate(times)
        ]
        engine.add(entries)
        engine.commit_batch(())
        wanted = SearchRequest(
            feeds={FEEDS[0]: (1, 60)}, newest=40, terms=(), without=(), newest_first=newest_first
        )
        assert _page_through(engine, wanted, 1) == _naive(entries, wanted), many


def _page_through(engine: Any, wanted: SearchRequest, limit: int) -> list[EntryKey]:
    """Return what all pages have."""
    got, after = list[EntryKey](), None
    for _ in range(500):
        page = engine.find(dataclasses.replace(wanted, after=after), limit)
        taken = page.keys[:limit]
        got += taken
        after = (taken[-1].at, taken[-1].id) if len(page.keys) > limit else page.after
        if after is None:
            break
    return got


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data(), rows=st.lists(_entry, min_size=1, max_size=40), limit=st.integers(1, 8))
def test_the_engine_finds_what_a_naive_search_finds(
    services: Any, monkeypatch: pytest.MonkeyPatch, data: st.DataObject, rows: list[Any], limit: int
) -> None:
    """Rare words and windows of time, both orders, page by page; each example replaces the last one."""
    monkeypatch.setattr(tantivy_index, "_BEYOND", data.draw(st.sampled_from([1, 4, 16])))
    engine = services.search_index
    engine.open(answer_early=True)
    for feed in FEEDS:
        engine.remove(feed, 1 << 40)
    entries = [
        SearchDocument(id=1000 + i, feed_id=f, seq=i + 1, at=at, title=title, author=author, text=text)
        for i, (f, at, title, author, text) in enumerate(rows)
    ]
    engine.add(entries)
    engine.commit_batch(())
    border = st.none() | st.integers(0, 40)
    wanted = SearchRequest(
        feeds={f: (2, 60) for f in data.draw(st.sets(st.sampled_from(FEEDS)))},
        newest=40,
        terms=tuple(data.draw(st.lists(_term, max_size=3))),
        without=tuple(data.draw(st.lists(_term, max_size=2))),
        since=data.draw(border),
        until=data.draw(border),
        ids=data.draw(st.none() | st.frozensets(st.integers(1000, 1040))),
        newest_first=data.draw(st.booleans()),
    )
    assert _page_through(engine, wanted, limit) == _naive(entries, wanted)
