"""Reads subscriptions and feed numbers out of raw BSON, for whole users at once.

A user has up to thousands of subscriptions, and each page and count needs all of them: decoding every
word of every bitmap into a dict of objects would cost more than all else together. The mappers write the
fields in one fixed order with fixed types, so most of a document can be taken by its place. Each
document's field names and types are compared first; one that is laid out otherwise is decoded in full.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import bson

from app.models.subscription import ReadState, from_words

Doc = dict[str, Any]
#: Id, user, feed, rev, read state, the fields behind them.
Row = tuple[int, int, int, int, ReadState, Doc]

# Subscriptions begin with these fields, in this order, all int64 (type 0x12), then the bitmap (0x03).
_NAMES = (b"\x12_id\0", b"\x12user_id\0", b"\x12feed_id\0", b"\x12rev\0", b"\x12upto\0", b"\x03words\0")
_HEAD = struct.Struct("<i" + "".join(f"{len(name)}sq" for name in _NAMES[:-1]) + f"{len(_NAMES[-1])}si")
_EMPTY = b"\x05\0\0\0\0"
_LENGTH = struct.Struct("<i")

# Feed numbers: the projection (_id, first_seq, last_seq, last_entry_at), int64 and a date (0x09).
_NUMBERS = struct.Struct("<i5sq11sq10sq15sqx")
_NUMBERS_HEAD = (_NUMBERS.size, b"\x12_id\0", b"\x12first_seq\0", b"\x12last_seq\0", b"\x09last_entry_at\0")

_FEED_ID = struct.Struct("<i9sqx")


def subscriptions(batches: Iterable[Any]) -> Iterator[Row]:
    """Yield the row of each document of a ``find_raw_batches``, which yields bytes."""
    for batch in batches:
        offset, end = 0, len(batch)
        while offset < end:
            head = _HEAD.unpack_from(batch, offset) if end - offset > _HEAD.size else ()
            if head[1::2] == _NAMES:
                _, _, ident, _, user_id, _, feed_id, _, rev, _, upto, _, length = head
                words_at = offset + _HEAD.size - 4
                offset += head[0]
                bits, start = _bitmap(batch[words_at : words_at + length])
                rest = _rest(batch[words_at + length : offset])
                yield ident, user_id, feed_id, rev, ReadState(upto, bits, start, rest["unread"]), rest
            else:
                (size,) = _LENGTH.unpack_from(batch, offset)
                yield _slowly(batch[offset : offset + size])
                offset += size


def _bitmap(raw: bytes) -> tuple[int, int]:
    """Return (bits, start) of the embedded document of words."""
    if len(raw) == len(_EMPTY):
        return 0, 0
    name_end = raw.index(0, 5)
    head = name_end - 3  # type byte, name, NUL; the document's length takes the first four bytes
    count, odd = divmod(len(raw) - len(_EMPTY), head + 8)
    if not odd:
        first = int(raw[5:name_end])
        layout, heads = _run(first, count, head)
        parts = layout.unpack_from(raw, 4)
        if parts[::2] == heads:
            return int.from_bytes(b"".join(parts[1::2]), "little"), first * 64
    # Words are missing, out of order, or their numbers have unlike lengths.
    return from_words(bson.decode(raw))


@functools.lru_cache(maxsize=4096)
def _run(first: int, count: int, head: int) -> tuple[struct.Struct, tuple[bytes, ...]]:
    """Return how ``count`` words in a row are laid out, and what stands before each."""
    heads = tuple(b"\x12%d\0" % number for number in range(first, first + count))
    return struct.Struct(f"{head}s8s" * count), heads


@functools.lru_cache(maxsize=4096)
def _rest(raw: bytes) -> Doc:
    """Decode the fields behind the bitmap; most subscriptions of a user have the same ones."""
    doc = bson.decode(_LENGTH.pack(len(raw) + 4) + raw)
    doc["unread"] = tuple(doc.get("unread", ()))
    return doc


def _slowly(raw: bytes) -> Row:
    doc = bson.decode(raw)
    doc["unread"] = tuple(doc.get("unread", ()))
    bits, start = from_words(doc.get("words") or {})
    state = ReadState(doc["upto"], bits, start, doc["unread"])
    return doc["_id"], doc["user_id"], doc["feed_id"], doc.get("rev", 0), state, doc


def documents(batch: Any) -> list[Doc]:
    """Decode a whole batch of a ``find_raw_batches``; times as milliseconds (``DatetimeMS``)."""
    return bson.decode_all(batch, _MILLISECONDS)


def numbers(batches: Iterable[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (feed, first_seq, last_seq, newest in milliseconds or 0) of each raw document."""
    for batch in batches:
        rows = list(_NUMBERS.iter_unpack(batch)) if not len(batch) % _NUMBERS.size else []
        if rows and {(r[0], r[1], r[3], r[5], r[7]) for r in rows} == {_NUMBERS_HEAD}:
            for row in rows:
                yield row[2], row[4], row[6], row[8]
        else:
            for doc in bson.decode_all(batch, _MILLISECONDS):
                newest = doc.get("last_entry_at")
                yield doc["_id"], doc["first_seq"], doc["last_seq"], int(newest) if newest else 0


def feed_ids(batches: Iterable[Any]) -> Iterator[int]:
    """Yield the feed of each raw document of the projection (feed_id)."""
    for batch in batches:
        rows = list(_FEED_ID.iter_unpack(batch)) if not len(batch) % _FEED_ID.size else []
        if rows and {row[:2] for row in rows} == {(_FEED_ID.size, b"\x12feed_id\0")}:
            for row in rows:
                yield row[2]
        else:
            for doc in bson.decode_all(batch):
                yield doc["feed_id"]


_MILLISECONDS: bson.CodecOptions[Doc] = bson.CodecOptions(
    datetime_conversion=bson.codec_options.DatetimeConversion.DATETIME_MS
)
