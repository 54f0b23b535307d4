"""The line above a title: authors without their addresses, and the time that reading takes."""

from __future__ import annotations

import pytest

from app.web.view.heading import count_minutes, format_author, is_same_name


@pytest.mark.parametrize(
    ("author", "shown"),
    [
        ("", ""),
        ("Ann Example", "Ann Example"),
        ("urdu@one.example", ""),
        ("<urdu@one.example>", ""),
        ("mailto:tech@one.example", ""),
        ("ann@one.example (Ann Example)", "Ann Example"),
        ("Ann Example <ann@one.example>", "Ann Example"),
        ("ann@one.example, Bob", "Bob"),
        ("ann@one.example, bob@two.example", ""),
        ("@ann@social.example", "@ann@social.example"),
        ("Ann @ Work", "Ann @ Work"),
    ],
)
def test_an_author_is_shown_without_addresses(author: str, shown: str) -> None:
    assert format_author(author) == shown


def test_reading_takes_at_least_a_minute_and_markup_takes_none() -> None:
    assert count_minutes("") == count_minutes('<p title="a b c">One.</p>') == 1
    assert count_minutes("<p>" + "word " * 231 + "</p>") == 2
    assert count_minutes("<a href='" + "word " * 1000 + "'>one</a>") == 1
    # Scripts without spaces count by character.
    assert count_minutes("<p>" + "字" * 1001 + "</p>") == 3


@pytest.mark.parametrize(
    ("author", "feed", "is_same"),
    [
        ("Fallthrough Media", "Fallthrough", True),
        ("ann example", "Ann Example", True),
        ("Ann", "Ann's notes", False),
        ("Ann", "Notes of Ann", True),
        ("Gordon", "Go", False),
        ("Ann", "Bob", False),
        ("!", "?", False),
        ("Ann", "", False),
    ],
)
def test_an_author_of_the_feeds_name_is_left_out(author: str, feed: str, is_same: bool) -> None:
    assert is_same_name(author, feed) is is_same
    assert format_author(author, feed) == ("" if is_same else author)
