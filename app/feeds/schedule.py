"""When to ask a feed again: the hour table, hints and back-off. Pure; the caller brings time and chance.

A feed's TTL in an hour is the mean number of seconds between its entries within that hour: n entries
cut the hour into n + 1 gaps, so it is 3600 / (n + 1), from one hour down to two minutes. (Leaving out
the gaps at the ends, 3600 / n, makes one entry count like none: replayed on real posting times that
saves 2 % of the polls and costs 29 % more median delay, see docs/performance.md.) The forecast for an
hour of the day is the mean of the TTLs that it had on the last ten days, a day without an entry
counting as one hour: a feed earns two-minute polling by ten days of posting at that hour, and drifts
back to hourly at night. Times of day are UTC throughout.

The history is what is counted, arrivals per hour; every TTL is computed from it when it is asked
for. So a poll without new entries changes nothing that would have to be stored, and days that pass
without a poll age the table by themselves.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
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
MAX_COUNT: Final = 29  #: arrivals counted in an hour; they make the TTL two minutes
_ARRIVAL: Final = HOUR // (MAX_COUNT + 1)  # entries of the same two minutes are one arrival
_BITS: Final = 5  # of a count in a day's packed row; 24 x 5 bits are 15 bytes
_ROW: Final = 24 * _BITS // 8
_PACKED_DAY: Final = struct.Struct("<i")
_from_bytes: Final = int.from_bytes
_HALF: Final = 12 * _BITS
_HALF_MASK: Final = (1 << _HALF) - 1
_UTC: Final = dt.UTC


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a plan in seconds; see the settings of the same names."""

    poll_min: int = 120
    poll_max: int = HOUR
    poll_push: int = 6 * HOUR
    poll_unread: int = 24 * HOUR
    error_backoff_min: int = 300
    error_backoff_max: int = 24 * HOUR

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Take the bounds from the settings."""
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(cls)})


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """How often a feed posted in each hour of the last days.

    Attributes:
        day: the newest day with an arrival, in days since 1970-01-01 UTC.
        rows: one packed row of 24 counts per day, ``rows[i]`` being that of ``day - i``; at most
            eleven rows (today and the ten before), none at the end that is empty.
    """

    day: int = 0
    rows: tuple[int, ...] = ()

    def count(self, day: int, hour: int) -> int:
        """Return the arrivals in an hour (0–23) of a day, 0 for a day that is not held."""
        back = self.day - day
        return self.rows[back] >> (hour * _BITS) & 31 if 0 <= back < len(self.rows) else 0

    def pack(self) -> bytes:
        """Return the form that is stored: the day and 15 bytes per row, under 170 bytes; b"" without posts.

        A blob: as a list of numbers it cost each poll more to read than all else of its feed.
        """
        if not self.rows:
            return b""
        return _PACKED_DAY.pack(self.day) + b"".join(row.to_bytes(_ROW, "little") for row in self.rows)

    @classmethod
    def unpack(cls, packed: bytes) -> History:
        """Read what :meth:`pack` wrote; nothing is an empty history."""
        if not packed:
            return EMPTY
        starts = range(_PACKED_DAY.size, len(packed), _ROW)
        rows = tuple([_from_bytes(packed[i : i + _ROW], "little") for i in starts])
        return cls(_PACKED_DAY.unpack_from(packed)[0], rows)

    def to_doc(self) -> dict[str, Any]:
        """Return a form for people and JSON: a dict of ints under 2**63; empty without posts."""
        if not self.rows:
            return {}
        return {
            "day": self.day,
            "rows": [half for row in self.rows for half in (row & _HALF_MASK, row >> _HALF)],
        }

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any] | bytes | None) -> History:
        """Read what :meth:`pack` or :meth:`to_doc` wrote; nothing stored is an empty history."""
        if not doc:
            return EMPTY
        if isinstance(doc, bytes):
            return cls.unpack(doc)
        halves: Sequence[int] = doc["rows"]
        rows = tuple(low | high << _HALF for low, high in zip(halves[::2], halves[1::2], strict=True))
        return cls(doc["day"], rows)


EMPTY: Final = History()


def record_arrivals(history: History, published: Iterable[dt.datetime], now: dt.datetime) -> History:
    """Count new entries into the hours they came in.

    Args:
        history: what is known.
        published: aware times of the entries that are *new*; best is their sort time, which lies
            after the fetch before. Older than ten days is left out, the future is now.
        now: aware time of this update.

    Returns:
        The new history; the very same object when there is nothing to count.
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
    """Make the history of a feed at its first fetch from the dates that it publishes itself."""
    return record_arrivals(EMPTY, (moment for moment in published if moment <= now), now)


def forecast_interval(history: History, at: dt.datetime) -> float:
    """Return the expected seconds between entries (120–3600) in the hour that holds ``at``.

    It is the mean over the ten days before. Once the running hour has seen more than the same hour
    ten days ago, its own actual value takes that one's place.
    """
    return _forecast(history, _seconds(at) // HOUR, HOUR)


def forecast_day(history: History, now: dt.datetime) -> list[float]:
    """Return the forecasts of the 24 hours from that of ``now`` on, indexed by hour of day (UTC)."""
    first = _seconds(now) // HOUR
    found = {number % 24: _forecast(history, number, HOUR) for number in range(first, first + 24)}
    return [found[hour] for hour in range(24)]


def count_weekly_entries(history: History, now: dt.datetime) -> float:
    """Return how many entries a week the last ten days brought; a burst of two minutes counts as one."""
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
    """Say when to ask the feed next, and why.

    Errors come before all else; then what makes polling pointless (pushes that work, nobody reading);
    then the hour table with what the feed asked for as a floor. A server's ``Retry-After`` is always
    kept. After a downtime a feed gets its old place in the rhythm back (see :func:`_in_step`).
    ``Plan.reason`` is one of ``errors``, ``retry_after``, ``pushed``, ``unread``, ``skip_hours``,
    ``asked`` and ``hour_table``.

    Args:
        history: arrivals per hour, this update's included.
        now: aware time of this update; the plan lies after it.
        hints: what this and earlier polls told.
        limits: bounds in seconds.
        rng: draws the ±10 % that keep feeds of one moment from staying together.
        late: seconds between the time this poll was planned for and now.
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
    """Return the delay before jitter, the bounds of the jittered one, and the reason."""
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
    """Return the seconds until the feed's next turn in the rhythm that it was in before it was late.

    After a downtime all feeds are polled within minutes; were their next polls planned from then on, they
    would come back as one herd each hour, which ±10 % take days to spread. Their planned times, however,
    lie as far apart as ever. So a feed is polled once sooner than its delay, whatever it asked for, and
    is where it was; nobody asked it for longer than that before.
    """
    return delay - late % delay


def _backoff(errors: int, limits: Limits) -> int:
    """Return the wait after so many errors in a row, 0 without one."""
    doublings = min(errors - 1, 32)  # far beyond the longest wait, and no huge integers
    return min(limits.error_backoff_min << doublings, limits.error_backoff_max) if errors > 0 else 0


def _next_arrival(history: History, now: dt.datetime, longest: float) -> float:
    """Return the seconds until one entry is expected.

    Each hour brings its share at its own pace, so the wait is summed across hour borders: a fast
    hour ahead is reached in time, a slow one ahead stretches the rest of the wait only.
    """
    if not history.rows:
        return longest
    whole, inside = divmod(now.timestamp(), HOUR)
    number, left, share, waited = int(whole), HOUR - inside, 1.0, 0.0
    while True:
        pace = _forecast(history, number, longest)
        if share * pace <= left:
            return waited + share * pace
        waited, share, left, number = waited + left, share - left / pace, HOUR, number + 1


def _forecast(history: History, number: int, longest: float) -> float:
    """Return the mean TTL of an hour, numbered from 1970; ``longest`` stands for one without entries."""
    day, hour = divmod(number, 24)
    rows, shift, ttls = history.rows, hour * _BITS, _ttls(longest)
    own = history.day - day  # index of that day's row; negative when it is newer than any
    oldest = own + DAYS
    between = [ttls[row >> shift & 31] for row in rows[max(own + 1, 0) : max(oldest, 0)]]
    edge = max(history.count(day - DAYS, hour), history.count(day, hour))
    return (sum(between) + ttls[edge] + longest * (DAYS - 1 - len(between))) / DAYS


@functools.lru_cache
def _ttls(longest: float) -> tuple[float, ...]:
    """Return the TTL of an hour by its count."""
    return (longest, *(HOUR / (count + 1) for count in range(1, 32)))


def _awake(now: dt.datetime, delay: float, skip: frozenset[int]) -> float:
    """Return the delay, lengthened until its end lies outside the hours the feed asks to skip."""
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
