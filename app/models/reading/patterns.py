"""Regular expressions that people write: matched in a time that grows with the text alone.

The pattern becomes a small automaton whose steps are remembered, so no pattern can make a match slow. Case is
ignored. What needs backtracking (back-references, look-around, atomic groups) is refused.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any

#: Most characters of a pattern, and of the text that it is matched with.
PATTERN_MAX, TEXT_MAX = 200, 2000
#: Most states of a pattern's automaton, and of steps that it remembers.
STATES_MAX, STEPS_MAX = 400, 20_000

Test = Callable[[str], bool]
_ACCEPT = 0
_BOUNDARIES = frozenset(
    {"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING", "AT_BOUNDARY", "AT_NON_BOUNDARY"}
)
_CATEGORIES: dict[str, Test] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda c: c.isalnum() or c == "_",
}


class PatternError(ValueError):
    """A pattern can't be read, or needs backtracking, or is too long."""


class Pattern:
    """A pattern to look for anywhere in a text.

    Raises:
        PatternError: see there.
    """

    def __init__(self, text: str) -> None:
        if not text or len(text) > PATTERN_MAX:
            raise PatternError(text)
        sre = importlib.import_module("re._parser")  # the standard library's own reader of patterns
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = sre.parse(text)
        except (sre.error, RecursionError, OverflowError) as e:
            raise PatternError(text) from e
        if tree.state.flags & ~32:  # 32: Unicode, the flag of each text
            raise PatternError(text)
        self._tests: list[Test | None] = [None]
        self._next: list[int] = [_ACCEPT]
        self._free: list[list[tuple[str, int]]] = [[]]
        self._first = self._add_all(list(tree), _ACCEPT)
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def is_in(self, text: str) -> bool:
        """Return whether a text contains the pattern; only its beginning is looked at."""
        text, steps = text[:TEXT_MAX], self._steps
        if len(steps) > STEPS_MAX:
            steps.clear()
        states, before = frozenset({self._first}), ""
        for char in text:
            key = states, before, char
            found = steps.get(key)
            if found is None:
                found = steps[key] = self._step(states, before, char)
            if _ACCEPT in found:
                return True
            states, before = found, char if char in "_\n" or not char.isalnum() else "a"
        return _ACCEPT in self._close(states, before, "")

    def _step(self, states: frozenset[int], before: str, char: str) -> frozenset[int]:
        reached = self._close(states, before, char)
        if _ACCEPT in reached:
            return frozenset({_ACCEPT})
        after = {self._next[s] for s in reached if (test := self._tests[s]) is not None and test(char)}
        return frozenset({*after, self._first})

    def _close(self, states: frozenset[int], before: str, char: str) -> set[int]:
        """Return the states that are reached without reading, between two characters."""
        found, todo = set(states), list(states)
        while todo:
            for place, state in self._free[todo.pop()]:
                if state not in found and _is_at(place, before, char):
                    found.add(state)
                    todo.append(state)
        return found

    def _new(self, test: Test | None, state: int, free: list[tuple[str, int]] | None = None) -> int:
        if len(self._tests) >= STATES_MAX:
            raise PatternError
        self._tests.append(test)
        self._next.append(state)
        self._free.append(free or [])
        return len(self._tests) - 1

    def _add_all(self, items: list[tuple[Any, Any]], after: int) -> int:
        for kind, value in reversed(items):
            after = self._add(str(kind), value, after)
        return after

    def _add(self, kind: str, value: Any, after: int) -> int:
        if kind == "SUBPATTERN":
            _, on, off, inner = value
            if on or off:
                raise PatternError
            return self._add_all(list(inner), after)
        if kind == "BRANCH":
            free = [("", self._add_all(list(branch), after)) for branch in value[1]]
            return self._new(None, after, free)
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, limit, inner = value
            return self._repeat(least, limit, inner, after)
        if kind == "AT" and str(value) in _BOUNDARIES:
            return self._new(None, after, [(str(value), after)])
        return self._new(_make_test(kind, value), after)

    def _repeat(self, least: int, limit: Any, inner: Any, after: int) -> int:
        items = list(inner)
        if str(limit) == "MAXREPEAT":
            loop = self._new(None, after, [("", after)])
            self._free[loop].append(("", self._add_all(items, loop)))
            after = loop
        else:
            for _ in range(int(limit) - least):
                after = self._new(None, after, [("", self._add_all(items, after)), ("", after)])
        for _ in range(least):
            after = self._add_all(items, after)
        return after


def _is_at(place: str, before: str, after: str) -> bool:
    if not place:
        return True
    if place.startswith("AT_BEGINNING"):
        return not before
    if place.startswith("AT_END"):
        return not after
    is_border = _is_word(before) is not _is_word(after)
    return is_border is (place == "AT_BOUNDARY")


def _is_word(char: str) -> bool:
    return char != "" and (char.isalnum() or char == "_")


def _make_test(kind: str, value: Any) -> Test:
    test = _make_plain_test(kind, value)
    return lambda c: test(c) or test(c.lower()) or test(c.upper())


def _make_plain_test(kind: str, value: Any) -> Test:
    if kind == "LITERAL":
        return chr(value).__eq__
    if kind == "NOT_LITERAL":
        # All cases of the letter are left out.
        others = {chr(value), chr(value).lower(), chr(value).upper()}
        return lambda c: others.isdisjoint({c, c.lower(), c.upper()})
    if kind == "ANY":
        return lambda c: c != "\n"
    if kind == "RANGE":
        low, high = map(chr, value)
        return lambda c: len(c) == 1 and low <= c <= high
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        test = _CATEGORIES.get(name.removeprefix("NOT_"))
        if test is None:
            raise PatternError
        return test if not name.startswith("NOT_") else lambda c: not test(c)
    if kind == "IN":
        is_negated = str(value[0][0]) == "NEGATE"
        tests = [_make_test(str(k), v) for k, v in (value[1:] if is_negated else value)]
        if is_negated:
            return lambda c: not any(test(x) for test in tests for x in (c, c.lower(), c.upper()))
        return lambda c: any(test(c) for test in tests)
    raise PatternError(kind)


@functools.lru_cache(maxsize=512)
def compile_pattern(text: str) -> Pattern:
    """Return the pattern of a text; see :class:`Pattern`."""
    return Pattern(text)
