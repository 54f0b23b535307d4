"""The search index on disk: word forms, rebuilds, killed writers, damage, and a second server."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import random
import socket
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.database import Database

from app import clock
from app.adapters.search import remote, tantivy_index
from app.adapters.search.local import LocalSearch
from app.adapters.search.tantivy_index import IndexReader, IndexWriter
from app.bootstrap import services as bootstrap
from app.commands.search import build_server
from app.config import Settings
from app.errors import SearchUnavailableError, SearchUnsupportedError
from app.mappers.reading.entry_keys import from_millis
from app.models.accounts.actor import Actor
from app.models.reading.entry import EntryChange
from app.models.reading.search import (
    NoteReason,
    QueryNote,
    SearchDocument,
    SearchRequest,
    Term,
    parse_query,
)
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.models.reading.tokenizer import split_words
from app.monitoring.health import Severity, check_search, check_standby_indexes
from app.services.reading import indexing
from tests.conftest import Eventually
from tests.reading.test_search import count_indexed, found, index, library, remove_index, say
from tests.support.database import NOW, World, guid
from tests.support.indexing import (
    index_and_die,
    index_and_die_at_call,
    index_on_full_disk,
    index_standby_and_die,
    serve_search,
)

__all__ = ["library"]

FEED = 11


@pytest.fixture
def engine(settings: Settings) -> Iterator[LocalSearch]:
    """An empty index."""
    made = LocalSearch(settings.home, max_words=1000)
    made.open(answer_early=True)
    yield made
    made.close()


def find(engine: LocalSearch, query: str, feeds: range = range(FEED, FEED + 1)) -> set[int]:
    parsed = parse_query(query)
    wanted = SearchRequest(
        feeds={feed: (1, 1 << 30) for feed in feeds}, newest=99, terms=parsed.terms, without=parsed.without
    )
    return {key.id for key in engine.find(wanted, 5000).keys}


# -- word forms
TEXTS = (
    ("de", "Die Häuser der Stadt sind alt, und das ist nicht mit dem neuen Hafen zu vergleichen."),
    ("en", "The runners were running to the houses, and that is the end of it."),
    ("fr", "Les chevaux sont dans les prairies, et une école pour les enfants est aux portes."),
    ("ru", "Новые книги о выборах вышли в городах."),
    ("ar", "قرأ الطالب الكتاب في المدينة"),
    ("es", "Las ciudades más grandes del mundo, y los caminos que se hacen con el tiempo."),
    ("ja", "東京の記事を読む"),
    ("th", "น้ำท่วมกรุงเทพมหานครอีกครั้ง"),
)


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("de", "haus"),
        ("de", "häusern"),
        ("de", "neue städte"),
        ("en", "house"),
        ("en", "run"),
        ("fr", "cheval"),
        ("fr", "prairie"),
        ("ru", "книга"),
        ("ru", "новый город"),
        ("ru", "выборы"),
        ("ar", "كتاب"),
        ("ar", "والكتاب"),
        ("ar", "مدينة"),
        ("es", "camino"),
        ("ja", "東京"),
        ("ja", "記事"),
        ("th", "น้ำท่วม"),
        ("th", "กรุงเทพ"),
    ],
)
def test_other_forms_of_a_word_are_found_but_not_in_quotes(
    engine: LocalSearch, language: str, query: str
) -> None:
    engine.add(
        [
            SearchDocument(id=n, feed_id=FEED, seq=n, at=n, title="", text=text)
            for n, (_, text) in enumerate(TEXTS, 1)
        ]
    )
    engine.commit_batch(())
    expected = {n for n, (name, _) in enumerate(TEXTS, 1) if name == language}
    assert find(engine, query) == expected
    quoted = " ".join(f'"{word}"' for word in query.split())
    assert find(engine, quoted) == (expected if language in ("ja", "th") else set())


def test_a_word_with_a_star_finds_words_that_begin_like_it(engine: LocalSearch) -> None:
    texts = ("The garden", "Gardening at sea level", "Guards", "sea lions", "東京の記事")
    engine.add(
        [SearchDocument(id=n, feed_id=FEED, seq=n, at=n, title=text) for n, text in enumerate(texts, 1)]
    )
    engine.commit_batch(())
    assert find(engine, "gard*") == {1, 2}
    assert find(engine, "title:GÄR*") == {1, 2}
    assert find(engine, "g* -garden*") == {3}
    assert find(engine, "sea-l*") == {2, 4}
    assert find(engine, "東*") == {5}
    assert find(engine, "gard") == set()
    assert find(engine, "zzz*") == set()


@pytest.mark.parametrize(
    ("query", "cut"),
    [
        ("a*", ("a*",)),
        ("sea -a*", ("-a*",)),
        ("title:a*", ("title:a*",)),
        ("sea-a*", ("sea-a*",)),
        ("aa* b*", ()),
        ("b*", ()),
    ],
)
def test_a_prefix_of_too_many_words_is_reported(
    engine: LocalSearch, monkeypatch: pytest.MonkeyPatch, query: str, cut: tuple[str, ...]
) -> None:
    """Exactly as many words as the limit are none too many."""
    monkeypatch.setattr(tantivy_index, "EXPANSIONS", 3)
    monkeypatch.setattr(tantivy_index, "PHRASE_EXPANSIONS", 3)
    titles = ("sea aa", "sea ab", "sea ac", "sea ad", "ba", "bb", "bc")
    engine.add([SearchDocument(id=n, feed_id=FEED, seq=n, at=n, title=t) for n, t in enumerate(titles, 1)])
    engine.commit_batch(())
    parsed = parse_query(query)
    wanted = SearchRequest(feeds={FEED: (1, 99)}, newest=9, terms=parsed.terms, without=parsed.without)
    found = engine.find(wanted, 9)
    assert found.cut == cut
    assert [note.text for note in found.notes if note.why is NoteReason.PREFIX] == list(cut)
    assert remote.decode_result(remote.encode_result(found)) == found, "another server's reader learns it too"


def test_a_phrase_does_not_cross_title_author_and_text(engine: LocalSearch) -> None:
    engine.add([SearchDocument(id=1, feed_id=FEED, seq=1, at=1, title="Sea", author="Level", text="Ice age")])
    engine.commit_batch(())
    assert find(engine, '"sea level"') == set()
    assert find(engine, '"level ice"') == set()
    assert find(engine, '"ice age"') == {1}


def test_a_thousand_feeds_are_searched_at_once(engine: LocalSearch) -> None:
    rows = [
        SearchDocument(id=n, feed_id=n % 2000 + 1, seq=1, at=n, title="sea" if n % 3 else "ice")
        for n in range(1, 4001)
    ]
    engine.add(rows)
    engine.commit_batch(())
    feeds = range(500, 1500)
    assert find(engine, "sea", feeds) == {r.id for r in rows if r.feed_id in feeds and r.title == "sea"}


@pytest.mark.parametrize("shape", ["even", "newest elsewhere", "one time"])
def test_matches_in_many_feeds_are_read_page_by_page(engine: LocalSearch, shape: str) -> None:
    """The matches in all feeds are read; the engine goes on if the wanted feeds have fewer than expected."""
    wanted = range(2, 600, 2)
    rows = []
    for n in range(3000):
        elsewhere = shape == "newest elsewhere" and n >= 1500
        feed = 1 + n % 300 * 2 if elsewhere else n % 600
        at = 7 if shape == "one time" else n
        rows.append(SearchDocument(id=n + 1, feed_id=feed, seq=n // 600 + 1, at=at, title="sea"))
    engine.add(rows)
    engine.commit_batch(())
    asked = SearchRequest(
        feeds={feed: (1, 5) for feed in wanted}, newest=3000, terms=(Term(("sea",), typed="sea"),)
    )
    for newest_first in (True, False):
        got: list[int] = []
        after: tuple[int, int] | None = None
        while after is not None or not got:
            now = dataclasses.replace(asked, newest_first=newest_first, after=after)
            page = engine.find(now, 100)
            got += [key.id for key in page.keys]
            after = page.after
        expected = [row.id for row in rows if row.feed_id in wanted]
        assert got == (expected[::-1] if newest_first else expected)


# -- changes against a naive index
WORDS = ("ice", "house", "houses", "Häuser", "sea")
_changes = st.one_of(
    *[st.tuples(st.just("add"), st.integers(1, 4), st.integers(1, 3), st.sampled_from(WORDS))] * 3,
    st.tuples(st.just("remove_entry"), st.integers(1, 4), st.integers(1, 3), st.none()),
    st.tuples(st.just("remove_feed"), st.none(), st.integers(1, 3), st.none()),
    st.tuples(st.just("remove_below"), st.integers(1, 4), st.integers(1, 3), st.none()),
    st.tuples(st.just("commit"), st.none(), st.none(), st.none()),
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(changes=st.lists(_changes, max_size=14))
def test_the_index_has_what_a_naive_one_has_after_any_changes(
    engine: LocalSearch, changes: list[tuple[str, Any, Any, Any]]
) -> None:
    for feed in range(1, 4):
        engine.remove_feed(feed)
    naive: dict[int, tuple[int, str]] = {}
    for what, number, feed, word in changes:
        if what == "add":
            engine.add([SearchDocument(id=number, feed_id=feed, seq=number, at=number, title=word)])
            naive[number] = (feed, word)
        elif what == "remove_entry":
            engine.remove_entries(feed, [number])
            naive = {n: row for n, row in naive.items() if (n, row[0]) != (number, feed)}
        elif what == "remove_feed":
            engine.remove_feed(feed)
            naive = {n: row for n, row in naive.items() if row[0] != feed}
        elif what == "remove_below":
            engine.remove(feed, number, [2])
            naive = {n: row for n, row in naive.items() if row[0] != feed or n >= number or n == 2}
        else:
            engine.commit_batch(())
    engine.commit_batch(())
    for word in WORDS:
        expected = {n for n, row in naive.items() if split_words(row[1]) == split_words(word)}
        assert find(engine, f'"{word}"', range(1, 4)) == expected


def test_the_best_match_comes_first(world: World, alice: Actor) -> None:
    feed = world.services.subscriptions.subscribe(alice, "https://nature.example.org/feed")
    texts = (
        "Ice",
        "Much is said here of other things. " * 9 + "Ice.",
        "Ice on ice, ice under ice",
        "Sea",
    )
    world.store(
        feed.subscription.feed_id, [say(n, f"Number {n}", text, age=n) for n, text in enumerate(texts, 1)]
    )
    index(world)
    assert found(world, alice, "ice", Sort.RELEVANCE)[0] == "Number 3"
    reading, titles = world.services.reading, []
    with clock.set_source(lambda: NOW):
        query = StreamQuery(StreamRef(StreamKind.SEARCH, query="ice"), Sort.RELEVANCE, limit=1)
        while True:
            page = reading.load_page(alice, query)
            titles += [row.title for row in page.rows]
            if page.cursor is None:
                break
            query = dataclasses.replace(query, cursor=page.cursor, snapshot=page.snapshot)
    assert sorted(titles) == ["Number 1", "Number 2", "Number 3"]


# -- writers that die
@pytest.mark.parametrize(
    "moment", ["before a batch", "before a commit", "between commit and marks", "after the marks"]
)
def test_a_killed_writer_loses_no_news(library: World, alice: Actor, moment: str) -> None:
    library.services.search_index.close()  # its lock is for the other process
    nature, sport = library.feed("nature"), library.feed("sport")
    library.store(nature, [say(20 + n, f"Fresh {n}", "water") for n in range(4)])
    library.store(
        sport, [say(30, "Fresh as well", "water")], changed=[EntryChange(guid_hash=guid(4), title="Ball")]
    )
    index_and_die(library.services.settings, moment)
    assert library.services.indexing.find_due_jobs(NOW) or moment == "after the marks"
    index(library)
    assert len(found(library, alice, "water")) == 5
    assert found(library, alice, "hockey") == []
    assert count_indexed(library) == {"nature": 7, "sport": 3, "other": 1}


@pytest.mark.parametrize(
    "moment",
    ["before a commit", "before the position of a rebuild", "before the switch", "after the switch"],
)
def test_a_killed_rebuild_continues_while_the_old_index_answers(
    library: World, alice: Actor, moment: str
) -> None:
    library.services.search_index.close()
    library.services.indexing.rebuild(NOW)
    index_and_die(library.services.settings, moment)
    assert len(found(library, alice, "ice")) == 3
    assert len(library.services.indexing.find_due_jobs(NOW)) == 1
    library.store(library.feed("nature"), [say(9, "New ice")])
    index(library)
    assert len(found(library, alice, "ice")) == 4
    assert count_indexed(library) == {"nature": 4, "sport": 2, "other": 1}
    assert len(list_generations(library)) == 1, "the old one is deleted"
    assert library.services.indexing.get_state().total == 0


@pytest.mark.parametrize("seed", [1, 2, 8])
def test_a_writer_killed_at_random_moments_loses_and_revives_nothing(
    library: World, alice: Actor, db: Database[Any], seed: int
) -> None:
    """Its last batch may have been committed in part, or completely; a rebuild is killed as well."""
    rng, services = random.Random(seed), library.services
    services.search_index.close()
    feeds = [library.feed("nature"), library.feed("sport")]
    numbers, killed = itertools.count(100), 0
    for round_ in range(6):
        for feed in feeds:
            library.store(feed, [say(next(numbers), "Fresh water") for _ in range(rng.randrange(4))])
        gone = rng.choice(list(db["entries"].find({"feed_id": {"$in": feeds}}, {"feed_id": 1})))
        db["entries"].delete_one({"_id": gone["_id"]})
        services.mappers.index_marks.add_removals([(gone["feed_id"], gone["_id"])])
        if round_ == 0 and seed % 2:
            services.indexing.rebuild(NOW)
        delay = rng.choice([None, None, rng.uniform(1e-5, 0.03)])
        killed += index_and_die_at_call(services.settings, rng.randrange(1, 14), delay)
    assert killed
    index(library)
    stored = sorted(d["_id"] for d in db["entries"].find({}, {"_id": 1}))
    assert [entry_id for entry_id, _ in services.search_index.list_entries(0, 999)] == stored
    fresh = db["entries"].count_documents({"title": "Fresh water"})
    assert fresh == len(found(library, alice, "water"))


def list_generations(world: World) -> list[str]:
    root = world.services.settings.home / "search"
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def test_feeds_of_an_unfinished_batch_are_indexed_anew(library: World, alice: Actor) -> None:
    """Whatever such a batch has left in the index, none of it stays."""
    writer = library.services.search_index
    stray = SearchDocument(id=5, feed_id=library.feed("nature"), seq=3, at=1, title="Stray ice")
    writer.add([stray])
    writer.commit_batch([library.feed("nature")])
    writer.close()
    assert count_indexed(library)["nature"] == 4
    assert index(library) == {"feeds": 1, "entries": 3}
    assert count_indexed(library)["nature"] == 3


def test_a_second_writer_is_refused(library: World) -> None:
    [name] = list_generations(library)
    with pytest.raises(SearchUnavailableError):
        IndexWriter(library.services.settings.home / "search" / name, max_words=10)


def test_a_full_disk_stops_commits_and_keeps_marks(library: World, alice: Actor) -> None:
    library.services.search_index.close()
    library.store(library.feed("nature"), [say(9, "Fresh")])
    index_on_full_disk(library.services.settings)
    assert len(found(library, alice, "ice")) == 3, "searching goes on"
    assert len(library.services.indexing.find_due_jobs(NOW)) == 1
    index(library)
    assert found(library, alice, "fresh") == ["Fresh"]


def test_a_commit_that_fails_keeps_the_marks(
    library: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.store(library.feed("nature"), [say(9, "Fresh")])

    def failing(*_: object) -> None:
        raise SearchUnavailableError

    with monkeypatch.context() as patch:
        patch.setattr(IndexWriter, "commit_batch", failing)
        with pytest.raises(SearchUnavailableError):
            index(library)
    assert len(library.services.indexing.find_due_jobs(NOW)) == 1
    index(library)
    assert found(library, alice, "fresh") == ["Fresh"]


def test_a_damaged_index_is_built_anew(library: World, alice: Actor) -> None:
    """Also while its writer has it open."""
    services = library.services
    [name] = list_generations(library)
    for path in (services.settings.home / "search" / name).glob("*.term"):
        path.unlink()
    with bootstrap_search(services.settings) as other, pytest.raises(SearchUnavailableError):
        other.search.find(SearchRequest(feeds={1: (1, 9)}, newest=9), 9)
    assert len(services.indexing.find_due_jobs(NOW)) == 1, "the search has told the writer"
    index(library)
    assert len(found(library, alice, "ice")) == 3
    assert list_generations(library) != [name]


@pytest.mark.parametrize(("kind", "is_open"), [("term", True), ("fast", False)])
def test_a_damaged_file_lets_the_writer_build_the_index_anew(
    library: World, alice: Actor, kind: str, is_open: bool
) -> None:
    """The files are all there and can be opened, but a search fails: their checksums tell."""
    services = library.services
    [name] = list_generations(library)
    folder = services.settings.home / "search" / name
    if not is_open:
        services.search_index.close()
    for path in folder.glob(f"*.{kind}"):
        damage(path)
    with pytest.raises(SearchUnavailableError), bootstrap_search(services.settings) as other:
        found(World(other), alice, "title:ice -s*")
    assert len(services.indexing.find_due_jobs(NOW)) == 1
    services.indexing.run(NOW, 0.0)
    assert load_notes(library, alice, "ice") == (QueryNote(NoteReason.BUILDING, ""),)
    index(library)
    assert list_generations(library) != [name]
    assert len(found(library, alice, "ice")) == 3
    assert load_notes(library, alice, "ice") == ()


def damage(path: Path) -> None:
    """Overwrite the beginning, as a disk does that forgets blocks; the file can still be opened."""
    end = path.read_bytes().rindex(b'{"version"')
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"\xff" * max(1, end // 4))


def test_a_sound_index_survives_a_search_that_fails(library: World, alice: Actor) -> None:
    """Otherwise a query that the engine can't answer would cost a rebuild each time."""
    services = library.services
    [name] = list_generations(library)
    services.search_index._generations.set_suspect(services.settings.home / "search" / name, True)
    services.mappers.index_marks.request_check()
    index(library)
    assert list_generations(library) == [name]
    assert not services.search_index._generations.is_suspect(services.settings.home / "search" / name)


class bootstrap_search:
    """Services of another process on the same folder."""

    def __init__(self, given: Settings) -> None:
        self._services = bootstrap.build(given)

    def __enter__(self) -> Any:
        return self._services

    def __exit__(self, *_: object) -> None:
        self._services.close()


def test_entries_that_the_index_lacks_are_found_within_the_hour(library: World, alice: Actor) -> None:
    services = library.services
    services.search_index.remove_feed(library.feed("sport"))
    services.search_index.commit_batch(())
    assert index(library, NOW + dt.timedelta(minutes=59))["feeds"] == 0
    later = NOW + dt.timedelta(hours=1)
    assert len(services.indexing.find_due_jobs(later)) == 1
    index(library, later)
    assert index(library, later) == {"feeds": 1, "entries": 2}
    assert count_indexed(library) == {"nature": 3, "sport": 2, "other": 1}


@pytest.mark.parametrize("at_once", [1, 2, 5000])
def test_the_sweep_finds_what_only_one_side_has(
    library: World, alice: Actor, db: Database[Any], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """The index has two strays and lacks an entry, so that the numbers of entries say nothing."""
    monkeypatch.setattr(indexing, "SWEPT_AT_ONCE", at_once)
    services, nature, sport = library.services, library.feed("nature"), library.feed("sport")
    missing = db["entries"].find_one({"feed_id": nature, "seq": 2})["_id"]
    last = db["entries"].find_one(sort=[("_id", -1)])["_id"]
    services.search_index.remove_entries(nature, [missing])
    services.search_index.add(
        [
            SearchDocument(id=1, feed_id=nature, seq=2, at=1, title="Stray"),
            SearchDocument(id=last + 1, feed_id=sport + 999, seq=1, at=1, title="Stray"),
        ]
    )
    services.search_index.commit_batch(())
    later = NOW + dt.timedelta(hours=1)
    index(library, later)
    assert services.indexing.get_state().swept == 0, "everything was compared"
    index(library, later)
    listed = services.search_index.list_entries(0, 99)
    assert [entry_id for entry_id, _ in listed] == sorted(
        d["_id"] for d in db["entries"].find({}, {"_id": 1})
    )
    assert len(found(library, alice, "ice")) == 3


def test_the_sweep_is_bounded_and_continues(
    library: World, db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SWEPT", 2)
    monkeypatch.setattr(indexing, "SWEPT_AT_ONCE", 2)
    entry_ids = sorted(d["_id"] for d in db["entries"].find({}, {"_id": 1}))
    for hour, swept in ((1, entry_ids[1]), (2, entry_ids[3]), (3, entry_ids[5]), (4, 0)):
        index(library, NOW + dt.timedelta(hours=hour))
        assert library.services.indexing.get_state().swept == swept


def test_the_sweep_leaves_queued_and_retired_entries_alone(library: World, db: Database[Any]) -> None:
    services, nature, sport = library.services, library.feed("nature"), library.feed("sport")
    later = NOW + dt.timedelta(hours=1)
    entry_ids = {(d["feed_id"], d["seq"]): d["_id"] for d in db["entries"].find({}, {"feed_id": 1, "seq": 1})}
    db["feeds"].update_one({"_id": nature}, {"$set": {"first_seq": 2}})
    db["feeds"].update_one({"_id": sport}, {"$set": {"index_at": later + dt.timedelta(hours=1)}})
    services.search_index.remove_entries(nature, [entry_ids[nature, 1]])
    services.search_index.remove_entries(sport, [entry_ids[sport, 1]])
    services.search_index.commit_batch(())
    index(library, later)
    assert index(library, later)["feeds"] == 0


def test_entries_outside_of_the_feeds_numbers_do_not_count(engine: LocalSearch) -> None:
    """Old ones that are kept for a star would hide that new ones are missing."""
    engine.add([SearchDocument(id=n, feed_id=FEED, seq=n, at=n, title="Title") for n in range(1, 6)])
    engine.commit_batch(())
    assert engine.count_entries({FEED: (3, 9), FEED + 1: (1, 9)}) == {FEED: 3, FEED + 1: 0}


@pytest.mark.parametrize("at", ["999999999999999", "10000", "-5"])
def test_a_place_far_down_in_the_best_matches_is_empty(library: World, alice: Actor, at: str) -> None:
    """The engine reserves memory for all results before it; a made-up cursor would end the process."""
    query = StreamQuery(StreamRef(StreamKind.SEARCH, query="ice"), Sort.RELEVANCE, limit=1)
    with clock.set_source(lambda: NOW):
        first = library.services.reading.load_page(alice, query)
        beyond = dataclasses.replace(query, cursor=f"a.{at}.1.1", snapshot=first.snapshot)
        assert first.rows
        assert not library.services.reading.load_page(alice, beyond).rows
    wanted = SearchRequest(
        feeds={library.feed("nature"): (1, 99)}, newest=1, terms=(Term(("ice",)),), by_relevance=True
    )
    engine = library.services.search_index
    assert engine.find(dataclasses.replace(wanted, after=(int(at), 0)), 9).keys == []


# -- rebuilds
def test_a_rebuild_shows_its_progress_and_news_reaches_both_indexes(library: World, alice: Actor) -> None:
    services = library.services
    assert services.indexing.rebuild(NOW) == 3
    services.indexing.run(NOW, 0.0)  # one feed
    state = services.indexing.get_state()
    assert (state.done, state.total, state.percent) == (1, 3, 33)
    assert len(list_generations(library)) == 2
    library.store(library.feed("nature"), [say(9, "New ice")])
    services.indexing.run(NOW, 0.0)
    assert len(found(library, alice, "ice")) == 4, "news comes first, and the old index answers"
    index(library)
    assert services.indexing.get_state().total == 0
    assert len(found(library, alice, "ice")) == 4
    assert len(list_generations(library)) == 1


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The folders and numbers of entries of all additions to an index."""
    found: list[tuple[str, int]] = []
    add = IndexWriter.add

    def count(writer: IndexWriter, entries: Collection[SearchDocument]) -> None:
        found.append((writer.folder.name, len(entries)))
        add(writer, entries)

    monkeypatch.setattr(IndexWriter, "add", count)
    return found


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_first_index_takes_each_entry_once(
    library: World, alice: Actor, db: Database[Any], added: list[tuple[str, int]], seconds: float
) -> None:
    """All feeds have news then, and a new server has no state."""
    remove_index(library)
    db["index_state"].delete_many({})
    library.services.gateways.indexing.unindex_feeds([f["_id"] for f in db["feeds"].find()], NOW)
    library.services.indexing.run(NOW, seconds)
    assert library.services.indexing.get_state().wanted_at is None
    index(library)
    assert sum(number for _, number in added) == 6
    assert len({name for name, _ in added}) == 1, "there was one build"
    assert count_indexed(library) == {"nature": 3, "sport": 2, "other": 1}
    assert library.services.indexing.get_state().total == 0
    assert library.services.gateways.indexing.find_unindexed(NOW, 9) == []


def test_a_rebuild_takes_the_news_of_feeds_that_it_lacks_once(
    library: World, alice: Actor, added: list[tuple[str, int]]
) -> None:
    (old,) = list_generations(library)
    library.services.indexing.rebuild(NOW)
    names = sorted(("nature", "sport"), key=library.feed)
    library.services.indexing.run(NOW, 0.0)  # the feed with the lowest id
    for number, name in enumerate(names, 20):
        library.store(library.feed(name), [say(number, "New ice")])
    index(library)
    assert sum(number for name, number in added if name == old) == 2, "the old index gets the news at once"
    assert sum(number for name, number in added if name != old) == 8
    assert len(found(library, alice, "ice")) == 5
    assert sum(count_indexed(library).values()) == 8


def test_an_index_of_an_earlier_version_answers_until_there_is_a_new_one(
    library: World, alice: Actor, db: Database[Any]
) -> None:
    services, nature = library.services, library.feed("nature")
    remove_index(library)
    db.index_state.delete_many({})
    db.searchables.create_index(
        [("words", 1), ("feed_id", 1), ("at", -1), ("_id", -1), ("seq", 1)], name="words"
    )
    entry = db.entries.find_one({"feed_id": nature, "seq": 1})
    at = from_millis(int(entry["at"].timestamp() * 1000))
    db.searchables.insert_one(
        {"_id": entry["_id"], "feed_id": nature, "at": at, "seq": 1, "words": ["", "old"]}
    )
    assert len(found(library, alice, "old")) == 1
    assert len(services.indexing.find_due_jobs(NOW)) == 1
    services.indexing.run(NOW, 0.0)
    assert len(found(library, alice, "old")) == 1, "the new index isn't complete"
    index(library)
    assert "searchables" not in db.list_collection_names()
    assert found(library, alice, "old") == []
    assert len(found(library, alice, "ice")) == 3


# -- removals
def test_removed_shares_and_erased_streams_leave_the_index(library: World, db: Database[Any]) -> None:
    queue = library.services.mappers.index_marks
    nature, sport = library.feed("nature"), library.feed("sport")
    entry = db.entries.find_one({"feed_id": nature, "seq": 1})["_id"]
    queue.add_removals([(nature, entry), (sport, None), (library.feed("other"), entry)])
    assert len(library.services.indexing.find_due_jobs(NOW)) == 1
    index(library)
    assert count_indexed(library) == {"nature": 2, "sport": 0, "other": 1}
    assert library.services.indexing.find_due_jobs(NOW) == []


# -- several servers
@pytest.fixture
def address(settings: Settings) -> Iterator[str]:
    """The address of a process that answers from this server's index."""
    with build_server(settings, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_another_server_asks_the_one_with_the_index(
    library: World, alice: Actor, address: str, tmp_path: Path
) -> None:
    away = dataclasses.replace(library.services.settings, search=address, home=tmp_path / "away")
    query = StreamQuery(
        StreamRef(StreamKind.SEARCH, query='ice -"sea level" is:unread'), Sort.NEWEST, limit=9
    )
    with bootstrap_search(away) as other, clock.set_source(lambda: NOW):
        assert [row.title for row in other.reading.load_page(alice, query).rows] == ["Ice hockey"]
    wrong = dataclasses.replace(away, secret_key="x" * 32)
    with bootstrap_search(wrong) as other, pytest.raises(SearchUnavailableError):
        other.reading.load_page(alice, query)


def test_a_slow_sender_is_cut_off_and_its_thread_serves_others(
    library: World, alice: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, a request takes longer than what is set in real life.
    monkeypatch.setattr(remote, "PATIENCE", 60.0)
    given = dataclasses.replace(library.services.settings, search_threads=1, search_seconds=10.0)
    with (
        build_server(given, "127.0.0.1", 0) as server,
        socket.create_connection(server.server_address) as slow,
    ):  # type: ignore[arg-type]
        slow.sendall(b"POST /find HTTP/1.0\r\nContent-Length: 9\r\n")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        away = dataclasses.replace(
            given, search=f"http://127.0.0.1:{server.server_address[1]}", home=tmp_path / "away"
        )
        with bootstrap_search(away) as other:
            assert len(found(World(other), alice, "ice")) == 3
        assert slow.recv(99) == b"", "the server has closed the connection"
        server.shutdown()
        thread.join()


def test_the_second_server_is_asked_if_the_first_does_not_answer(
    library: World, alice: Actor, address: str, tmp_path: Path
) -> None:
    away = dataclasses.replace(
        library.services.settings, search=f"http://127.0.0.1:9 {address}", home=tmp_path / "away"
    )
    with bootstrap_search(away) as other:
        assert len(found(World(other), alice, "ice")) == 3


def test_two_servers_never_share_the_news(library: World, alice: Actor, tmp_path: Path) -> None:
    """Each would get a part of it; the second one takes over when the first has been silent for hours."""
    library.store(library.feed("nature"), [say(9, "Fresh")])
    with bootstrap_search(dataclasses.replace(library.services.settings, home=tmp_path / "two")) as other:
        assert other.indexing.run(NOW, 60.0) == {"feeds": 0, "entries": 0}
        assert len(library.services.indexing.find_due_jobs(NOW)) == 1
        assert index(library)["feeds"] == 1
        later = NOW + dt.timedelta(hours=3)
        assert other.indexing.run(later, 60.0)["feeds"] == 3
        assert index(library, later) == {"feeds": 0, "entries": 0}


@pytest.fixture
def second(library: World, tmp_path: Path) -> Settings:
    """The settings of a second server, whose standby index is complete."""
    given = dataclasses.replace(
        library.services.settings, home=tmp_path / "second", search="http://127.0.0.1:9"
    )
    with bootstrap_search(given) as services:
        services.standby.run(NOW, 60.0)
        assert len(services.search_index.list_entries(0, 99)) == 6
    return given


def list_both(library: World, second: Settings) -> list[list[int]]:
    """Return the ids in the first index and in the standby index."""
    with bootstrap_search(second) as services:
        engines = (library.services.search_index, services.search_index)
        return [[entry_id for entry_id, _ in engine.list_entries(0, 99)] for engine in engines]


@pytest.mark.parametrize("is_first_ahead", [True, False])
def test_a_standby_index_follows_the_news_without_taking_it(
    library: World, db: Database[Any], second: Settings, is_first_ahead: bool
) -> None:
    nature, sport, later = library.feed("nature"), library.feed("sport"), NOW + dt.timedelta(minutes=5)
    library.store(
        nature, [say(9, "Fresh")], changed=[EntryChange(guid_hash=guid(2), title="Glaciers")], now=later
    )
    gone = db["entries"].find_one({"feed_id": sport, "seq": 1})["_id"]
    library.services.mappers.index_marks.add_removals([(sport, gone)])
    if is_first_ahead:
        with clock.set_source(lambda: later):
            assert index(library, later) == {"feeds": 1, "entries": 2}
    with bootstrap_search(second) as services:
        assert services.standby.run(later, 60.0)["feeds"]
        assert services.standby.run(later, 60.0)["feeds"] == 0, "once"
        assert len(find(services.search_index, "glaciers", range(nature, nature + 1))) == 1
    if not is_first_ahead:
        assert index(library, later) == {"feeds": 1, "entries": 2}, "the first index still has its marks"
    first, standby = list_both(library, second)
    assert first == standby
    assert gone not in standby


def test_news_that_is_stored_late_reaches_the_standby_index(library: World, second: Settings) -> None:
    """Another feed's later news is there first; the times of the two are in the wrong order."""
    later = NOW + dt.timedelta(minutes=5)
    library.store(library.feed("nature"), [say(8, "Later")], now=later)
    with bootstrap_search(second) as services:
        services.standby.run(later, 60.0)
        library.store(library.feed("sport"), [say(9, "Late")], now=later - dt.timedelta(minutes=2))
        services.standby.run(later + dt.timedelta(minutes=2), 60.0)
        index(library, later)
    first, standby = list_both(library, second)
    assert first == standby


@pytest.mark.parametrize(
    "moment", ["before a batch", "before a commit", "between commit and marks", "after the place"]
)
def test_a_killed_standby_writer_loses_no_news(library: World, second: Settings, moment: str) -> None:
    nature, sport = library.feed("nature"), library.feed("sport")
    library.store(nature, [say(20 + n, f"Fresh {n}", "water") for n in range(4)])
    library.store(sport, [say(30, "Fresh")], changed=[EntryChange(guid_hash=guid(4), title="Ball")])
    index(library)
    index_standby_and_die(second, moment)
    with bootstrap_search(second) as services:
        services.standby.run(NOW, 60.0)
        assert find(services.search_index, "hockey", range(sport, sport + 1)) == set()
    first, standby = list_both(library, second)
    assert first == standby


def test_the_standby_index_answers_when_the_first_server_is_killed(
    library: World, alice: Actor, second: Settings
) -> None:
    """News that the first server never indexed is found, too."""
    with serve_search(library.services.settings) as (one, kill), serve_search(second) as (two, _):
        asking = dataclasses.replace(second, search=f"{one} {two}", home=second.home / "asking")
        with bootstrap_search(asking) as services:
            assert len(found(World(services), alice, "ice")) == 3
            kill()
            library.store(library.feed("nature"), [say(9, "Fresh ice")])
            with bootstrap_search(second) as writer:
                writer.standby.run(NOW, 60.0)
            assert len(found(World(services), alice, "ice")) == 4


def test_doctor_tells_how_far_a_standby_index_is_behind(
    library: World, db: Database[Any], second: Settings
) -> None:
    settings = library.services.settings

    def check(minutes: int) -> tuple[Severity, str]:
        with clock.set_source(lambda: NOW + dt.timedelta(minutes=minutes)):
            [found] = check_standby_indexes(settings)
        return found.word, found.text

    with bootstrap_search(second) as services:
        services.standby.run(NOW, 60.0)  # the run that finds no more news
    word, text = check(1)
    assert word is Severity.OK
    assert text.endswith("is complete.")
    holder = text.split()[4]
    library.store(library.feed("nature"), [say(9, "Fresh")], now=NOW + dt.timedelta(minutes=1))
    assert check(4) == (Severity.OK, f"The standby index of {holder} is 4 minutes behind.")
    assert check(11)[0] is Severity.WARN
    assert "hasn't been updated for 11 minutes" in check(11)[1]
    state = {"_id": f"standby:{holder}"}
    db["index_state"].update_one(state, {"$set": {"held_at": NOW + dt.timedelta(minutes=30)}})
    assert check(30) == (Severity.WARN, f"The standby index of {holder} is 30 minutes behind.")
    db["index_state"].update_one(state, {"$set": {"wanted_at": NOW}})
    assert check(30) == (Severity.WARN, f"The standby index of {holder} is being built.")
    with clock.set_source(lambda: NOW + dt.timedelta(days=8)):
        assert list(check_standby_indexes(settings)) == [], "given up"


def test_a_server_without_its_search_goes_on_reading(library: World, alice: Actor, tmp_path: Path) -> None:
    away = dataclasses.replace(library.services.settings, search="http://127.0.0.1:9", home=tmp_path / "away")
    with bootstrap_search(away) as other, clock.set_source(lambda: NOW):
        with pytest.raises(SearchUnavailableError):
            other.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.SEARCH, query="ice")))
        assert other.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.ALL))).rows


@pytest.fixture
def without_tantivy(library: World) -> Iterator[None]:
    """As on a platform for which there is no build of it."""
    name = "app.adapters.search.tantivy_index"
    kept = {key: sys.modules.pop(key, None) for key in (name, "tantivy")}
    sys.modules["tantivy"] = None  # type: ignore[assignment]
    yield
    for key, module in kept.items():
        sys.modules.pop(key, None)
        if module is not None:
            sys.modules[key] = module


@pytest.mark.usefixtures("without_tantivy")
def test_without_the_engine_all_but_the_search_works(library: World, alice: Actor) -> None:
    library.store(library.feed("nature"), [say(9, "Fresh")])
    with bootstrap_search(library.services.settings) as other, clock.set_source(lambda: NOW):
        assert other.indexing.run(NOW, 60.0) == {"feeds": 0, "entries": 0}, "the news waits"
        assert len(other.indexing.find_due_jobs(NOW)) == 1
        with pytest.raises(SearchUnsupportedError, match="pip install tantivy"):
            other.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.SEARCH, query="fresh")))
        rows = other.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.ALL))).rows
        assert "Fresh" in [row.title for row in rows]
        said = check_search(other.settings)
    assert said.word is Severity.WARN
    assert "pip install tantivy" in said.text


@pytest.mark.usefixtures("without_tantivy")
def test_a_new_server_without_the_engine_does_not_say_that_nothing_was_found(
    library: World, alice: Actor, db: Database[Any]
) -> None:
    remove_index(library)
    db["index_state"].delete_many({})
    assert library.services.indexing.get_state().is_new
    with pytest.raises(SearchUnsupportedError):
        found(library, alice, "ice")


def test_a_new_server_says_that_the_index_is_being_built(
    library: World, alice: Actor, db: Database[Any]
) -> None:
    remove_index(library)
    db["index_state"].delete_many({})
    assert [note.why for note in load_notes(library, alice, "ice")] == [NoteReason.BUILDING]
    services = library.services
    services.indexing.run(NOW, 0.0)
    assert [note.why for note in load_notes(library, alice, "ice")] == [NoteReason.BUILDING], "a part"
    index(library)
    assert load_notes(library, alice, "ice") == ()


def test_a_rebuild_beside_a_complete_index_needs_no_note(library: World, alice: Actor) -> None:
    library.services.indexing.rebuild(NOW)
    library.services.indexing.run(NOW, 0.0)
    assert library.services.indexing.get_state().total == 3
    assert load_notes(library, alice, "ice") == ()


def load_notes(world: World, actor: Actor, query: str, sort: Sort = Sort.NEWEST) -> tuple[QueryNote, ...]:
    """Return the notes of a page; all of a reader's pages have the same."""
    with clock.set_source(lambda: NOW):
        page = world.services.reading.load_page(
            actor, StreamQuery(StreamRef(StreamKind.SEARCH, query=query), sort, limit=9)
        )
    assert page.looked is not None
    return page.looked.notes


def test_entries_that_the_store_lacks_are_not_shown(library: World, alice: Actor, db: Database[Any]) -> None:
    """As after a restore of an older backup."""
    db["entries"].delete_one({"title": "Ice cores"})
    assert found(library, alice, "ice") == ["Ice hockey", "Sea level report"]


def test_readers_see_a_commit_of_another_process(library: World, eventually: Eventually) -> None:
    """They look at most once a second."""
    services, nature = library.services, library.feed("nature")
    reader = LocalSearch(services.settings.home, max_words=10)
    wanted = SearchRequest(feeds={nature: (1, 99)}, newest=1, terms=(Term(("fresh",)),))
    assert reader.find(wanted, 9).keys == []
    library.store(nature, [say(9, "Fresh")])
    index(library, NOW + dt.timedelta(seconds=1))
    assert eventually(lambda: reader.find(wanted, 9).keys)
    [name] = list_generations(library)
    assert IndexReader(services.settings.home / "search" / name).count() == 7
