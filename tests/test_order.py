"""Tests run in an order in which systems and browsers are started seldom."""

from __future__ import annotations

import collections
import itertools
import random

import pytest

from tests.support.order import SLOW, TOGETHER, Place, arrange

#: Folder → how many modules of how many tests.
_FOLDERS = {
    "faults": (6, 4),
    "browser": (15, 8),
    "jobs": (21, 12),
    "platform": (9, 20),
    "web": (30, 40),
    "sharing": (20, 45),
    "": (5, 30),
}


def _tests(seed: int) -> list[Place[tuple[str, str, int]]]:
    """As pytest-randomly leaves them: modules in any order, and their tests as well."""
    rng = random.Random(seed)
    modules = [(folder, str(m), size) for folder, (number, size) in _FOLDERS.items() for m in range(number)]
    rng.shuffle(modules)
    return [
        Place((folder, module, n), folder, f"{folder}/{module}", is_long=folder == "browser" and n == 3)
        for folder, module, size in modules
        for n in rng.sample(range(size), size)
    ]


def _parts(tests: list[tuple[str, str, int]], parts: int) -> list[list[tuple[str, str, int]]]:
    """Cut as pytest-xdist does."""
    cut, left = [], tests
    for number in range(parts):
        size = len(left) // (parts - number)
        cut.append(left[:size])
        left = left[size:]
    return cut


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("seed", range(5))
def test_each_process_begins_with_slow_tests_and_meets_a_folder_once(seed: int, parts: int) -> None:
    tests = _tests(seed)
    arranged = arrange(tests, parts)
    assert sorted(arranged) == sorted(place.test for place in tests), "each test once"
    for number, part in enumerate(_parts(arranged, parts)):
        folders = [folder for folder, _ in itertools.groupby(folder for folder, *_ in part)]
        slow = [folder for folder in folders if folder in SLOW]
        assert len(slow) == len(set(slow)), "a folder follows itself"
        assert folders[: len(slow)] == slow, "quick ones are last"
        assert set(slow) == {folder for folder in _FOLDERS if folder in SLOW} - (
            TOGETHER if number else set()
        )
        longs = [n for folder, _, n in part if folder == "browser"]
        assert 3 in longs[: longs.count(3)]
        assert set(longs[: longs.count(3)]) == {3}, "of a folder the long ones are first"


def test_a_module_is_cut_only_where_a_part_ends() -> None:
    modules = collections.defaultdict(set)
    for number, part in enumerate(_parts(arrange(_tests(1), 4), 4)):
        for folder, module, n in part:
            if folder in SLOW and n != 3:
                modules[folder, module].add(number)
    assert [module for module, parts in modules.items() if len(parts) > 1] == []


def test_a_few_tests_stay_in_their_order() -> None:
    some = [Place(n, "web", "one") for n in range(3)]
    assert arrange(some, 4) == [0, 1, 2]
    assert arrange([], 4) == []
