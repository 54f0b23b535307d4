"""The stored form of an entry's HTML: the clean and the published HTML in one compressed field.

The two are so similar that together they take little more space than either alone. MongoDB writes each
document three times (oplog, journal, collection), and a third of the CPU time for storing an entry was spent
on its body. Lists never read the field.

    <length of content> <length of summary> content summary raw, compressed; lengths uint32, in bytes
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from isal import isal_zlib

_LENGTHS = struct.Struct("<II")
_TAG = re.compile(r"<[^>]*>")


class Html(NamedTuple):
    """The HTML of an entry: see :class:`app.models.reading.entry.NewEntry`."""

    content: str = ""
    summary: str = ""
    raw: bytes = b""


def pack(content: str, summary: str, raw: bytes) -> bytes | None:
    """Return the packed field, or None if there is nothing to store."""
    if not (content or summary or raw):
        return None
    first, second = content.encode("utf-8", "replace"), summary.encode("utf-8", "replace")
    # Level 0 still finds repetitions and takes a third of the time of level 1.
    packed: bytes = isal_zlib.compress(
        b"".join((_LENGTHS.pack(len(first), len(second)), first, second, raw)), 0
    )
    return packed


def count_characters(content: str, summary: str) -> int:
    """Return the length of a text without its markup, by which lists are sorted."""
    return len(_TAG.sub("", content or summary))


def read_html(doc: Mapping[str, Any]) -> Html:
    """Return the HTML of a document, even one from before both were packed into one field."""
    if "body" in doc or "content" not in doc:
        return unpack(doc.get("body"))
    raw: bytes = isal_zlib.decompress(doc["raw"]) if doc.get("raw") else b""
    return Html(doc["content"], doc.get("summary") or "", raw)


def unpack(packed: bytes | None) -> Html:
    """Return the HTML in a packed field."""
    if not packed:
        return Html()
    plain: bytes = isal_zlib.decompress(packed)
    first, second = _LENGTHS.unpack_from(plain)
    at = _LENGTHS.size
    middle, end = at + first, at + first + second
    return Html(plain[at:middle].decode(), plain[middle:end].decode(), plain[end:])
