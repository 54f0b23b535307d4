"""Cutting a feed's XML into head, entries and tail by its bytes, without parsing it.

In well-formed XML a ``<`` opens markup, unless it stands in a CDATA section, a comment or a processing
instruction. So when head and chunks hold such sections only whole, and a chunk holds one start tag of
its name, at its front, and one end tag, at its end, then each chunk is one element, and a document from
which some of them are taken out is that document without these elements. And when neither head nor tail
hold anything that could be an entry, as many entries as chunks are these very elements. Everything that
does not look so is not cut at all.
"""

from __future__ import annotations

import dataclasses
import re

import xxhash

HASH = 8
#: CDATA sections and comments of one chunk. Looking at each costs a microsecond.
_MOST_SECTIONS = 200
#: Whatever a reader may take for an entry, in any namespace and any case.
_ENTRY = re.compile(rb"<((?:[^\s<>/:!?]*:)?(?:item|entry))[\s>/]", re.IGNORECASE)
_BEHIND_NAME = frozenset((b">", b"/", b" ", b"\t", b"\n", b"\r", b"\f", b"\v"))
_CDATA, _COMMENT = b"<![CDATA[", b"<!--"
#: Also what neither of them may be: declarations and processing instructions.
_SECTION = re.compile(rb"<(?:!(?:\[CDATA\[|--)?|\?)")


@dataclasses.dataclass(frozen=True, slots=True)
class SplitDocument:
    """A document cut up.

    Attributes:
        name: of the entries' elements as it is written, with its prefix.
        chunks: the entries' elements in order; only white space stood between them.
    """

    name: bytes
    head: bytes
    chunks: list[bytes]
    tail: bytes

    def hash_chunks(self) -> list[bytes]:
        """Return 8 bytes for each chunk."""
        return [xxhash.xxh3_64_digest(chunk) for chunk in self.chunks]

    def has_whole_chunks(self, chunks: list[bytes]) -> bool:
        """Tell whether some of the chunks, and the head, are whole elements as the module's text says."""
        opening = b"<" + self.name
        return _is_closed(self.head) and all(
            chunk.find(opening, 1) < 0 and _is_closed(chunk) for chunk in chunks
        )

    def join_chunks(self, chunks: list[bytes]) -> bytes:
        """Return the document with an empty entry and some of the chunks in place of all of them."""
        return b"".join((self.head, b"<", self.name, b"/>", *chunks, self.tail))


def split(text: bytes, max_entries: int) -> SplitDocument | None:
    """Cut a document; None when it does not look like a head, entries and a tail.

    Args:
        text: XML in UTF-8 without declaration and DOCTYPE.
        most: entries; a document with more is not cut.
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
    """Return where the next start tag of exactly this name is, -1 if there is none."""
    at, width = text.find(opening, at), len(opening)
    while at >= 0 and text[at + width : at + width + 1] not in _BEHIND_NAME:
        at = text.find(opening, at + width)
    return at


def _is_closed(text: bytes) -> bool:
    """Tell whether CDATA sections and comments that begin in a text end in it; it is outside at first."""
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
