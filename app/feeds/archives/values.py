"""Values of JSON and CSV files, which may have any type: each becomes what is expected, or empty."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any, Final

from app import clock
from app.models.imports.archives import NAME_MAX

#: Times before this, and those that lie further ahead, are mistakes.
EARLIEST, _AHEAD = dt.datetime(1990, 1, 1, tzinfo=dt.UTC), dt.timedelta(days=1)
#: Units of time below a second that programs write: milli-, micro- and nanoseconds.
_SMALLER_UNITS: Final = 3


#: Escapes of halves of characters, which alone are none. Two of them may be one.
HALVES: Final = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")


def replace_halves(value: Any) -> Any:
    """Return a value of JSON without halves of characters, which no database and no address can have.

    Raises:
        RecursionError: the value is nested too deeply.
    """
    if isinstance(value, str):
        return value if value.isascii() else _HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_halves(name): replace_halves(one) for name, one in value.items()}
    return [replace_halves(one) for one in value] if isinstance(value, list) else value


def read_time(value: object) -> dt.datetime | None:
    """Return the time of an ISO 8601 text in UTC; None: it is none, or impossible."""
    try:
        found = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return _bound_time(found if found is None or found.tzinfo else found.replace(tzinfo=dt.UTC))


def read_seconds(value: object) -> dt.datetime | None:
    """Return the time of a number of seconds; some programs write milliseconds or microseconds."""
    try:
        seconds = float(value) if isinstance(value, str | int | float) else 0.0
        if not math.isfinite(seconds):
            return None
        for _ in range(_SMALLER_UNITS):
            if seconds > 1e11:
                seconds /= 1000
        return _bound_time(dt.datetime.fromtimestamp(seconds, dt.UTC)) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _bound_time(at: dt.datetime | None) -> dt.datetime | None:
    """Return a time in UTC; None: there were no feeds then, or it's still to come. No row has such a time."""
    return at.astimezone(dt.UTC) if at and EARLIEST <= at <= clock.now() + _AHEAD else None


def get_dict(value: object) -> dict[str, Any]:
    """Return an object; an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def get_list(value: object) -> list[Any]:
    """Return a list; an empty one if it is something else."""
    return value if isinstance(value, list) else []


def get_text(value: object) -> str:
    """Return a text; empty if it is something else, or longer than anything that is compared."""
    return value if isinstance(value, str) and len(value) <= NAME_MAX else ""


def get_markup(value: object) -> str:
    """Return the text of an entry, of any length; empty if it is something else or blank."""
    return value if isinstance(value, str) and not value.isspace() else ""


def get_address(value: object) -> str:
    """Return a web address, empty if it is something else."""
    found = get_text(value).strip()
    return found if found.lower().startswith(("http://", "https://")) else ""
