"""Checks of input from outside: ids, texts and times have the right type and size (W15)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app.errors import InvalidError
from app.models.names import JOINERS, to_one_line
from app.models.reading.stream import MAX_ID

TITLE = 512
#: Unprintable characters that belong to texts: line ends, and joiners and non-joiners of letters.
_UNSEEN = f"\n\t{JOINERS}"


def check_id(value: object, field: str) -> int:
    """Return a valid id.

    Raises:
        InvalidError: the value isn't a positive 53-bit integer.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_ID:
        return value
    raise InvalidError("This isn't a valid ID.", field=field)


def check_ids(values: Sequence[object], field: str, limit: int) -> list[int]:
    """Return valid ids without duplicates, in their order.

    Raises:
        InvalidError: a value isn't an id, or there are more than ``limit``.
    """
    if not isinstance(values, list | tuple) or len(values) > limit:
        raise InvalidError("At most %(most)s items are allowed at once.", field=field, most=limit)
    return list(dict.fromkeys(check_id(v, field) for v in values))


def check_text(value: object, field: str, *, limit: int = TITLE, empty: bool = False) -> str:
    """Return a text in one line, without invisible characters.

    Raises:
        InvalidError: the value isn't a text, is too long, or is empty although ``empty`` is False.
    """
    if not isinstance(value, str):
        raise InvalidError(field=field)
    text = to_one_line(value)
    if len(text) > limit:
        raise InvalidError("Use at most %(most)s characters.", field=field, most=limit)
    if not text and not empty:
        raise InvalidError("Enter a name.", field=field)
    return text


def check_time(value: object, field: str) -> dt.datetime:
    """Return a time, given as such or as text (RFC 3339), in UTC.

    Raises:
        InvalidError: the value isn't a time, has no zone, or is outside the years 1 to 9999 in UTC.
    """
    try:
        when = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(when, dt.datetime) and when.tzinfo is not None:
            return when.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidError(field=field)


def check_words(value: object, field: str, *, limit: int) -> str:
    """Return a text of any number of lines, with LF line ends and without invisible characters.

    Raises:
        InvalidError: the value isn't a text, or is too long.
    """
    if not isinstance(value, str):
        raise InvalidError(field=field)
    lines = value.replace("\r\n", "\n").replace("\r", "\n").strip()
    words = "".join(c for c in lines if c.isprintable() or c in _UNSEEN)
    if len(words) > limit:
        raise InvalidError("Use at most %(most)s characters.", field=field, most=limit)
    return words
