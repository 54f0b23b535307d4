"""Conditions of rules and their regular expressions: what matches, what is refused, what it costs at most."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import tracemalloc
from typing import Any

import pytest

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import InvalidError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.reading import patterns, rules
from app.models.reading.patterns import PATTERNS_KEPT, TEXT_MAX, Pattern, PatternError
from app.models.reading.rules import ConditionError, Rule, RuleEntry, is_match, parse_condition
from app.models.reading.search import SearchDocument
from tests.support.reader import add_user

#: Many states at once, many characters, a group that is repeated.
COSTLY = (
    r"(?:\b|.?)*(a|b|\w.{80}|\b)1",
    "[" + "".join(chr(0x4E00 + n) for n in range(180)) + "]{90}.*x",
    ".*a.{85}z",
)


ATOMS = ("a", "b", "A", ".", r"\w", r"\d", r"\b", "^", "[a-c]", "[^ab]", r"[^\W]", r"\B")


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services)


def _entry(title: str, author: str = "", url: str = "") -> RuleEntry:
    document = SearchDocument(id=1, feed_id=1, seq=1, at=0, title=title, author=author, language="en")
    return RuleEntry(document, url=url, excerpt="", length=0)


def _make_pattern(chosen: random.Random, depth: int) -> str:
    kind = chosen.random()
    if depth == 0 or kind < 0.35:
        return chosen.choice(ATOMS)
    one, two = _make_pattern(chosen, depth - 1), _make_pattern(chosen, depth - 1)
    if kind < 0.55:
        return one + two
    if kind < 0.7:
        return f"(?:{one}|{two})"
    return f"(?:{one}){chosen.choice(['*', '+', '?', '{2}', '{1,3}', '*?', '{2,}', '{0}'])}"


def test_patterns_match_what_the_standard_library_matches() -> None:
    chosen, tried = random.Random(5), 0
    for _ in range(2000):
        text = _make_pattern(chosen, 4)
        try:
            pattern = Pattern(text)
        except PatternError:
            continue
        for _ in range(5):
            sample = "".join(chosen.choices("abcABx_ 1-", k=chosen.randint(1, 8)))
            assert pattern.is_in(sample) is bool(re.search(text, sample, re.IGNORECASE)), (text, sample)
            tried += 1
    assert tried > 5000


@pytest.mark.parametrize(
    "text",
    [
        "(?:){4294967294}",
        "(?:){101}",
        "(?:){0,101}",
        "a{101}",
        "(?:(?:){3000}){3000}",
        "(?:(?:a{40}){40}){40}",
        f"(?:{'()' * 60}a){{90}}",
        f"(?:{'()' * 60}a?){{90}}",
        "(?=a)",
        r"(a)\1",
        "(?i:a)",
        "a" * 201,
        "",
    ],
)
def test_patterns_that_cost_too_much_are_refused(text: str) -> None:
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize(
    ("text", "sample", "found"),
    [
        ("colou?r", "The Colour of it", "Colour"),
        (r"\d+", "v123 and 45", "123"),
        ("foo.*bar", "a foo or a bar or bar.", "foo or a bar or bar"),
        (r"\bart\b", "artful art", "art"),
        ("^the", "the other the", "the"),
        ("end$", "end of the end", "end"),
        ("x|why", "oh why", "why"),
        ("zebra", "none", None),
        ("x*", "none", None),
        ("a+b", "caab", "aab"),
    ],
)
def test_a_pattern_tells_where_it_matches(text: str, sample: str, found: str | None) -> None:
    span = Pattern(text).find_span(sample)
    assert (sample[slice(*span)] if span else None) == found


def test_the_place_of_a_match_takes_a_few_runs_in_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[int]()
    plain = Pattern._iter_ends
    monkeypatch.setattr(Pattern, "_iter_ends", lambda *args, **rest: runs.append(1) or plain(*args, **rest))
    assert Pattern(".*x.*").find_span("a" * 1900 + "x" + "a" * 900)
    assert len(runs) <= 30


def test_an_empty_group_is_repeated_once() -> None:
    pattern = Pattern("(?:(?:(?:){90}){90}){90}a")
    assert pattern.is_in("xa")
    assert pattern._built < 20


def test_the_longest_patterns_still_match() -> None:
    assert Pattern("a{99}").is_in("x" + "a" * 99)
    assert not Pattern("a{99}").is_in("x" + "a" * 98)
    with pytest.raises(PatternError):
        Pattern("a{100}")


def test_all_patterns_of_a_process_take_few_megabytes() -> None:
    text = "".join(chr(0x4E00 + n) + "a 1z"[n % 4] for n in range(TEXT_MAX))
    tracemalloc.start()
    try:
        found = [Pattern(one) for one in COSTLY]
        for pattern in found:
            pattern.is_in(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(len(pattern._chars) <= patterns.CHARS_MAX for pattern in found)
    assert taken / len(COSTLY) * PATTERNS_KEPT < 8 << 20


def test_conditions_keep_no_automatons() -> None:
    conditions = [parse_condition(f"/x{n}y/") for n in range(PATTERNS_KEPT + 50)]
    assert patterns.compile_pattern.cache_info().currsize == PATTERNS_KEPT
    assert [n for n, one in enumerate(conditions) if is_match(one, _entry("an x7y"))] == [7]


@pytest.mark.parametrize("query", ["TITLE:/^News/", "Title:/^news/", "-Author:/^news/ /^news/"])
def test_names_of_fields_are_read_in_any_case(query: str) -> None:
    condition = parse_condition(query)
    assert is_match(condition, _entry("News"))
    assert not is_match(condition, _entry("Else", author="News"))


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("☆", "☆"),
        ("🎉 !!!", "🎉 !!!"),
        ("-☆", "-☆"),
        ("/[/]/", "/[/]/"),
        ("football /[/]/", "/[/]/"),
        ("football -/unclosed", "-/unclosed"),
        ("Title:/a/b", "Title:/a/b"),
        ("football /", "/"),
    ],
)
def test_conditions_that_would_match_everything_are_refused(query: str, part: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(query)
    assert caught.value.text == part


@pytest.mark.parametrize("query", ["", "  "])
def test_blank_conditions_are_empty(query: str) -> None:
    assert parse_condition(query).is_empty


@pytest.mark.parametrize("query", ['"a /b c"', "and/or", "url:/blog/2026 x", "https://a.example/"])
def test_slashes_in_words_and_addresses_are_allowed(query: str) -> None:
    assert not parse_condition(query).is_empty


def test_signs_alone_are_refused_for_chosen_feeds(services: Services, ann: Actor) -> None:
    with pytest.raises(InvalidError):
        services.rules.save(ann, Rule(0, "", "☆", feeds=(1,), read=True))
    with pytest.raises(InvalidError):
        services.rules.preview(ann, Rule(0, "", "🎉", feeds=(1,)))


def test_a_condition_has_few_patterns(services: Services, ann: Actor) -> None:
    most = rules.PATTERNS_MAX
    services.rules.save(ann, Rule(0, "", "/a/ " * most, read=True))
    with pytest.raises(InvalidError) as caught:
        services.rules.save(ann, Rule(0, "", "/a/ " * (most + 1), read=True))
    assert "regular expressions" in str(caught.value)


def test_the_rules_of_a_user_have_few_patterns(services: Services, ann: Actor) -> None:
    few = bootstrap.build(dataclasses.replace(services.settings, rule_patterns_max=3))
    first = few.rules.save(ann, Rule(0, "", "/a/ title:/b/", read=True))
    second = few.rules.save(ann, Rule(0, "", "URL:/c/", read=True))
    for rule in (Rule(0, "", "/d/", read=True), Rule(second.id, "", "/c/ -/d/", read=True)):
        with pytest.raises(TooLargeError):
            few.rules.save(ann, rule)
    fewer = bootstrap.build(dataclasses.replace(services.settings, rule_patterns_max=1))
    fewer.rules.move(ann, first.id, 1)
    fewer.rules.save(ann, Rule(0, "", "words", read=True))
    fewer.rules.delete(ann, second.id)
    few.close()
    fewer.close()


def _write_file(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"kind": "eventr-rules", "version": 1, "rules": rows}).encode()


def test_a_file_with_too_many_rules_is_refused_before_any_is_read(services: Services, ann: Actor) -> None:
    few = bootstrap.build(dataclasses.replace(services.settings, rules_max=3))
    few.rules.save(ann, Rule(0, "", "words", read=True))
    rows: list[dict[str, Any]] = [{"name": "", "condition": f"/{n}(/", "actions": ["read"]} for n in range(3)]
    with pytest.raises(TooLargeError):
        few.rules.import_rules(ann, _write_file(rows))
    # A rule for an unknown feed would be left out, so it doesn't count.
    known = [{"condition": "one", "actions": ["read"]}, {"condition": "two", "actions": ["read"]}]
    unknown = {"condition": "/(/", "actions": ["read"], "feeds": ["https://unknown.example/"]}
    assert few.rules.import_rules(ann, _write_file([*known, unknown])) == (2, 1)
    few.close()
