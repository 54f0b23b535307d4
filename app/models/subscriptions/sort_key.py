"""Sort keys: positions in a list as text. Any two have room for a third, so a move writes one row.

The keys are fractions in base 62 without their "0." and without trailing zeros. After David Greenspan,
"Implementing Fractional Indexing" (https://observablehq.com/@dgreensp/implementing-fractional-indexing).
Pure.
"""

from __future__ import annotations

from typing import Final

DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BASE: Final = len(DIGITS)
#: Beyond this length the list is renumbered; thirty moves to the very end cost one digit.
LONG: Final = 24


def make_key_between(low: str, high: str) -> str:
    """Return a key after ``low`` ("": the start) and before ``high`` ("": the end).

    Raises:
        ValueError: ``low`` isn't before ``high``.
    """
    if high and low >= high:
        raise ValueError(f"{low!r} is not before {high!r}")
    return _between(low, high)


def _between(low: str, high: str) -> str:
    same = 0
    while high and same < len(high) and low[same : same + 1].ljust(1, "0") == high[same]:
        same += 1
    if same:
        return high[:same] + _between(low[same:], high[same:])
    first = DIGITS.index(low[0]) if low else 0
    last = DIGITS.index(high[0]) if high else BASE
    if last - first > 1:
        return DIGITS[_middle(first, last, bool(low), bool(high))]
    if len(high) > 1:
        return high[0]
    return DIGITS[first] + _between(low[1:], "")


def _middle(first: int, last: int, after: bool, before: bool) -> int:
    """Return a digit between two; at an open end the very next one, because lists mostly grow there."""
    if after and not before:
        return first + 1
    return last - 1 if before and not after else (first + last) // 2


def make_spread_keys(count: int) -> list[str]:
    """Return ``count`` keys, spread as far apart as possible."""
    width = 1
    while BASE**width <= 2 * count:
        width += 1
    return [_text((place + 1) * BASE**width // (count + 1), width) for place in range(count)]


def _text(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, BASE)
        digits.append(DIGITS[digit])
    return "".join(reversed(digits)).rstrip("0")


def rank(key: str, name: str, ident: int) -> tuple[bool, str, str, int]:
    """Return the sort key of a list item: positioned items first, the others by name."""
    return not key, key, name.casefold(), ident
