"""Packs many read states into few binary fields: snapshots and undos hold a whole user's at once.

Per feed one row of eight int64 (feed, first, last, newest, upto, start, bytes of its bitmap, count of its
kept-unread numbers); then all bitmaps, then all kept-unread numbers, in the same order.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from bson.binary import Binary

from app.models.stream import SourceFeed
from app.models.subscription import ReadState

_ROW = struct.Struct("<8q")


def pack(feeds: Iterable[SourceFeed]) -> dict[str, Any]:
    """Return the binary fields of a document."""
    rows, bitmaps, kept, row = [], [], array("q"), _ROW.pack
    for feed_id, first, last, newest, (upto, bits, start, unread), _ in feeds:
        size = (bits.bit_length() + 7) >> 3
        rows.append(row(feed_id, first, last, newest, upto, start, size, len(unread)))
        bitmaps.append(bits.to_bytes(size, "little"))
        if unread:
            kept.extend(unread)
    return {
        "rows": Binary(b"".join(rows)),
        "bitmaps": Binary(b"".join(bitmaps)),
        "kept": Binary(kept.tobytes()),
    }


def unpack(doc: dict[str, Any]) -> Iterator[SourceFeed]:
    """Yield what was packed."""
    bitmaps, kept = doc["bitmaps"], array("q")
    kept.frombytes(doc["kept"])
    place = taken = 0
    for feed_id, first, last, newest, upto, start, size, count in _ROW.iter_unpack(doc["rows"]):
        bits = int.from_bytes(bitmaps[place : place + size], "little")
        unread = tuple(kept[taken : taken + count])
        yield SourceFeed.of(feed_id, first, last, newest, ReadState(upto, bits, start, unread))
        place, taken = place + size, taken + count


def lasts(rows: bytes) -> dict[int, int]:
    """Return feed → last number out of the packed rows alone."""
    return {row[0]: row[2] for row in _ROW.iter_unpack(rows)}
