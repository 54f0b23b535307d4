"""Saved pages: entries that a person adds to their own feed of kind ``saved``."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

#: Most characters of a title that Eventr makes from an address.
_TITLE_MAX = 120


class NewPage(NamedTuple):
    """A page to save.

    Attributes:
        url: absolute, http or https.
        title: plain text; empty: the page's own, once it is fetched.
        text: plain text, such as the passage that was selected on the page; shown until the page is fetched.
        html: the text of the page if the person brings it along, not sanitized. The page replaces it only if
            it gains.
        at: when it was saved; the list is sorted by it. None: now.
    """

    url: str
    title: str = ""
    text: str = ""
    html: str = ""
    at: dt.datetime | None = None


class SavedPage(NamedTuple):
    """A saved page; ``existed``: it had been saved before, and is unread again."""

    entry_id: int
    feed_id: int
    seq: int
    existed: bool = False


def make_title(url: str) -> str:
    """Return an address as a title: without its scheme and parameters."""
    parts = urlsplit(url)
    title = (parts.hostname or "") + unquote(parts.path).rstrip("/")
    return title if len(title) <= _TITLE_MAX else title[: _TITLE_MAX - 1] + "…"
