"""Paths into JSON: ``data.items``, ``links[0].href``, ``["odd name"].x``, and ``[*]`` for all of a list."""

from __future__ import annotations

import re
from typing import Any

from app.errors import InvalidError

_PART = re.compile(
    r"""(?:^|\.)(?P<name>[^.\[\]\s"']+)|\[(?P<index>\d{1,5})\]|\[(?P<all>\*)\]|\["(?P<double>[^"]+)"\]|\['(?P<single>[^']+)'\]"""
)
#: Most values that a path returns.
MOST = 500


def parse_path(text: str, name: str = "item") -> tuple[str | int, ...]:
    """Return the parts of a path: names, numbers, and ``*`` as -1.

    Args:
        name: of the field, for the error.

    Raises:
        InvalidError: it isn't such a path.
    """
    text = text.strip().removeprefix("$").removeprefix(".") if text.strip() != "." else ""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None or (at == 0 and text[0] == "."):
            raise InvalidError(
                "“%(text)s” isn't a path that Eventr understands. Use names and numbers, such as data.items.",
                field=name,
                text=text[:80],
            )
        if found["index"]:
            parts.append(int(found["index"]))
        else:
            parts.append(-1 if found["all"] else found["name"] or found["double"] or found["single"])
        at = found.end()
    return tuple(parts)


def find_values(data: Any, path: tuple[str | int, ...]) -> list[Any]:
    """Return what a path leads to, at most :data:`MOST` values; names that are missing lead nowhere."""
    found = [data]
    for part in path:
        following: list[Any] = []
        for value in found:
            following += _follow(value, part)
        found = following[:MOST]
    return found


def _follow(value: Any, part: str | int) -> list[Any]:
    if isinstance(part, str):
        return [value[part]] if isinstance(value, dict) and part in value else []
    if part == -1:
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return value[part : part + 1] if isinstance(value, list) else []
