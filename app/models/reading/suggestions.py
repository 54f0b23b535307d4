"""Names of feeds, folders and tags for a search query: completed while it is typed, and corrected. Pure.

A name nearly matches if few letters differ: one of four to seven, two of more.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence

from app.models.reading.search import QUERY_MAX, match_parts
from app.models.reading.tokenizer import fold_text

#: Parts of a query that name something.
KINDS = ("feed", "folder", "tag")
#: Values of ``is:``.
STATES = ("unread", "read", "starred", "shared")
#: Most characters of a typed name that are compared.
COMPARED = 40
_WORD = re.compile(r"\w+")


@dataclasses.dataclass(frozen=True, slots=True)
class NamePart:
    """A part of a query that names something.

    Attributes:
        begin, end: its place in the query.
        kind: one of :data:`KINDS`, or ``is``.
        value: the typed name.
        is_wanted: whether it has no minus.
    """

    begin: int
    end: int
    kind: str
    value: str
    is_wanted: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Suggestion:
    """A name, and the whole query with it."""

    name: str
    query: str


def find_name_parts(text: str) -> list[NamePart]:
    """Return the parts of a query that name feeds, folders, tags and states."""
    return [
        NamePart(
            match.start(),
            match.end(),
            (match["name"] or "").lower(),
            match["plain"] if match["phrase"] is None else match["phrase"],
            not match["minus"],
        )
        for match in match_parts(text)
        if (match["name"] or "").lower() in (*KINDS, "is")
    ]


def find_open_part(text: str) -> NamePart | None:
    """Return the part at the end of a query that is being typed; None: it isn't a name."""
    parts = find_name_parts(text)
    if not parts or parts[-1].end != len(text):
        return None
    typed = text[parts[-1].begin :]
    return None if typed.count('"') == 2 else parts[-1]


def complete_part(text: str, part: NamePart, names: Iterable[str], limit: int) -> list[Suggestion]:
    """Return names that begin with what is typed, then those that contain it, then near ones."""
    found = rank_names(part.value, names, limit)
    queries = ((name, replace_part(text, part, name) + " ") for name in found)
    return [Suggestion(name, query) for name, query in queries if len(query) <= QUERY_MAX]


def replace_part(text: str, part: NamePart, name: str) -> str:
    """Return a query with another name in a part of it."""
    # A name can't contain quotes, and a part of it will do.
    pieces = sorted(name.split('"'), key=lambda piece: (_fold(part.value) in _fold(piece), len(piece)))
    plain = pieces[-1].strip()
    value = plain if re.fullmatch(r"[\w.&+-]+", plain) else f'"{plain}"'
    return f"{text[: part.begin]}{'' if part.is_wanted else '-'}{part.kind}:{value}{text[part.end :]}"


def rank_names(typed: str, names: Iterable[str], limit: int) -> list[str]:
    """Return the names for what is typed, best first; near ones only if no name contains it."""
    wanted = _fold(typed)
    folded = [(name, _fold(name)) for name in dict.fromkeys(names)]

    def find_place(text: str) -> int:
        at = text.find(wanted)
        if at <= 0:
            return at
        return 2 if text[at - 1].isalnum() and f" {wanted}" not in text else 1

    places = [(find_place(text), text, name) for name, text in folded]
    found = sorted(one for one in places if one[0] >= 0)
    return [name for _, _, name in found[:limit]] or find_near_names(typed, names, limit)


def find_near_names(typed: str, names: Iterable[str], limit: int, *, is_whole: bool = False) -> list[str]:
    """Return the names that nearly match what is typed, nearest first.

    Args:
        is_whole: compare with whole names, instead of the beginnings of their words.
    """
    wanted = _fold(typed)[:COMPARED]
    most = count_errors(wanted)
    if not most:
        return []
    pairs = _make_pairs(wanted)
    # Each error spoils at most three pairs of letters.
    needed = max(1, len(wanted) - 1 - 3 * most)
    found = list[tuple[int, int, str]]()
    for name in dict.fromkeys(names):
        text = _fold(name)
        if sum(pair in text for pair in pairs) < min(needed, len(pairs)):
            continue
        starts = [0] if is_whole else [match.start() for match in _WORD.finditer(text)]
        ends = len(wanted) + most
        measure = measure_distance if is_whole else measure_beginning
        distance = min(
            (measure(wanted, text[at : None if is_whole else at + ends]) for at in starts), default=99
        )
        if distance <= most:
            found.append((distance, len(text), name))
    return [name for _, _, name in sorted(found)[:limit]]


def count_errors(typed: str) -> int:
    """Return how many letters of a folded name may differ."""
    return 0 if len(typed) < 4 else 1 if len(typed) < 8 else 2


def measure_distance(one: str, other: str) -> int:
    """Return how many letters must be added, removed, replaced or swapped to get the other text."""
    return _measure_rows(one, other)[-1]


def measure_beginning(one: str, other: str) -> int:
    """Return the distance between a text and the nearest beginning of another."""
    return min(_measure_rows(one, other))


def _measure_rows(one: str, other: str) -> Sequence[int]:
    """Return the distances between a text and each beginning of another."""
    before, row = list[int](), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, there in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != there))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == there:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row


def correct_query(
    text: str, has_match: Callable[[NamePart], bool], find_names: Callable[[str], Iterable[str]], limit: int
) -> list[Suggestion]:
    """Return queries in which a name that matches nothing is replaced by near ones.

    Args:
        has_match: whether the name of a part matches anything.
        find_names: returns all names of a kind.
    """
    for part in find_name_parts(text):
        if part.kind not in KINDS or not part.value.strip() or has_match(part):
            continue
        near = find_near_names(part.value, find_names(part.kind), limit, is_whole=part.kind == "tag")
        queries = [Suggestion(name, replace_part(text, part, name)) for name in near]
        return [one for one in queries if len(one.query) <= QUERY_MAX]
    return []


def _make_pairs(text: str) -> set[str]:
    return {text[i : i + 2] for i in range(len(text) - 1)}


def _fold(text: str) -> str:
    return " ".join(fold_text(text).split())
