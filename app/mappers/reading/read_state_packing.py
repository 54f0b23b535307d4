"""Packing of many read states into few binary fields, for snapshots and undos of all of a user's feeds.

Each feed has one row of eight int64 (feed, first, last, newest, upto, start, bytes of its bitmap, count of
its kept-unread numbers). Then come all bitmaps and all kept-unread numbers, in the same order. Feeds of
people may lack numbers; if any feed does, the count per feed follows.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from bson.binary import Binary

from app.models.reading.stream import SourceFeed
from app.models.subscriptions.read_state import ReadState

_ROW = struct.Struct("<8q")


def pack(feeds: Iterable[SourceFeed]) -> dict[str, Any]:
    """Return the binary fields of a document."""
    rows, bitmaps, kept, missing, row = [], [], array("q"), array("q"), _ROW.pack
    for feed_id, first, last, newest, (upto, bits, start, unread), _, less in feeds:
        size = (bits.bit_length() + 7) >> 3
        rows.append(row(feed_id, first, last, newest, upto, start, size, len(unread)))
        bitmaps.append(bits.to_bytes(size, "little"))
        missing.append(less)
        if unread:
            kept.extend(unread)
    return {
        "rows": Binary(b"".join(rows)),
        "bitmaps": Binary(b"".join(bitmaps)),
        "kept": Binary(kept.tobytes()),
        **({"missing": Binary(missing.tobytes())} if any(missing) else {}),
    }


def unpack(doc: dict[str, Any]) -> Iterator[SourceFeed]:
    """Yield the feeds in a packed document."""
    bitmaps, kept, missing = doc["bitmaps"], array("q"), array("q")
    kept.frombytes(doc["kept"])
    missing.frombytes(doc.get("missing", b""))
    less = iter(missing)
    place = taken = 0
    for feed_id, first, last, newest, upto, start, size, count in _ROW.iter_unpack(doc["rows"]):
        bits = int.from_bytes(bitmaps[place : place + size], "little")
        unread = tuple(kept[taken : taken + count])
        state = ReadState(upto, bits, start, unread)
        yield SourceFeed.create(feed_id, first, last, newest=newest, state=state, missing=next(less, 0))
        place, taken = place + size, taken + count


def unpack_last_seqs(rows: bytes) -> dict[int, int]:
    """Return feed → last number, from the packed rows alone."""
    return {row[0]: row[2] for row in _ROW.iter_unpack(rows)}
