"""Recordings and players in sanitized HTML, and the moments that its text names. Pure.

The sanitizer writes a player as a paragraph with one link, ``<p><a href=… type=…>▶ title</a></p>``, whose
picture comes before the title. So programs and feeds of shares get something that works everywhere. Pages
replace it by a player that loads after a click.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from app.models.feeds.parsed import Enclosure, find_medium
from app.models.reading.entry import Entry
from app.models.reading.stream import EntryRow

#: Most recordings of one entry that have a player, and most players in one text.
RECORDINGS_MAX, PLAYERS_MAX = 5, 50
#: Most moments in one text that become links.
TIMES_MAX = 200

_PLAYER = re.compile(
    r'<p><a ([^<>]*)>(?:(<img [^<>]*>|<span class="no-picture">[^<]*</span>)<br>)?▶ ([^<]*)</a></p>'
)
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
#: A link with its text, another tag, or text.
_PART = re.compile(r"<a [^<>]*>.*?</a>|<pre(?: [^<>]*)?>.*?</pre>|<[^<>]*>|[^<]+", re.DOTALL)
_TIME = re.compile(
    r"(?<![\w:.,/+-])(?:(\d{1,2}):)?([0-5]?\d):([0-5]\d)(?![\w:/]|[.,]\d|\s?[ap]\.?m\b)", re.IGNORECASE
)


class PlayerLink(NamedTuple):
    """A player in a text.

    Attributes:
        url: of the file, or of the page with the player.
        medium: of a file; None for a page.
        title: its text.
        picture: the HTML of its picture, "" without one.
        link: its HTML as stored.
    """

    url: str
    medium: Literal["audio", "video"] | None
    title: str
    picture: str
    link: str


def list_recordings(entry: Entry | EntryRow) -> list[Enclosure]:
    """Return the files of an entry that have a player, each recording once."""
    found: list[Enclosure] = []
    for file in entry.enclosures:
        if file.medium is None or file.role is not None or len(found) == RECORDINGS_MAX:
            continue
        # Media RSS lists the same recording in several sizes.
        is_again = any(
            file.url == other.url
            or (file.duration is not None and (file.medium, file.duration) == (other.medium, other.duration))
            for other in found
        )
        if not is_again:
            found.append(file)
    return found


def replace_players(markup: str, render: Callable[[PlayerLink], str | None]) -> str:
    """Return sanitized HTML with other HTML for its players.

    Args:
        render: returns the HTML for a player; None to keep the link.
    """
    if ">▶ " not in markup:
        return markup
    left = PLAYERS_MAX

    def replace_link(found: re.Match[str]) -> str:
        nonlocal left
        attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(found[1])}
        url = attributes.get("href", "")
        link = PlayerLink(
            url, find_medium(url, attributes.get("type")), html.unescape(found[3]), found[2] or "", found[0]
        )
        shown = render(link) if left > 0 else None
        if shown is None:
            return found[0]
        left -= 1
        return shown

    return _PLAYER.sub(replace_link, markup)


def link_times(markup: str, render: Callable[[int, str], str], duration: int | None = None) -> str:
    """Return sanitized HTML with links for the moments that its text names, such as "12:34".

    Args:
        render: returns the HTML for a second and its text.
        duration: of the recording; later moments are times of the day.
    """
    if not _TIME.search(markup):
        return markup
    left = TIMES_MAX

    def replace_time(found: re.Match[str]) -> str:
        nonlocal left
        second = int(found[1] or 0) * 3600 + int(found[2]) * 60 + int(found[3])
        if left <= 0 or (duration and second > duration):
            return found[0]
        left -= 1
        return render(second, found[0])

    def replace_part(part: re.Match[str]) -> str:
        return part[0] if part[0].startswith("<") else _TIME.sub(replace_time, part[0])

    return _PART.sub(replace_part, markup)
