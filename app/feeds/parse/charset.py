"""Charset detection: bytes → text, in the order that reads most of the web correctly.

1. a body that validates as UTF-8 with non-ASCII bytes is UTF-8, whatever is declared: a wrong
   ``iso-8859-1`` label on UTF-8 is common, and other charsets hardly ever validate by chance
2. a byte order mark (of UTF-16 and UTF-32 too; without a mark, their pattern of NUL bytes)
3. the ``charset`` of the HTTP Content-Type; if it is Latin-1, the default of many servers, then 4 comes first
4. the XML declaration or HTML ``meta``
5. the guess of Mozilla's detector (faust-cchardet), corrected by bytes that its answer leaves without meaning
6. windows-1252

Labels mean the same as in browsers (WHATWG Encoding: ``iso-8859-1`` is windows-1252, ``gb2312`` is
gb18030 …). UTF-7 is never used: it hides markup from every check. Invalid bytes become U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import cchardet
import webencodings

#: Decoders for WHATWG names whose Python codec covers less than browsers do.
_WIDER = {
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "windows-1252": "windows-1252",
}
#: Labels in old feeds that browsers don't know, but that are harmless and exist in Python.
_EXTRA = {
    "utf-32": "utf-32",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    "ibm855": "cp855",
    "cp855": "cp855",
    "ibm850": "cp850",
    "cp850": "cp850",
    "ibm852": "cp852",
    "cp852": "cp852",
    "ibm437": "cp437",
    "cp437": "cp437",
    "maccyrillic": "mac_cyrillic",
    "mac-cyrillic": "mac_cyrillic",
    "cp949": "cp949",
    "cp932": "cp932",
    "johab": "johab",
    "cp1361": "johab",
    "iso-2022-kr": "iso2022_kr",
    "hz": "hz",
    "hz-gb-2312": "hz",
}
#: Labels without punctuation → label, for other spellings ("UTF_8", "ISO 8859-1", "win-1251").
_SQUEEZED = {re.sub("[^a-z0-9]", "", label): label for label in (*webencodings.LABELS, *_EXTRA)}
#: Other charsets that Python knows; its codecs also contain things that aren't charsets.
_KNOWN_TO_PYTHON = re.compile(
    r"(?:cp|ibm)\d{3,4}|mac[a-z]{3,16}|iso2022jp\w{0,4}|kz1048|ptcp154|hproman8|tis620"
)
#: The default of many servers, as :func:`lookup` returns it.
_LATIN_1 = "windows-1252"
_REFUSED = {"replacement", "x-user-defined"}
#: UTF-32's mark begins with UTF-16's, so it comes first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: "<" in wide charsets without a mark (XML 1.0, appendix F.1).
_WIDE = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
    (b"{\0", "utf-16-le"),
    (b"\0{", "utf-16-be"),
)
_HEAD = 2048
_DECLARED = re.compile(
    rb"""<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}["']\s{0,9}([\w.: -]{1,40})"""
    rb"""|<\?xml[^>]{0,200}?\sencoding\s{0,9}=\s{0,9}([\w.:-]{1,40})"""
    rb"""|<meta[^>]{0,200}?\scharset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})"""
    rb"""|<meta[^>]{0,200}?;\s{0,9}charset\s{0,9}=\s{0,9}([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_HTTP = re.compile(r"""charset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})""", re.IGNORECASE)
#: With fewer replaced bytes, as a share, text declared as UTF-8 or undeclared is damaged UTF-8.
_DAMAGED = 0.1
#: A character beyond U+FFFF whose two halves in UTF-16 were encoded as if they were characters (CESU-8).
_PAIR = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")
_DETECT = 8192
#: In charsets of ISO 8859, these bytes are control characters, which no text has; in their siblings of
#: Windows they are quotation marks, dashes and letters.
_CONTROLS = re.compile(rb"[\x80-\x9f]")
_SIBLINGS = {
    **dict.fromkeys(("iso-8859-2", "iso-8859-16"), "windows-1250"),
    "iso-8859-4": "windows-1257",
    "iso-8859-5": "windows-1251",
    "iso-8859-6": "windows-1256",
    "iso-8859-7": "windows-1253",
    "iso-8859-8": "windows-1255",
    "iso-8859-9": "windows-1254",
    "iso-8859-13": "windows-1257",
}
_TELLING = re.compile(rb"[\x00\x1b\x80-\xff]|~\{")


def to_utf8(body: bytes, content_type: str | None = None) -> tuple[bytes, str]:
    """Return the body as valid UTF-8 without a byte order mark, and the charset it was decoded from.

    Args:
        body: as received, decompressed.
        content_type: the HTTP header, with or without a ``charset``.
    """
    if _plain_ascii(body) or (not body.isascii() and _is_utf8(body) and b"\0" not in body):
        return body.removeprefix(codecs.BOM_UTF8), "utf-8"
    text, label = _decode(body, content_type)
    return text.encode("utf-8", "replace"), label


def decode(body: bytes, content_type: str | None = None) -> tuple[str, str]:
    """Return the body as text without a byte order mark, and the charset it was decoded from."""
    if _plain_ascii(body):
        return body.decode("ascii"), "utf-8"
    if not body.isascii() and _is_utf8(body) and b"\0" not in body:
        return body.removeprefix(codecs.BOM_UTF8).decode("utf-8"), "utf-8"
    return _decode(body, content_type)


def _decode(body: bytes, content_type: str | None) -> tuple[str, str]:
    mark = _by_mark(body)
    if mark:
        return body.decode(mark, "replace").removeprefix("\ufeff"), mark
    return _by_claims(body, content_type)


def detect(body: bytes, content_type: str | None = None) -> str:
    """Return the name of the charset that :func:`decode` uses for the body."""
    return decode(body, content_type)[1]


def lookup(label: str) -> str | None:
    """Return Python's codec for a charset label, as browsers read it; None when unknown or refused."""
    name = label.strip().lower()
    if name in _EXTRA:
        return _EXTRA[name]
    encoding = webencodings.lookup(name)
    if encoding is None:
        squeezed = re.sub("[^a-z0-9]", "", name)
        squeezed = f"windows{squeezed[3:]}" if squeezed.startswith("win12") else squeezed
        known = _SQUEEZED.get(squeezed)
        if known is None:
            return _python_codec(squeezed) if _KNOWN_TO_PYTHON.fullmatch(squeezed) else None
        if known in _EXTRA:
            return _EXTRA[known]
        encoding = webencodings.lookup(known)
    if encoding is None or encoding.name in _REFUSED:
        return None
    wider = _WIDER.get(encoding.name)
    return wider or str(encoding.codec_info.name)


def find_declared_charset(body: bytes) -> str | None:
    """Return the codec that an XML declaration or HTML meta in the first 2 KiB names."""
    match = _DECLARED.search(body, 0, _HEAD)
    return lookup(next(filter(None, match.groups())).decode("ascii", "ignore")) if match else None


def _plain_ascii(body: bytes) -> bool:
    # ESC and "~{" switch the meaning of ASCII bytes in ISO-2022 and HZ; NULs indicate UTF-16 and UTF-32
    if not body.isascii() or b"\x1b" in body or b"\0" in body:
        return False
    # searching for one byte is twenty times as fast as for two
    return b"~" not in body or b"~{" not in body


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _by_mark(body: bytes) -> str | None:
    for mark, name in _MARKS:
        if body.startswith(mark):
            return name
    head = body[:64].lstrip(b" \t\r\n")
    for pattern, name in _WIDE:
        if head.startswith(pattern):
            return name
    return None


def _by_claims(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Decode by the first declared codec that fits every byte, else by the first with replacements."""
    if _PAIR.search(body) and _is_utf8(joined := _PAIR.sub(_join_pair, body)):
        return joined.decode("utf-8"), "utf-8"
    first: str | None = None
    for codec in _claims(body, content_type):
        if codec.startswith("utf-16"):
            continue  # without a mark or NULs in the right places, the label is wrong
        first = first or codec
        try:
            return body.decode(codec), codec
        except UnicodeDecodeError:
            continue
    if first not in (None, "utf-8"):
        return body.decode(first, "replace"), first
    text = body.decode("utf-8", "replace")
    strange = len(text) - len(text.encode("ascii", "ignore"))
    if not body.isascii() and text.count("\ufffd") < _DAMAGED * strange:
        return text, "utf-8"
    codec = _guess(body) or first or "windows-1252"
    return body.decode(codec, "replace").removeprefix("\ufeff"), codec


def _join_pair(found: re.Match[bytes]) -> bytes:
    text = found[0].decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16").encode("utf-8")


def _claims(body: bytes, content_type: str | None) -> Iterator[str]:
    match = _HTTP.search(content_type[:500]) if content_type else None
    http = lookup(match[1]) if match else None
    if http and http != _LATIN_1:
        yield http
    written = find_declared_charset(body)
    if written:
        yield written
    if http == _LATIN_1:
        yield http


def _guess(body: bytes) -> str | None:
    # bytes above ASCII and escapes distinguish charsets
    telling = _TELLING.search(body)
    start = max(0, telling.start() - 64) if telling else 0
    sample = body[start : start + _DETECT]
    # Every other byte is NUL: UTF-16, without a mark and without a tag at its beginning.
    for codec, nuls, others in (
        ("utf-16-le", sample[1::2], sample[::2]),
        ("utf-16-be", sample[::2], sample[1::2]),
    ):
        if nuls.count(0) > len(nuls) / 2 and not others.count(0):
            return codec
    found = cchardet.detect(sample)["encoding"]
    if found and _CONTROLS.search(sample):
        found = _SIBLINGS.get(found.lower(), found)
    guess = lookup(found) or _python_codec(found) if found else None
    return guess if guess and _fits(guess, sample) else None


def _fits(codec: str, sample: bytes) -> bool:
    """Return whether a codec reads a sample without an error; its last character may be cut off."""
    try:
        codecs.getincrementaldecoder(codec)().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def _python_codec(name: str) -> str | None:
    if name.lower().replace("_", "-").startswith("utf-7"):
        return None
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None
