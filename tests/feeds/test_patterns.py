"""Repetitions that never go back are right in each Python that Eventr runs on."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import app
import controller
import queue_manager
import workers
from app.feeds.html.patterns import build_possessive

PACKAGES = (app, controller, queue_manager, workers)
#: Of these one turn reads one character or nothing, so that none can be half done.
SINGLE = frozenset([ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY, ops.CATEGORY])


@pytest.mark.parametrize(
    ("expression", "times", "text", "end"),
    [
        ("ab?c", "*", "aca", 2),
        ("ab?c", "+", "acabcabd", 5),
        ("ab?c", "{0,2}", "acaca", 4),
        ("ab?c", "{0,9}", "aca", 2),
        ("ab?c", "?", "ab", 0),
        (r"""[^"]++|"[^"<]*\"""", "*", 'a "b" "c<', 6),
    ],
)
def test_a_turn_in_vain_reads_nothing(expression: str, times: str, text: str, end: int) -> None:
    found = re.match(build_possessive(expression, times), text)
    assert found is not None
    assert found.end() == end


def test_it_never_goes_back() -> None:
    assert re.match(build_possessive("a") + "a", "aaa") is None


def _expressions() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                for name, value in vars(importlib.import_module(found.name)).items():
                    if isinstance(value, re.Pattern):
                        yield f"{found.name}.{name}", value


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each operation of a parsed expression with its argument."""
    if isinstance(tree, parser.SubPattern):
        for op, argument in tree:
            yield op, argument
            yield from _nodes(argument)
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from _nodes(part)


def _is_safe(turn: Any) -> bool:
    """Whether a turn cannot be half done, or is set back when it is."""
    if any(op is ops.SUBPATTERN and argument[0] is not None for op, argument in _nodes(turn)):
        return False
    if len(turn) != 1:
        return False
    op, argument = turn[0]
    return op in SINGLE or (op is ops.BRANCH and _always_fails(argument[1][-1]))


def _always_fails(alternative: Any) -> bool:
    """Whether it is ``(?!)``, however this Python reads that."""
    op, argument = alternative[0]
    return op is ops.FAILURE or (op is ops.ASSERT_NOT and not len(argument[1]))


def _unsafe(pattern: re.Pattern[Any]) -> list[Any]:
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    turns = [argument[2] for op, argument in _nodes(tree) if op is ops.POSSESSIVE_REPEAT]
    turns += [argument for op, argument in _nodes(tree) if op is ops.ATOMIC_GROUP]
    return [turn for turn in turns if not _is_safe(turn)]


@pytest.mark.parametrize("text", ["(?:ab?c)*+", "(?>ab?c)", "(?:a|bc)++", "(?:(a)|(?!))*+", "(?:ab)?+"])
def test_the_check_of_expressions_finds(text: str) -> None:
    assert _unsafe(re.compile(text))


@pytest.mark.parametrize(
    "text", ["[^<]*+", "a++", r"\s*+", ".?+", build_possessive("ab?c"), build_possessive("a", "{1,3}")]
)
def test_the_check_of_expressions_leaves_alone(text: str) -> None:
    assert not _unsafe(re.compile(text))


def test_X08_no_expression_can_stop_behind_a_turn_in_vain() -> None:
    expressions = dict(_expressions())
    assert len(expressions) > 100
    assert not [name for name, pattern in expressions.items() if _unsafe(pattern)]
