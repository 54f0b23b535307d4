"""Feed schedule: when to poll a feed next, from its hour table, hints and back-off. Pure.

A feed's TTL in an hour is the mean number of seconds between its entries in that hour. n entries
cut the hour into n + 1 gaps, so the TTL is 3600 / (n + 1), from one hour down to two minutes. (3600 / n,
without the gaps at the ends, would make one entry count like none. Replayed on real posting times, that
saves 2 % of the polls and costs 29 % more median delay, see docs/performance.md.) The forecast for an
hour of the day is the mean of its TTLs on the last ten days; a day without an entry counts as one
hour. So a feed earns two-minute polling by ten days of posting at that hour, and drifts back to hourly
polling at night. All times of day are UTC.

The history stores arrivals per hour; every TTL is computed from it on demand. So a poll without
new entries changes nothing that must be stored, and the table ages without polls.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
import operator
import random
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from app.config import Settings
from app.models.feeds.schedule import Hints, Plan

HOUR: Final = 3600
DAYS: Final = 10  #: days whose mean is the forecast
JITTER: Final = 0.1
UNREAD_AFTER_DAYS: Final = 30
MAX_COUNT: Final = 29  #: most arrivals counted in an hour; they make the TTL two minutes
_ARRIVAL: Final = HOUR // (MAX_COUNT + 1)  # entries within the same two minutes are one arrival
_BITS: Final = 5  # per count in a day's packed row; 24 x 5 bits are 15 bytes
_ROW: Final = 24 * _BITS // 8
_PACKED_DAY: Final = struct.Struct("<i")
_from_bytes: Final = int.from_bytes
_HALF: Final = 12 * _BITS
_HALF_MASK: Final = (1 << _HALF) - 1
_UTC: Final = dt.UTC


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a plan, in seconds; see the settings of the same names."""

    poll_min: int = 120
    poll_max: int = HOUR
    poll_push: int = 6 * HOUR
    poll_unread: int = 24 * HOUR
    error_backoff_min: int = 300
    error_backoff_max: int = 24 * HOUR

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Read the bounds from the settings."""
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(cls)})

    def derive_limits(self, min_minutes: int | None, max_minutes: int | None) -> Limits:
        """Return the bounds with a reader's own limits; the server's shortest interval still holds."""
        low = max(self.poll_min, 60 * (min_minutes or 0))
        high = max(low, min(self.poll_max, 60 * max_minutes) if max_minutes else self.poll_max)
        unread = max(low, min(self.poll_unread, 60 * max_minutes) if max_minutes else self.poll_unread)
        return dataclasses.replace(self, poll_min=low, poll_max=high, poll_unread=unread)


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Arrivals in each hour of the last days.

    Attributes:
        day: the newest day with an arrival, in days since 1970-01-01 UTC.
        rows: one packed row of 24 counts per day; ``rows[i]`` belongs to ``day - i``. At most
            eleven rows (today and the ten days before), without empty rows at the end.
    """

    day: int = 0
    rows: tuple[int, ...] = ()

    def count(self, day: int, hour: int) -> int:
        """Return the arrivals in an hour (0–23) of a day; 0 for a day outside the history."""
        back = self.day - day
        return self.rows[back] >> (hour * _BITS) & 31 if 0 <= back < len(self.rows) else 0

    def pack(self) -> bytes:
        """Return the stored form: the day and 15 bytes per row, under 170 bytes; b"" for an empty history.

        It is a blob because a list of numbers cost each poll more to read than the rest of its feed.
        """
        if not self.rows:
            return b""
        return _PACKED_DAY.pack(self.day) + b"".join(row.to_bytes(_ROW, "little") for row in self.rows)

    @classmethod
    def unpack(cls, packed: bytes) -> History:
        """Read the bytes that :meth:`pack` wrote; b"" is an empty history."""
        if not packed:
            return EMPTY
        starts = range(_PACKED_DAY.size, len(packed), _ROW)
        rows = tuple([_from_bytes(packed[i : i + _ROW], "little") for i in starts])
        return cls(_PACKED_DAY.unpack_from(packed)[0], rows)

    def to_doc(self) -> dict[str, Any]:
        """Return a form for people and JSON: a dict of ints under 2**63; empty for an empty history."""
        if not self.rows:
            return {}
        return {
            "day": self.day,
            "rows": [half for row in self.rows for half in (row & _HALF_MASK, row >> _HALF)],
        }

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any] | bytes | None) -> History:
        """Read the form that :meth:`pack` or :meth:`to_doc` wrote; an empty form is an empty history."""
        if not doc:
            return EMPTY
        if isinstance(doc, bytes):
            return cls.unpack(doc)
        halves: Sequence[int] = doc["rows"]
        rows = tuple(low | high << _HALF for low, high in zip(halves[::2], halves[1::2], strict=True))
        return cls(doc["day"], rows)


EMPTY: Final = History()


def record_arrivals(history: History, published: Iterable[dt.datetime], now: dt.datetime) -> History:
    """Count new entries in the hours in which they arrived.

    Args:
        history: the history so far.
        published: aware times of the *new* entries, best their sort times, which lie after the
            previous fetch. Times more than ten days old don't count; future times count as now.
        now: aware time of this update.

    Returns:
        The new history; the same object when there is nothing to count.
    """
    today = _day(now)
    slots = {min(_seconds(moment), _seconds(now)) // _ARRIVAL for moment in published}
    recent = [slot * _ARRIVAL for slot in slots if slot * _ARRIVAL // 86400 >= today - DAYS]
    if not recent:
        return history
    newest = max(max(recent) // 86400, min(history.day, today) if history.rows else 0)
    table = {day: row for day, row in _days(history) if newest - DAYS <= day <= newest}
    for moment in recent:
        day, shift = moment // 86400, moment % 86400 // HOUR * _BITS
        row = table.get(day, 0)
        if (row >> shift & 31) < MAX_COUNT:
            table[day] = row + (1 << shift)
    oldest = min(day for day, row in table.items() if row)
    return History(newest, tuple(table.get(day, 0) for day in range(newest, oldest - 1, -1)))


def seed(published: Iterable[dt.datetime], now: dt.datetime) -> History:
    """Build the history of a feed at its first fetch from the dates of its entries."""
    return record_arrivals(EMPTY, (moment for moment in published if moment <= now), now)


def forecast_interval(history: History, at: dt.datetime) -> float:
    """Return the expected seconds between entries (120–3600) in the hour that holds ``at``.

    This is the mean over the ten days before. Once the current hour has more arrivals than the same
    hour ten days ago, the current hour replaces that one.
    """
    return _forecast(history, _seconds(at) // HOUR, HOUR)


def forecast_day(history: History, now: dt.datetime) -> list[float]:
    """Return the forecasts of the next 24 hours, starting with the current one, indexed by UTC hour."""
    first = _seconds(now) // HOUR
    found = {number % 24: _forecast(history, number, HOUR) for number in range(first, first + 24)}
    return [found[hour] for hour in range(24)]


def count_weekly_entries(history: History, now: dt.datetime) -> float:
    """Return the entries per week over the last ten days; a burst within two minutes counts as one."""
    today = _day(now)
    counts = (
        row >> shift * _BITS & 31
        for day, row in _days(history)
        if today - DAYS < day <= today
        for shift in range(24)
    )
    return sum(counts) * 7 / DAYS


def plan(
    history: History,
    now: dt.datetime,
    hints: Hints,
    limits: Limits,
    *,
    rng: random.Random,
    lateness: float = 0.0,
) -> Plan:
    """Return when to poll the feed next, and why.

    Errors come first. Next come the reasons that make polling pointless: working pushes, no readers.
    Otherwise the hour table decides, with the feed's own wish as a lower bound. A server's ``Retry-After``
    always holds. After a downtime a feed returns to its old rhythm (see :func:`_in_step`).
    ``Plan.reason`` is one of ``errors``, ``retry_after``, ``pushed``, ``unread``, ``skip_hours``,
    ``asked`` and ``hour_table``.

    Args:
        history: arrivals per hour, including this update's.
        now: aware time of this update; the plan lies after it.
        hints: hints from this poll and earlier ones.
        limits: bounds in seconds.
        rng: draws the ±10 % jitter that spreads feeds polled at the same moment.
        lateness: seconds between the planned time of this poll and now.
    """
    delay, low, high, reason = _base(history, now, hints, limits)
    jitter = rng.uniform(1 - JITTER, 1 + JITTER)
    if lateness > JITTER * delay and reason != "errors":
        seconds = max(_in_step(delay, lateness) * jitter, limits.poll_min)
    else:
        seconds = min(max(delay * jitter, low), high)
    if reason in ("hour_table", "asked"):
        awake = min(_awake(now, seconds, hints.skip_hours), limits.poll_max)
        seconds, reason = (awake, "skip_hours") if awake > seconds else (seconds, reason)
    wait = min(hints.retry_after or 0, limits.error_backoff_max)
    if wait > seconds:
        seconds, reason = wait, "retry_after"
    return Plan(now + dt.timedelta(seconds=seconds), reason)


def _base(
    history: History, now: dt.datetime, hints: Hints, limits: Limits
) -> tuple[float, float, float, str]:
    """Return the delay before jitter, the bounds after jitter, and the reason."""
    backoff = _backoff(hints.errors, limits)
    unread = limits.poll_unread if hints.unread_days >= UNREAD_AFTER_DAYS else 0
    pushed = limits.poll_push if hints.pushed else 0
    if max(unread, pushed) > backoff:
        rest, why = max((unread, "unread"), (pushed, "pushed"))
        return rest, 0, rest * (1 + JITTER), why
    if backoff:
        return backoff, limits.error_backoff_min, limits.error_backoff_max, "errors"
    expected = min(max(_next_arrival(history, now, limits.poll_max), limits.poll_min), limits.poll_max)
    asked = max(hints.max_age or 0, (hints.ttl_minutes or 0) * 60, limits.poll_min)
    asked = min(asked, limits.poll_max)
    delay, reason = (asked, "asked") if asked > expected else (expected, "hour_table")
    return delay, asked, limits.poll_max, reason


def _in_step(delay: float, late: float) -> float:
    """Return the seconds until the feed's next turn in the rhythm that it had before it was late.

    After a downtime all feeds are polled within minutes. If their next polls were planned from now, they
    would return as one herd each hour, which ±10 % takes days to spread. Their planned times are still
    spread. So the feed is polled once sooner than its delay, despite its own wishes, and is back in its
    rhythm. The feed has just gone unpolled for longer than that.
    """
    return delay - late % delay


def _backoff(errors: int, limits: Limits) -> int:
    """Return the seconds to wait after this many errors in a row; 0 without errors."""
    doublings = min(errors - 1, 32)  # far beyond the longest wait, and small enough to avoid huge integers
    return min(limits.error_backoff_min << doublings, limits.error_backoff_max) if errors > 0 else 0


def _next_arrival(history: History, now: dt.datetime, longest: float) -> float:
    """Return the seconds until the next entry is expected.

    The wait is summed across hours, each at its own pace. So a fast hour ahead is reached in time,
    and a slow hour ahead stretches only the rest of the wait.
    """
    if not history.rows:
        return longest
    busy = functools.reduce(operator.or_, history.rows)
    whole, inside = divmod(now.timestamp(), HOUR)
    number, left, share, waited = int(whole), HOUR - inside, 1.0, 0.0
    while True:
        # Most hours have no entry on any day. With a long poll_max, up to 24 of them are walked per poll.
        is_busy = busy >> (number % 24 * _BITS) & 31
        pace = _forecast(history, number, longest) if is_busy else longest
        if share * pace <= left:
            return waited + share * pace
        waited, share, left, number = waited + left, share - left / pace, HOUR, number + 1


def _forecast(history: History, number: int, longest: float) -> float:
    """Return the mean TTL of an hour, numbered from 1970; ``longest`` stands for an hour without entries."""
    day, hour = divmod(number, 24)
    rows, shift, ttls = history.rows, hour * _BITS, _ttls(longest)
    own = history.day - day  # index of that day's row; negative when the day is newer than all rows
    oldest = own + DAYS
    between = [ttls[row >> shift & 31] for row in rows[max(own + 1, 0) : max(oldest, 0)]]
    edge = max(history.count(day - DAYS, hour), history.count(day, hour))
    return (sum(between) + ttls[edge] + longest * (DAYS - 1 - len(between))) / DAYS


@functools.lru_cache
def _ttls(longest: float) -> tuple[float, ...]:
    """Return the TTLs of an hour, indexed by its count."""
    return (longest, *(HOUR / (count + 1) for count in range(1, 32)))


def _awake(now: dt.datetime, delay: float, skip: frozenset[int]) -> float:
    """Return the delay, extended until it ends outside the hours that the feed asks to skip."""
    if not skip:
        return delay
    end = now.astimezone(_UTC) + dt.timedelta(seconds=delay)
    for _ in range(24):
        if end.hour not in skip:
            break
        end = end.replace(minute=0, second=0, microsecond=0) + dt.timedelta(hours=1)
    return (end - now).total_seconds()


def _days(history: History) -> Iterator[tuple[int, int]]:
    return ((history.day - back, row) for back, row in enumerate(history.rows))


def _seconds(moment: dt.datetime) -> int:
    return math.floor(moment.timestamp())


def _day(moment: dt.datetime) -> int:
    return _seconds(moment) // 86400
