"""Mend the XML that publishers break most: bytes in, bytes out, one linear pass.

Outside CDATA a bare ``&`` becomes ``&amp;``, an HTML entity its character, an impossible character
reference nothing, a ``<`` that opens no tag ``&lt;``. Everywhere: control characters go. What stands
before the first tag and behind the last one goes, and so do declaration and DOCTYPE.
"""

from __future__ import annotations

import html
import html.entities
import re

_CONTROLS = bytes(n for n in range(32) if n not in (9, 10, 13))
_NONCHARACTERS = re.compile(rb"\xef\xbf[\xbe\xbf]")
_XML_ENTITIES = {b"amp", b"lt", b"gt", b"quot", b"apos"}
_REFERENCE = re.compile(rb"&(?:#(\d{1,8});|#[xX]([0-9a-fA-F]{1,7});|([A-Za-z][A-Za-z0-9]{1,31});)?")
_NO_TAG = re.compile(rb"<(?![A-Za-z_/!?:\x80-\xff])")
_PROLOG = re.compile(rb"<\?xml[^>]{0,300}>|<\?[^>]{0,2000}\?>|<!--.*?-->|\s+", re.DOTALL)
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"


def repair(body: bytes) -> bytes | None:
    """Return the document mended, or None when there is no element in it at all."""
    body = body.translate(None, _CONTROLS)
    if b"\xef\xbf" in body:
        body = _NONCHARACTERS.sub(b"", body)
    start, end = body.find(b"<"), body.rfind(b">")
    if start < 0 or end < start:
        return None
    body = _without_prolog(body[start : end + 1])
    return b"".join(_mended(body))


def _without_prolog(body: bytes) -> bytes:
    """Cut declaration, comments, processing instructions and DOCTYPE off the front."""
    at = 0
    while at < len(body):
        found = _PROLOG.match(body, at)
        if found and found.end() > at:
            at = found.end()
        elif body[at : at + 9].upper() == b"<!DOCTYPE":
            at = _after_doctype(body, at)
        elif body[at : at + 8] == b"<!ENTITY":
            at = (body.find(b">", at) + 1) or len(body)
        else:
            break
    return body[at:]


def _after_doctype(body: bytes, at: int) -> int:
    """Return where a DOCTYPE ends, its internal subset with quoted ``>`` and ``]`` included."""
    depth, quote = 0, 0
    for match in _DOCTYPE_PART.finditer(body, at):
        mark = match[0][0]
        if quote:
            quote = 0 if mark == quote else quote
        elif mark in b"\"'":
            quote = mark
        elif mark == 60:  # <
            depth += 1
        elif mark == 62:  # >
            depth -= 1
            if depth == 0:
                return match.end()
    return len(body)


_DOCTYPE_PART = re.compile(rb"[<>\"']")


def _mended(body: bytes) -> list[bytes]:
    parts: list[bytes] = []
    at = 0
    while True:
        start = body.find(_CDATA, at)
        text = body[at:] if start < 0 else body[at:start]
        text = _REFERENCE.sub(_reference, text)
        parts.append(_NO_TAG.sub(b"&lt;", text))
        if start < 0:
            return parts
        end = body.find(_CDATA_END, start)
        if end < 0:
            parts.append(body[start:] + _CDATA_END)
            return parts
        at = end + len(_CDATA_END)
        parts.append(body[start:at])


def _reference(match: re.Match[bytes]) -> bytes:
    decimal, hexadecimal, name = match.groups()
    if decimal or hexadecimal:
        number = int(decimal) if decimal else int(hexadecimal, 16)
        return match[0].replace(b"X", b"x", 1) if _is_xml(number) else b""
    if name is None:
        return b"&amp;"
    if name in _XML_ENTITIES:
        return match[0]
    character = html.entities.html5.get(name.decode("ascii") + ";")
    return html.escape(character).encode("utf-8") if character else b"&amp;" + match[0][1:]


def _is_xml(number: int) -> bool:
    """Tell whether XML 1.0 §2.2 allows a character."""
    return (
        number in (9, 10, 13)
        or 0x20 <= number <= 0xD7FF
        or 0xE000 <= number <= 0xFFFD
        or 0x10000 <= number <= 0x10FFFF
    )
