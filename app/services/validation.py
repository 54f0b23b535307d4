"""Checks of what comes from outside: ids are numbers, texts are texts (W15)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app.errors import InvalidError
from app.models.names import JOINERS, to_one_line
from app.models.reading.stream import MAX_ID

TITLE = 512
#: Not printable and yet part of a text: ends of lines, and what joins letters or keeps them apart.
_UNSEEN = f"\n\t{JOINERS}"


def check_id(value: object, field: str) -> int:
    """Return an id.

    Raises:
        InvalidError: not a positive 53-bit integer.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_ID:
        return value
    raise InvalidError("This isn't a valid ID.", field=field)


def check_ids(values: Sequence[object], field: str, limit: int) -> list[int]:
    """Return ids without repeats, in their order.

    Raises:
        InvalidError: one is not an id, or there are more than ``most``.
    """
    if not isinstance(values, list | tuple) or len(values) > limit:
        raise InvalidError("At most %(most)s items are allowed at once.", field=field, most=limit)
    return list(dict.fromkeys(check_id(v, field) for v in values))


def check_text(value: object, field: str, *, limit: int = TITLE, empty: bool = False) -> str:
    """Return a text in one line, without what nobody sees.

    Raises:
        InvalidError: not a text, too long, or empty where it must not be.
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
    """Return a time, or one as text (RFC 3339), in UTC.

    Raises:
        InvalidError: not a time, without a zone, or none of the years that UTC can tell.
    """
    try:
        when = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(when, dt.datetime) and when.tzinfo is not None:
            return when.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidError(field=field)


def check_words(value: object, field: str, *, limit: int) -> str:
    """Return what somebody wrote, in lines that are ended alike and without what nobody sees; may be empty.

    Raises:
        InvalidError: not a text, or too long.
    """
    if not isinstance(value, str):
        raise InvalidError(field=field)
    lines = value.replace("\r\n", "\n").replace("\r", "\n").strip()
    words = "".join(c for c in lines if c.isprintable() or c in _UNSEEN)
    if len(words) > limit:
        raise InvalidError("Use at most %(most)s characters.", field=field, most=limit)
    return words
