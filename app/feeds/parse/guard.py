"""A linear look at a document before feedparser gets it (security.md X02).

feedparser is quadratic in the attributes of one element, in nesting, in the categories of one entry and
in the length of a word where it looks for mail addresses. Genuine feeds come nowhere near these limits.
"""

from __future__ import annotations

import re

from app.errors import ParseError
from app.feeds.parse.limits import Limits

#: Unclosed <p> and <li> of sloppy publishers count as nesting here: far above a real depth, and cheap.
_DEEPEST = 1500
_MOST_CATEGORIES = 500
_LONGEST_WORD = 2048
_TAG = re.compile(rb"<(/?)([A-Za-z_][^\s<>/]{0,80})([^<>]*)>")
_QUOTED = re.compile(rb"\"[^\"]*\"|'[^']*'")
_WORD = re.compile(rb"[\w.+\-]{%d}" % _LONGEST_WORD)
_VOID = {
    b"br",
    b"hr",
    b"img",
    b"input",
    b"meta",
    b"link",
    b"col",
    b"area",
    b"base",
    b"embed",
    b"wbr",
    b"param",
}


def guard(body: bytes, limits: Limits) -> None:
    """Refuse a document that feedparser would choke on.

    Raises:
        ParseError: ``too_large``; the detail says what of it.
    """
    if len(body) > limits.fallback:
        raise ParseError("too_large", f"broken XML of more than {limits.fallback} bytes")
    if _WORD.search(body):
        raise ParseError("too_large", f"a word longer than {_LONGEST_WORD} in broken XML")
    depth = categories = 0
    for closing, name, rest in (match.groups() for match in _TAG.finditer(body)):
        if closing:
            depth = max(0, depth - 1)
            continue
        if len(rest) > 2 * limits.attributes and _attributes(rest) > limits.attributes:
            raise ParseError("too_large", f"an element with more than {limits.attributes} attributes")
        if name in (b"item", b"entry"):
            categories = 0
        elif name.endswith((b"category", b"subject", b"keywords", b"link", b"enclosure")):
            categories += 1
        if not rest.endswith(b"/") and name.lower() not in _VOID:
            depth += 1
        if depth > _DEEPEST or categories > _MOST_CATEGORIES:
            raise ParseError("too_large", f"nesting {depth}, categories {categories} in broken XML")


def _attributes(rest: bytes) -> int:
    return len(_QUOTED.sub(b"", rest).split())
