"""Reads subscriptions and feed numbers out of raw BSON, for whole users at once.

A user has up to thousands of subscriptions, and each page and count needs all of them: decoding every
word of every bitmap into a dict of objects would cost more than all else together. The mappers write the
fields in one fixed order with fixed types, so most of a document can be taken by its place. Each
document's field names and types are compared first; one that is laid out otherwise is decoded in full.
"""

from __future__ import annotations

import functools
import re
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
_WORD = re.compile(rb"\x12([0-9]{1,15})\0(.{8})", re.DOTALL)

# Feed numbers: the projection (_id, first_seq, last_seq, last_entry_at), int64 and a date (0x09).
_NUMBERS = struct.Struct("<i5sq11sq10sq15sqx")
_NUMBERS_HEAD = (_NUMBERS.size, b"\x12_id\0", b"\x12first_seq\0", b"\x12last_seq\0", b"\x09last_entry_at\0")

_FEED_ID = struct.Struct("<i9sqx")
_FEED_ID_HEAD = (_FEED_ID.size, b"\x12feed_id\0")


def subscriptions(documents: Iterable[bytes]) -> Iterator[Row]:
    """Yield the row of each document of ``subscriptions``."""
    unpack, names, words_at = _HEAD.unpack_from, _NAMES, _HEAD.size - 4
    for raw in documents:
        head = unpack(raw) if len(raw) > _HEAD.size else ()
        if head[1::2] == names:
            _, _, ident, _, user_id, _, feed_id, _, rev, _, upto, _, length = head
            words_end = words_at + length
            bits, start = _bitmap(raw[words_at:words_end])
            rest = _rest(raw[words_end:])
            yield ident, user_id, feed_id, rev, ReadState(upto, bits, start, rest["unread"]), rest
        else:
            yield _slowly(raw)


def _bitmap(raw: bytes) -> tuple[int, int]:
    """Return (bits, start) of the embedded document of words."""
    if len(raw) == len(_EMPTY):
        return 0, 0
    run = _run(int(raw[5 : raw.index(0, 5)]), len(raw))
    if run is not None:
        words, between, expected, start = run
        if int.from_bytes(raw, "little") & between == expected:
            return int.from_bytes(b"".join(words.unpack(raw)), "little"), start
    return _scattered(raw)


@functools.lru_cache(maxsize=4096)
def _run(first: int, size: int) -> tuple[struct.Struct, int, int, int] | None:
    """Return how words in a row are laid out in ``size`` bytes; None: they never have that size.

    Returns:
        What cuts the words out, a mask of what stands before each, what stands there, and the first bit.
    """
    layout, between, expected, number = "4x", bytes(4), bytes(4), first
    while len(between) < size - 1:
        name = b"\x12%d\0" % number
        layout += f"{len(name)}x8s"
        between += b"\xff" * len(name) + bytes(8)
        expected += name + bytes(8)
        number += 1
    if len(between) != size - 1:
        return None
    mask, value = int.from_bytes(between, "little"), int.from_bytes(expected, "little")
    return struct.Struct(layout + "x"), mask, value, first * 64


def _scattered(raw: bytes) -> tuple[int, int]:
    """Read words that are missing or out of order: marks append the words that they begin."""
    parts = _WORD.split(raw[4:-1])
    if any(parts[::3]):
        return from_words(bson.decode(raw))  # some have other types
    numbers = [int(name) for name in parts[1::3]]
    first = min(numbers)
    words = [bytes(8)] * (max(numbers) - first + 1)
    for number, word in zip(numbers, parts[2::3], strict=True):
        words[number - first] = word
    return int.from_bytes(b"".join(words), "little"), first * 64


@functools.lru_cache(maxsize=4096)
def _rest(raw: bytes) -> Doc:
    """Decode the fields behind the bitmap; most subscriptions of a user have the same ones."""
    doc = bson.decode(_LENGTH.pack(len(raw) + 4) + raw)
    doc["unread"] = tuple(doc.get("unread", ()))
    doc["folder_ids"] = tuple(doc.get("folder_ids", ()))
    return doc


def _slowly(raw: bytes) -> Row:
    doc = bson.decode(raw)
    doc["unread"] = tuple(doc.get("unread", ()))
    doc["folder_ids"] = tuple(doc.get("folder_ids", ()))
    bits, start = from_words(doc.get("words") or {})
    state = ReadState(doc["upto"], bits, start, doc["unread"])
    return doc["_id"], doc["user_id"], doc["feed_id"], doc.get("rev", 0), state, doc


def numbers(documents: Iterable[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (feed, first_seq, last_seq, newest in milliseconds or 0) of each raw document."""
    for raw in documents:
        row = _NUMBERS.unpack(raw) if len(raw) == _NUMBERS.size else ()
        if row[1::2] == _NUMBERS_HEAD[1:]:
            yield row[2], row[4], row[6], row[8]
        else:
            doc = bson.decode(raw, _MILLISECONDS)
            newest = doc.get("last_entry_at")
            yield doc["_id"], doc["first_seq"], doc["last_seq"], int(newest) if newest else 0


def feed_ids(documents: Iterable[bytes]) -> Iterator[int]:
    """Yield the feed of each raw document of the projection (feed_id)."""
    for raw in documents:
        row = _FEED_ID.unpack(raw) if len(raw) == _FEED_ID.size else ()
        yield row[2] if row[:2] == _FEED_ID_HEAD else bson.decode(raw)["feed_id"]


_MILLISECONDS: bson.CodecOptions[Doc] = bson.CodecOptions(
    datetime_conversion=bson.codec_options.DatetimeConversion.DATETIME_MS
)
