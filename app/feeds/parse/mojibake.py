"""Mojibake repair: characters that were decoded with the wrong charset before they got into a feed.

Three accidents are undone: windows-1252 bytes read as Latin-1 (C1 controls where quotes and dashes
belong, raw or as ``&#151;``; browsers do the same), UTF-8 read as windows-1252 and encoded again
("Ã©" for "é"), and emoji written as two references. All are checked once per document, so that a clean one
costs three byte searches.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

_C1_REFERENCE = re.compile(rb"&#(?:1[2-5]\d|[xX]0{0,4}[89][0-9a-fA-F]);")
_C1_RAW = re.compile(rb"\xc2[\x80-\x9f]")
#: "Ã" or "Â" and a continuation byte that became a character: the mark of UTF-8 encoded twice. An expression
#: that begins with one fixed byte matches faster than a string of several.
_TWICE = re.compile(rb"\xc3[\x82\x83]\xc2")
#: A text about mojibake contains little of it among much correct text; such a text stays unchanged.
_MOSTLY = 20

#: References to the two halves of a character beyond U+FFFF: "&#55357;&#56832;", "&amp;#xD83D;&amp;#xDE00;",
#: in JSON "\\u0026#55357;\\u0026#56832;".
_HIGH = rb"(?:5529[6-9]|55[3-9]\d\d|56[0-2]\d\d|563[01]\d|[xX]0{0,4}[dD][89abAB][0-9a-fA-F]{2})"
_LOW = rb"(?:563[2-9]\d|56[4-9]\d\d|57[0-2]\d\d|573[0-3]\d|5734[0-3]|[xX]0{0,4}[dD][c-fC-F][0-9a-fA-F]{2})"
_MARK = rb"(?:&|\\u0026)(?:amp;)?#"
_HALVES = re.compile(rb"(%b)(%b);%b(%b);|%b(?:%b|%b);" % (_MARK, _HIGH, _MARK, _LOW, _MARK, _HIGH, _LOW))
#: What either repair of references may change. An expression that begins with one fixed byte is fast.
_ODD_REFERENCE = re.compile(rb"#(?:1[2-5]\d|[xX]0{0,4}[89][0-9a-fA-F]|%b|%b);" % (_HIGH, _LOW))

_UNDEFINED = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
_C1 = {chr(n): bytes([n]).decode("cp1252") for n in range(0x80, 0xA0) if n not in _UNDEFINED}
_BACK = {character: control for control, character in _C1.items()}
_CONTROL = re.compile("[\x80-\x9f]")
_WIDE = re.compile("[" + "".join(_BACK) + "]")
_LEADS = bytes(range(0xC2, 0xF5))


def has_odd_references(document: bytes) -> bool:
    """Return whether a document may have references to C1 controls or to halves of characters."""
    return _ODD_REFERENCE.search(document) is not None


def choose_repair(document: bytes, *, has_odd: bool) -> Callable[[str], str] | None:
    """Return the repair that every text of a UTF-8 document needs; None for a clean document.

    Args:
        document: without its prolog.
        has_odd: the result of :func:`has_odd_references`.
    """
    if b"\xc2" in document:  # the lead byte of both accidents
        if _TWICE.search(document) and _is_twice(document):
            return _undo_twice
        if _C1_RAW.search(document):
            return _undo_c1
    return _undo_c1 if has_odd and _C1_REFERENCE.search(document) else None


def join_surrogates(document: bytes) -> bytes:
    """Return a UTF-8 document with each pair of surrogate references replaced by one reference.

    Programs that count in UTF-16 write an emoji as two references, which neither XML nor HTML allows. A
    half without its other half is removed.
    """
    return _HALVES.sub(_join_halves, document)


def _join_halves(found: re.Match[bytes]) -> bytes:
    mark, high, low = found.groups()
    if mark is None:
        return b""
    number = 0x10000 + ((_read_number(high) - 0xD800) << 10) + _read_number(low) - 0xDC00
    return b"%b%d;" % (mark, number)


def _read_number(digits: bytes) -> int:
    return int(digits[1:], 16) if digits[:1] in b"xX" else int(digits)


def _is_twice(document: bytes) -> bool:
    marks = len(_TWICE.findall(document))
    characters = len(document) - len(document.translate(None, _LEADS))
    return marks * _MOSTLY >= characters - 2 * marks


def _undo_c1(text: str) -> str:
    if text.isascii() or not _CONTROL.search(text):
        return text
    return _CONTROL.sub(lambda found: _C1.get(found[0], found[0]), text)


def _undo_twice(text: str) -> str:
    if text.isascii():
        return text
    # if any part isn't valid UTF-8, the text was encoded only once
    with contextlib.suppress(UnicodeError):
        back = _WIDE.sub(lambda found: _BACK[found[0]], text)
        text = back.encode("latin-1").decode("utf-8")
    return _undo_c1(text)
