"""Guard: a linear check of a document before feedparser parses it (security.md X02).

feedparser is quadratic in the attributes of one element, in nesting, in repeated parts of one entry, and in
the length of words where it searches for e-mail addresses. Genuine feeds come nowhere near these limits.
"""

from __future__ import annotations

import re

from app.errors import ParseError
from app.feeds.parse.limits import Limits

#: Most nested elements. Unclosed <p> and <li> count too, so this is far above a real depth; it is cheap.
_DEEPEST = 1500
#: Most non-HTML elements of one entry, or of the head of the feed.
_MOST_PARTS = 400
#: Each tag costs feedparser about 20 µs, well-formed or not.
_MOST_TAGS = 40_000
_MOST_PEOPLE = 4000
_LONGEST_NAME = 200
_LONGEST_WORD_OF_NAME = 64
_TAG = re.compile(rb"<(/?)([A-Za-z_][^\s<>/]{0,80})([^<>]*)>")
_QUOTED = re.compile(rb"\"[^\"]*\"|'[^']*'")
_WORD = re.compile(rb"[\w.+\-]{%d}" % _LONGEST_WORD_OF_NAME)
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
_HTML = _VOID | frozenset(
    b"a abbr article aside audio b big blockquote caption center cite code dd del details div dl dt em "
    b"fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6 header i iframe ins label legend li "
    b"main map mark nav object ol p picture pre q s samp script section small span strike strong style "
    b"sub summary sup svg table tbody td tfoot th thead tr tt u ul var video path option select".split()
)
_ENTRIES = frozenset((b"item", b"entry"))
_PEOPLE = frozenset(
    b"author creator name email owner contributor publisher managingeditor webmaster maintainer".split()
)


def guard_document(body: bytes, limits: Limits) -> bytes:
    """Return the document without overlong names of people, or refuse input that is too much for feedparser.

    Raises:
        ParseError: ``too_large``; the detail names the limit.
    """
    if len(body) > limits.fallback:
        raise ParseError("too_large", f"broken XML of more than {limits.fallback} bytes")
    if body.count(b"<") > _MOST_TAGS:
        raise ParseError("too_large", f"broken XML of more than {_MOST_TAGS} tags")
    kept: list[bytes] = []
    depth = parts = people = start = 0
    for match in _TAG.finditer(body):
        if match[1]:
            depth = max(0, depth - 1)
            continue
        name, rest = match[2].lower(), match[3]
        if len(rest) > 2 * limits.attributes and len(_QUOTED.sub(b"", rest).split()) > limits.attributes:
            raise ParseError("too_large", f"an element with more than {limits.attributes} attributes")
        parts = 0 if name in _ENTRIES else parts + (name not in _HTML or name == b"link")
        depth += not (rest.endswith(b"/") or name in _VOID)
        if name.rpartition(b":")[2] in _PEOPLE and match.end() >= start and not rest.endswith(b"/"):
            people += 1
            if end := _overlong(body, match.end(), match[2]):
                kept.append(body[start : match.end()])
                start = end
        if depth > _DEEPEST or parts > _MOST_PARTS or people > _MOST_PEOPLE:
            raise ParseError("too_large", f"depth {depth}, parts {parts}, people {people} in broken XML")
    return b"".join(kept) + body[start:]


def _overlong(body: bytes, at: int, name: bytes) -> int | None:
    """Return where a person's name ends if it is too long to be one, else None."""
    end = body.find(b"</" + name, at, at + _LONGEST_NAME)
    if end < 0:
        end = body.find(b"</" + name, at)
        return len(body) if end < 0 else end
    return end if _WORD.search(body, at, end) else None
