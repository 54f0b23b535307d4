"""The HTML of entries: cleaned when stored, kept as published beside that, and cleaned again when the rules
change.

HTML is sanitized once, when it is stored. If the sanitizer ever turns out to let something through, a fixed
version must also apply to stored entries (H03). So the published HTML is kept with the version that cleaned
it. An entry of an older version is cleaned again when it is read.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.feeds.html import text
from app.feeds.html.patterns import build_possessive
from app.feeds.html.sanitize import SANITIZER_VERSION, sanitize

Sanitize = Callable[[str, str], str]

#: Longest excerpt for lists, in characters of plain text.
EXCERPT: Final = 300

#: Clean HTML without anything visible: no text, picture, link or line.
_BLANK: Final = re.compile(
    build_possessive(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]++|&nbsp;|<(?!img |a |hr[ >])[^<>]*+>")
)


class Body(NamedTuple):
    """An entry's HTML as stored.

    Attributes:
        content, summary: clean HTML.
        excerpt: plain text for lists.
        raw: HTML as published, with its base address; empty when cleaning changes nothing.
        cleaned_by: version of the sanitizer.
    """

    content: str
    summary: str
    excerpt: str
    raw: bytes
    cleaned_by: int


def make_sanitizer(settings: Settings) -> Sanitize:
    """Return this server's sanitizer, which drops media with this server's own address (H05).

    Media at private addresses are dropped too, except for those that this server may fetch.
    """
    return functools.partial(sanitize, own_origin=settings.own_origin, policy=Policy(settings))


def clean_body(
    content: str, summary: str, base_url: str, sanitize: Sanitize = sanitize, version: int = SANITIZER_VERSION
) -> Body:
    """Sanitize an entry's HTML, and pack the published HTML.

    Args:
        content, summary: as published, already cut to the maximum length.
        base_url: the base of relative addresses in them.
    """
    # A summary that only repeats the content would be stored, sent and shown twice.
    summary = "" if summary == content else summary
    cleaned = _seen(sanitize(content, base_url)) if content else ""
    cleaned_summary = _seen(sanitize(summary, base_url)) if summary else ""
    excerpt = text.make_excerpt(cleaned_summary or cleaned, EXCERPT)
    same = cleaned == content and cleaned_summary == summary
    raw = b"" if same else _published(content, summary, base_url)
    return Body(cleaned, cleaned_summary, excerpt, raw, version)


def make_quote(body: Body) -> Body:
    """Return the excerpt of a text as a text of its own, for shares of a page that Eventr has fetched."""
    quote = f"<p>{html.escape(body.excerpt, quote=False)}</p>" if body.excerpt else ""
    return Body("", quote, body.excerpt, b"", body.cleaned_by)


def reclean_body(body: Body, sanitize: Sanitize = sanitize, version: int = SANITIZER_VERSION) -> Body:
    """Return a stored body, cleaned again by this version of the sanitizer."""
    if not body.raw:
        return clean_body(body.content, body.summary, "", sanitize, version)
    base_url, summary, content = body.raw.decode().split("\0", 2)
    return clean_body(content, summary, base_url, sanitize, version)


def _seen(markup: str) -> str:
    # Empty paragraphs from an editor would otherwise replace the summary.
    return "" if _BLANK.fullmatch(markup) else markup


def _published(content: str, summary: str, base_url: str) -> bytes:
    # NUL isn't a character of HTML, so it can separate the parts.
    return "\0".join((base_url, summary.replace("\0", ""), content)).encode("utf-8", "replace")
