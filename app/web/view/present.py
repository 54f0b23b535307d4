"""Values for display in the page's language and the reader's time zone: times, sizes, addresses."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from typing import Literal
from urllib.parse import unquote, urlsplit

from babel.dates import format_date, format_skeleton, format_time, format_timedelta, get_datetime_format
from babel.numbers import format_decimal, format_percent
from babel.units import format_unit
from flask_babel import gettext as _
from flask_babel import ngettext

from app import clock
from app.models.feeds.link_schemes import has_link_scheme
from app.web.view import i18n

MINUTE, HOUR, DAY = 60, 3600, 86400
_UNITS = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"))


def format_ago(at: dt.datetime | None) -> str:
    """Return the shortest form of a time's age, for lists: "5m", "3h", "2d", "14 Mar 2024".

    Readers who prefer clock times get them: "09:05", "14 Mar".
    """
    if at is None:
        return ""
    if i18n.prefers_absolute_times():
        return _clock_or_date(at)
    seconds = (clock.now() - at).total_seconds()
    if seconds < 0:
        return format_relative(at)
    if seconds < MINUTE:
        return str(_("now"))
    return _span(*_counted(seconds), "narrow", False, _locale()) if seconds < 7 * DAY else _date(at)


def format_minutes(count: int) -> str:
    """Return a number of minutes in the short form of lists: 130 → "2h"."""
    return _span(*_counted(count * MINUTE), "narrow", False, _locale())


def format_relative(at: dt.datetime | None) -> str:
    """Return a past or future time for use in sentences: "5 min ago", "in 3 hr", "14 Mar 2024"."""
    if at is None:
        return ""
    if i18n.prefers_absolute_times():
        return format_moment(at)
    seconds = (clock.now() - at).total_seconds()
    if abs(seconds) < MINUTE:
        return str(_("just now") if seconds >= 0 else _("in a moment"))
    if abs(seconds) >= 7 * DAY:
        return _date(at)
    count, unit = _counted(abs(seconds))
    return _span(-count if seconds > 0 else count, unit, "short", True, _locale())


def _counted(seconds: float) -> tuple[int, str]:
    """Return the largest whole unit: 7,300 s → 2 hours."""
    return next((int(seconds // size), unit) for size, unit in _UNITS if seconds >= size)


@functools.lru_cache(maxsize=4096)
def _span(count: int, unit: str, form: str, direction: bool, locale: str) -> str:
    span = dt.timedelta(**{f"{unit}s": count})
    # With this threshold, 23 hours stay 23 hours.
    return format_timedelta(
        span,
        granularity=unit,  # type: ignore[arg-type]  # one of _UNITS
        threshold=1.0,
        add_direction=direction,
        format=form,  # type: ignore[arg-type]  # "narrow" or "short"
        locale=locale,
    )


def _to_local(at: dt.datetime) -> dt.datetime:
    """Return a time in the reader's zone; one at an end of the calendar stays as it is."""
    try:
        return at.astimezone(i18n.get_timezone())
    except OverflowError:
        return at


def _clock_or_date(when: dt.datetime) -> str:
    local, today = _to_local(when), clock.now().astimezone(i18n.get_timezone())
    return _time(local, _locale()) if local.date() == today.date() else _date(when)


def _date(when: dt.datetime) -> str:
    local, today = _to_local(when), clock.now().astimezone(i18n.get_timezone())
    return _day(local.date(), local.year == today.year, _locale())


@functools.lru_cache(maxsize=4096)
def _day(day: dt.date, this_year: bool, locale: str) -> str:
    return format_skeleton("MMMd" if this_year else "yMMMd", day, locale=locale)


def _time(local: dt.datetime, locale: str) -> str:
    return format_time(local.timetz(), "short", locale=locale)


def format_span(seconds: float) -> str:
    """Return a duration in short form: "0.4 sec", "12 sec", "5 min", "3 hr"."""
    if seconds >= MINUTE:
        return _span(*_counted(seconds), "short", False, _unit_locale())
    exact = round(seconds, 1) if 0 < seconds < 9.95 else round(seconds)
    return format_unit(exact, "duration-second", "short", locale=_unit_locale())


def format_moment(at: dt.datetime | None) -> str:
    """Return a time in full: "14 March 2026, 09:05", with "UTC" if the reader's zone is unknown."""
    if at is None:
        return ""
    zone = i18n.get_timezone()
    words = _moment(_to_local(at).replace(second=0, microsecond=0, tzinfo=None), _locale())
    return f"{words} UTC" if zone is dt.UTC else words


def format_day(day: dt.date) -> str:
    """Return a day in short: "14 Mar", with the year unless it is this one."""
    return _day(day, day.year == clock.now().astimezone(i18n.get_timezone()).year, _locale())


def format_month(day: dt.date) -> str:
    """Return the month of a day: "March 2026"."""
    return str(format_skeleton("yMMMM", day, locale=_locale()))


def format_brief_moment(at: dt.datetime) -> str:
    """Return a time in one short line: "14 Mar, 09:05", with the year unless it is this one."""
    local, today = _to_local(at), clock.now().astimezone(i18n.get_timezone())
    locale = _locale()
    time = _time(local.replace(second=0, microsecond=0, tzinfo=None), locale)
    return _join(_day(local.date(), local.year == today.year, locale), time, locale)


def format_hour(at: dt.datetime) -> str:
    """Return the hour of a UTC time, without the year: "14 Mar, 09:00"."""
    locale = _locale()
    return _join(_day(at.date(), True, locale), _time(at.replace(minute=0, tzinfo=None), locale), locale)


def _join(day: str, time: str, locale: str) -> str:
    both = str(get_datetime_format("medium", locale=locale))
    return both.replace("'", "").format(time, day)


@functools.lru_cache(maxsize=4096)
def _moment(local: dt.datetime, locale: str) -> str:
    return _join(format_date(local, "long", locale=locale), _time(local, locale), locale)


def describe_check(count: int, rest_ends: Sequence[dt.datetime]) -> str:
    """Return a message about checking feeds, given the end of each rate limit that delays one of them."""
    asked, words = count - len(rest_ends), []
    if asked or not rest_ends:
        words.append(ngettext("Checking %(num)s feed", "Checking %(num)s feeds", asked))
    if rest_ends:
        waiting = ngettext(
            "%(num)s feed wasn't checked: its site limits requests until %(when)s",
            "%(num)s feeds weren't checked: their sites limit requests until %(when)s at the latest",
            len(rest_ends),
            when=format_moment(max(rest_ends)),
        )
        words.append(waiting)
    return ". ".join(words)


def format_number(value: float, digits: int | None = None) -> str:
    """Return a number with the separators of the page's language; ``digits``: decimal places."""
    pattern = None if digits is None else "#,##0." + "0" * digits
    return format_decimal(value, pattern, locale=_locale())


def format_count(count: int) -> str:
    """Return a count beside its label; empty for zero."""
    return i18n.format_integer(count) if count else ""


def format_percentage(share: float) -> str:
    """Return a fraction as a whole percentage, formatted for the page's language."""
    return format_percent(share, locale=_locale())


def format_milliseconds(value: float) -> str:
    """Return a duration in milliseconds: "273 ms"."""
    return str(format_unit(value, "duration-millisecond", "short", locale=_locale()))


def _locale() -> str:
    return i18n.get_locale_name()


def _unit_locale() -> str:
    """Return the locale for units: the British "3 mins" doesn't fit "in 3 min" of relative times."""
    return _locale().partition("_")[0]


def format_iso(at: dt.datetime | None) -> str:
    """Return a time for machines (RFC 3339)."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


def keep_http_url(url: str | None) -> str:
    """Return an http(s) address, else "": no other address may become a link (H16)."""
    if not url or not url.lower().startswith(("http://", "https://")):
        return ""
    return url if not any(c.isspace() or ord(c) < 32 for c in url) else ""


def keep_link_url(url: str | None) -> str:
    """Return an address that a click may open, on the web or in another app such as ``magnet:``, else ""."""
    if keep_http_url(url):
        return url or ""
    return url if url and has_link_scheme(url) and url.isprintable() and " " not in url else ""


def get_site(url: str | None) -> str:
    """Return the site of an address without ``www.``, for display."""
    try:
        name = urlsplit(url or "").hostname or ""
    except ValueError:
        return ""
    return name.removeprefix("www.")


def format_size(octets: int | None) -> str:
    """Return a number of bytes: "840 bytes", "12 kB", "3.4 MB"."""
    if octets is None:
        return ""
    value, unit = float(octets), "byte"
    for larger in ("kilobyte", "megabyte", "gigabyte"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    pattern, locale = "#,##0.#" if value < 10 else "#,##0", _locale()
    # The short form of English bytes has no plural; only some languages have the long form.
    length: Literal["short", "long"] = "long" if unit == "byte" and locale.startswith("en") else "short"
    return str(format_unit(value, f"digital-{unit}", length, format=pattern, locale=locale))


def format_playtime(seconds: int) -> str:
    """Return a recording's duration as players show it: "4:05", "1:02:33"."""
    minutes, rest = divmod(seconds, MINUTE)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_weekly_rate(rate: float | None) -> str:
    """Return a posting rate as text: "3 a day", "2 a week", "1 a month"."""
    if not rate:
        return str(_("rarely"))
    if rate >= 7:
        return str(ngettext("%(num)s a day", "%(num)s a day", round(rate / 7)))
    if rate >= 1:
        return str(ngettext("%(num)s a week", "%(num)s a week", round(rate)))
    monthly = round(rate * 52 / 12)
    if monthly:
        return str(ngettext("%(num)s a month", "%(num)s a month", monthly))
    return str(_("a few a year"))


def get_filename(url: str) -> str:
    """Return the last part of an address, for display."""
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    return "".join(c for c in name if c.isprintable())[:80] or get_site(url) or url[:80]


_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "Mac"),
)


def describe_browser(agent: str) -> str:
    """Return the browser and system of a user agent: "Firefox, Windows"."""
    name = next((word for mark, word in _BROWSERS if mark in agent), "")
    system = next((word for mark, word in _SYSTEMS if mark in agent), "Linux" if "Linux" in agent else "")
    return ", ".join(filter(None, (name, system))) or agent[:40] or _("Unknown")
