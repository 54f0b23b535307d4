"""Decoding of subscriptions from raw BSON, for all of a user's subscriptions at once.

A user may have thousands of subscriptions, and each page and count needs all of them. Decoding every word of
every bitmap into a dict would cost more than everything else. The mappers write the fields in a fixed order
with fixed types, so most of a document can be read by position. Each document's field names and types are
compared first, and a document with another layout is decoded in full.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import bson

from app.models.subscriptions.read_state import NO_ENTRIES, ReadState, RemovedEntries, from_words
from app.models.subscriptions.subscription import NO_HIGHLIGHTERS, Subscription
from app.runtime.version_cache import VersionCache

Doc = dict[str, Any]
#: Bytes of decoded subscriptions in the cache; one with 500 entries takes 1 KB.
SUBSCRIPTION_BYTES = 24 << 20
#: What a subscription takes besides its document.
_SPARE = 500
#: Longest parts of a document, in bytes, for which the caches of layouts and of other fields are used.
_LAYOUT_MAX, _REST_MAX = 1024, 256
#: Kept-unread numbers, title, folders, sort keys in them, mass mark, days until read, newest to keep,
#: paused, person, muted, private, original, notify, full_text, reopen, hidden, highlighted, ruled, done,
#: highlighted by rule.
Rest = tuple[
    tuple[int, ...],
    str,
    tuple[int, ...],
    Mapping[int, str],
    str | None,
    int,
    int,
    *tuple[bool, bool, bool, bool, bool, bool, bool, bool],
    RemovedEntries,
    RemovedEntries,
    int | None,
    int,
    Mapping[int, RemovedEntries],
]
#: The flags, in their order in a :class:`Subscription`.
FLAGS = ("paused", "person", "muted", "private", "original", "notify", "full_text", "reopen")

# Subscriptions start with these fields, in this order, all int64 (type 0x12), then the bitmap (0x03).
_NAMES = (b"\x12_id\0", b"\x12user_id\0", b"\x12feed_id\0", b"\x12rev\0", b"\x12upto\0", b"\x03words\0")
_HEAD = struct.Struct("<i" + "".join(f"{len(name)}sq" for name in _NAMES[:-1]) + f"{len(_NAMES[-1])}si")
_EMPTY = b"\x05\0\0\0\0"
_LENGTH = struct.Struct("<i")
_WORD = re.compile(rb"\x12([0-9]{1,15})\0(.{8})", re.DOTALL)

_FEED_ID = struct.Struct("<i9sqx")
_FEED_ID_HEAD = (_FEED_ID.size, b"\x12feed_id\0")


def _decode(raw: bytes) -> Subscription:
    head = _HEAD.unpack_from(raw) if len(raw) > _HEAD.size else ()
    if head[1::2] != _NAMES:
        return _slowly(raw)
    _, _, ident, _, user_id, _, feed_id, _, rev, _, upto, _, length = head
    words_at = _HEAD.size - 4
    words_end = words_at + length
    bits, start = _bitmap(raw[words_at:words_end])
    rest = raw[words_end:]
    found = _rest(rest) if len(rest) <= _REST_MAX else _decode_rest(rest)
    unread, title, folder_ids, orders = found[:4]
    state = ReadState(upto, bits, start, unread)
    return Subscription(ident, user_id, feed_id, title, folder_ids, orders, state, rev, *found[4:])


#: The last versions of subscriptions. A reader's next request reads all subscriptions again, and only marked
#: ones have changed. Finding the result of the same bytes takes a tenth of the time of decoding them.
subscription_cache = VersionCache(_decode, bytes_max=SUBSCRIPTION_BYTES, spare=_SPARE)
#: Decodes a document of ``subscriptions``, with that cache.
decode_subscription = subscription_cache.decode


def _bitmap(raw: bytes) -> tuple[int, int]:
    """Return (bits, start) of the embedded document of words."""
    if len(raw) == len(_EMPTY):
        return 0, 0
    run = None if len(raw) > _LAYOUT_MAX else _run(int(raw[5 : raw.index(0, 5)]), len(raw))
    if run is not None:
        words, between, expected, start = run
        if int.from_bytes(raw, "little") & between == expected:
            return int.from_bytes(b"".join(words.unpack(raw)), "little"), start
    return _scattered(raw)


@functools.lru_cache(maxsize=4096)
def _run(first: int, size: int) -> tuple[struct.Struct, int, int, int] | None:
    """Return the layout of consecutive words in ``size`` bytes; None: no number of words has that size.

    Returns:
        The struct that extracts the words, a mask of the bytes between them, their expected values, and the
        first bit.
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
    """Read words with gaps or out of order: marks append the words that they start."""
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
def _rest(raw: bytes) -> Rest:
    """Decode the fields after the bitmap, with a cache: most subscriptions share the same values."""
    return _decode_rest(raw)


def _decode_rest(raw: bytes) -> Rest:
    return _rest_of(bson.decode(_LENGTH.pack(len(raw) + 4) + raw))


def _rest_of(doc: Doc) -> Rest:
    get = doc.get
    folder_ids = tuple(get("folder_ids", ()))
    orders = {int(folder): key for folder, key in get("orders", {}).items()}
    paused, person, muted, private, original, notify, full_text, reopen = (get(flag, False) for flag in FLAGS)
    flags = paused, person, muted, private, original, notify, full_text, reopen
    rules = _find_numbers(doc, "hidden"), _find_numbers(doc, "highlighted"), get("ruled")
    numbers = get("mass"), get("read_after", 0), get("keep_newest", 0)
    unread, done = tuple(get("unread", ())), get("read_after_done", 0)
    by = read_highlighters(doc)
    return unread, get("title", ""), folder_ids, orders, *numbers, *flags, *rules, done, by


def read_highlighters(doc: Doc) -> Mapping[int, RemovedEntries]:
    """Return rule → numbers of the entries that it has highlighted, of a stored subscription."""
    if "highlighted_by" not in doc:
        return NO_HIGHLIGHTERS
    found = {int(rule): RemovedEntries(*from_words(words)) for rule, words in doc["highlighted_by"].items()}
    return {rule: numbers for rule, numbers in found.items() if numbers.bits}


def _find_numbers(doc: Doc, name: str) -> RemovedEntries:
    words = doc.get(name)
    return RemovedEntries(*from_words(words)) if words else NO_ENTRIES


def _slowly(raw: bytes) -> Subscription:
    doc = bson.decode(raw)
    bits, start = from_words(doc.get("words") or {})
    rest = _rest_of(doc)
    unread, title, folder_ids, orders = rest[:4]
    state, rev = ReadState(doc["upto"], bits, start, unread), doc.get("rev", 0)
    ident, user_id, feed_id = doc["_id"], doc["user_id"], doc["feed_id"]
    return Subscription(ident, user_id, feed_id, title, folder_ids, orders, state, rev, *rest[4:])


def decode_feed_ids(documents: Iterable[bytes]) -> Iterator[int]:
    """Yield the feed id in each raw document of the projection (feed_id)."""
    for raw in documents:
        row = _FEED_ID.unpack(raw) if len(raw) == _FEED_ID.size else ()
        yield row[2] if row[:2] == _FEED_ID_HEAD else bson.decode(raw)["feed_id"]
