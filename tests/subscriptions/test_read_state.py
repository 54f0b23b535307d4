"""The bitmap itself, against sets."""

from __future__ import annotations

import datetime as dt
from random import Random

import bson
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st

from app.clock import UTC
from app.mappers.reading import read_state_packing
from app.mappers.subscriptions import raw_read_states
from app.models.reading.stream import SourceFeed
from app.models.subscriptions.read_state import (
    ReadState,
    RemovedEntries,
    build_word_masks,
    from_words,
    make_state,
)
from app.models.subscriptions.subscription import StartRule

LAST = 200
seqs = st.sets(st.integers(1, LAST))


def state_of(read: set[int], upto: int) -> ReadState:
    kept = {s for s in range(1, upto + 1) if s not in read}
    return make_state(upto, sum(1 << s for s in read), 0, kept)


def read_of(state: ReadState, last: int = LAST) -> set[int]:
    return {s for s in range(1, last + 1) if state.is_read(s)}


@given(seqs, st.integers(0, LAST), st.integers(1, LAST), st.integers(1, LAST))
def test_counts_and_lists_agree_with_sets(read: set[int], upto: int, first: int, last: int) -> None:
    state = state_of(read, upto)
    assert read_of(state) == read
    within = set(range(first, last + 1))
    assert state.find_seqs(first, last) == sorted(within - read)
    assert state.find_seqs(first, last, read=True) == sorted(within & read)
    if last == LAST:  # a count is always up to the last number there is
        assert state.count_unread(first, last) == len(within - read)


@given(seqs, st.integers(0, LAST), st.integers(0, LAST))
def test_marking_up_to_a_number_reads_all_up_to_it_and_nothing_else(
    read: set[int], upto: int, seq: int
) -> None:
    marked = state_of(read, upto).mark_upto(seq)
    assert read_of(marked) == read | set(range(1, seq + 1))


@given(seqs, st.integers(0, LAST), st.integers(0, LAST), seqs, seqs)
def test_undo_restores_all_but_single_marks_made_since(
    read: set[int], upto: int, seq: int, read_since: set[int], unread_since: set[int]
) -> None:
    before = state_of(read, upto)
    undone = marked_singly(before.mark_upto(seq), read_since, unread_since).undo_mass_mark(before)
    assert read_of(undone) == (read | read_since) - unread_since


@given(seqs, st.integers(0, LAST), st.lists(st.tuples(st.integers(0, LAST), seqs, seqs), max_size=4))
def test_undos_one_after_the_other_keep_single_marks_made_since_each(
    read: set[int], upto: int, actions: list[tuple[int, set[int], set[int]]]
) -> None:
    state, now = state_of(read, upto), set(read)
    befores: list[tuple[ReadState, set[int]]] = []
    for seq, read_since, unread_since in actions:
        befores.append((state, set(range(1, seq + 1)) - now))
        state = marked_singly(state.mark_upto(seq), read_since, unread_since)
        now = (now | set(range(1, seq + 1)) | read_since) - unread_since
        befores = [(before, done - read_since - unread_since) for before, done in befores]
        assert read_of(state) == now
    for before, done in reversed(befores):
        state, now = state.undo_mass_mark(before), now - done
        assert read_of(state) == now


def marked_singly(state: ReadState, read: set[int], unread: set[int]) -> ReadState:
    """Write what single marks write: bits and kept-unread numbers, both without looking at ``upto``."""
    bits = (state.bits << state.start) | sum(1 << s for s in read)
    kept = set(state.unread) - read
    for s in unread:
        bits &= ~(1 << s)
        kept.add(s)
    return ReadState(state.upto, bits, 0, tuple(kept))


@given(seqs, st.integers(1, LAST), st.integers(0, LAST))
def test_numbers_that_hold_nothing_are_counted_within_any_range(
    gone: set[int], first: int, last: int
) -> None:
    found = RemovedEntries(*from_words(make_state(0, sum(1 << s for s in gone), 0, ()).to_words()))
    assert found.count_between(first, last) == len(gone & set(range(first, last + 1)))


@given(seqs)
def test_words_round_trip_with_the_sign_bit(read: set[int]) -> None:
    state = make_state(0, sum(1 << s for s in read), 0, ())
    words = state.to_words()
    assert all(-(1 << 63) <= word < 1 << 63 for word in words.values())
    bits, start = from_words(words)
    assert bits << start == state.bits << state.start


def test_mask_of_bit_63_is_negative() -> None:
    assert build_word_masks([63, 64]) == {0: -(1 << 63), 1: 1}


@given(st.lists(st.tuples(seqs, st.integers(0, LAST)), max_size=5))
def test_packed_states_unpack_to_the_same(states: list[tuple[set[int], int]]) -> None:
    feeds = [
        SourceFeed.create(i, 1, LAST, newest=7, state=state_of(r, u), missing=u % 3)
        for i, (r, u) in enumerate(states, 1)
    ]
    assert list(read_state_packing.unpack(read_state_packing.pack(feeds))) == feeds


@given(st.dictionaries(st.integers(0, 120), st.integers(-(1 << 63), (1 << 63) - 1), max_size=40))
def test_raw_words_read_as_the_decoder_reads_them(words: dict[int, int]) -> None:
    # Any numbers in any order: runs, holes, numbers of unlike lengths.
    doc = {
        "_id": Int64(1),
        "user_id": Int64(2),
        "feed_id": Int64(3),
        "rev": Int64(4),
        "upto": Int64(5),
        "words": {str(number): Int64(word) for number, word in words.items()},
        "unread": [1, 2],
        "title": "Tïtle",
        "folder_ids": [],
    }
    other = {k: doc[k] for k in ("_id", "user_id", "title", "feed_id", "rev", "upto", "words", "unread")}
    expected = from_words({str(number): word for number, word in words.items()})
    for each in (doc, other, doc | {"mass": "m"}):
        found = raw_read_states.decode_subscription(bson.encode(each))
        state = found.state
        assert (found.id, found.user_id, found.feed_id, found.rev, state.upto) == (1, 2, 3, 4, 5)
        assert state.bits << state.start == expected[0] << expected[1]
        assert state.unread == (1, 2)
        assert (found.title, found.mass) == ("Tïtle", each.get("mass"))


@given(st.integers(0, 1200), st.integers(1, 40), st.randoms(use_true_random=False))
def test_raw_words_in_a_row_are_read_in_any_order(first: int, count: int, random: Random) -> None:
    # A run may pass from 9 to 10, 99 to 100 …; marks append the words that they begin.
    words = {str(number): Int64(random.getrandbits(64) - (1 << 63)) for number in range(first, first + count)}
    shuffled = dict(random.sample(list(words.items()), count))
    expected = from_words(words)
    for each in (words, shuffled, dict(reversed(words.items()))):
        bits, start = raw_read_states._bitmap(bson.encode(each))
        assert (bits, start) == expected


def test_raw_words_of_other_types_are_read_too() -> None:
    words = {"1": 7, "2": Int64(-1), "0": Int64(1)}  # 7 is written with 32 bits
    assert raw_read_states._bitmap(bson.encode(words)) == from_words(words)


def test_a_new_subscription_starts_with_what_is_young() -> None:
    now = dt.datetime(2026, 1, 31, tzinfo=UTC)
    rule = StartRule(dt.timedelta(days=30), 10, 100)
    old, young = now - dt.timedelta(days=31), now
    assert rule.calculate_upto([old] * 100, 500, now) == 490
    assert rule.calculate_upto([old] * 70 + [young] * 30, 500, now) == 470
    assert rule.calculate_upto([young] * 100, 500, now) == 400
    assert rule.calculate_upto([old] * 4, 4, now) == 0
