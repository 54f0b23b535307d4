"""An entry's HTML as it was published, kept beside the clean one, and cleaned anew when the rules change.

What is shown is sanitised once, when it is stored. Should the sanitiser ever turn out to let something
through, a new version of it must reach what is stored already (H03): so the published HTML is kept, with
the version that cleaned it, and an entry of an older version is cleaned when it is read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from app.config import Settings
from app.feeds.html import text
from app.feeds.html.patterns import build_possessive
from app.feeds.html.sanitize import SANITIZER_VERSION, sanitize

Sanitize = Callable[[str, str], str]

#: Characters of plain text kept for lists.
EXCERPT: Final = 300

#: Clean HTML in which nothing is to be seen: no text, picture, link or line. It ends at the first of these.
_BLANK: Final = re.compile(
    build_possessive(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]++|&nbsp;|<(?!img |a |hr[ >])[^<>]*+>")
)


class Body(NamedTuple):
    """What is stored of an entry's HTML.

    Attributes:
        content, summary: clean HTML.
        excerpt: plain text for lists.
        raw: HTML as published, with its base address; empty when cleaning changes nothing.
        cleaned_by: version of the sanitiser.
    """

    content: str
    summary: str
    excerpt: str
    raw: bytes
    cleaned_by: int


def make_sanitizer(settings: Settings) -> Sanitize:
    """Return the sanitiser of this server: what media feeds take from its own address is dropped (H05)."""
    return functools.partial(sanitize, own_origin=settings.own_origin)


def clean_body(
    content: str, summary: str, base_url: str, sanitize: Sanitize = sanitize, version: int = SANITIZER_VERSION
) -> Body:
    """Sanitise an entry's HTML and pack what it was.

    Args:
        content, summary: as published, already cut to the longest that is kept.
        base_url: what relative addresses in them are relative to.
    """
    # A summary that only repeats the content would be stored, sent and shown twice.
    summary = "" if summary == content else summary
    cleaned = _seen(sanitize(content, base_url)) if content else ""
    cleaned_summary = _seen(sanitize(summary, base_url)) if summary else ""
    excerpt = text.make_excerpt(cleaned_summary or cleaned, EXCERPT)
    same = cleaned == content and cleaned_summary == summary
    raw = b"" if same else _published(content, summary, base_url)
    return Body(cleaned, cleaned_summary, excerpt, raw, version)


def reclean_body(body: Body, sanitize: Sanitize = sanitize, version: int = SANITIZER_VERSION) -> Body:
    """Return a stored body as this version of the sanitiser makes it."""
    if not body.raw:
        return clean_body(body.content, body.summary, "", sanitize, version)
    base_url, summary, content = body.raw.decode().split("\0", 2)
    return clean_body(content, summary, base_url, sanitize, version)


def _seen(markup: str) -> str:
    # An editor's empty paragraphs would be shown in the place of the summary.
    return "" if _BLANK.fullmatch(markup) else markup


def _published(content: str, summary: str, base_url: str) -> bytes:
    # No HTML holds a NUL (it is no character of HTML), so one may stand between the parts.
    return "\0".join((base_url, summary.replace("\0", ""), content)).encode("utf-8", "replace")
