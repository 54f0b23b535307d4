"""A person's choices in Eventr's own archive: saved searches, rules, and settings of feeds."""

from __future__ import annotations

import enum
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.models.reading.rules import FILE_KIND, read_rules

#: Most bytes of each list of choices in an archive, and of all that an import stores.
CHOICES_MAX: Final = 4 << 20
#: Settings of a feed: their names in an archive → those of a subscription's changes.
SETTINGS: Final[Mapping[str, str]] = {
    "paused": "paused",
    "hidden": "hidden",
    "opens_original": "original",
    "notify": "notify",
    "full_text": "full_text",
    "reopen": "reopen",
    "read_after": "read_after",
    "keep_newest": "keep_newest",
}
#: Settings that are numbers; all other settings are on or off.
_NUMBERS: Final = ("read_after", "keep_newest")
#: Fields of a rule that are stored.
_RULE: Final = ("name", "condition", "actions", "tag", "send", "stop", "on", "feeds", "folders")
#: Half of a character outside the Basic Multilingual Plane: it can't be stored.
_HALF: Final = re.compile("[\ud800-\udfff]")


class ChoiceKind(enum.StrEnum):
    """The kinds of choices. CUT: rows that were left out, as too many or as unusable."""

    RULES = "rules"
    SEARCHES = "searches"
    FEEDS = "feeds"
    CUT = "cut"


class ChoiceLimits(NamedTuple):
    """Most rows of each kind in an import, and most bytes of all of them as JSON."""

    rules: int
    searches: int
    feeds: int
    bytes: int = CHOICES_MAX


class Choices(NamedTuple):
    """Choices as JSON, and the number of rows by :class:`ChoiceKind`.

    The JSON has a list for each kind: rules as in a file of rules, searches with ``name``, ``query`` and
    ``notify``, feeds as [address, changes of the subscription, whether it is private].
    """

    text: str = ""
    counts: Mapping[str, int] = {}


def pack_choices(lists: Mapping[str, Sequence[Any]], limits: ChoiceLimits) -> Choices:
    """Return the choices in lists of an archive, each once; feeds with the usual settings are left out."""
    counts, size, packed = Counter[str](), 0, list[str]()
    kinds: tuple[tuple[ChoiceKind, str, Callable[[Any], tuple[str, Any] | None], int], ...] = (
        (ChoiceKind.RULES, "rules", _read_rule, limits.rules),
        (ChoiceKind.SEARCHES, "searches", _read_search, limits.searches),
        (ChoiceKind.FEEDS, "subscriptions", _read_feed, limits.feeds),
    )
    for kind, name, read, most in kinds:
        kept = dict[str, str]()
        for row in lists.get(name, ()):
            try:
                found = read(row)
            except ValueError:
                counts[ChoiceKind.CUT] += 1
                continue
            if found is None or found[0] in kept:
                continue
            text = _HALF.sub("\ufffd", json.dumps(found[1], ensure_ascii=False))
            length = len(text.encode()) + 1
            if len(kept) >= most or size + length > limits.bytes:
                counts[ChoiceKind.CUT] += 1
                continue
            kept[found[0]], size = text, size + length
        counts[kind] = len(kept)
        packed.append(f"{json.dumps(kind)}: [{','.join(kept.values())}]")
    numbers = {str(kind): count for kind, count in counts.items() if count}
    return Choices("{" + ", ".join(packed) + "}" if numbers.keys() - {ChoiceKind.CUT} else "", numbers)


def _read_rule(row: Any) -> tuple[str, Any]:
    (found,) = read_rules({"kind": FILE_KIND, "rules": [row]})
    if not found.target and not found.rule.has_actions:
        raise ValueError("actions")
    value = {name: row[name] for name in _RULE if isinstance(row.get(name), str | bool | list)}
    return json.dumps(value, sort_keys=True), value


def _read_search(row: Any) -> tuple[str, Any]:
    if not isinstance(row, dict):
        raise ValueError("search")
    name, query = row.get("name", ""), row.get("query")
    if not isinstance(name, str) or not isinstance(query, str):
        raise ValueError("search")
    return name or query, {"name": name, "query": query, "notify": row.get("notify") is True}


def _read_feed(row: Any) -> tuple[str, Any] | None:
    if not isinstance(row, dict) or not isinstance(row.get("address"), str):
        raise ValueError("feed")
    chosen = {
        new: row[old]
        for old, new in SETTINGS.items()
        if type(row.get(old)) is (int if old in _NUMBERS else bool) and row[old]
    }
    is_private = row.get("private") is True
    return (row["address"], [row["address"], chosen, is_private]) if chosen or is_private else None
