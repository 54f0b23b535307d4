"""What a person has read of a feed: a bitmap over the numbers of its entries (docs/design/read-state.md).

All functions are pure. Sequence numbers start at 1. The database holds the bitmap in 64-bit words; here it is
one integer, so that counting, masking and shifting it are single steps in C.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

_WORD = (1 << 64) - 1


class RemovedEntries(NamedTuple):
    """A set of a feed's numbers, as of removed entries.

    Bit ``seq - start`` is set; ``start`` as in :class:`ReadState`.
    """

    bits: int = 0
    start: int = 0

    def has_seq(self, seq: int) -> bool:
        """Return whether this number is one of them."""
        return seq >= self.start and bool(self.bits >> seq - self.start & 1)

    def list_seqs(self) -> list[int]:
        """Return the numbers, ascending."""
        digits = bin(self.bits)[:1:-1]
        return [self.start + place for place, digit in enumerate(digits) if digit == "1"]

    def count_between(self, first: int, last: int) -> int:
        """Return how many of the numbers ``first`` … ``last`` were removed."""
        if not self.bits:  # true for most feeds, and a user may have a thousand
            return 0
        low, end = max(first - self.start, 0), last + 1 - self.start
        return (self.bits >> low & (1 << end - low) - 1).bit_count() if end > low else 0


NO_ENTRIES = RemovedEntries()


class ReadState(NamedTuple):
    """The entries of a feed that a user has read.

    Bits at or below ``upto`` and ``unread`` numbers above it are meaningless. Single marks write both
    places blindly, so that they commute with a bulk action on another device.

    Attributes:
        upto: every entry up to this number is read …
        unread: … except these.
        bits: above ``upto``: bit ``seq - start`` is set if that entry is read.
        start: a multiple of 64.
    """

    upto: int = 0
    bits: int = 0
    start: int = 0
    unread: tuple[int, ...] = ()

    def is_read(self, seq: int) -> bool:
        """Return whether one entry is read."""
        if seq <= self.upto:
            return seq not in self.unread
        return seq >= self.start and bool(self.bits >> seq - self.start & 1)

    def count_unread(self, first: int, last: int) -> int:
        """Return how many of the entries ``first`` … ``last`` are unread."""
        base = self.upto if self.upto >= first else first - 1
        count = last - base
        if count < 0:
            count = 0
        elif self.bits:
            below = base + 1 - self.start
            count -= (self.bits >> below if below > 0 else self.bits).bit_count()
        if self.unread:
            count += sum(first <= seq <= self.upto for seq in self.unread)
        return max(0, count)

    def build_unread_bits(self, first: int, last: int) -> int:
        """Return the unread numbers within ``first`` … ``last``: bit ``seq - first`` is set."""
        if last < first:
            return 0
        shift = first - self.start
        read = self.bits >> shift if shift >= 0 else self.bits << -shift
        if self.upto < first:
            return ~read & (1 << last - first + 1) - 1
        unread = ~(read | (1 << self.upto - first + 1) - 1) & (1 << last - first + 1) - 1
        for seq in self.unread:
            if first <= seq <= min(self.upto, last):
                unread |= 1 << seq - first
        return unread

    def find_seqs(self, first: int, last: int, *, read: bool = False) -> list[int]:
        """Return the unread (or the read) numbers within ``first`` … ``last``, ascending."""
        border = min(self.upto, last)
        kept = sorted({s for s in self.unread if first <= s <= border})
        low = sorted(set(range(first, border + 1)).difference(kept)) if read else kept
        begin = max(self.upto + 1, first)
        if begin > last:
            return low
        shift = begin - self.start
        known = self.bits >> shift if shift >= 0 else self.bits << -shift
        chosen = (known if read else ~known) & (1 << last - begin + 1) - 1
        digits = bin(chosen)[:1:-1]
        return low + [begin + place for place, digit in enumerate(digits) if digit == "1"]

    def exclude_removed(self, removed: RemovedEntries) -> ReadState:
        """Return the state in which numbers without an entry count as read."""
        if not removed.bits:
            return self
        start = min(removed.start, self.start) if self.bits else removed.start
        bits = self.bits << self.start - start if self.bits else 0
        kept = [s for s in self.unread if not removed.has_seq(s)]
        return make_state(self.upto, bits | removed.bits << removed.start - start, start, kept)

    def mark_upto(self, seq: int) -> ReadState:
        """Return the state after everything up to ``seq`` became read, without stray bits."""
        upto = max(seq, self.upto)
        if upto >= self.start + self.bits.bit_length() - 1 and not self.unread:
            return ReadState(upto)  # no bit is above
        return make_state(upto, self.bits, self.start, [s for s in self.unread if seq < s])

    def mark_unread(self, seqs: Collection[int]) -> ReadState:
        """Return the state in which these numbers, none above ``upto``, are unread."""
        return self._replace(unread=tuple(sorted({*self.unread, *seqs}))) if seqs else self

    def undo_mass_mark(self, before: ReadState) -> ReadState:
        """Return the state before a bulk action, but keep single marks made since then.

        ``before`` is the state that :meth:`mark_upto` replaced; since then only single marks changed it.
        Those marks left traces as stray bits and in ``unread``. The traces stay for the undo of the
        action before that one.
        """
        start = min(before.start, self.start)
        now_read, was_read = self.bits << self.start - start, before.bits << before.start - start
        low = (1 << max(0, self.upto + 1 - start)) - 1
        read = (was_read & low) | now_read
        for seq in self.unread:
            if seq >= start:
                read &= ~(1 << seq - start)
        strays = {s for s in before.unread if s >= self.start and self.bits >> s - self.start & 1}
        return _shortened(before.upto, read, start, {*before.unread, *self.unread} - strays)

    def to_words(self) -> dict[str, int]:
        """Return the bitmap as stored: decimal word number → signed 64 bits."""
        found, number, bits = {}, self.start >> 6, self.bits
        while bits:
            if word := bits & _WORD:
                found[str(number)] = _signed(word)
            bits >>= 64
            number += 1
        return found


def make_state(upto: int, bits: int, start: int, unread: Collection[int]) -> ReadState:
    """Return a state in its smallest form: without meaningless bits and ``unread`` numbers."""
    if (stray := upto + 1 - start) > 0:
        bits = bits >> stray << stray
    return _shortened(upto, bits, start, unread)


def _shortened(upto: int, bits: int, start: int, unread: Collection[int]) -> ReadState:
    if not bits:
        start = 0
    elif zeros := ((bits & -bits).bit_length() - 1) & ~63:
        bits, start = bits >> zeros, start + zeros
    kept = tuple(sorted({s for s in unread if s <= upto})) if unread else ()
    return ReadState(upto, bits, start, kept)


def from_words(words: Mapping[str, int]) -> tuple[int, int]:
    """Return (bits, start) of stored words."""
    if not words:
        return 0, 0
    numbers = {int(key): word & _WORD for key, word in words.items()}
    start = min(numbers)
    return sum(word << 64 * (number - start) for number, word in numbers.items()), 64 * start


def build_word_masks(seqs: Iterable[int]) -> dict[int, int]:
    """Return word number → signed mask with the bits of these sequence numbers."""
    masks: dict[int, int] = {}
    for seq in seqs:
        masks[seq >> 6] = masks.get(seq >> 6, 0) | 1 << (seq & 63)
    return {number: _signed(mask) for number, mask in masks.items()}


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 & 1 else word
