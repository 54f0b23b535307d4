"""Dates in feeds → aware UTC times, never an exception.

Fast paths read RFC 822 and ISO 8601 / RFC 3339. Any other date is read by its parts: a clock, a zone, and a
date in figures or with the name of a month, in any order and many languages. Nothing is filled in from the
server's clock: the same text always gives the same time, and a text without a year gives none. Published
dates are kept unchanged; :func:`clamp` computes the time for sorting and scheduling.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata

from app.feeds.parse.months import MONTHS
from app.feeds.parse.zones import USUAL, Zone, find_unsigned, find_zone

#: No date is longer; this also bounds every regular expression below.
_LONGEST = 80
_EARLIEST = dt.datetime(1990, 1, 1, tzinfo=dt.UTC)
_LEAD = dt.timedelta(days=1)
#: Written years outside are of another calendar, or mistakes.
_YEARS = range(1900, 2200)
#: No place is further from UTC.
_FURTHEST = dt.timedelta(hours=15)
#: Years of the Buddhist calendar in Thai dates, and how much they are ahead.
_THAI_YEARS, _THAI_LEAD = range(2400, 2700), 543

#: Go's time.Time.String() ends in two zones: "2018-04-04 16:00:00.5 +0000 UTC m=+0.01".
_ISO = re.compile(
    r"(\d{4})(?:-?(\d{2}|\d(?=-))(?:-?(\d{1,2}))?)?"
    r"(?:[T\s]\s{0,3}(\d{1,2}):?(\d{2})?(?::?(\d{2})(?:[.,]\d{0,12})?)?(?:\s{0,3}([ap]m)(?![a-z]))?)?"
    r"\s{0,3}(Z|[+-]\d{2}:?\d{2})?(?:\s\(?[A-Z]{1,5}\)?\sm=[+-][\d.]{1,24})?",
    re.IGNORECASE | re.ASCII,
)
#: Day of the year and of the week (ISO 8601 §5.2.2, §5.2.3).
_ORDINAL = re.compile(r"(\d{4})-?(?:(\d{3})|W(\d{2})(?:-?([1-7]))?)(?=[T\sZ+-]|\Z)", re.ASCII | re.IGNORECASE)
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—−"), "-")
#: Years counted from an emperor or a republic: Japan and Taiwan.
_ERAS = {"令和": 2018, "平成": 1988, "昭和": 1925, "民國": 1911, "民国": 1911}
_ERA = re.compile(rf"({'|'.join(_ERAS)})\s?(\d{{1,3}}|元)(?=\s?年)")
_MONTH_NUMBER = re.compile(r"(?:tháng|thg)\s?(\d{1,2})|(?<!\d)(\d{1,2})\s?[月월]")
_ENGLISH = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_HALF = (
    r"[ap]\.?\s?m\b\.?|上午|早上|凌晨|午前|오전|π\.?\s?μ\.?|下午|晚上|午[後后]|오후|μ\.?\s?μ\.?|[صم](?!\w)"
)
_AFTERNOON = re.compile(r"p|下午|晚上|午[後后]|오후|μ|م")
_SURROUND = (rf"(?:(?P<before>{_HALF})\s{{0,2}})?(?<!\d)", rf"(?:\s{{0,3}}(?P<after>{_HALF}))?(?:\s?uhr\b)?")
#: The forms of a clock, the surest first: "15:04:05", "15h04" and "3時4分", "3 pm", "15.04".
_CLOCKS = tuple(
    re.compile(_SURROUND[0] + form + _SURROUND[1])
    for form in (
        r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,:]\d{1,12})?)?",
        r"(?P<hour>\d{1,2})\s?(?:h(?:rs?)?(?![a-z])|時|时|点|點|시|giờ)"
        r"(?:\s?(?P<minute>\d{1,2})(?!\d)(?:\s?(?:min\b|m\b|分|분))?(?:\s?(?P<second>\d{1,2})\s?(?:s\b|秒|초))?)?",
        r"(?P<hour>\d{1,2})(?=\s?[ap]\.?\s?m\b)",
        r"(?<!\.)(?P<hour>\d{1,2})\.(?P<minute>\d{2})(?:\.(?P<second>\d{2}))?(?![\d.])",
    )
)
#: Dates in figures: "2024/01/31", "2024年1月31日", "31.01.2024".
_YEAR_FIRST = re.compile(
    r"(?<![\d-])(\d{4})\s?[-./年년]\s?(\d{1,2})\s?[-./月월]\s?(\d{1,2})(?![\d/])\s?[.日일]?"
)
_YEAR_LAST = re.compile(r"(?<!\d)(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?(\d{4})(?!\d)")
#: The year may stand between clock and zone: "Fri Jan 2 15:04:05 2026 MST".
_YEAR_BETWEEN = re.compile(r"[\s,]{1,3}\d{4}(?=[\s,])")
#: Numbers, and words; the vowels of Thai and of India are marks, which "\w" lacks.
_TOKEN = re.compile(r"\d+|(?:(?![\d_])[\w\u0900-\u0eff])+")
_THAI = re.compile("[\u0e01-\u0e2e]")


def parse_date(text: str | None) -> dt.datetime | None:
    """Return the time that a text states, aware and in UTC; None when it states none that exists.

    A text without a zone, or with one that nobody knows, is in UTC (RFC 2822 §4.3).
    """
    if not text:
        return None
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    try:
        if text[:4].isdecimal():
            return _iso_fast(text) or _iso(text) or _epoch(text) or _written(text)
        return _rfc822(text) or _written(text)
    except (ValueError, OverflowError):
        return None


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
    if when.tzinfo is dt.UTC:
        return when
    offset = when.utcoffset()
    if offset is None:
        return when.replace(tzinfo=dt.UTC)
    # A greater offset is a mistake, and Python allows a whole day.
    return when.astimezone(dt.UTC) if abs(offset) <= _FURTHEST else when.replace(tzinfo=dt.UTC)


def _iso(text: str) -> dt.datetime | None:
    """Read looser ISO forms: missing parts, 24:00, days of the year or week."""
    if found := _ORDINAL.match(text):
        text = f"{_count_day(found)}{text[found.end() :]}"
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    zone, _ = find_zone((found[8] or "z").lower())
    return _utc((year, month or 1, day or 1), (_of_day(hour, found[7]), minute, second), zone)


def _count_day(found: re.Match[str]) -> dt.date:
    year, day, week, weekday = (int(part or 0) for part in found.groups())
    if week:
        return dt.date.fromisocalendar(year, week, weekday or 1)
    date = dt.date(year, 1, 1) + dt.timedelta(days=day - 1)
    if date.year != year:
        raise ValueError("no such day")
    return date


def _epoch(text: str) -> dt.datetime | None:
    whole = text.partition(".")[0]
    if not (text.isascii() and whole.isdecimal() and 9 <= len(whole) <= 13):
        return None
    return parse_epoch(float(text) / (1000 if len(whole) > 11 else 1))


def _rfc822(text: str) -> dt.datetime | None:
    """Read ``weekday, day month year time zone`` (RFC 822 §5, with the year of RFC 1123 §5.2.14)."""
    parts = text.replace(",", " ").split()
    if len(parts) != 6 or len(parts[4]) != 8 or len(parts[3]) != 4:
        return None
    month, zone, clock = MONTHS.get(parts[2].lower()), USUAL.get(parts[5]), parts[4]
    if month is None or zone is None or not clock[2] == clock[5] == ":":
        return None
    return _utc(
        (int(parts[3]), month, int(parts[1])), (int(clock[:2]), int(clock[3:5]), int(clock[6:])), zone
    )


def _written(text: str) -> dt.datetime | None:
    """Read a date by its parts, in any order.

    Unknown words are ignored, but each number must have a meaning.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_DASHES)
        text = _ERA.sub(lambda m: str(_ERAS[m[1]] + (1 if m[2] == "元" else int(m[2]))), text)
    text = text.lower()
    if len(text) > 2 * _LONGEST or text.startswith("-"):
        return None
    if found := _YEAR_FIRST.search(text) or _YEAR_LAST.search(text):
        text = f"{text[: found.start()]} {text[found.end() :]}"
        clock = _find_clock(text)
        date = _order(found, _half(clock))
        zone = _find_zone_alone(text, clock) if clock else 0
    else:
        text = _MONTH_NUMBER.sub(_name_month, text)
        clock = _find_clock(text)
        date, zone = _named_date(text, clock)
    if date is None:
        return None
    year, month, day = date
    if year in _THAI_YEARS and _THAI.search(text):
        year -= _THAI_LEAD
    return _utc((year, month, day), _hours(clock), zone or 0) if year in _YEARS else None


def _find_clock(text: str) -> re.Match[str] | None:
    return next(filter(None, (form.search(text) for form in _CLOCKS)), None)


def _name_month(found: re.Match[str]) -> str:
    number = int(found[1] or found[2])
    return f" {_ENGLISH[number - 1]} " if 1 <= number <= 12 else found[0]


def _order(found: re.Match[str], half: str) -> tuple[int, int, int] | None:
    """Return year, month and day of a date in figures; None if either number may be the month.

    Dots mean that the day comes first, and a.m. or p.m. that the month does.
    """
    if found.re is _YEAR_FIRST:
        return int(found[1]), int(found[2]), int(found[3])
    day, mark, month, year = int(found[1]), found[2], int(found[3]), int(found[4])
    if day <= 12 < month:
        day, month = month, day
    elif mark != "." and day <= 12 and day != month:
        if not half:
            return None
        day, month = month, day
    return year, month, day


def _zone_after(text: str, clock: re.Match[str]) -> tuple[Zone | None, int, int]:
    """Return the zone behind a clock, and where it begins and ends."""
    at = clock.end()
    zone, end = find_zone(text, at)
    if zone is None and (year := _YEAR_BETWEEN.match(text, at)):
        at = year.end()
        zone, end = find_zone(text, at)
    return (zone, at, end) if zone is not None else (None, at, at)


def _find_zone_alone(text: str, clock: re.Match[str]) -> Zone | None:
    zone = _zone_after(text, clock)[0]
    return zone if zone is not None else find_unsigned(text, clock.end())[0]


def _named_date(text: str, clock: re.Match[str] | None) -> tuple[tuple[int, int, int] | None, Zone | None]:
    """Return date and zone of a text with the name of a month."""
    if clock is None:
        return _day_month_year(text, is_date_only=True), 0
    head = text[: clock.start()]
    zone, start, end = _zone_after(text, clock)
    date = _day_month_year(f"{head} {text[clock.end() : start]} {text[end:]}")
    if date is None and zone is None:
        zone, end = find_unsigned(text, clock.end())
        date = _day_month_year(f"{head} {text[end:]}") if zone is not None else None
    return date, zone


def _day_month_year(text: str, *, is_date_only: bool = False) -> tuple[int, int, int] | None:
    tokens = _TOKEN.findall(text)
    months = [at for at, token in enumerate(tokens) if token in MONTHS]
    if len(months) == 2 and months[0] == 0:
        del months[0]  # "mar" is Tuesday in Spanish
    if len(months) != 1:
        return None
    month, numbers = MONTHS[tokens[months[0]]], [token for token in tokens if token.isdecimal()]
    if is_date_only and len(numbers) == 1 and len(numbers[0]) == 4:
        return int(numbers[0]), month, 1
    if len(numbers) != 2:
        return None
    day, year = numbers if len(numbers[0]) < 3 else reversed(numbers)
    return _whole_year(year), month, int(day)


def _whole_year(digits: str) -> int:
    """Return a year that may have two or three digits (RFC 2822 §4.3)."""
    year = int(digits)
    if len(digits) > 3:
        return year
    return year + (2000 if year < 50 else 1900)


def _half(clock: re.Match[str] | None) -> str:
    return (clock["before"] or clock["after"] or "") if clock else ""


def _hours(clock: re.Match[str] | None) -> tuple[int, int, int]:
    if clock is None:
        return 0, 0, 0
    parts = clock.groupdict()
    minute, second = parts.get("minute") or 0, parts.get("second") or 0
    return _of_day(int(parts["hour"]), _half(clock)), int(minute), int(second)


def _of_day(hour: int, half: str | None) -> int:
    if not half or hour > 12:
        return hour
    return hour % 12 + (12 if _AFTERNOON.match(half.lower()) else 0)


def _utc(date: tuple[int, int, int], clock: tuple[int, int, int], zone: Zone | None) -> dt.datetime | None:
    """Combine date, time and zone; 24:00 and a leap second roll over to the next day or minute.

    Raises:
        ValueError, OverflowError: the day doesn't exist, or it is before year 1 or after 9999 in UTC.
    """
    hour, minute, second = clock
    if zone == 0 and hour < 24 and second < 60:
        return dt.datetime(*date, hour, minute, second, tzinfo=dt.UTC)
    if hour > 24 or minute > 59 or second > 60:
        return None
    rest = dt.timedelta(hours=hour, minutes=minute, seconds=second)
    if isinstance(zone, dt.tzinfo):
        return (dt.datetime(*date, tzinfo=zone) + rest).astimezone(dt.UTC)
    return dt.datetime(*date, tzinfo=dt.UTC) + rest - dt.timedelta(minutes=zone or 0)
