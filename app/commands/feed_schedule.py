"""``eventr feed schedule``: compute a feed's forecast and next check from its posting times."""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import Any

import click

from app import clock
from app.cli import print_json
from app.commands.files import errors_as_json, read_bytes
from app.config import Settings
from app.errors import InvalidError
from app.feeds import schedule as engine
from app.models.feeds.schedule import Hints

_KEYS = ("history", "hints", "now", "published", "seed")
_FLAGS = ("pushed",)
_SETS = ("skip_hours",)


@click.command()
@click.argument("file")
@errors_as_json
def schedule(file: str) -> None:
    """Forecast when a feed will post, and when to check it next.

    FILE ('-' reads standard input) contains one JSON object. All keys are optional. Times use RFC 3339:

    \b
      published  array with the times of the feed's entries
      now        time of this poll; default: the current time
      history    "history" from the output of an earlier run; "published" then has
                 the new entries only. Without it, this is the feed's first poll
      hints      object with max_age (seconds), ttl_minutes, skip_hours (array of
                 UTC hours), retry_after (seconds), errors (in a row), pushed
                 (true or false), unread_days
      seed       integer that makes the jitter repeatable

    Prints one JSON object: "now", "forecast" (24 numbers: seconds between entries by UTC hour),
    "next_check_at", "seconds" until the next check, "reason" and "history". The EVENTR_POLL_* and
    EVENTR_ERROR_BACKOFF_* settings define the limits. For invalid input, the command prints
    {"error", "message"} and exits with code 1.
    """
    limits = engine.Limits.from_settings(Settings.from_env())
    print_json(_answer(_load(read_bytes(file)), limits))


def _load(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as e:
        raise InvalidError("The input isn't valid JSON.") from e
    if not isinstance(document, dict):
        raise InvalidError("The input isn't a JSON object.")
    unknown = sorted(set(document) - set(_KEYS))
    if unknown:
        raise InvalidError(f"{unknown[0]!r} isn't a known key. The keys are {', '.join(_KEYS)}.")
    return document


def _answer(document: dict[str, Any], limits: engine.Limits) -> dict[str, Any]:
    now = _now(document)
    published = [_time(text, "published") for text in _list(document.get("published", []), "published")]
    history = engine.seed(published, now)
    if "history" in document:
        history = engine.record_arrivals(_history(document["history"]), published, now)
    hints = _hints(document.get("hints", {}))
    chance = random.Random(_integer(document.get("seed"), "seed"))  # noqa: S311 — jitter, not a secret
    found = engine.plan(history, now, hints, limits, rng=chance)
    return {
        "now": _text(now),
        "forecast": [round(seconds, 3) for seconds in engine.forecast_day(history, now)],
        "next_check_at": _text(found.next_check_at),
        "seconds": round((found.next_check_at - now).total_seconds(), 3),
        "reason": found.reason,
        "history": history.to_doc(),
    }


def _now(document: dict[str, Any]) -> dt.datetime:
    if "now" not in document:
        return clock.now()
    now = _time(document["now"], "now")
    if not 1970 <= now.year < 9999:
        raise InvalidError("'now' must be between 1970 and 9998.")
    return now


def _history(document: object) -> engine.History:
    if not isinstance(document, dict):
        raise InvalidError("'history' must be an object.")
    if not document:
        return engine.EMPTY
    day, rows = _integer(document.get("day"), "history.day"), _list(document.get("rows"), "history.rows")
    if day is None or len(rows) > 22 or len(rows) % 2 or not all(0 <= _count(row) < 1 << 60 for row in rows):
        raise InvalidError("'history' must be copied unchanged from the output of an earlier run.")
    return engine.History.from_doc(document)


def _count(row: object) -> int:
    return -1 if (number := _integer(row, "history.rows")) is None else number


def _hints(document: object) -> Hints:
    if not isinstance(document, dict):
        raise InvalidError("'hints' must be an object.")
    names = Hints._fields
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name not in names:
            raise InvalidError(f"'hints.{name}' isn't a known key. The keys are {', '.join(sorted(names))}.")
        values[name] = _hint(name, value)
    return Hints(**{name: value for name, value in values.items() if value is not None})


def _hint(name: str, value: object) -> Any:
    label = f"hints.{name}"
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise InvalidError(f"'{label}' must be true or false.")
        return value
    if name in _SETS:
        return frozenset(_hour(hour) for hour in _list(value, label))
    number = _integer(value, label)
    if number is not None and number < 0:
        raise InvalidError(f"'{label}' must not be negative.")
    return number


def _hour(value: object) -> int:
    hour = _integer(value, "hints.skip_hours")
    if hour is None or not 0 <= hour <= 23:
        raise InvalidError("'hints.skip_hours' must contain hours from 0 to 23.")
    return hour


def _integer(value: object, label: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise InvalidError(f"'{label}' must be a whole number.")
    return value


def _list(value: object, label: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidError(f"'{label}' must be an array.")
    return value


def _time(value: object, label: str) -> dt.datetime:
    """Parse an RFC 3339 time, which always has a UTC offset."""
    if not isinstance(value, str):
        raise InvalidError(f"'{label}' must contain times as strings.")
    try:
        moment = dt.datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(dt.UTC)
    except (ValueError, OverflowError) as e:
        raise InvalidError(f"'{label}' contains {value[:40]!r}, which isn't an RFC 3339 time.") from e
    raise InvalidError(f"'{label}' contains {value!r}, which has no UTC offset.")


def _text(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
