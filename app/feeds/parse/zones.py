"""Time zones in dates: offsets, abbreviations, and the names of the IANA database."""

from __future__ import annotations

import functools
import re
import zoneinfo
from typing import TypeAlias

#: Minutes east of UTC, or a zone of the IANA database.
Zone: TypeAlias = int | zoneinfo.ZoneInfo

#: No place is further from UTC, in minutes. A greater offset is a mistake.
_FURTHEST = 15 * 60
#: Minutes east of UTC. RFC 822 §5.1, and the usual abbreviations of the world. Where several places share an
#: abbreviation, the one with the most feeds counts.
_ABBREVIATIONS = {
    "ut": 0, "utc": 0, "gmt": 0, "z": 0, "zulu": 0, "uct": 0, "wet": 0,
    "ndt": -150, "nst": -210, "adt": -180, "ast": -240, "edt": -240, "est": -300, "et": -300,
    "cdt": -300, "cst": -360, "ct": -360, "mdt": -360, "mst": -420, "mt": -420, "pdt": -420, "pst": -480,
    "pt": -480, "akdt": -480, "akst": -540, "hdt": -540, "hst": -600, "sst": -660,
    "brt": -180, "brst": -120, "art": -180, "uyt": -180, "clst": -180, "clt": -240, "bot": -240, "vet": -240,
    "cot": -300, "pet": -300,
    "bst": 60, "ist": 330, "west": 60, "cet": 60, "met": 60, "mez": 60, "wat": 60, "cest": 120, "mest": 120,
    "mesz": 120, "eet": 120, "sast": 120, "cat": 120, "eest": 180, "eat": 180, "idt": 180, "msk": 180,
    "msd": 240, "trt": 180, "irst": 210, "samt": 240, "get": 240, "azt": 240, "pkt": 300, "uzt": 300,
    "yekt": 300, "npt": 345, "omst": 360, "mmt": 390, "ict": 420, "wib": 420, "novt": 420, "krat": 420,
    "hkt": 480, "sgt": 480, "myt": 480, "pht": 480, "wita": 480, "irkt": 480, "awst": 480, "jst": 540,
    "kst": 540, "wit": 540, "acst": 570, "aest": 600, "chst": 600, "vlat": 600, "acdt": 630, "aedt": 660,
    "nzst": 720, "nzdt": 780,
}  # fmt: skip
_LONG = {
    "coordinated universal time": 0, "greenwich mean time": 0, "british summer time": 60,
    "western european time": 0, "western european summer time": 60,
    "central european time": 60, "central european standard time": 60, "central european summer time": 120,
    "eastern european time": 120, "eastern european standard time": 120, "eastern european summer time": 180,
    "moscow standard time": 180, "india standard time": 330, "china standard time": 480,
    "japan standard time": 540, "korean standard time": 540,
    "eastern standard time": -300, "eastern daylight time": -240,
    "central standard time": -360, "central daylight time": -300,
    "mountain standard time": -420, "mountain daylight time": -360,
    "pacific standard time": -480, "pacific daylight time": -420,
}  # fmt: skip
#: The spellings that nearly all feeds use, for the fast path.
USUAL: dict[str, int] = {
    f"{sign}{hours:02}{minutes}": (-1 if sign == "-" else 1) * (hours * 60 + int(minutes))
    for sign in "+-"
    for hours in range(15)
    for minutes in ("00", "30")
}
USUAL |= _ABBREVIATIONS | {name.upper(): minutes for name, minutes in _ABBREVIATIONS.items()}

_LEAD = re.compile(r"[\s,;:(\[]{0,4}")
#: "-0700", "GMT+1", "-07:00Z"; a generator that writes "+" before a negative number makes "+-0700".
_OFFSET = re.compile(r"(?:[a-z]{1,5}\s?)?([+-]{1,2})(\d{1,2}(?::\d{1,2}){1,2}|\d{1,6})(?![\d:])(?:\s?z\b)?")
_UNSIGNED = re.compile(r"\s{0,2}(\d{2}):?(\d{2})(?![\d:])")
_NAME = re.compile(r"[a-z]{2,20} [a-z]{3,20}(?: [a-z]{4,20})? time\b")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,30}(?:[/+-][a-z0-9_]{1,30}){0,4}")


def find_zone(text: str, at: int = 0) -> tuple[Zone | None, int]:
    """Return the zone that a text has at a position, and where it ends; (None, ``at``) without a known zone.

    An impossible offset counts as UTC: it would move an entry by days, and without a date the entry would
    be new today.

    Args:
        text: in lower case.
        at: where the zone may begin, after white space and brackets.
    """
    found = _LEAD.match(text, at)
    start = found.end() if found else at
    if found := _OFFSET.match(text, start):
        return _minutes(found[1], found[2]), found.end()
    if (found := _NAME.match(text, start)) and found[0] in _LONG:
        return _LONG[found[0]], found.end()
    if found := _WORD.match(text, start):
        word = found[0]
        zone = _ABBREVIATIONS.get(word)
        return (zone if zone is not None else _named(word)), found.end()
    return None, at


def find_unsigned(text: str, at: int) -> tuple[Zone | None, int]:
    """Return the offset, as :func:`find_zone`, whose "+" became a space: "10:00:00 02:00"."""
    found = _UNSIGNED.match(text, at)
    return (_minutes("+", found[1] + found[2]), found.end()) if found else (None, at)


def _minutes(signs: str, digits: str) -> int:
    hours, colon, rest = digits.partition(":")
    if colon:
        rest = rest.partition(":")[0]
    elif len(digits) > 2:
        split = 1 if len(digits) % 2 else 2  # "-700" is "-7:00"
        hours, rest = digits[:split], digits[split : split + 2]
    minutes = int(hours) * 60 + int(rest or 0)
    if minutes > _FURTHEST:
        return 0
    return -minutes if signs[-1] == "-" else minutes


@functools.lru_cache(maxsize=1)
def _list_names() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones()}


def _named(word: str) -> zoneinfo.ZoneInfo | None:
    name = _list_names().get(word)
    return zoneinfo.ZoneInfo(name) if name else None
