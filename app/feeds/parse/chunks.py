"""Chunks: split a feed's XML into head, entries and tail by its bytes, without parsing it.

In well-formed XML a ``<`` opens markup, except in a CDATA section, a comment or a processing
instruction. Suppose head and chunks contain such sections only as a whole. Suppose each chunk has one start
tag of its name, at its start, and one end tag, at its end. Then each chunk is one element, and removing
chunks from the document removes just these elements. And if head and tail contain nothing that could be an
entry, and there are as many entries as chunks, the chunks are the entries. Any other document isn't split.
"""

from __future__ import annotations

import dataclasses
import re

import xxhash

HASH = 8
#: Most CDATA sections and comments of one chunk. Checking each costs a microsecond.
_MOST_SECTIONS = 200
#: Elements that a parser may read as an entry, in any namespace and any case.
_ENTRY = re.compile(rb"<((?:[^\s<>/:!?]*:)?(?:item|entry))[\s>/]", re.IGNORECASE)
_BEHIND_NAME = frozenset((b">", b"/", b" ", b"\t", b"\n", b"\r", b"\f", b"\v"))
_CDATA, _COMMENT = b"<![CDATA[", b"<!--"
#: Also matches declarations and processing instructions, which chunks may not contain.
_SECTION = re.compile(rb"<(?:!(?:\[CDATA\[|--)?|\?)")


@dataclasses.dataclass(frozen=True, slots=True)
class SplitDocument:
    """A document in pieces.

    Attributes:
        name: the element name of the entries as written, with its prefix.
        chunks: the entries' elements in order; only white space was between them.
    """

    name: bytes
    head: bytes
    chunks: list[bytes]
    tail: bytes

    def hash_chunks(self) -> list[bytes]:
        """Return an 8-byte hash of each chunk."""
        return [xxhash.xxh3_64_digest(chunk) for chunk in self.chunks]

    def has_whole_chunks(self, chunks: list[bytes]) -> bool:
        """Return whether the given chunks and the head are whole elements, see the module docstring."""
        opening = b"<" + self.name
        return _is_closed(self.head) and all(
            chunk.find(opening, 1) < 0 and _is_closed(chunk) for chunk in chunks
        )

    def join_chunks(self, chunks: list[bytes]) -> bytes:
        """Return the document with an empty entry and the given chunks instead of all entries."""
        return b"".join((self.head, b"<", self.name, b"/>", *chunks, self.tail))


def split(text: bytes, max_entries: int) -> SplitDocument | None:
    """Split a document; None when it doesn't look like a head, entries and a tail.

    Args:
        text: XML in UTF-8 without declaration and DOCTYPE.
        max_entries: most entries; a longer document isn't split.
    """
    first = _ENTRY.search(text)
    if first is None:
        return None
    name, at = first[1], first.start()
    opening, closing = b"<" + name, b"</" + name + b">"
    chunks: list[bytes] = []
    while len(chunks) < max_entries:
        end = text.find(closing, at)
        if end < 0:
            return None
        end += len(closing)
        chunks.append(text[at:end])
        at = _start(text, opening, end)
        if at < 0:
            tail = text[end:]
            return None if _ENTRY.search(tail) else SplitDocument(name, text[: first.start()], chunks, tail)
        if at > end and not text[end:at].isspace():
            return None
    return None


def _start(text: bytes, opening: bytes, at: int) -> int:
    """Return the position of the next start tag of exactly this name, -1 if there is none."""
    at, width = text.find(opening, at), len(opening)
    while at >= 0 and text[at + width : at + width + 1] not in _BEHIND_NAME:
        at = text.find(opening, at + width)
    return at


def _is_closed(text: bytes) -> bool:
    """Return whether a text, starting outside them, ends all CDATA sections and comments it begins."""
    at = 0
    for _ in range(_MOST_SECTIONS):
        found = _SECTION.search(text, at)
        if found is None:
            return True
        at, mark = found.start(), found[0]
        if mark == _CDATA:
            at = text.find(b"]]>", at + len(_CDATA))
        elif mark == _COMMENT:
            at = text.find(b"-->", at + len(_COMMENT))
        else:
            return False
        if at < 0:
            return False
    return False
