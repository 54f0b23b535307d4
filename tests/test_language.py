"""The table of English patterns catches its own bad examples and passes its good ones."""

from __future__ import annotations

import pytest

from tests.support.language import (
    MAX_WORDS,
    PATTERNS,
    Pattern,
    count_words,
    find_document_faults,
    find_faults,
    paragraphs,
    sentences,
)

every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)


@every_pattern
def test_pattern_catches_its_bad_example(pattern: Pattern) -> None:
    assert pattern.name in [fault.name for fault in find_faults(pattern.caught)]


@every_pattern
def test_pattern_passes_its_good_example(pattern: Pattern) -> None:
    assert not find_faults(pattern.passes)


def test_sentence_over_the_limit_is_a_fault() -> None:
    allowed = " ".join(["word"] * MAX_WORDS) + "."
    assert not find_faults(f"{allowed} {allowed.capitalize()}", max_words=MAX_WORDS)
    [fault] = find_faults(f"Short. Word {allowed}", max_words=MAX_WORDS)
    assert (fault.name, fault.why) == ("long sentence", f"{MAX_WORDS + 1} words, {MAX_WORDS} at most")


def test_sentences_end_at_full_stops_and_not_in_abbreviations_or_numbers() -> None:
    assert sentences("One, e.g. this. Two takes 1.5 ms? “Three.” Four") == [
        "One, e.g this.",
        "Two takes 1.5 ms?",
        "“Three.",
        "Four",
    ]


def test_words_are_counted_without_dashes_and_with_placeholders() -> None:
    assert count_words("Next check – at %(time)s, see • …") == 6


def test_document_is_checked_without_its_code_and_by_item() -> None:
    text = "Use `he` here.\n\n```\nhis = 1\n```\n\n- it is fine\n- what is\n  his\n\n| a | him |\n"
    assert [(line, part) for line, part in paragraphs(text)] == [
        (1, "Use • here."),
        (7, "it is fine"),
        (8, "what is his"),
        (11, "a"),
        (11, "him"),
    ]
    assert [(fault.line, fault.text) for fault in find_document_faults(text)] == [(8, "his"), (11, "him")]
