"""Dates in feeds → aware UTC times, never an exception.

Fast paths read RFC 822 (also two-digit years, named zones, without seconds, with a wrong weekday) and
ISO 8601 / RFC 3339. Other forms go to feedparser, which knows many localized ones. Published
dates are kept unchanged; :func:`clamp` computes the time for sorting and scheduling.
"""

from __future__ import annotations

import datetime as dt
import re
import time

from feedparser import datetimes as _feedparser

from app.feeds.parse.months import FILLERS, MONTHS

#: No date is longer; this also bounds every regular expression below.
_LONGEST = 80
_EARLIEST = dt.datetime(1990, 1, 1, tzinfo=dt.UTC)
_LEAD = dt.timedelta(days=1)

#: Minutes east of UTC. RFC 822 §5.1, the usual abbreviations of Europe, Asia and Australia, and the
#: military letters of RFC 2822 §4.3, which are mostly wrong and therefore read as UTC.
_ZONES = {
    "": 0, "ut": 0, "utc": 0, "gmt": 0, "z": 0, "wet": 0, "uhr": 0,
    "ndt": -150, "nst": -210, "adt": -180, "ast": -240, "edt": -240, "est": -300, "et": -300,
    "cdt": -300, "cst": -360, "ct": -360, "mdt": -360, "mst": -420, "mt": -420, "pdt": -420, "pst": -480,
    "pt": -480, "akdt": -480, "akst": -540, "hst": -600, "brt": -180, "art": -180,
    "bst": 60, "ist": 330, "west": 60, "cet": 60, "met": 60, "cest": 120, "mest": 120, "eet": 120,
    "sast": 120, "eest": 180, "msk": 180, "msd": 240, "trt": 180, "pkt": 300, "ict": 420, "wib": 420,
    "hkt": 480, "sgt": 480, "awst": 480, "jst": 540, "kst": 540, "acst": 570, "aest": 600, "aedt": 660,
    "nzst": 720, "nzdt": 780,
}  # fmt: skip
_ZONES |= {
    f"{sign}{hours:02}{minutes}": (-1 if sign == "-" else 1) * (hours * 60 + int(minutes))
    for sign in "+-"
    for hours in range(15)
    for minutes in ("00", "30")
}
_CLOCK = re.compile(r"(\d{1,2})[:.](\d{1,2})(?:[:.](\d{1,2})(?:[.,]\d{0,9})?)?\s{0,3}([ap]m)?", re.IGNORECASE)
_OFFSET = re.compile(r"(?:utc|gmt)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE)
_ISO = re.compile(
    r"(\d{4})(?:-?(\d{2}|\d(?=-))(?:-?(\d{1,2}))?)?"
    r"(?:[T\s]\s{0,3}(\d{1,2}):?(\d{2})?(?::?(\d{2})(?:[.,]\d{0,12})?)?(?:\s{0,3}([ap]m)(?![a-z]))?)?"
    r"\s{0,3}\(?(Z|[A-Za-z]{1,5}|(?:GMT|UTC)?[+-]\d{1,2}:?\d{0,2})?\)?"
    # Go's time.Time.String: "2018-04-04 16:00:00.5 +0000 UTC m=+0.01"
    r"(?:\s\(?[A-Z]{1,5}\)?)?(?:\sm=[+-][\d.]{1,24})?",
    re.IGNORECASE | re.ASCII,
)
#: Dates with digits only: "2024/01/31", "2024年1月31日", "31.01.2024", with or without a time.
_YEAR_FIRST = re.compile(
    r"(\d{4})\s?[./年년]\s?(\d{1,2})\s?[./月월]\s?(\d{1,2})\s?[.日일]?(?![\d/])", re.ASCII
)
_YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?!\d)", re.ASCII)
_WEEKDAY = re.compile(r"^[^\W\d_]{2,12}\.?\s{0,3},?\s{1,3}|^[^\W\d_]{2,12},\s{0,3}")


def parse_date(text: str | None) -> dt.datetime | None:
    """Return the time that a text states, aware and in UTC; None when it states none that exists."""
    if not text:
        return None
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    try:
        if text[:4].isdecimal():
            when = _iso_fast(text) or _iso(text) or _figures(text)
        else:
            when = _rfc822(text) or _figures(text)
    except (ValueError, OverflowError):
        when = None
    return when or _oddity(text)


def clamp(claimed: dt.datetime | None, now: dt.datetime) -> dt.datetime | None:
    """Return a published time moved into 1990 … one day after ``now`` (X11); None stays None."""
    if claimed is None or _EARLIEST <= claimed <= now:
        return claimed
    return min(max(claimed, _EARLIEST), now + _LEAD)


def parse_epoch(seconds: float) -> dt.datetime | None:
    """Return the time of a Unix timestamp; None when no such year exists."""
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _iso_fast(text: str) -> dt.datetime | None:
    if len(text) < 19:
        return None
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return when.replace(tzinfo=dt.UTC) if when.tzinfo is None else when.astimezone(dt.UTC)


def _iso(text: str) -> dt.datetime | None:
    """Read looser ISO forms: missing parts, 24:00, named zones, unusual separators."""
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    clock = _of_day(hour, found[7]), minute, second
    return _utc((year, month or 1, day or 1), clock, _zone(found[8] or ""))


def _figures(text: str) -> dt.datetime | None:
    """Read dates with digits only; if either number may be the month, dots mean the second one is."""
    found = _YEAR_FIRST.search(text) or _YEAR_LAST.search(text)
    if found is None:
        return None
    if found.re is _YEAR_FIRST:
        year, month, day = (int(part) for part in found.groups())
    else:
        day, mark, month, year = int(found[1]), found[2], int(found[3]), int(found[4])
        if mark != "." and day <= 12 and month > 12:
            day, month = month, day
        elif mark != "." and day <= 12 and day != month:
            return None
    rest = f"{text[: found.start()]} {text[found.end() :]}"
    clock = _CLOCK.search(rest)
    return _utc((year, month, day), _hours(clock), _zone(rest[clock.end() :].strip()) if clock else 0)


def _rfc822(text: str) -> dt.datetime | None:
    """Read ``[weekday,] day month year [time [zone]]``, ``month day, year``, and forms with dashes.

    Format: RFC 822 §5 with the four-digit year of RFC 1123 §5.2.14.
    """
    parts = text.replace(",", " ").split()
    if len(parts) == 6 and len(parts[4]) == 8 and len(parts[3]) == 4:
        month = MONTHS.get(parts[2].lower())
        if month and parts[4][2] == parts[4][5] == ":":
            clock = parts[4]
            return _utc(
                (int(parts[3]), month, int(parts[1])),
                (int(clock[:2]), int(clock[3:5]), int(clock[6:])),
                _zone(parts[5]),
            )
    return _rfc822_loose(text)


def _rfc822_loose(text: str) -> dt.datetime | None:
    # "Mar" is March, and Tuesday in Spanish
    if _first_word(text) in MONTHS and (found := _day_first(text)):
        return found
    return _day_first(_WEEKDAY.sub("", text))


def _day_first(text: str) -> dt.datetime | None:
    clock = _CLOCK.search(text)
    head = text[: clock.start()] if clock else text
    words = head.replace(",", " ").replace("-", " ").replace(".", " ").replace("/", " ").split()
    words = [word for word in words if word.lower() not in FILLERS]
    tail = text[clock.end() :] if clock else ""
    if len(words) < 3:  # "Mon Jan 5 10:00:00 2004": asctime, the year follows the time
        words += tail.split()[-1:] if len(words) == 2 else []
        tail = " ".join(tail.split()[:-1])
    date = _day_month_year(words[:3])
    if date is None or len(words) > 3:
        return None
    zone = _zone(tail.strip())
    return None if zone is None else _utc(date, _hours(clock), zone)


def _first_word(text: str) -> str:
    return text[:12].replace(",", " ").replace(".", " ").split(" ")[0].lower()


def _day_month_year(words: list[str]) -> tuple[int, int, int] | None:
    if len(words) < 3:
        return None
    first, second, third = (word.lower() for word in words)
    if first in MONTHS:
        first, second = second, first
    month = MONTHS.get(second)
    day = first.removesuffix("st").removesuffix("nd").removesuffix("rd").removesuffix("th")
    if month is None or not (day.isdecimal() and third.isdecimal()):
        return None
    if len(day) == 4:
        day, third = third, day
    year = int(third)
    if year < 100:  # RFC 2822 §4.3
        year += 2000 if year < 50 else 1900
    return year, month, int(day)


def _hours(clock: re.Match[str] | None) -> tuple[int, int, int]:
    if clock is None:
        return 0, 0, 0
    return _of_day(int(clock[1]), clock[4]), int(clock[2]), int(clock[3] or 0)


def _of_day(hour: int, half: str | None) -> int:
    return hour % 12 + (12 if half.lower() == "pm" else 0) if half else hour


def _zone(text: str) -> int | None:
    """Return minutes east of UTC; None when the zone is unknown or impossible."""
    if text in _ZONES:
        return _ZONES[text]
    name = text.strip("() ").lower()
    if name in _ZONES:
        return _ZONES[name]
    if len(name) == 1 and name.isalpha():
        return 0
    found = _OFFSET.match(name)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    if minutes > 15 * 60:
        return None
    return -minutes if found[1] == "-" else minutes


def _utc(date: tuple[int, int, int], clock: tuple[int, int, int], zone: int | None) -> dt.datetime | None:
    """Combine date, time and zone; 24:00 and a leap second roll over to the next day or minute.

    Raises:
        ValueError, OverflowError: the day doesn't exist, or it is before year 1 or after 9999 in UTC.
    """
    hour, minute, second = clock
    if zone == 0 and hour < 24 and second < 60:
        return dt.datetime(*date, hour, minute, second, tzinfo=dt.UTC)
    if zone is None or hour > 24 or minute > 59 or second > 60:
        return None
    day = dt.datetime(*date, tzinfo=dt.UTC)
    return day + dt.timedelta(hours=hour, minutes=minute - zone, seconds=second)


def _oddity(text: str) -> dt.datetime | None:
    """Parse the date with feedparser, which knows Greek, Hungarian, Korean and more; or a Unix timestamp."""
    if text.isdecimal():
        known = text.isascii() and 9 <= len(text) <= 13
        return parse_epoch(int(text) / (1000 if len(text) > 11 else 1)) if known else None
    if not any(letter.isalpha() and not "A" <= letter <= "Z" for letter in text) or text[0] == "-":
        return None  # with digits, it matches what it can and fills in the rest from today
    try:
        found: time.struct_time | None = _feedparser._parse_date(text)
    except (ValueError, OverflowError, TypeError, IndexError, KeyError, AttributeError):
        return None  # its handlers raise all of these on digits that aren't a date
    try:
        return dt.datetime(*found[:6], tzinfo=dt.UTC) if found else None
    except ValueError:
        return None
