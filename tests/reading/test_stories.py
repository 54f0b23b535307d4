"""Stories: copies of one article in several feeds, found by the job that updates the search index."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.database import Database

from app.feeds.fingerprints import WORDS_MIN, hash_linked_page, hash_text
from app.models.reading.entry import EntryKey, NewEntry
from app.models.reading.story import (
    KEEP,
    MEMBERS_MAX,
    NEAR_MS,
    SAME,
    WAIT,
    Fingerprint,
    StoredStory,
    choose_story,
)
from tests.reading.test_search import index
from tests.support.database import NOW, World, guid
from tests.support.indexing import index_and_die

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
