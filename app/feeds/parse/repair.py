"""XML repair: fix the most common errors of publishers; bytes in, bytes out, one linear pass.

Outside CDATA, a bare ``&`` becomes ``&amp;``, an HTML entity its character, and a ``<`` that opens no
tag ``&lt;``. Impossible character references are removed; so are comments, because XML allows no "--" in
them. Everywhere, control characters are removed. Text before the first tag and after the last one is
removed, and so are declaration and DOCTYPE.
"""

from __future__ import annotations

import html
import html.entities
import re

_CONTROLS = bytes(n for n in range(32) if n not in (9, 10, 13))
_NONCHARACTERS = re.compile(rb"\xef\xbf[\xbe\xbf]")
_REFERENCE = re.compile(
    rb"&(?!(?:amp|lt|gt|quot|apos);)"
    rb"(?:#(\d{1,8});|#[xX]([0-9a-fA-F]{1,7});|([A-Za-z][A-Za-z0-9]{1,31});)?"
)
_BARE = re.compile(rb"&(?!#\d|#[xX][0-9a-fA-F]|[A-Za-z])")
_NO_TAG = re.compile(rb"<(?![A-Za-z_/?:\x80-\xff]|!--)")
_DOCTYPE_PART = re.compile(rb"<!--|[<>\"']")
_CDATA_END = b"]]>"
_COMMENT, _COMMENT_END = b"<!--", b"-->"
_SECTION = re.compile(rb"<!\[CDATA\[|<!--")


def repair(body: bytes) -> bytes | None:
    """Return the repaired document, or None if it contains no element at all."""
    body = body.translate(None, _CONTROLS)
    if b"\xef\xbf" in body:
        body = _NONCHARACTERS.sub(b"", body)
    start, end = body.find(b"<"), body.rfind(b">")
    if start < 0 or end < start:
        return None
    body = strip_prolog(body[start : end + 1])
    return b"".join(_mended(body))


def strip_prolog(body: bytes) -> bytes:
    """Remove declaration, comments, processing instructions and DOCTYPE at the start (XML 1.0 §2.8).

    So no parser ever sees a DOCTYPE's declarations: nothing external is ever named, and only
    :mod:`app.feeds.parse.entities` expands entities. One linear pass.
    """
    at, end = 0, len(body)
    while at < end:
        head = body[at : at + 9]
        if head.startswith(_COMMENT):
            at = _after(body, _COMMENT_END, at + len(_COMMENT))
        elif head.startswith(b"<?"):
            at = _after(body, b"?>", at)
        elif head.upper() == b"<!DOCTYPE":
            at = _after_doctype(body, at)
        elif head.startswith(b"<!ENTITY"):
            at = _after(body, b">", at)
        elif head[:1].isspace():
            at += len(body[at : at + 4096]) - len(body[at : at + 4096].lstrip())
        else:
            break
    return body[at:]


def _after(body: bytes, mark: bytes, at: int) -> int:
    found = body.find(mark, at)
    return len(body) if found < 0 else found + len(mark)


def _after_doctype(body: bytes, at: int) -> int:
    """Return where a DOCTYPE ends; its internal subset may contain quoted or commented ``>``."""
    depth = 0
    while found := _DOCTYPE_PART.search(body, at):
        mark, at = found[0], found.end()
        if mark in b"\"'":
            at = _after(body, mark, at)
        elif mark == _COMMENT:
            at = _after(body, _COMMENT_END, at)
        else:
            depth += 1 if mark == b"<" else -1
            if depth == 0:
                return at
    return len(body)


def _mended(body: bytes) -> list[bytes]:
    parts: list[bytes] = []
    at = text = 0
    last = body.rfind(_COMMENT_END)
    while found := _SECTION.search(body, at):
        start, at = found.span()
        is_comment = found[0] == _COMMENT
        if is_comment and at > last:
            continue  # without an end, it would be searched repeatedly and swallow the rest
        # each separately, so that removing a comment never creates a tag or reference
        parts.append(_text(body[text:start]))
        if is_comment:
            at = text = body.index(_COMMENT_END, at) + len(_COMMENT_END)
            continue
        end = body.find(_CDATA_END, at)
        if end < 0:
            parts.append(body[start:] + _CDATA_END)
            return parts
        at = text = end + len(_CDATA_END)
        parts.append(body[start:at])
    parts.append(_text(body[text:]))
    return parts


def _text(text: bytes) -> bytes:
    return _NO_TAG.sub(b"&lt;", _REFERENCE.sub(_reference, _BARE.sub(b"&amp;", text)))


def _reference(match: re.Match[bytes]) -> bytes:
    decimal, hexadecimal, name = match.groups()
    if decimal or hexadecimal:
        number = int(decimal) if decimal else int(hexadecimal, 16)
        return match[0].replace(b"X", b"x", 1) if _is_xml(number) else b""
    if name is None:
        return b"&amp;"
    character = html.entities.html5.get(name.decode("ascii") + ";")
    return html.escape(character).encode("utf-8") if character else b"&amp;" + match[0][1:]


def _is_xml(number: int) -> bool:
    """Return whether XML 1.0 §2.2 allows a character."""
    return (
        number in (9, 10, 13)
        or 0x20 <= number <= 0xD7FF
        or 0xE000 <= number <= 0xFFFD
        or 0x10000 <= number <= 0x10FFFF
    )
