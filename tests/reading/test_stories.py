"""Stories: copies of one article in several feeds, found by the job that updates the search index."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st
from pymongo import monitoring
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import MovingError, NotFoundError, SearchUnavailableError, StoreError
from app.feeds.fingerprints import WORDS_MIN, hash_linked_page, hash_text
from app.gateways.reading.stories import Candidates, join_story
from app.mappers.reading.entry_keys import to_millis
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import APART_MAX
from app.models.accounts.token import SCOPES, Scope
from app.models.jobs.jobs import Job, Task
from app.models.reading.entry import EntryKey, NewEntry
from app.models.reading.rules import Rule, RuleMarks, RuleSet
from app.models.reading.search import SearchRequest, SearchResult, encode_query
from app.models.reading.story import (
    CANDIDATES_MAX,
    KEEP,
    MEMBERS_MAX,
    NEAR_MS,
    REPEAT_MS,
    SAME,
    WAIT,
    Fingerprint,
    StoredStory,
    choose_story,
)
from app.models.reading.stream import EntryRow, MassMarkResult, Page, Show, Sort, StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from app.runtime import identity_map
from app.services.reading import copy_marks
from app.services.reading.pages import PageMaker
from tests.database.test_explain import Recorder, statements
from tests.database.test_outbox_order import find_examined
from tests.reading.test_search import index
from tests.support.commands import add_listener, build_logged_services
from tests.support.database import NOW, World, guid
from tests.support.indexing import index_and_die
from tests.support.reader import add_user

Doc = dict[str, Any]
PAGE = "https://news.example/2026/story"
WORDS = [f"word{n}" for n in range(3000)]


def make_text(seed: int, words: int = 300) -> str:
    """Return a text of random words; texts with different seeds share no sequence of words."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def change_words(text: str, share: float) -> str:
    """Return a text in which this share of the words is another."""
    rng, words = random.Random(7), text.split()
    for place in rng.sample(range(len(words)), round(share * len(words))):
        words[place] = f"other{place}"
    return " ".join(words)


def write(
    number: int, url: str | None = None, text: str = "", *, title: str = "", age: float = 10
) -> NewEntry:
    """Return an entry; ``age``: in minutes."""
    at = NOW - dt.timedelta(minutes=age)
    html = f"<p>{text}</p>"
    return NewEntry(
        guid(number), at, at, title or f"Entry {number}", url=url, content=html, excerpt=text[:300]
    )


def find_stories(db: Database[Doc]) -> list[list[str]]:
    """Return the titles of the copies of each story."""
    titles = {d["_id"]: d["title"] for d in db["entries"].find()}
    found = db["twins"].find({"many": True}).sort("_id")
    return [[titles[m["entry_id"]] for m in d["members"]] for d in found]


# -- what tells copies
@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "https://news.example",
        "https://news.example/",
        "https://news.example/#latest",
        "https://news.example/story#comment-12",
        "https://news.example/2026/05#p3",
        "mailto:ann@news.example",
    ],
)
def test_an_address_that_names_no_article_has_no_key(url: str | None) -> None:
    assert hash_linked_page(url) is None


@pytest.mark.parametrize(
    "url",
    [
        f"{PAGE}#atom-everything",
        f"{PAGE}#xtor=RSS-3",
        f"{PAGE}/?utm_source=rss",
        f"{PAGE}#:~:text=12%20people",
    ],
)
def test_an_address_of_an_article_has_the_key_of_its_page(url: str) -> None:
    assert hash_linked_page(url) == hash_linked_page(PAGE) is not None


@pytest.mark.parametrize("url", ["https://news.example/?p=12", "https://news.example/#!/story/12"])
def test_an_article_below_the_home_page_has_a_key(url: str) -> None:
    assert hash_linked_page(url) is not None


def test_short_and_repeated_texts_are_not_compared() -> None:
    assert hash_text(make_text(1, WORDS_MIN - 1)) is None
    assert hash_text("again and " * 200) is None
    assert hash_text(make_text(1, WORDS_MIN)) is not None


def test_texts_without_blanks_are_compared_by_character() -> None:
    text = "".join(chr(0x4E00 + n) for n in random.Random(1).choices(range(3000), k=WORDS_MIN))
    assert hash_text(text[:-1]) is None
    assert hash_text(text) is not None


def compare(one: str, other: str, *, hours: float = 1, languages: tuple[str, str] = ("en", "en")) -> bool:
    """Return whether a text is a near-same copy of another one, without their addresses."""
    first, second = hash_text(one), hash_text(other)
    old = StoredStory(1, frozenset(), first, languages[0], (EntryKey(1, 1, 1, 0),))
    new = Fingerprint(EntryKey(2, 2, 1, round(hours * 3_600_000)), None, second, languages[1])
    return choose_story(new, [old]) is old


def test_near_same_texts_are_copies() -> None:
    texts = [make_text(seed) for seed in range(100)]
    assert sum(compare(text, change_words(text, 0.02)) for text in texts) >= 95
    assert not any(compare(text, change_words(text, 0.3)) for text in texts)
    assert not any(compare(text, other) for text, other in pairwise(texts))


def test_same_text_is_no_copy_in_another_language_or_days_later() -> None:
    text = make_text(1)
    assert compare(text, text, hours=72)
    assert not compare(text, text, hours=72.1)
    assert not compare(text, text, languages=("en", "de"))
    assert compare(text, text, languages=("", "de"))


def check_page(one: str, other: str) -> bool:
    """Return whether two entries with one address are copies."""
    old = StoredStory(1, frozenset({5}), hash_text(one), "", (EntryKey(1, 1, 1, 0),))
    new = Fingerprint(EntryKey(2, 2, 1, 99 * NEAR_MS), 5, hash_text(other), "")
    return choose_story(new, [old]) is not None


def test_one_address_makes_copies_of_articles_and_their_extracts() -> None:
    article = make_text(1, 1500)
    assert check_page(article, article)
    assert check_page(article, "Comments")
    assert check_page(article, " ".join(article.split()[:120]))
    assert check_page(article, " ".join(article.split()[:900]))


def test_a_post_about_an_article_is_no_copy_of_it() -> None:
    article = make_text(1, 1500)
    assert not check_page(article, make_text(2, 100))
    assert not check_page(article, make_text(2, 1400))


def test_a_feed_that_links_all_entries_to_one_page_has_no_copies_by_address() -> None:
    stories = [
        StoredStory(1, frozenset({5}), None, "", (EntryKey(1, 1, 1, 0),)),
        StoredStory(2, frozenset({5}), None, "", (EntryKey(2, 2, 1, 0),)),
    ]
    assert choose_story(Fingerprint(EntryKey(3, 2, 2, 0), 5), stories) is None
    assert choose_story(Fingerprint(EntryKey(3, 3, 2, 0), 5), stories) is stories[1]


def test_a_full_story_takes_no_more_copies() -> None:
    members = tuple(EntryKey(n, n, 1, 0) for n in range(MEMBERS_MAX))
    full = StoredStory(1, frozenset({5}), None, "", members)
    assert choose_story(Fingerprint(EntryKey(99, 99, 1, 0), 5), [full]) is None


@given(st.text(max_size=400))
def test_any_text_can_be_compared(text: str) -> None:
    found = hash_text(text * 9)
    assert found is None or len(found.signature) > SAME


# -- the job
def test_copies_are_found_by_address_and_by_text(world: World, db: Database[Doc]) -> None:
    text = make_text(1)
    a, b, c, d = (world.feed() for _ in range(4))
    world.store(a, [write(1, f"{PAGE}?utm_source=a", text, title="A")])
    world.store(b, [write(2, f"http://www.{PAGE[8:]}/", title="B")])
    world.store(c, [write(3, "https://other.example/copy", change_words(text, 0.02), title="C")])
    world.store(d, [write(4, "https://other.example/copy#atom", title="D"), write(5, "https://x.example/y")])
    index(world)
    assert find_stories(db) == [["A", "B", "C", "D"]]
    assert db["twins"].count_documents({}) == 2


def test_a_later_entry_joins(world: World, db: Database[Doc]) -> None:
    a, b = world.feed(), world.feed()
    world.store(a, [write(1, PAGE, title="A")])
    index(world)
    assert find_stories(db) == []
    later = NOW + WAIT - dt.timedelta(hours=1)
    world.store(b, [write(2, PAGE, title="B", age=-60 * 24 * 29)], now=later)
    index(world, later)
    assert find_stories(db) == [["A", "B"]]
    story = db["twins"].find_one() or {}
    assert story["expires"] == later + KEEP


def test_an_entry_waits_for_its_first_copy_for_a_month(world: World, db: Database[Doc]) -> None:
    world.store(world.feed(), [write(1, PAGE, age=60), write(2, f"{PAGE}2", age=60 * 24 * 31)])
    index(world)
    waiting = list(db["twins"].find())
    assert [doc["expires"] for doc in waiting] == [NOW - dt.timedelta(hours=1) + WAIT]


def test_a_new_index_finds_the_same_copies(world: World, db: Database[Doc]) -> None:
    for number in range(4):
        world.store(world.feed(), [write(number, f"{PAGE}{number % 2}", title=f"E{number}")])
    index(world)
    before = list(db["twins"].find().sort("_id"))
    world.services.indexing.rebuild(NOW)
    index(world)
    assert list(db["twins"].find().sort("_id")) == before
    db["twins"].delete_many({})
    world.services.indexing.rebuild(NOW)
    index(world)
    assert find_stories(db) == [["E0", "E2"], ["E1", "E3"]]


def make_prints(count: int, feed_id: int | None, text: str, first: int = 1) -> list[Fingerprint]:
    """Return entries with one page and one text, a second apart; None: each of another feed."""
    at, found = to_millis(NOW) - 3_600_000, hash_text(text)
    return [
        Fingerprint(EntryKey(n, feed_id or n, n, at + n * 1000), 5, found)
        for n in range(first, first + count)
    ]


def test_what_very_many_entries_have_in_common_is_read_in_part(
    services: Services, db: Database[Doc], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = make_prints(3000, None, make_text(1))
    services.mappers.twins.write(waiting, [], NOW)
    recorder = Recorder()
    add_listener(monkeypatch, recorder)
    (new,) = make_prints(1, 9999, make_text(1), 9999)
    others = [
        Fingerprint(EntryKey(n, 1, n, new.key.at), n, hash_text(make_text(n))) for n in range(9000, 9100)
    ]
    with contextlib.closing(bootstrap.build(services.settings)) as built:
        found = built.mappers.twins.find_candidates([5], list(new.text.bands if new.text else ()))
        assert built.gateways.stories.record([*others, new], NOW) == 1
    assert [one.id for one in found] == list(range(3001 - CANDIDATES_MAX, 3001))
    rare = Fingerprint(EntryKey(9500, 2, 1, new.key.at), 6, None)
    services.mappers.twins.write([rare], [], NOW)
    both = [one.id for one in services.mappers.twins.find_candidates([5, 6], [])]
    assert both == [*range(3001 - CANDIDATES_MAX, 3001), 9500], "next to a common page, a rare one"
    assert len(Candidates([*found, *map(store_alone, waiting)]).find(new)) == CANDIDATES_MAX
    story = db["twins"].find_one({"many": True}) or {}
    assert story["_id"] == 3000, "the newest"
    asked = [s for name, command in recorder.commands for s in statements(name, command) if s[0] == "twins"]
    examined = sum(
        find_examined(db.command("explain", one, verbosity="executionStats"))
        for _, query, one in asked
        if not query.keys().isdisjoint({"keys", "bands"})
    )
    assert examined < 20_000


def store_alone(new: Fingerprint) -> StoredStory:
    return join_story(None, new)


def test_a_feed_that_repeats_itself_is_stored_for_comparison_once_a_day(
    services: Services, db: Database[Doc]
) -> None:
    record = services.gateways.stories.record
    for part in range(3):
        assert record(make_prints(100, 7, make_text(1), 1 + part * 100), NOW) == 0
    assert db["twins"].count_documents({}) == 300
    assert [d["_id"] for d in db["twins"].find({"keys": 5})] == [1]
    assert [d["_id"] for d in db["twins"].find({"bands": {"$exists": True}})] == [1]
    (other,) = make_prints(1, 8, make_text(1), 1000)
    assert record([other], NOW) == 1
    next_day = dataclasses.replace(other, key=EntryKey(2000, 7, 2000, other.key.at + REPEAT_MS))
    assert record([next_day], NOW) == 0
    assert [d["_id"] for d in db["twins"].find({"keys": 5})] == [2000, 1], "newest first"


@pytest.mark.parametrize(
    "moment",
    [
        *("before a batch", "before the copies", "after the copies", "before a commit"),
        *("between commit and marks", "after the marks"),
    ],
)
def test_a_killed_worker_loses_and_doubles_no_copy(world: World, db: Database[Doc], moment: str) -> None:
    for number in range(6):
        world.store(world.feed(), [write(number, f"{PAGE}{number % 3}", title=f"E{number}")])
    index_and_die(world.services.settings, moment)
    index(world)
    assert find_stories(db) == [["E0", "E3"], ["E1", "E4"], ["E2", "E5"]]
    assert db["twins"].count_documents({}) == 3


def test_entries_of_people_are_no_copies(world: World, db: Database[Doc]) -> None:
    own, site = world.feed(), world.feed()
    db["feeds"].update_one({"_id": own}, {"$set": {"kind": "shared"}})
    world.store(own, [write(1, PAGE)])
    world.store(site, [write(2, PAGE)])
    index(world)
    assert [doc["_id"] for doc in db["twins"].find()] == [
        doc["_id"] for doc in db["entries"].find({"feed_id": site})
    ]


def _keys(keys: Sequence[EntryKey]) -> list[int]:
    return [key.id for key in keys]


def test_members_that_are_gone_are_left_out(world: World, db: Database[Doc]) -> None:
    feeds = [world.feed() for _ in range(3)]
    for number, feed in enumerate(feeds):
        world.store(feed, [write(number, PAGE)])
    index(world)
    ids = [doc["_id"] for doc in db["entries"].find().sort("_id")]
    twins = world.services.gateways.stories
    found = twins.find_copies(ids)
    assert [_keys(found[i].members) for i in ids] == [ids] * 3
    db["entries"].delete_one({"_id": ids[0]})
    assert _keys(twins.find_copies(ids)[ids[1]].members) == ids[1:]
    db["entries"].delete_one({"_id": ids[2]})
    assert twins.find_copies(ids) == {}


# -- reading
@pytest.fixture
def alice(services: Services) -> Actor:
    """Alice, who has an account with preferences."""
    return add_user(services, "alice")


@pytest.fixture
def reader(world: World, alice: Actor) -> World:
    """Alice reads A, B and C; A and B have the same story, and each feed has entries of its own."""
    for name in ("a", "b", "c"):
        world.services.subscriptions.subscribe(alice, f"https://{name}.example.org/feed", title=name.upper())
    a, b, c = (world.feed(name) for name in ("a", "b", "c"))
    only = f"{PAGE}/only"
    world.store(a, [write(1, PAGE, title="Story in A", age=30), write(2, only, title="Only A", age=20)])
    world.store(b, [write(3, PAGE, title="Story in B", age=10), write(4, title="Only B", age=40)])
    world.store(c, [write(5, title="Only C", age=15)])
    index(world)
    return world


def load(world: World, actor: Actor, ref: str = "all", **options: Any) -> list[EntryRow]:
    """Return all rows of a stream, page by page."""
    rows, page = list[EntryRow](), None
    with clock.set_source(lambda: NOW):
        while page is None or page.cursor:
            query = StreamQuery(StreamRef.parse(ref), Sort.NEWEST, **options)
            if page is not None:
                query = dataclasses.replace(query, cursor=page.cursor, snapshot=page.snapshot)
            page = world.services.reading.load_page(actor, query)
            rows += page.rows
    return rows


def get_titles(rows: Sequence[EntryRow]) -> list[str]:
    return [row.title for row in rows]


def get_ids(world: World, actor: Actor) -> dict[str, int]:
    """Return the ids of entries by title."""
    feeds = [world.feed(name) for name in ("a", "b", "c")]
    return {row.title: row.id for feed in feeds for row in load(world, actor, f"feed/{feed}")}


def test_copies_share_one_row(reader: World, alice: Actor) -> None:
    rows = load(reader, alice)
    assert get_titles(rows) == ["Story in B", "Only C", "Only A", "Only B"]
    assert [copy.feed_title for copy in rows[0].copies] == ["A"]
    assert rows[0].copies[0].entry_id == get_ids(reader, alice)["Story in A"]
    assert not any(row.copies for row in rows[1:])


def test_feeds_show_all_copies(reader: World, alice: Actor) -> None:
    a, b = reader.feed("a"), reader.feed("b")
    assert "Story in A" in get_titles(load(reader, alice, f"feed/{a}"))
    assert "Story in B" in get_titles(load(reader, alice, f"feed/{b}"))


def make_search(query: str) -> str:
    return f"search/{encode_query(query)}"


def test_search_results_show_a_story_once(reader: World, alice: Actor) -> None:
    for sort in (Sort.NEWEST, Sort.OLDEST, Sort.RELEVANCE):
        (row,) = page_through(reader, alice, sort, Show.ALL, 50, make_search("story"))
        assert row.title == ("Story in A" if sort is Sort.OLDEST else row.title)
        assert [copy.feed_title for copy in row.copies] == ["B" if row.title == "Story in A" else "A"]
    turn_off(reader, alice)
    assert get_titles(load(reader, alice, make_search("story"))) == ["Story in B", "Story in A"]


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ('"story in a"', ["Story in A"]),  # the newer copy doesn't match
        ("story feed:A", ["Story in A"]),
        ("story -is:starred", ["Story in A"]),
        ("story is:unread", ["Story in A"]),
    ],
)
def test_a_copy_that_a_search_does_not_find_cannot_stand_for_those_it_finds(
    reader: World, alice: Actor, query: str, titles: list[str]
) -> None:
    ids = get_ids(reader, alice)
    turn_off(reader, alice)
    reader.services.reading.set_starred(alice, ids["Story in B"], True)
    reader.services.reading.mark(alice, [ids["Story in B"]], True)
    turn_on(reader, alice)
    assert get_titles(load(reader, alice, make_search(query))) == titles


def test_a_search_whose_copies_cannot_be_looked_up_shows_each_entry(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = reader.services.finder._search
    find = engine.find

    def find_pages(request: SearchRequest, limit: int) -> SearchResult:
        if request.ids is not None:
            raise SearchUnavailableError
        return find(request, limit)

    monkeypatch.setattr(engine, "find", find_pages)
    rows = page_through(reader, alice, Sort.NEWEST, Show.ALL, 1, make_search("story"))
    assert get_titles(rows) == ["Story in B", "Story in A"]


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST, Sort.RELEVANCE])
@pytest.mark.parametrize(
    "query", ["word", "word is:unread", "word -is:starred", "word is:starred", "is:unread"]
)
def test_no_page_of_search_results_doubles_or_loses_a_story(
    world: World, alice: Actor, db: Database[Doc], sort: Sort, query: str
) -> None:
    rng = random.Random(f"{sort}{query}")
    feeds, numbers = [], iter(range(1000))
    for number in range(6):
        world.services.subscriptions.subscribe(alice, f"https://f{number}.example.org/feed")
        feeds.append(world.feed(f"f{number}"))
    for feed in feeds:
        pages = rng.sample(range(12), 8)
        new = []
        for n, page in zip(numbers, pages, strict=False):
            # Copies have different lengths, hence relevances, and some lack the word.
            words = ["word"] * rng.choice([0, 1, 1, 2, 5]) + ["other"] * rng.randrange(40)
            new.append(
                write(n, f"{PAGE}{page}", title=f"P{page}", text=" ".join(words), age=rng.randrange(300))
            )
        world.store(feed, new)
    index(world)
    turn_off(world, alice)
    every = load(world, alice)
    world.services.reading.mark(alice, [row.id for row in rng.sample(every, 15)], True)
    read_without_eyes(db)
    world.services.reading.set_many_starred(alice, [row.id for row in rng.sample(every, 15)], True)
    ref = make_search(query)
    wanted = page_through(world, alice, sort, Show.ALL, 100, ref)
    assert len({row.title for row in wanted}) > 5
    turn_on(world, alice)
    for limit in (1, 2, 5, 7, 50):
        found = page_through(world, alice, sort, Show.ALL, limit, ref)
        titles = get_titles(found)
        assert len(set(titles)) == len(titles), "no story twice"
        assert {row.id for row in found} <= {row.id for row in wanted}, "only what the search finds"
        assert titles == list(dict.fromkeys(get_titles(wanted))), "each where its first copy is"


def test_counts_stay_per_entry(reader: World, alice: Actor) -> None:
    tree = reader.services.reading.get_tree(alice)
    assert tree.unread == 5


@pytest.mark.parametrize("read", [True, False])
def test_reading_reaches_all_copies(reader: World, alice: Actor, read: bool) -> None:
    ids = get_ids(reader, alice)
    if not read:
        reader.services.reading.mark(alice, list(ids.values()), True)
    done = reader.services.reading.mark(alice, [ids["Story in A"]], read)
    assert done.deltas == {reader.feed(name): -1 if read else 1 for name in ("a", "b")}
    states = reader.services.reading.find_read_states(alice, list(ids.values()))
    assert {i for i, state in states.items() if state is read} == {ids["Story in A"], ids["Story in B"]}


def test_stars_reach_all_copies_which_share_a_row(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    reader.services.reading.set_starred(alice, ids["Only C"], True)
    reader.services.reading.set_starred(alice, ids["Story in A"], True)
    rows = load(reader, alice, "starred", limit=1)
    assert len(rows) == 2
    assert sorted(len(row.copies) for row in rows) == [0, 1]
    assert sum(row.starred for row in load(reader, alice)) == 2
    reader.services.reading.set_many_starred(alice, [ids["Story in B"]], False)
    assert get_titles(load(reader, alice, "starred")) == ["Only C"]


def test_marking_above_a_row_reaches_the_copies_of_the_rows(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    with clock.set_source(lambda: NOW):
        ref = StreamRef.parse("all")
        page = reader.services.reading.load_page(alice, StreamQuery(ref, Sort.NEWEST))
        done = reader.services.marking.mark_above(alice, ref, page.snapshot, ids["Only C"])
    assert done.count == 2
    assert get_titles(load(reader, alice, show=Show.UNREAD)) == ["Only C", "Only A", "Only B"]
    with clock.set_source(lambda: NOW):
        reader.services.reading.undo_mass_mark(alice, done.undo)
    assert reader.services.reading.get_tree(alice).unread == 5


def test_a_row_is_unread_while_one_of_its_copies_is(reader: World, alice: Actor, db: Database[Doc]) -> None:
    ids = get_ids(reader, alice)
    turn_off(reader, alice)
    reader.services.reading.mark(alice, [ids["Story in B"]], True)
    turn_on(reader, alice)
    row = load(reader, alice)[0]
    assert (row.title, row.read) == ("Story in B", False)
    assert get_titles(load(reader, alice, show=Show.UNREAD))[-2] == "Story in A"


def list_unread(world: World, actor: Actor) -> list[str]:
    """Return the titles of all unread entries, copies or not."""
    feeds = [world.feed(name) for name in ("a", "b", "c")]
    return sorted(t for f in feeds for t in get_titles(load(world, actor, f"feed/{f}", show=Show.UNREAD)))


EVERY = ["Only A", "Only B", "Only C", "Story in A", "Story in B"]


def test_marking_a_feed_reaches_the_copies_of_its_entries(reader: World, alice: Actor) -> None:
    reading, feed = reader.services.reading, StreamRef.parse(f"feed/{reader.feed('a')}")
    done = reading.mark_all(alice, feed)
    assert (done.count, list_unread(reader, alice)) == (3, ["Only B", "Only C"])
    reading.undo_mass_mark(alice, done.undo)
    assert list_unread(reader, alice) == EVERY
    turn_off(reader, alice)
    assert reading.mark_all(alice, feed).count == 2
    assert list_unread(reader, alice) == ["Only B", "Only C", "Story in B"]


def test_the_undo_of_a_feed_keeps_copies_that_were_read_before(reader: World, alice: Actor) -> None:
    reading, ids = reader.services.reading, get_ids(reader, alice)
    turn_off(reader, alice)
    reading.mark(alice, [ids["Story in B"]], True)
    turn_on(reader, alice)
    done = reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))
    assert done.count == 2
    reading.undo_mass_mark(alice, done.undo)
    assert list_unread(reader, alice) == [title for title in EVERY if title != "Story in B"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_marks_of_two_feeds_with_copies_can_be_undone_in_any_order(
    reader: World, alice: Actor, order: tuple[int, int]
) -> None:
    reading = reader.services.reading
    done = [reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed(name)}")) for name in ("a", "b")]
    assert [one.count for one in done] == [3, 1]
    assert list_unread(reader, alice) == ["Only C"]
    for place in order:
        assert "Story in B" not in list_unread(reader, alice), "the other mark has read it, too"
        reading.undo_mass_mark(alice, done[place].undo)
    assert list_unread(reader, alice) == EVERY


def test_a_copy_becomes_unread_with_the_undo_of_the_last_mark_that_read_it(
    reader: World, alice: Actor
) -> None:
    reading, b = reader.services.reading, reader.feed("b")
    first = reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))
    later = [reading.mark_all(alice, StreamRef.parse(f"feed/{b}"))]
    reader.store(b, [write(8, title="New in B", age=1)])
    later.append(reading.mark_all(alice, StreamRef.parse(f"feed/{b}")))
    reading.undo_mass_mark(alice, first.undo)
    assert list_unread(reader, alice) == ["Only A", "Only C", "Story in A"]
    reading.undo_mass_mark(alice, later[1].undo)
    assert list_unread(reader, alice) == ["New in B", "Only A", "Only C", "Story in A"]
    reading.undo_mass_mark(alice, later[0].undo)
    assert list_unread(reader, alice) == ["New in B", *EVERY]


def test_a_copy_becomes_unread_though_an_earlier_mark_of_its_feed_was_undone(
    reader: World, alice: Actor
) -> None:
    reading, (a, b) = reader.services.reading, (StreamRef.parse(f"feed/{reader.feed(n)}") for n in "ab")
    earlier = reading.mark_all(alice, b)
    reading.mark(alice, [get_ids(reader, alice)["Story in B"]], False)
    later = reading.mark_all(alice, a)
    reading.undo_mass_mark(alice, earlier.undo)
    assert list_unread(reader, alice) == ["Only B", "Only C"]
    reading.undo_mass_mark(alice, later.undo)
    assert list_unread(reader, alice) == EVERY


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_the_undos_of_three_marks_restore_everything(
    reader: World, alice: Actor, order: tuple[int, int, int]
) -> None:
    reading, b = reader.services.reading, reader.feed("b")
    done = [reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))]
    for number in (8, 9):
        done.append(reading.mark_all(alice, StreamRef.parse(f"feed/{b}")))
        reader.store(b, [write(number, title=f"New {number}", age=1)])
    later = done[1:][::-1]  # of one feed, the later must be undone first
    for place in order:
        reading.undo_mass_mark(alice, done[0].undo if place == 0 else later.pop(0).undo)
    assert list_unread(reader, alice) == ["New 8", "New 9", *EVERY]


@pytest.mark.parametrize("in_job", [False, True])
@pytest.mark.parametrize("with_read_feed", [False, True])
@pytest.mark.parametrize("limit", ["keep", "last"])
def test_what_a_mark_leaves_unread_in_its_feeds_is_no_copy_to_mark(
    *,
    reader: World,
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
    in_job: bool,
    with_read_feed: bool,
    limit: str,
) -> None:
    reading, (a, b, c) = reader.services.reading, (reader.feed(name) for name in "abc")
    if with_read_feed:
        reading.mark_all(alice, StreamRef.parse(f"feed/{c}"))
    jobs: list[Job] = []
    if in_job:
        monkeypatch.setattr(copy_marks, "AT_ONCE", 0)
        monkeypatch.setattr(reader.services.copy_marks._jobs, "enqueue", jobs.append)
    some: Any = {"keep": {b: [2]}} if limit == "keep" else {"last_seqs": {a: 9, b: 0}}
    reader.services.mass_marks.mark_feeds(alice, [a, b], None, **some)
    for job in jobs:
        reader.services.copy_marks.run(**job.args, seconds=60.0)
    assert len(jobs) == in_job
    assert "Story in B" in list_unread(reader, alice)


@pytest.mark.parametrize("feeds", [None, "abc"])
def test_a_mark_of_all_feeds_looks_for_no_copies(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, feeds: str | None
) -> None:
    monkeypatch.setattr(copy_marks, "AT_ONCE", 0)
    monkeypatch.setattr(reader.services.stories, "find_copies", pytest.fail)
    monkeypatch.setattr(reader.services.copy_marks._jobs, "enqueue", pytest.fail)
    chosen = None if feeds is None else [reader.feed(name) for name in feeds]
    reader.services.mass_marks.mark_feeds(alice, chosen, None, keep={reader.feed("b"): [2]})
    assert list_unread(reader, alice) == ["Story in B"]


def test_apps_learn_of_copies_that_a_mark_of_a_feed_reached(reader: World, alice: Actor) -> None:
    actor, ids = dataclasses.replace(alice, synced=True), get_ids(reader, alice)
    before = clock.now() - dt.timedelta(minutes=1)
    reader.services.reading.mark_all(actor, StreamRef.parse(f"feed/{reader.feed('a')}"))
    seqs, _ = reader.services.gateways.changes.find_since(alice.user_id, before)
    states = reader.services.reading.find_read_states(alice, [ids["Story in B"]])
    assert states == {ids["Story in B"]: True}
    assert seqs.keys() == {reader.feed("a"), reader.feed("b")}
    assert len(seqs[reader.feed("b")]) == 1, "only the copy"


def queue_copies(world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch) -> tuple[MassMarkResult, Doc]:
    """Mark feed A as read as if it had very many entries; return the mark and its job's arguments."""
    jobs: list[Job] = []
    monkeypatch.setattr(copy_marks, "AT_ONCE", 1)
    monkeypatch.setattr(world.services.copy_marks._jobs, "enqueue", jobs.append)
    done = world.services.reading.mark_all(alice, StreamRef.parse(f"feed/{world.feed('a')}"))
    (job,) = jobs
    assert (job.task, done.count) == (Task.MARK_COPIES, 2)
    assert list_unread(world, alice) == ["Only B", "Only C", "Story in B"]
    return done, job.args


def test_a_job_marks_the_copies_of_many_entries(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, args = queue_copies(reader, alice, monkeypatch)
    run = reader.services.copy_marks.run
    assert run(**args, seconds=60.0) == {"entries": 1}
    assert list_unread(reader, alice) == ["Only B", "Only C"]
    assert run(**args, seconds=60.0) == {"entries": 0}, "running twice changes nothing"
    reader.services.reading.undo_mass_mark(alice, done.undo)
    assert list_unread(reader, alice) == EVERY
    assert run(**args, seconds=60.0) == {"entries": 0}, "it was undone"
    assert list_unread(reader, alice) == EVERY


def test_a_stopped_job_hands_the_remaining_feeds_to_another(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr(copy_marks, "AT_ONCE", 1)
    monkeypatch.setattr(reader.services.copy_marks._jobs, "enqueue", jobs.append)
    feeds = sorted(reader.feed(name) for name in "ac")
    reader.services.marking.mark_feeds(alice, feeds)
    seen = [jobs[0].args]
    while jobs:
        args = jobs.pop().args
        reader.services.copy_marks.run(**args, seconds=60.0, is_stopping=lambda: True)
        seen += [job.args for job in jobs]
    # Another place each time: a job with the same arguments as a running one isn't queued.
    assert [args["after"] for args in seen] == [0, feeds[0]]
    assert list_unread(reader, alice) == ["Only B"]


class KilledError(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("cause", [StoreError, KilledError])
def test_copies_are_marked_even_if_the_job_was_not_queued(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, cause: type[BaseException]
) -> None:
    def fail(_job: Job) -> None:
        raise cause

    services, feed = reader.services, StreamRef.parse(f"feed/{reader.feed('a')}")
    monkeypatch.setattr(copy_marks, "AT_ONCE", 1)
    with monkeypatch.context() as patch, contextlib.suppress(KilledError):
        patch.setattr(services.copy_marks._jobs, "enqueue", fail)
        done = services.reading.mark_all(alice, feed)
        assert done.undo in [action.undo for action in services.marking.list_history(alice).actions]
    assert list_unread(reader, alice) == ["Only B", "Only C", "Story in B"]
    now = clock.now()
    assert services.copy_marks.find_due_jobs(now) == []
    assert services.copy_marks.find_due_jobs(now + dt.timedelta(seconds=59)) == []
    (job,) = services.copy_marks.find_due_jobs(now + dt.timedelta(minutes=11))
    services.copy_marks.run(**job.args, seconds=60.0)
    assert list_unread(reader, alice) == ["Only B", "Only C"]
    assert services.copy_marks.find_due_jobs(now + dt.timedelta(minutes=22)) == []


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("step", ["mark_copies_in_job", "mark", "end_copies"])
def test_an_undo_while_the_job_runs_includes_its_marks(
    *,
    reader: World,
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
    db: Database[Doc],
    step: str,
    is_after: bool,
    is_killed: bool,
) -> None:
    done, args = queue_copies(reader, alice, monkeypatch)
    actor = dataclasses.replace(alice, synced=True)
    reads, run = reader.services.gateways.read_marks, reader.services.copy_marks.run
    make = getattr(reads, step)

    def make_and_undo(*some: Any, **options: Any) -> Any:
        result = make(*some, **options) if is_after else None
        with contextlib.suppress(NotFoundError):  # it was undone before
            reader.services.reading.undo_mass_mark(actor, done.undo)
        result = result if is_after else make(*some, **options)
        if is_killed:
            raise KilledError
        return result

    with monkeypatch.context() as patch, contextlib.suppress(KilledError):
        patch.setattr(reads, step, make_and_undo)
        run(**args, seconds=60.0)
    if is_killed:
        run(**args, seconds=60.0)
    assert list_unread(reader, alice) == EVERY
    assert db["undos"].count_documents({}) == 0
    reader.services.reading.mark(alice, [get_ids(reader, alice)["Story in B"]], True)
    run(**args, seconds=60.0)
    assert "Story in B" not in list_unread(reader, alice), "it is taken back once"


def test_a_job_that_ends_during_an_undo_leaves_nothing_behind(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, db: Database[Doc]
) -> None:
    done, args = queue_copies(reader, alice, monkeypatch)
    undos = reader.services.mappers.undos
    leave = undos.leave_to_job

    def run_and_leave(*some: Any) -> bool:
        reader.services.copy_marks.run(**args, seconds=60.0)
        return leave(*some)

    monkeypatch.setattr(undos, "leave_to_job", run_and_leave)
    reader.services.reading.undo_mass_mark(alice, done.undo)
    assert list_unread(reader, alice) == EVERY
    assert db["undos"].count_documents({}) == 0


def test_an_undone_mark_is_gone_while_its_job_still_runs(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, args = queue_copies(reader, alice, monkeypatch)
    reader.services.reading.undo_mass_mark(alice, done.undo)
    assert reader.services.marking.list_history(alice).actions == ()
    with pytest.raises(NotFoundError):
        reader.services.reading.undo_mass_mark(alice, done.undo)
    assert reader.services.copy_marks.run(**args, seconds=60.0) == {"entries": 0}
    assert list_unread(reader, alice) == EVERY


def test_an_undo_that_expires_while_the_job_runs_takes_nothing_back(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, db: Database[Doc]
) -> None:
    _, args = queue_copies(reader, alice, monkeypatch)
    reads = reader.services.gateways.read_marks
    end = reads.end_copies

    def expire_and_end(*some: Any, **options: Any) -> bool:
        db["undos"].delete_many({})
        return end(*some, **options)

    monkeypatch.setattr(reads, "end_copies", expire_and_end)
    reader.services.copy_marks.run(**args, seconds=60.0)
    assert list_unread(reader, alice) == ["Only B", "Only C"]


def test_apps_learn_of_marks_that_a_job_takes_back(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, db: Database[Doc]
) -> None:
    changes = reader.services.gateways.changes
    db["users"].update_one({"_id": alice.user_id}, {"$set": {"synced": True}})
    done, args = queue_copies(reader, alice, monkeypatch)
    reads = reader.services.gateways.read_marks
    end, last = reads.end_copies, list[int]()

    def undo_and_end(*some: Any, **options: Any) -> bool:
        reader.services.reading.undo_mass_mark(alice, done.undo)
        last.append(changes.find_last_id(alice.user_id))
        return end(*some, **options)

    monkeypatch.setattr(reads, "end_copies", undo_and_end)
    reader.services.copy_marks.run(**args, seconds=60.0)
    assert changes.find_last_id(alice.user_id) > last[0] > 0


@pytest.fixture
def shared(reader: World, alice: Actor) -> int:
    """Bob shares the copy in A, and Alice follows Bob; returns the id of the share."""
    bob = add_user(reader.services, "bob")
    reader.services.subscriptions.subscribe(bob, "https://a.example.org/feed")
    reader.services.following.update_profile(
        bob, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    share = reader.services.sharing.share(bob, get_ids(reader, alice)["Story in A"]).share
    reader.services.following.follow(alice, "bob")
    return share.id


def test_marks_of_a_share_reach_the_copies_of_the_shared_entry(
    reader: World, alice: Actor, shared: int
) -> None:
    reading = reader.services.reading
    actor = dataclasses.replace(alice, social=True)
    reading.set_starred(actor, shared, True)
    assert [len(row.copies) for row in load(reader, actor, "starred")] == [1]
    reading.set_many_starred(actor, [shared], False)
    assert load(reader, actor, "starred") == []
    reading.set_many_starred(actor, [shared], True)
    assert [len(row.copies) for row in load(reader, actor, "starred")] == [1]
    reading.mark(actor, [shared], True)
    assert list_unread(reader, actor) == ["Only A", "Only B", "Only C"]


def test_marking_the_shares_of_people_reaches_the_copies(reader: World, alice: Actor, shared: int) -> None:
    actor = dataclasses.replace(alice, social=True)
    reader.services.reading.mark(actor, [shared], False)
    done = reader.services.reading.mark_all(actor, StreamRef.parse("following"))
    assert list_unread(reader, actor) == ["Only A", "Only B", "Only C"]
    reader.services.reading.undo_mass_mark(actor, done.undo)
    assert list_unread(reader, actor) == EVERY


# -- copies that arrive later
def add_copy(world: World, *, name: str = "c", number: int = 9) -> None:
    world.store(world.feed(name), [write(number, PAGE, title="Story in C", age=5)])
    index(world)


def read_story(world: World, actor: Actor) -> None:
    world.services.reading.mark(actor, [get_ids(world, actor)["Story in A"]], True)


OTHERS = ["Only A", "Only B", "Only C"]


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST, Sort.UNREAD_ON_TOP, Sort.SHORTEST, Sort.POPULAR])
def test_a_copy_that_arrives_after_its_story_was_read_is_read(
    reader: World, alice: Actor, sort: Sort
) -> None:
    read_story(reader, alice)
    add_copy(reader)
    assert reader.services.reading.get_tree(alice).unread == 4, "nothing is written when it arrives"
    found = page_through(reader, alice, sort, Show.UNREAD, 2)
    assert sorted(get_titles(found)) == OTHERS
    assert list_unread(reader, alice) == OTHERS
    assert reader.services.reading.get_tree(alice).unread == 3
    every = page_through(reader, alice, sort, Show.ALL, 50)
    assert [(len(row.copies), row.read) for row in every if "Story" in row.title] == [(2, True)]


def test_a_list_with_read_entries_shows_the_story_of_a_late_copy_as_read(reader: World, alice: Actor) -> None:
    read_story(reader, alice)
    add_copy(reader)
    with clock.set_source(lambda: NOW):
        query = StreamQuery(StreamRef.parse("all"), Sort.UNREAD_ON_TOP)
        tree, page = reader.services.reading.load_tree_and_page(alice, query)
        again = dataclasses.replace(query, snapshot=page.snapshot)
        same = reader.services.reading.load_page(alice, again)
    titles = ["Only C", "Only A", "Only B", "Story in B"]
    assert get_titles(page.rows) == get_titles(same.rows) == titles
    assert (page.rows[-1].read, page.split, page.unread, tree.unread) == (True, 3, 3, 3)


def test_the_list_of_a_folder_knows_what_was_read_elsewhere(reader: World, alice: Actor) -> None:
    folder = reader.services.folders.create(alice, "F").id
    reader.services.folders.move_feed(alice, reader.feed("c"), source=None, target=folder)
    read_story(reader, alice)
    add_copy(reader)
    ref = f"folder/{folder}"
    assert [row.read for row in load(reader, alice, ref) if row.title == "Story in C"] == [True]
    assert get_titles(load(reader, alice, ref, show=Show.UNREAD)) == ["Only C"]
    assert list_unread(reader, alice) == OTHERS


def test_a_late_copy_of_an_unread_story_is_unread(reader: World, alice: Actor) -> None:
    read_story(reader, alice)
    reader.services.reading.mark(alice, [get_ids(reader, alice)["Story in B"]], False)
    add_copy(reader)
    assert get_titles(load(reader, alice, show=Show.UNREAD))[0] == "Story in C"
    assert len(list_unread(reader, alice)) == 6


def test_apps_learn_that_a_late_copy_is_read(reader: World, alice: Actor) -> None:
    actor = dataclasses.replace(alice, synced=True)
    read_story(reader, alice)
    add_copy(reader)
    load(reader, actor)
    seqs, _ = reader.services.gateways.changes.find_since(alice.user_id, NOW - dt.timedelta(minutes=1))
    assert seqs.keys() == {reader.feed("c")}


def test_an_undo_after_a_late_copy_was_read_restores_what_the_mark_changed(
    reader: World, alice: Actor
) -> None:
    reading = reader.services.reading
    done = reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))
    add_copy(reader)
    load(reader, alice)
    reading.undo_mass_mark(alice, done.undo)
    load(reader, alice)
    assert list_unread(reader, alice) == EVERY, "the story is unread, its late copy has been read"
    assert "Story in B" in get_titles(load(reader, alice, show=Show.UNREAD))


def test_a_page_is_shown_while_marks_cannot_be_written(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_story(reader, alice)
    add_copy(reader)

    def fail(*_args: Any, **_options: Any) -> None:
        raise MovingError

    with monkeypatch.context() as patch:
        patch.setattr(reader.services.gateways.read_marks, "mark", fail)
        assert sorted(get_titles(load(reader, alice, show=Show.UNREAD))) == OTHERS
    assert "Story in C" in list_unread(reader, alice)
    load(reader, alice)
    assert list_unread(reader, alice) == OTHERS


@pytest.mark.parametrize("cause", ["rule", "days", "hidden", "start", "off", "apart"])
def test_what_the_reader_did_not_read_says_nothing_of_late_copies(
    reader: World, alice: Actor, db: Database[Doc], cause: str
) -> None:
    ids, user = get_ids(reader, alice), {"user_id": alice.user_id}
    read_story(reader, alice)
    everywhere = {**user, "feed_id": {"$in": [reader.feed("a"), reader.feed("b")]}}
    if cause == "rule":
        feeds = tuple(reader.feed(name) for name in ("a", "b"))
        rule = Rule(1, "Read", "story", feeds=feeds, read=True)
        reader.services.gateways.rules.store_rules(alice.user_id, [rule], RuleSet(), NOW.date())
        db["subscriptions"].update_many(everywhere, {"$set": {"ruled": Int64(99)}})
    elif cause == "days":
        db["subscriptions"].update_many(everywhere, {"$set": {"read_after": 3, "read_after_done": Int64(9)}})
    elif cause == "hidden":
        db["subscriptions"].update_many(everywhere, {"$set": {"hidden": {"0": Int64(-1)}}})
    elif cause == "start":
        turn_off(reader, alice)
        for name in ("a", "b"):
            reader.services.subscriptions.unsubscribe(alice, reader.feed(name))
            reader.services.subscriptions.subscribe(alice, f"https://{name}.example.org/feed")
        reader.services.reading.mark(alice, [ids["Story in A"], ids["Story in B"]], True)
        turn_on(reader, alice)
    elif cause == "off":
        turn_off(reader, alice)
    else:
        reader.services.stories.set_apart(alice, ids["Story in A"], True)
    add_copy(reader)
    rows = load(reader, alice, show=Show.UNREAD)
    assert "Story in C" in get_titles(rows)
    assert "Story in C" in get_titles(load(reader, alice, f"feed/{reader.feed('c')}", show=Show.UNREAD))


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST, Sort.UNREAD_ON_TOP, Sort.SHORTEST, Sort.POPULAR])
@pytest.mark.parametrize("show", list(Show))
def test_no_page_doubles_or_loses_a_story_with_late_copies(
    world: World, alice: Actor, sort: Sort, show: Show
) -> None:
    rng = random.Random(f"late {sort}{show}")
    feeds, numbers = [], iter(range(1000))
    for number in range(6):
        world.services.subscriptions.subscribe(alice, f"https://f{number}.example.org/feed")
        feeds.append(world.feed(f"f{number}"))
    read = set[str]()
    for round_ in range(3):
        for feed in feeds:
            pages = [page for page in range(18) if page % 3 == feeds.index(feed) // 2 or rng.random() < 0.3]
            known = {row.title for row in load(world, alice, f"feed/{feed}")}
            new = [
                write(
                    n, f"{PAGE}{page}", title=f"P{page}", text="x " * rng.randrange(9), age=rng.randrange(300)
                )
                for n, page in zip(numbers, rng.sample(pages, 4), strict=False)
                if f"P{page}" not in known
            ]
            world.store(feed, new)
        index(world)
        if round_ < 2:
            found = [row for row in page_through(world, alice, sort, Show.ALL, 50) if row.title not in read]
            for row in rng.sample(found, len(found) // 3):
                world.services.reading.mark(alice, [row.id], True)
                read.add(row.title)
    every = {row.title for feed in feeds for row in load(world, alice, f"feed/{feed}")}
    for limit in (1, 3, 7, 50):
        rows = page_through(world, alice, sort, show, limit)
        titles = get_titles(rows)
        assert len(set(titles)) == len(titles), "no story twice"
        assert set(titles) == (every if show is Show.ALL else every - read), "each story"
        assert {row.title for row in rows if row.read} == set(titles) & read
    unread = {row.title for feed in feeds for row in load(world, alice, f"feed/{feed}", show=Show.UNREAD)}
    assert unread == every - read, "counts are settled"


def mark_changed(world: World, actor: Actor, name: str, entry_id: int) -> None:
    """Mark an entry as unread, as if its text had changed."""
    key = world.services.gateways.entries.get_key(actor.user_id, entry_id)
    world.services.gateways.reopening.mark_unread(actor.user_id, world.feed(name), [key.seq], synced=False)


def test_a_copy_that_is_unread_again_is_not_late(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    read_story(reader, alice)
    mark_changed(reader, alice, "b", ids["Story in B"])
    assert "Story in B" in get_titles(load(reader, alice, show=Show.UNREAD))
    assert list_unread(reader, alice) == sorted([*OTHERS, "Story in B"])


def test_a_late_copy_whose_text_changes_after_the_list_was_opened_stays_unread(
    reader: World, alice: Actor
) -> None:
    read_story(reader, alice)
    add_copy(reader)
    with clock.set_source(lambda: NOW):
        query = StreamQuery(StreamRef.parse("all"), Sort.NEWEST, limit=1)
        program = dataclasses.replace(alice, limits=SCOPES[Scope.READ])
        page = reader.services.reading.load_page(program, query)
        mark_changed(reader, alice, "c", page.rows[0].id)
        reader.services.reading.load_page(alice, dataclasses.replace(query, snapshot=page.snapshot))
    assert "Story in C" in list_unread(reader, alice)


@pytest.mark.parametrize("choice", ["off", "apart"])
def test_copies_that_were_there_while_they_were_apart_are_not_late(
    reader: World, alice: Actor, choice: str
) -> None:
    stories, story = reader.services.stories, get_ids(reader, alice)["Story in A"]
    if choice == "off":
        turn_off(reader, alice)
        read_story(reader, alice)
        turn_on(reader, alice)
    else:
        stories.set_apart(alice, story, True)
        read_story(reader, alice)
        stories.set_apart(alice, story, False)
    assert "Story in B" in get_titles(load(reader, alice, show=Show.UNREAD))
    assert list_unread(reader, alice) == sorted([*OTHERS, "Story in B"])
    read_story(reader, alice)
    add_copy(reader)
    turn_on(reader, alice)
    load(reader, alice)
    assert list_unread(reader, alice) == OTHERS, "this one is late, though the same choice was stored again"


def test_a_token_that_may_only_read_marks_and_hides_nothing(reader: World, alice: Actor) -> None:
    program = dataclasses.replace(alice, limits=SCOPES[Scope.READ])
    read_story(reader, alice)
    add_copy(reader)
    reader.services.hiding.hide_entry(alice, get_ids(reader, alice)["Only A"])
    reader.store(reader.feed("b"), [write(10, f"{PAGE}/only", title="Only in B", age=5)])
    index(reader)
    assert get_titles(load(reader, program, show=Show.UNREAD)) == ["Only C", "Only B"]
    assert reader.services.reading.get_tree(alice).unread == 4, "nothing is written"
    load(reader, alice)
    assert reader.services.reading.get_tree(alice).unread == 2


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST, Sort.UNREAD_ON_TOP])
def test_a_list_of_unread_entries_reads_on_past_many_late_copies(
    reader: World, alice: Actor, sort: Sort
) -> None:
    a, b = reader.feed("a"), reader.feed("b")
    reader.store(a, [write(100 + n, f"{PAGE}/{n}", title=f"First {n}", age=9) for n in range(40)])
    index(reader)
    reader.services.reading.mark_all(alice, StreamRef.parse(f"feed/{a}"))
    reader.store(b, [write(300 + n, f"{PAGE}/{n}", title=f"Late {n}", age=5) for n in range(40)])
    index(reader)
    with clock.set_source(lambda: NOW):
        query = StreamQuery(StreamRef.parse("all"), sort, show=Show.UNREAD, limit=5)
        page = reader.services.reading.load_page(alice, query)
    assert sorted(get_titles(page.rows)) == ["Only B", "Only C"]


# -- hiding by hand
def test_hiding_reaches_all_copies_and_can_be_undone(reader: World, alice: Actor) -> None:
    hiding, ids = reader.services.hiding, get_ids(reader, alice)
    turn_off(reader, alice)
    reader.services.reading.mark(alice, [ids["Story in B"]], True)
    turn_on(reader, alice)
    token = hiding.hide_entry(alice, ids["Story in A"])
    assert sorted(get_titles(load(reader, alice))) == OTHERS
    assert list_unread(reader, alice) == OTHERS
    assert "Story in A" not in get_titles(load(reader, alice, f"feed/{reader.feed('a')}"))
    assert len(load(reader, alice, make_search("story"))) == 1, "searches find it"
    assert reader.services.reading.get_article(alice, ids["Story in B"]).is_hidden
    hiding.restore(alice, token)
    assert len(load(reader, alice)) == 4
    assert list_unread(reader, alice) == [title for title in EVERY if title != "Story in B"]
    assert not reader.services.reading.get_article(alice, ids["Story in B"]).is_hidden
    with pytest.raises(NotFoundError):
        hiding.restore(alice, token)


def test_a_hidden_entry_can_be_shown_again(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    reader.services.hiding.hide_entry(alice, ids["Story in A"])
    reader.services.hiding.show_entry(alice, ids["Story in B"])
    assert "Story in B" in get_titles(load(reader, alice))
    add_copy(reader)
    assert "Story in C" in get_titles(load(reader, alice)), "later copies are shown, too"


def test_a_hidden_entry_that_is_marked_as_unread_is_back(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    reader.services.hiding.hide_entry(alice, ids["Story in A"])
    reader.services.reading.mark(alice, [ids["Story in A"]], False)
    for _ in range(2):
        assert "Story in B" in get_titles(load(reader, alice, show=Show.UNREAD))


@pytest.mark.parametrize("title", ["Story in A", "Only A"])
@pytest.mark.parametrize("show", list(Show))
def test_a_copy_that_arrives_after_its_story_was_hidden_is_hidden(
    reader: World, alice: Actor, title: str, show: Show
) -> None:
    reader.services.hiding.hide_entry(alice, get_ids(reader, alice)[title])
    url = PAGE if title == "Story in A" else f"{PAGE}/only"
    reader.store(reader.feed("c"), [write(9, url, title="Late copy", age=5)])
    index(reader)
    with clock.set_source(lambda: NOW):
        query = StreamQuery(StreamRef.parse("all"), Sort.UNREAD_ON_TOP, show=show)
        tree, page = reader.services.reading.load_tree_and_page(alice, query)
    assert "Late copy" not in get_titles(page.rows)
    assert tree.unread == page.unread == len(list_unread(reader, alice))
    assert "Late copy" not in list_unread(reader, alice)
    assert "Late copy" in get_titles(load(reader, alice, make_search("late")))


@pytest.mark.parametrize("how", ["undo", "show"])
@pytest.mark.parametrize("moment", ["choice", "bits", "changes"])
def test_what_a_killed_undo_leaves_hidden_can_be_shown(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch, how: str, moment: str
) -> None:
    actor, ids, hiding = (
        dataclasses.replace(alice, synced=True),
        get_ids(reader, alice),
        reader.services.hiding,
    )
    token = hiding.hide_entry(actor, ids["Story in A"])

    def act() -> None:
        if how == "undo":
            hiding.restore(actor, token)
        else:
            hiding.show_entry(actor, ids["Story in A"])

    def die(*_args: Any, **_options: Any) -> None:
        raise KeyboardInterrupt

    gateways = reader.services.gateways
    places: dict[str, tuple[object, str]] = {
        "choice": (gateways.accounts, "store_story_hidden"),
        "bits": (reader.services.mappers.subscriptions, "remove_rule_marks"),
        "changes": (gateways.changes if how == "undo" else reader.services.events, "record_changes"),
    }
    if (how, moment) == ("show", "changes"):
        places["changes"] = (reader.services.events, "notify_counts")
    with monkeypatch.context() as patch:
        patch.setattr(*places[moment], die)
        with pytest.raises(KeyboardInterrupt):
            act()
    load(reader, actor)
    act()
    assert "Story in B" in get_titles(load(reader, actor))
    assert list_unread(reader, actor) == (EVERY if how == "undo" else OTHERS)
    add_copy(reader)
    assert "Story in C" in get_titles(load(reader, actor))


def test_a_list_that_was_read_before_an_undo_hides_nothing_after_it(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hiding = reader.services.hiding
    token = hiding.hide_entry(alice, get_ids(reader, alice)["Story in A"])
    add_copy(reader)
    make = PageMaker.make

    def make_and_undo(*args: Any, **options: Any) -> Page:
        page = make(*args, **options)
        with contextlib.suppress(NotFoundError):
            hiding.restore(alice, token)
        return page

    with monkeypatch.context() as patch, identity_map.open_scope():
        patch.setattr(PageMaker, "make", make_and_undo)
        load(reader, alice)
    assert "Story in C" in get_titles(load(reader, alice))
    assert "Story in C" in list_unread(reader, alice)


@pytest.mark.parametrize("is_marked", [True, False], ids=["brought back", "hidden"])
def test_the_undo_of_hiding_keeps_what_a_rule_hid_before(
    reader: World, alice: Actor, is_marked: bool
) -> None:
    ids, hiding = get_ids(reader, alice), reader.services.hiding
    key = reader.services.gateways.entries.get_key(alice.user_id, ids["Story in B"])
    marks = RuleMarks(alice.user_id, key.feed_id, 0, 0, hidden=(key.seq,))
    reader.services.mappers.subscriptions.add_rule_marks(marks)
    if is_marked:
        reader.services.reading.mark(alice, [key.id], False)
    before = list_unread(reader, alice)
    hiding.restore(alice, hiding.hide_entry(alice, ids["Story in A"]))
    assert list_unread(reader, alice) == before
    assert reader.services.reading.get_article(alice, ids["Story in B"]).is_hidden is not is_marked
    reader.services.reading.mark(alice, [key.id], True)
    assert "Story in B" not in get_titles(load(reader, alice, f"feed/{key.feed_id}")), "the rule hides it"


def list_undos(world: World, actor: Actor) -> list[str]:
    return [one.undo for one in world.services.marking.list_history(actor).actions]


def test_the_undo_of_hiding_leaves_read_what_a_later_mass_mark_covers(reader: World, alice: Actor) -> None:
    services = reader.services
    token = services.hiding.hide_entry(alice, get_ids(reader, alice)["Only A"])
    mass = services.reading.mark_all(alice, StreamRef.parse("all"))
    services.hiding.restore(alice, token)
    assert list_unread(reader, alice) == []
    assert "Only A" in get_titles(load(reader, alice)), "it is shown"
    services.reading.undo_mass_mark(alice, mass.undo)
    assert list_unread(reader, alice) == EVERY, "its undo marks as unread what hiding had read"


@pytest.mark.parametrize("shown", ["Story in A", "Story in B"])
def test_what_is_shown_again_is_kept_by_the_undo_of_its_hiding(
    reader: World, alice: Actor, shown: str
) -> None:
    ids, services = get_ids(reader, alice), reader.services
    token = services.hiding.hide_entry(alice, ids["Story in A"])
    other = services.hiding.hide_entry(alice, ids["Only A"])
    services.hiding.show_entry(alice, ids[shown])
    for is_read in (False, True):
        services.reading.mark(alice, [ids["Story in A"], ids["Story in B"]], is_read)
    before = list_unread(reader, alice)
    with pytest.raises(NotFoundError):
        services.hiding.restore(alice, token)
    assert list_unread(reader, alice) == before
    assert list_undos(reader, alice) == [f"hidden.{other}"]
    services.hiding.restore(alice, other)
    assert list_unread(reader, alice) == sorted([*before, "Only A"])


def test_the_undo_of_hiding_still_reaches_copies_that_were_not_shown_again(
    reader: World, alice: Actor
) -> None:
    ids, services = get_ids(reader, alice), reader.services
    token = services.hiding.hide_entry(alice, ids["Story in A"])
    turn_off(reader, alice)
    services.hiding.show_entry(alice, ids["Story in A"])
    services.hiding.restore(alice, token)
    assert "Story in B" in list_unread(reader, alice)
    assert "Story in A" not in list_unread(reader, alice)


def test_hiding_what_rules_have_hidden_and_read_can_be_undone_as_well(reader: World, alice: Actor) -> None:
    ids, hiding = get_ids(reader, alice), reader.services.hiding
    for title in ("Story in A", "Story in B"):
        key = reader.services.gateways.entries.get_key(alice.user_id, ids[title])
        marks = RuleMarks(alice.user_id, key.feed_id, 0, 0, read=(key.seq,), hidden=(key.seq,))
        reader.services.mappers.subscriptions.add_rule_marks(marks)
    token = hiding.hide_entry(alice, ids["Story in A"])
    assert list_undos(reader, alice) == [f"hidden.{token}"]
    assert hiding.hide_entry(alice, ids["Story in B"]) == "", "it was hidden before"
    hiding.restore(alice, token)
    assert list_unread(reader, alice) == OTHERS, "the rules still hide these"
    add_copy(reader)
    assert "Story in C" in get_titles(load(reader, alice)), "later copies are shown again"
    token = hiding.hide_entry(alice, ids["Only A"])
    hiding.hide_entry(alice, ids["Story in A"])
    hiding.show_entry(alice, ids["Story in A"])
    assert list_undos(reader, alice) == [f"hidden.{token}"]


@pytest.mark.parametrize("show", list(Show))
def test_the_list_of_a_feed_hides_late_copies_of_a_hidden_story(
    reader: World, alice: Actor, show: Show
) -> None:
    reader.services.hiding.hide_entry(alice, get_ids(reader, alice)["Story in A"])
    add_copy(reader)
    ref = f"feed/{reader.feed('c')}"
    with clock.set_source(lambda: NOW):
        query = StreamQuery(StreamRef.parse(ref), Sort.UNREAD_ON_TOP, show=show)
        tree, page = reader.services.reading.load_tree_and_page(alice, query)
    assert (get_titles(page.rows), page.unread) == (["Only C"], 1)
    assert tree.unread == len(OTHERS)
    assert get_titles(load(reader, alice, ref)) == ["Only C"]
    reader.services.reading.mark(alice, [get_late(reader, alice)], False)
    assert sorted(get_titles(load(reader, alice, ref))) == ["Only C", "Story in C"], "brought back"


def get_late(world: World, actor: Actor) -> int:
    (row,) = load(world, actor, make_search("story"))
    return next(i for i in (row.id, *(copy.entry_id for copy in row.copies)) if is_of(world, actor, i, "c"))


def is_of(world: World, actor: Actor, entry_id: int, name: str) -> bool:
    return world.services.gateways.entries.get_key(actor.user_id, entry_id).feed_id == world.feed(name)


def test_the_row_of_a_pinned_copy_is_left_out_of_later_pages(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    with clock.set_source(lambda: NOW):
        page = reader.services.reading.load_page(alice, StreamQuery(StreamRef.parse("all"), Sort.NEWEST))
    assert "Story in B" in get_titles(page.rows)
    for title in ("Story in A", "Story in B"):
        assert sorted(get_titles(page.drop_row(ids[title]).rows)) == OTHERS
    assert page.drop_row(None) is page


def test_only_entries_of_own_feeds_can_be_hidden(reader: World, alice: Actor) -> None:
    bob, ids = add_user(reader.services, "bob"), get_ids(reader, alice)
    with pytest.raises(NotFoundError):
        reader.services.hiding.hide_entry(bob, ids["Only A"])
    with pytest.raises(NotFoundError):
        reader.services.hiding.show_entry(bob, ids["Only A"])
    token = reader.services.hiding.hide_entry(alice, ids["Only A"])
    with pytest.raises(NotFoundError):
        reader.services.hiding.restore(bob, token)


def test_apps_learn_that_a_hidden_entry_is_read(reader: World, alice: Actor) -> None:
    actor, ids = dataclasses.replace(alice, synced=True), get_ids(reader, alice)
    before = clock.now() - dt.timedelta(minutes=1)
    token = reader.services.hiding.hide_entry(actor, ids["Story in A"])
    find = reader.services.gateways.changes.find_since
    assert find(alice.user_id, before)[0].keys() == {reader.feed("a"), reader.feed("b")}
    last = reader.services.gateways.changes.find_last_id(alice.user_id)
    reader.services.hiding.restore(actor, token)
    assert reader.services.gateways.changes.find_last_id(alice.user_id) > last


def test_a_share_in_the_row_of_a_hidden_story_is_hidden(reader: World, alice: Actor, shared: int) -> None:
    actor = dataclasses.replace(alice, social=True)
    reader.services.hiding.hide_entry(actor, shared)
    assert sorted(get_titles(load(reader, actor))) == OTHERS


def turn_off(world: World, actor: Actor) -> None:
    world.services.gateways.accounts.set_preferences(actor.user_id, {"stories": False})


def turn_on(world: World, actor: Actor) -> None:
    world.services.gateways.accounts.set_preferences(actor.user_id, {"stories": True})


def test_a_person_can_switch_stories_off(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    turn_off(reader, alice)
    rows = load(reader, alice)
    assert get_titles(rows) == ["Story in B", "Only C", "Only A", "Story in A", "Only B"]
    assert not any(row.copies for row in rows)
    assert reader.services.reading.get_article(alice, ids["Story in A"]).copies == ()
    reader.services.reading.mark(alice, [ids["Story in A"]], True)
    assert reader.services.reading.get_tree(alice).unread == 4


def test_a_person_can_keep_one_story_apart(reader: World, alice: Actor) -> None:
    ids = get_ids(reader, alice)
    stories = reader.services.stories
    stories.set_apart(alice, ids["Story in A"], True)
    assert len(load(reader, alice)) == 5
    article = reader.services.reading.get_article(alice, ids["Story in B"])
    assert ([copy.feed_title for copy in article.copies], article.is_apart) == (["A"], True)
    stories.set_apart(alice, ids["Story in B"], False)
    assert len(load(reader, alice)) == 4
    assert not reader.services.reading.get_article(alice, ids["Story in B"]).is_apart
    with pytest.raises(NotFoundError):
        stories.set_apart(alice, ids["Only A"], True)


def test_the_oldest_choice_is_given_up_first(reader: World, alice: Actor, db: Database[Doc]) -> None:
    ids = get_ids(reader, alice)
    many = list(range(1, APART_MAX + 1))
    reader.services.gateways.accounts.set_preferences(alice.user_id, {"stories_apart": many})
    reader.services.stories.set_apart(alice, ids["Story in A"], True)
    user = reader.services.gateways.accounts.find_user(alice.user_id)
    assert user is not None
    assert user.preferences.stories_apart == (*many[1:], ids["Story in A"])


class OtherTab(monitoring.CommandListener):
    """Keeps another story apart just before a person's settings are written."""

    def __init__(self, db: Database[Doc]) -> None:
        self._db, self._is_done = db, False

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "update" and event.command["update"] == "users" and not self._is_done:
            self._is_done = True
            self._db["users"].update_many({}, {"$push": {"settings.stories_apart": 77}})

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


@pytest.mark.parametrize("apart", [True, False])
def test_two_tabs_keep_stories_apart_at_once(
    reader: World, alice: Actor, db: Database[Doc], monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    story_id = get_ids(reader, alice)["Story in A"]
    reader.services.stories.set_apart(alice, story_id, not apart)
    add_listener(monkeypatch, OtherTab(db))
    with contextlib.closing(bootstrap.build(reader.services.settings)) as built:
        built.stories.set_apart(alice, story_id, apart)
    kept = (db["users"].find_one({"_id": alice.user_id}) or {})["settings"]["stories_apart"]
    assert kept == ([77, story_id] if apart else [77])


def test_a_copy_in_a_feed_that_was_left_or_is_gone_is_not_named(
    reader: World, alice: Actor, db: Database[Doc]
) -> None:
    ids = get_ids(reader, alice)
    db["entries"].delete_one({"_id": ids["Story in B"]})
    assert get_titles(load(reader, alice)) == ["Only C", "Only A", "Story in A", "Only B"]
    reader.store(reader.feed("c"), [write(9, PAGE, title="Story in C", age=5)])
    index(reader)
    assert [copy.feed_title for copy in load(reader, alice)[0].copies] == ["A"]
    reader.services.subscriptions.unsubscribe(alice, reader.feed("a"))
    assert load(reader, alice)[0].copies == ()


@pytest.mark.parametrize("sort", [Sort.NEWEST, Sort.OLDEST, Sort.UNREAD_ON_TOP, Sort.SHORTEST, Sort.POPULAR])
@pytest.mark.parametrize("show", list(Show))
def test_no_page_doubles_or_loses_a_story(
    world: World, alice: Actor, db: Database[Doc], sort: Sort, show: Show
) -> None:
    rng = random.Random(f"{sort}{show}")
    feeds, texts = [], iter(range(1000))
    for number in range(6):
        world.services.subscriptions.subscribe(alice, f"https://f{number}.example.org/feed")
        feeds.append(world.feed(f"f{number}"))
    for feed in feeds:
        pages = rng.sample(range(12), 6)
        new = [
            write(n, f"{PAGE}{page}", title=f"P{page}", text="x " * rng.randrange(60), age=rng.randrange(300))
            for n, page in zip(texts, pages, strict=False)
        ]
        world.store(feed, new)
    index(world)
    turn_off(world, alice)
    every = load(world, alice)
    world.services.reading.mark(alice, [row.id for row in rng.sample(every, 15)], True)
    read_without_eyes(db)
    hidden = [row for row in every if row.feed_id == feeds[0]][:2]
    assert hidden
    seqs = {d["_id"]: d["seq"] for d in db["entries"].find()}
    for row in hidden:
        query = {"user_id": alice.user_id, "feed_id": feeds[0]}
        word = {
            "$bit": {
                "hidden.0": {"or": Int64(1 << seqs[row.id])},
                "words.0": {"or": Int64(1 << seqs[row.id])},
            }
        }
        db["subscriptions"].update_one(query, word)
    wanted = [row.title for row in page_through(world, alice, sort, show, 50)]
    turn_on(world, alice)
    for limit in (1, 2, 5, 7, 50):
        found = [row.title for row in page_through(world, alice, sort, show, limit)]
        assert len(set(found)) == len(found), "no story twice"
        assert found == list(dict.fromkeys(wanted)), "each where its first copy is"


def read_without_eyes(db: Database[Doc]) -> None:
    """Let all read entries be as if their days had passed, so that no copy counts as late."""
    db["subscriptions"].update_many({}, {"$set": {"read_after_done": Int64(1 << 40)}})


def page_through(
    world: World, actor: Actor, sort: Sort, show: Show, limit: int, ref: str = "all"
) -> list[EntryRow]:
    """Return all rows of a list, in pages of ``limit`` rows."""
    rows, query = list[EntryRow](), StreamQuery(StreamRef.parse(ref), sort, show=show, limit=limit)
    with clock.set_source(lambda: NOW):
        for _ in range(100):
            page = world.services.reading.load_page(actor, query)
            rows += page.rows
            if page.cursor is None:
                return rows
            query = dataclasses.replace(query, cursor=page.cursor, snapshot=page.snapshot)
    raise AssertionError("the list has no end")


@pytest.mark.parametrize(
    "ref", ["all", "starred", "article", "mark", make_search("in"), make_search("in is:starred")]
)
def test_stories_cost_at_most_one_more_command_per_page(
    reader: World, alice: Actor, settings: Settings, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    ids = get_ids(reader, alice)
    for entry_id in ids.values():
        reader.services.reading.set_starred(alice, entry_id, True)
    counts = []
    with build_logged_services(settings, monkeypatch) as (services, log):
        for switch in (turn_off, turn_on):
            switch(reader, alice)
            page = None
            for later in (False, True):
                with identity_map.open_scope(), clock.set_source(lambda: NOW):
                    services.gateways.accounts.find_user(alice.user_id)  # as each request does
                    log.clear()
                    if ref == "article":
                        services.reading.get_article(alice, ids["Story in A"])
                    elif ref == "mark":
                        services.reading.mark(alice, [ids["Story in A"]], later)
                    else:
                        query = StreamQuery(StreamRef.parse(ref), Sort.NEWEST, limit=2)
                        if later and page is not None:
                            query = dataclasses.replace(query, cursor=page.cursor, snapshot=page.snapshot)
                        page = services.reading.load_page(alice, query)
                    counts.append(len(log.commands))
                    assert not log.find_repeats()
    # A mark also writes the other copy, in a transaction's two commands, and reads both subscriptions.
    most = 4 if ref == "mark" else 1
    assert all(on <= off + most for off, on in zip(counts[:2], counts[2:], strict=True)), counts
