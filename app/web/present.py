"""Values as people read them: times, sizes, addresses. Pure."""

from __future__ import annotations

import datetime as dt
from urllib.parse import unquote, urlsplit

from app import clock

MINUTE, HOUR, DAY = 60, 3600, 86400


def ago(when: dt.datetime | None) -> str:
    """Return how long ago something was, short: "now", "5 min", "3 h", "2 d", "14 Mar", "14 Mar 2024"."""
    if when is None:
        return ""
    now = clock.now()
    seconds = (now - when).total_seconds()
    if seconds < 0:
        return until(when)
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min" if seconds >= MINUTE else "now"
    if seconds < DAY:
        return f"{int(seconds // HOUR)} h"
    if seconds < 7 * DAY:
        return f"{int(seconds // DAY)} d"
    return f"{when.day} {when:%b}" if when.year == now.year else f"{when.day} {when:%b %Y}"


def until(when: dt.datetime) -> str:
    """Return how far ahead something is: "in 5 min"."""
    seconds = max(0.0, (when - clock.now()).total_seconds())
    if seconds < MINUTE:
        return "in a moment"
    if seconds < HOUR:
        return f"in {int(seconds // MINUTE)} min"
    if seconds < DAY:
        return f"in {int(seconds // HOUR)} h"
    return f"in {int(seconds // DAY)} d"


def moment(when: dt.datetime | None) -> str:
    """Return a point in time in full: "14 March 2026, 09:05 UTC"."""
    return f"{when.day} {when:%B %Y, %H:%M} UTC" if when else ""


def iso(when: dt.datetime | None) -> str:
    """Return a point in time for machines (RFC 3339)."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ") if when else ""


def http_only(url: str | None) -> str:
    """Return an address when it is one of the web, else "": no other may ever become a link (H16)."""
    if not url or not url.lower().startswith(("http://", "https://")):
        return ""
    return url if not any(c.isspace() or ord(c) < 32 for c in url) else ""


def host(url: str | None) -> str:
    """Return the site of an address without ``www.``, for showing."""
    try:
        name = urlsplit(url or "").hostname or ""
    except ValueError:
        return ""
    return name.removeprefix("www.")


def size(octets: int | None) -> str:
    """Return a number of bytes: "840 B", "12 kB", "3.4 MB"."""
    if octets is None:
        return ""
    if octets < 1000:
        return f"{octets} B"
    value = float(octets)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5 or unit == "GB":
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    raise AssertionError  # the loop always returns


def per_week(rate: float | None) -> str:
    """Return a posting rate in words: "3 a day", "2 a week", "1 a month"."""
    if not rate:
        return "rarely"
    if rate >= 7:
        return f"{rate / 7:.0f} a day"
    if rate >= 1:
        return f"{rate:.0f} a week"
    monthly = rate * 52 / 12
    return f"{monthly:.0f} a month" if monthly >= 1 else "a few a year"


def filename(url: str) -> str:
    """Return the last part of an address, for showing."""
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    return "".join(c for c in name if c.isprintable())[:80] or host(url)


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


def browser(agent: str) -> str:
    """Return a browser's own description in two words: "Firefox, Windows"."""
    name = next((word for mark, word in _BROWSERS if mark in agent), "")
    system = next((word for mark, word in _SYSTEMS if mark in agent), "Linux" if "Linux" in agent else "")
    return ", ".join(filter(None, (name, system))) or agent[:40] or "Unknown"
