"""A subscription and its read state: a bitmap, no row per user and entry (docs/architecture.md).

All functions here are pure. Sequence numbers start at 1. A word is a signed 64-bit integer as MongoDB
keeps it; bit ``seq % 64`` of word ``seq // 64`` is set when that entry is read.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence

_WORD = (1 << 64) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class ReadState:
    """Which entries of a feed a user has read.

    Bits at or below ``upto`` and ``unread`` numbers above it mean nothing: single marks write both
    places without looking, so that they commute with a mass action on another device.

    Attributes:
        upto: every entry up to this number is read …
        unread: … except these.
        words: above ``upto``: decimal word number → read bits.
    """

    upto: int = 0
    words: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unread: tuple[int, ...] = ()

    def is_read(self, seq: int) -> bool:
        """Return whether one entry is read."""
        if seq <= self.upto:
            return seq not in self.unread
        return bool(self.words.get(str(seq >> 6), 0) >> (seq & 63) & 1)

    def count_unread(self, first: int, last: int) -> int:
        """Return how many of the entries ``first`` … ``last`` are unread."""
        base = max(self.upto, first - 1)
        if not self.words and not self.unread:
            return max(0, last - base)
        border, shift = divmod(base + 1, 64)
        read = 0
        for key, word in self.words.items():
            number = int(key)
            if number > border:
                read += (word & _WORD).bit_count()
            elif number == border:
                read += ((word & _WORD) >> shift).bit_count()
        kept = sum(first <= seq <= self.upto for seq in self.unread)
        return max(0, last - base - read) + kept

    def seqs(self, first: int, last: int, *, read: bool = False) -> list[int]:
        """Return the unread (or the read) numbers within ``first`` … ``last``, rising."""
        border = min(self.upto, last)
        kept = sorted({s for s in self.unread if first <= s <= border})
        low = sorted(set(range(first, border + 1)).difference(kept)) if read else kept
        start = max(self.upto + 1, first)
        for number in range(start >> 6, (last >> 6) + 1):
            word = self.words.get(str(number), 0)
            chosen = (word if read else ~word) & _WORD
            chosen &= _range_mask(start - number * 64, last - number * 64)
            low.extend(number * 64 + bit for bit in _bits(chosen))
        return low

    def marked_upto(self, seq: int) -> ReadState:
        """Return the state after everything up to ``seq`` became read, without stray bits."""
        upto = max(seq, self.upto)
        border, shift = divmod(upto + 1, 64)
        words = {}
        for key, word in self.words.items():
            if (number := int(key)) == border:
                word = signed((word & _WORD) >> shift << shift)
            if number >= border and word:
                words[key] = word
        return ReadState(upto, words, tuple(s for s in self.unread if seq < s <= upto))

    def undone(self, before: ReadState) -> ReadState:
        """Return the state before a mass action, with what was marked one by one since then kept.

        ``before`` is the state that ``marked_upto`` replaced by one from which ``self`` came by single
        marks alone; those left their traces as stray bits and in ``unread``.
        """
        now_read, was_read = from_words(self.words), from_words(before.words)
        low = (1 << (self.upto + 1)) - 1
        read = (was_read & low) | now_read
        for seq in self.unread:
            read &= ~(1 << seq)
        kept = {s for s in before.unread if not now_read >> s & 1}
        return from_bits(before.upto, read, kept.union(self.unread))


def from_words(words: Mapping[str, int]) -> int:
    """Return the words as one integer: bit ``n`` is entry ``n``."""
    return sum((word & _WORD) << int(key) * 64 for key, word in words.items())


def from_bits(upto: int, bits: int, unread: Iterable[int]) -> ReadState:
    """Return a state in its smallest form: no bits at or below ``upto``."""
    bits = bits >> upto + 1 << upto + 1
    words: dict[str, int] = {}
    number = (upto + 1) >> 6
    bits >>= number * 64
    while bits:
        if word := bits & _WORD:
            words[str(number)] = word - (1 << 64) if word >> 63 else word
        bits >>= 64
        number += 1
    return ReadState(upto, words, tuple(sorted({s for s in unread if s <= upto})))


def mask_of(seqs: Iterable[int]) -> dict[int, int]:
    """Return word number → signed mask with the bits of these sequence numbers."""
    masks: dict[int, int] = {}
    for seq in seqs:
        masks[seq >> 6] = masks.get(seq >> 6, 0) | 1 << (seq & 63)
    return {number: signed(mask) for number, mask in masks.items()}


def signed(word: int) -> int:
    """Return 64 bits as MongoDB's signed integer."""
    return word - (1 << 64) if word >> 63 & 1 else word


def _range_mask(low: int, high: int) -> int:
    low, high = max(low, 0), min(high, 63)
    return (1 << (high + 1)) - (1 << low) if low <= high else 0


def _bits(word: int) -> Iterator[int]:
    while word:
        lowest = word & -word
        yield lowest.bit_length() - 1
        word ^= lowest


@dataclasses.dataclass(frozen=True, slots=True)
class Subscription:
    """A user's subscription to a feed; ``title`` empty: the feed's own."""

    id: int
    user_id: int
    feed_id: int
    title: str = ""
    folder_ids: tuple[int, ...] = ()
    order: int = 0
    state: ReadState = ReadState()


@dataclasses.dataclass(frozen=True, slots=True)
class Subscribed:
    """The answer to a subscribe.

    Attributes:
        existed: it was there already and was left as it is.
        ticket: id of the pull job that brings the first entries, None when they are there.
    """

    subscription: Subscription
    existed: bool = False
    ticket: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StartRule:
    """Where reading begins: what is younger than ``age`` is unread, but ``least`` … ``most`` entries."""

    age: dt.timedelta
    least: int
    most: int

    def upto(self, ats: Sequence[dt.datetime], last_seq: int, now: dt.datetime) -> int:
        """Return the ``upto`` of a new subscription.

        Args:
            ats: sort times of the newest entries, rising; ``most`` of them are enough.
        """
        young = sum(at >= now - self.age for at in ats)
        return max(0, last_seq - min(max(young, self.least), self.most))
