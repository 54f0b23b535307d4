"""Names in a search: completed while they are typed, and corrected when they nearly match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.reading.search import QUERY_MAX, parse_query
from app.models.reading.suggestions import (
    complete_part,
    find_near_names,
    find_open_part,
    measure_beginning,
    measure_distance,
    rank_names,
)
from tests.support.reader import add_user

NAMES = (
    "The Guardian",
    "Nature",
    "Nature News",
    "Natürlich gärtnern",
    "Ars Technica",
    'The "best" blog',
    "日本経済新聞",
)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("abc", "abc", 0),
        ("gaurd", "guard", 1),
        ("gurd", "guard", 1),
        ("abc", "", 3),
        ("abx", "abcd", 2),
    ],
)
def test_distances(one: str, other: str, distance: int) -> None:
    assert measure_distance(one, other) == measure_distance(other, one) == distance


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_a_beginning_is_never_farther_than_the_whole(one: str, other: str) -> None:
    nearest = min(measure_distance(one, other[:end]) for end in range(len(other) + 1))
    assert measure_beginning(one, other) == nearest <= measure_distance(one, other)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("nat", ["Nature", "Nature News", "Natürlich gärtnern"]),
        ("GÄRT", ["Natürlich gärtnern"]),
        ("news", ["Nature News"]),
        ("ech", ["Ars Technica"]),
        ("gaurdian", ["The Guardian"]),
        ("guardain", ["The Guardian"]),
        ("tehcn", ["Ars Technica"]),
        ("日本", ["日本経済新聞"]),
        ("xyz", []),
        ("natxxe", []),
    ],
)
def test_names_are_ranked_and_typing_errors_forgiven(typed: str, found: list[str]) -> None:
    assert rank_names(typed, NAMES, 10) == found


def test_short_names_are_not_guessed() -> None:
    assert find_near_names("bat", ["Cat"], 5) == []
    assert find_near_names("recipe", ["recipes", "recipe book"], 5, is_whole=True) == ["recipes"]


@pytest.mark.parametrize(
    ("text", "name", "query"),
    [
        ("rose feed:nat", "Nature", "rose feed:Nature "),
        ("rose -feed:nat", "Nature News", 'rose -feed:"Nature News" '),
        ('feed:"nature n', "Nature News", 'feed:"Nature News" '),
        ("FEED:best", 'The "best" blog', "feed:best "),
    ],
)
def test_a_completed_query_finds_the_name(text: str, name: str, query: str) -> None:
    part = find_open_part(text)
    assert part is not None
    (found,) = (one for one in complete_part(text, part, NAMES, 10) if one.name == name)
    assert found.query == query
    (meant,) = parse_query(found.query).feeds
    assert meant.text in name.casefold()


@pytest.mark.parametrize("text", ["", "rose", "feed:x rose", 'feed:"nature" ', 'feed:"nature"', "title:nat"])
def test_nothing_is_completed_outside_a_name(text: str) -> None:
    assert find_open_part(text) is None


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=200), max_size=3))
def test_any_text_and_any_names_give_queries_that_fit(text: str, names: list[str]) -> None:
    part = find_open_part(text)
    if part is not None:
        assert all(len(one.query) <= QUERY_MAX for one in complete_part(text, part, names, 10))


@pytest.fixture
def ann(services: Services) -> Actor:
    actor = add_user(services)
    for name in ("nature", "guardian"):
        feed_id = services.subscriptions.subscribe(actor, f"https://{name}.example/feed").subscription.feed_id
        services.subscriptions.update(actor, feed_id, title=f"The {name.title()}")
    services.folders.create(actor, "Morning news")
    return actor


def test_a_persons_own_names_are_suggested(services: Services, ann: Actor) -> None:
    suggest = services.search_suggestions
    assert [one.query for one in suggest.find_completions(ann, "x feed:guar")] == ['x feed:"The Guardian" ']
    assert [one.query for one in suggest.find_completions(ann, "folder:morn")] == ['folder:"Morning news" ']
    assert [one.name for one in suggest.find_completions(ann, "is:s")] == ["shared", "starred"]
    assert [one.query for one in suggest.find_corrections(ann, "x feed:gaurdian y")] == [
        'x feed:"The Guardian" y'
    ]
    assert [one.query for one in suggest.find_corrections(ann, "folder:mornign")] == ['folder:"Morning news"']
    assert suggest.find_corrections(ann, "feed:guardian folder:news tag:") == []
    assert suggest.find_completions(add_user(services, "ben"), "feed:guar") == []


def test_a_query_that_is_too_long_is_refused(services: Services, ann: Actor) -> None:
    with pytest.raises(InvalidError):
        services.search_suggestions.find_completions(ann, "x" * 2000)
