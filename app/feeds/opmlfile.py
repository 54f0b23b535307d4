"""What was sent instead of an OPML file: people pick the wrong one, and are told what it is."""

from __future__ import annotations

import re

from app.errors import InvalidError

_EXPORT = "Export your subscriptions as OPML and send that file."
#: First bytes of files that are no text.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive. Unpack it and send the file in it that ends in .opml or .xml."),
    (b"\x1f\x8b", "compressed with gzip. Unpack it and send the file in it."),
    (b"%PDF", f"a PDF document. {_EXPORT}"),
    (b"\x89PNG", f"an image. {_EXPORT}"),
    (b"\xff\xd8\xff", f"an image. {_EXPORT}"),
    (b"GIF8", f"an image. {_EXPORT}"),
    (b"SQLite format 3", f"a database. {_EXPORT}"),
)
_WEBP = re.compile(rb"RIFF....WEBP", re.DOTALL)
#: First element of a text that is XML or HTML; looked for in the first bytes only (X08).
_ELEMENT = re.compile(rb"<([A-Za-z][A-Za-z0-9:]{0,30})")
_HTML = {b"html", b"head", b"body", b"meta", b"title", b"script", b"div", b"p"}
_FEEDS = {b"rss", b"feed", b"rdf:rdf", b"channel"}
_LOOKED = 4096


def check_is_list(body: bytes) -> None:
    """Let a body through that may be OPML.

    Raises:
        InvalidError: it is something else for sure; names the line where that shows, and says what to do.
    """
    head = body[:_LOOKED]
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise InvalidError(f"This is no OPML file but {what}")
    if _WEBP.match(head):
        raise InvalidError(f"This is no OPML file but an image. {_EXPORT}")
    text = _plain(head).lstrip()
    start = len(_plain(head)) - len(text)
    line = _plain(head)[:start].count(b"\n") + 1
    if text[:1] in (b"{", b"["):
        raise InvalidError(f"Line {line}: this is no OPML file but JSON. {_EXPORT}")
    _check_element(text, line)


def _check_element(text: bytes, line: int) -> None:
    named = _ELEMENT.search(text)
    if named is None or b"<opml" in text.lower():
        return
    name, line = named[1].lower(), line + text[: named.start()].count(b"\n")
    if name in _HTML:
        raise InvalidError(
            f"Line {line}: this is no OPML file but a web page, perhaps that of a log-in. {_EXPORT}"
        )
    if name in _FEEDS:
        raise InvalidError(
            f"Line {line}: this is a feed itself and no list of feeds. Add its address under “Add a feed”."
        )


def _plain(head: bytes) -> bytes:
    """Return text of two-byte encodings as one byte per character, and nothing before its first one."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head[2:].replace(b"\x00", b"")
    return head.removeprefix(b"\xef\xbb\xbf")
