"""File type checks: detect uploads that hold no list of feeds, and name the file's type and what to do."""

from __future__ import annotations

import re

from app.errors import N_, InvalidError

_IMAGE = N_("This is an image, not an OPML file. Export your subscriptions as OPML and upload that file.")
#: First bytes of binary files.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (
        b"PK\x03\x04",
        N_("This is a ZIP archive. Unzip it and upload the .opml or .xml file inside."),
    ),
    (
        b"%PDF",
        N_(
            "This is a PDF document, not an OPML file. Export your subscriptions as OPML and "
            "upload that file."
        ),
    ),
    (b"\x89PNG", _IMAGE),
    (b"\xff\xd8\xff", _IMAGE),
    (b"GIF8", _IMAGE),
    (
        b"SQLite format 3",
        N_(
            "This is a database file, not an OPML file. Export your subscriptions as OPML and "
            "upload that file."
        ),
    ),
)
_WEBP = re.compile(rb"RIFF....WEBP", re.DOTALL)
#: First element of an XML or HTML text; searched in the first bytes only (X08).
_ELEMENT = re.compile(rb"<([A-Za-z][A-Za-z0-9:]{0,30})")
_HTML = {b"html", b"head", b"body", b"meta", b"title", b"script", b"div", b"p"}
_LOOKED = 4096


def check_is_opml(body: bytes) -> None:
    """Raise if an uploaded file is certainly not a list of feeds.

    Raises:
        InvalidError: the file has another type; the message names the line that shows it, and what to do.
    """
    head = body[:_LOOKED]
    for magic, sentence in _MAGIC:
        if head.startswith(magic):
            raise InvalidError(sentence)
    if _WEBP.match(head):
        raise InvalidError(_IMAGE)
    text = _plain(head).lstrip()
    start = len(_plain(head)) - len(text)
    line = _plain(head)[:start].count(b"\n") + 1
    # JSON, and what gzip has packed, isn't XML; opml.read knows both.
    if not text.startswith((b"{", b"[", b"\x1f\x8b")):
        _check_element(text, line)


def _check_element(text: bytes, line: int) -> None:
    named = _ELEMENT.search(text)
    if named is None or b"<opml" in text.lower():
        return
    name, line = named[1].lower(), line + text[: named.start()].count(b"\n")
    if name in _HTML:
        raise InvalidError(
            "Line %(line)s: this is a web page (perhaps a login page), not an OPML file. Export "
            "your subscriptions as OPML and upload that file.",
            line=line,
        )


def _plain(head: bytes) -> bytes:
    """Return the text as one byte per character, also from two-byte encodings, without its BOM."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head[2:].replace(b"\x00", b"")
    return head.removeprefix(b"\xef\xbb\xbf")
