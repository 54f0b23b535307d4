"""Regular expressions that people write: matched in a time that grows with the text alone.

The pattern becomes a small automaton. A set of its states is one number, so no pattern can make a match slow
or fill the memory. Case is ignored. What needs backtracking (back-references, look-around, atomic groups) is
refused.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

#: Most characters of a pattern, and of the text that it is matched with.
PATTERN_MAX, TEXT_MAX = 200, 2000
#: Most states of a pattern's automaton; also the largest number in ``{2,5}``.
STATES_MAX = 100
#: Most parts that are added while an automaton is built, with the repeats of groups.
BUILD_MAX = 2000
#: Characters before the last start of a match from which it is tried, too.
BACK_MAX = 16
#: Characters that a pattern remembers, and patterns that a process keeps. Together they take less than 8 MB.
CHARS_MAX, PATTERNS_KEPT = 128, 128

#: Tests a character, given as it is, in lower and in upper case.
Test = Callable[[tuple[str, str, str]], bool]
#: State → the states that are reached after it has read a character, as a number; the last: without reading.
Row = list[int]
_ACCEPT = 0
_BOUNDARIES = frozenset(
    {"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING", "AT_BOUNDARY", "AT_NON_BOUNDARY"}
)
_CATEGORIES: dict[str, Callable[[str], bool]] = {
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
        self._next: list[int] = [_ACCEPT]
        self._free: list[list[tuple[str, int]]] = [[]]
        self._masks: dict[str, tuple[Test, int]] = {}
        self._built, self._has_places = 0, False
        self._first = self._add_all(list(tree), _ACCEPT)
        self._chars: dict[str, int] = {}
        self._rows: dict[tuple[str, str], Row] = {}

    def is_in(self, text: str) -> bool:
        """Return whether a text contains the pattern; only its beginning is looked at."""
        text = text[:TEXT_MAX]
        return next(self._iter_ends(text, self._list_kinds(text), 0, is_fixed=False), None) is not None

    def find_span(self, text: str) -> tuple[int, int] | None:
        """Return where a match in the beginning of a text starts and ends; None: there is none with a letter.

        Of the matches that end first it is the shortest, as far as it goes on in both directions. It takes
        up to thirty times as long as :meth:`is_in`.
        """
        text = text[:TEXT_MAX]
        kinds = self._list_kinds(text)
        end = next(self._iter_ends(text, kinds, 0, is_fixed=False), None)
        if end is None:
            return None
        # The last start of a match that ends there; later ones have none, so halving finds it.
        low, high = 0, end
        while low < high:
            middle = (low + high + 1) // 2
            if next(self._iter_ends(text, kinds, middle, is_fixed=False), end + 1) <= end:
                low = middle
            else:
                high = middle - 1
        last = max(self._iter_ends(text, kinds, low, is_fixed=True), default=low)
        # "a+b" also matches from the first letter of "aab".
        for before in range(low - 1, max(low - 1 - BACK_MAX, -1), -1):
            if max(self._iter_ends(text, kinds, before, is_fixed=True), default=0) < last:
                break
            low = before
        return (low, last) if low < last else None

    def _list_kinds(self, text: str) -> list[str]:
        return [*map(_get_kind, text), ""] if self._has_places else [""] * (len(text) + 1)

    def _iter_ends(self, text: str, kinds: list[str], start: int, *, is_fixed: bool) -> Iterator[int]:
        """Yield where matches end that begin from ``start`` on, or (``is_fixed``) right there."""
        reached = self._get_row(kinds[start - 1] if start else "", kinds[start])[-1]
        for at in range(start, len(text)):
            if reached & 1 << _ACCEPT:
                yield at
            moved = reached & self._get_mask(text[at])
            row = self._get_row(kinds[at], kinds[at + 1])
            reached = 0 if is_fixed else row[-1]
            if is_fixed and not moved:
                return
            while moved:
                reached |= row[moved.bit_length() - 1]
                moved ^= 1 << moved.bit_length() - 1
        if reached & 1 << _ACCEPT:
            yield len(text)

    def _get_mask(self, char: str) -> int:
        """Return the states that can read a character."""
        mask = self._chars.get(char)
        if mask is None:
            forms, mask = (char, char.lower(), char.upper()), 0
            for test, states in self._masks.values():
                if test(forms):
                    mask |= states
            if len(self._chars) >= CHARS_MAX:
                self._chars.clear()
            self._chars[char] = mask
        return mask

    def _get_row(self, before: str, after: str) -> Row:
        """Return what is reached between two characters of these kinds."""
        row = self._rows.get((before, after))
        if row is None:
            starts = [*self._next, self._first]
            found = {start: self._close(start, before, after) for start in set(starts)}
            row = self._rows[before, after] = [found[start] for start in starts]
        return row

    def _close(self, start: int, before: str, after: str) -> int:
        """Return the states that are reached without reading, between two characters."""
        found, todo = 1 << start, [start]
        while todo:
            for place, state in self._free[todo.pop()]:
                if not found >> state & 1 and _is_at(place, before, after):
                    found |= 1 << state
                    todo.append(state)
        return found

    def _new(self, after: int, free: list[tuple[str, int]]) -> int:
        if len(self._next) >= STATES_MAX:
            raise PatternError
        self._next.append(after)
        self._free.append(free)
        return len(self._next) - 1

    def _add_all(self, items: list[tuple[Any, Any]], after: int) -> int:
        for kind, value in reversed(items):
            after = self._add(str(kind), value, after)
        return after

    def _add(self, kind: str, value: Any, after: int) -> int:
        self._built += 1
        if self._built > BUILD_MAX:
            raise PatternError
        if kind == "SUBPATTERN":
            _, on, off, inner = value
            if on or off:
                raise PatternError
            return self._add_all(list(inner), after)
        if kind == "BRANCH":
            return self._new(after, [("", self._add_all(list(branch), after)) for branch in value[1]])
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, limit, inner = value
            return self._repeat(least, limit, inner, after)
        if kind == "AT" and str(value) in _BOUNDARIES:
            self._has_places = True
            return self._new(after, [(str(value), after)])
        state, name = self._new(after, []), f"{kind} {value}"
        test, states = self._masks.get(name) or (_make_test(kind, value), 0)
        self._masks[name] = test, states | 1 << state
        return state

    def _repeat(self, least: int, limit: Any, inner: Any, after: int) -> int:
        items, is_endless = list(inner), str(limit) == "MAXREPEAT"
        if max(least, 0 if is_endless else int(limit)) > STATES_MAX:
            raise PatternError
        if is_endless:
            loop = self._new(after, [("", after)])
            self._free[loop].append(("", self._add_all(items, loop)))
            after = loop
        else:
            for _ in range(int(limit) - least):
                after = self._new(after, [("", self._add_all(items, after)), ("", after)])
        for _ in range(least):
            before = self._add_all(items, after)
            if before == after:  # an empty group
                break
            after = before
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


def _get_kind(char: str) -> str:
    return "a" if _is_word(char) else " "


def _make_test(kind: str, value: Any) -> Test:
    if kind == "LITERAL":
        return lambda forms: chr(value) in forms
    if kind == "NOT_LITERAL":
        # All cases of the letter are left out.
        others = {chr(value), chr(value).lower(), chr(value).upper()}
        return others.isdisjoint
    if kind == "ANY":
        return lambda forms: "\n" not in forms
    if kind == "RANGE":
        low, high = map(chr, value)
        return lambda forms: any(len(c) == 1 and low <= c <= high for c in forms)
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        test = _CATEGORIES.get(name.removeprefix("NOT_"))
        if test is None:
            raise PatternError
        is_wanted = not name.startswith("NOT_")
        return lambda forms: test(forms[0]) is is_wanted
    if kind == "IN":
        is_negated = str(value[0][0]) == "NEGATE"
        tests = [_make_test(str(k), v) for k, v in (value[1:] if is_negated else value)]
        return lambda forms: any(test(forms) for test in tests) is not is_negated
    raise PatternError(kind)


@functools.lru_cache(maxsize=PATTERNS_KEPT)
def compile_pattern(text: str) -> Pattern:
    """Return the pattern of a text; see :class:`Pattern`."""
    return Pattern(text)
