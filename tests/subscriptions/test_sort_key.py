"""Places in a list: room between any two, for ever, and even spreads."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateways.subscriptions.ordering import make_room
from app.models.subscriptions.sort_key import LONG, make_key_between, make_spread_keys


@given(st.lists(st.integers(0, 10**6), max_size=200))
def test_a_key_lies_between_its_neighbours(places: list[int]) -> None:
    keys: list[str] = []
    for number in places:
        place = number % (len(keys) + 1)
        low, high = keys[place - 1] if place else "", keys[place] if place < len(keys) else ""
        keys.insert(place, make_key_between(low, high))
    assert keys == sorted(set(keys))
    assert not any(key.endswith("0") for key in keys)


@pytest.mark.parametrize(("low", "high"), [("V", "V"), ("W", "V"), ("V1", "V")])
def test_no_key_lies_before_what_it_comes_after(low: str, high: str) -> None:
    with pytest.raises(ValueError, match="is not before"):
        make_key_between(low, high)


@given(st.integers(0, 5000))
def test_a_spread_is_even_short_and_leaves_room(count: int) -> None:
    keys = make_spread_keys(count)
    assert len(keys) == count
    assert keys == sorted(set(keys))
    assert all(len(key) <= 3 and not key.endswith("0") for key in keys)
    edges = ["", *keys, ""]
    for low, high in itertools.pairwise(edges):
        assert len(make_key_between(low, high)) <= 4


def test_hundreds_of_moves_to_either_end_stay_short() -> None:
    last = first = ""
    for _ in range(400):
        last, first = make_key_between(last, ""), make_key_between("", first)
    assert max(len(last), len(first)) <= LONG


@given(st.lists(st.integers(0, 10**6), min_size=60, max_size=120), st.booleans())
def test_a_line_of_any_moves_keeps_its_order_and_short_keys(moves: list[int], ties: bool) -> None:
    """Against a plain list: whatever has no key, equal keys or too long ones is numbered anew."""
    keys = {n: "V" if ties else "" for n in range(1, 9)}
    model = sorted(keys)

    def renumber(changes: object) -> None:
        keys.update({ident: new for ident, _, new in changes})  # type: ignore[attr-defined]

    for number in moves:
        ident = model[number % 8]
        rest = [n for n in model if n != ident]
        after = (number >> 8) % 8
        key = make_room([(n, keys[n], "") for n in rest], rest[after - 1] if after else 0, renumber)
        assert key is not None
        keys[ident] = key
        rest.insert(after, ident)
        model = rest
        shown = sorted(keys, key=lambda n: (not keys[n], keys[n], n))
        assert shown == model or "" in keys.values()
        assert len(key) <= LONG


def test_what_is_gone_gives_no_place() -> None:
    assert make_room([(1, "V", "")], 7, lambda moves: None) is None
