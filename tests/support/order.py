"""In which order tests run, and in which process: so that processes and browsers are started seldom.

Tests of one folder share a system or a browser, which lives as long as its tests follow each other.
Random order mixes the folders. Sorting them again leaves the order in a folder random.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
#: Folders whose tests take seconds: to the end are left those that others finish in no time.
SLOW: Final = frozenset({"acceptance", "browser", "clients", "faults", "jobs", "operations", "platform"})
#: Folders whose tests share a whole system: one process runs them all, or each would start its own.
TOGETHER: Final = frozenset({"faults"})


@dataclasses.dataclass(frozen=True, slots=True)
class Place(Generic[T]):
    """A test, and what its order depends on.

    Attributes:
        folder: its first folder below ``tests``, or "" for none. module: its file.
        is_long: whether it takes half a minute or more.
    """

    test: T
    folder: str
    module: str
    is_long: bool = False


def arrange(tests: Sequence[Place[T]], parts: int) -> list[T]:
    """Return the tests in an order whose equal parts, one for each process, begin with what takes longest.

    A folder of slow tests comes once in each part; of those with a shared system only the first part has any.
    Quick tests fill each part up to its size, at its end.
    """
    shared: list[list[Place[T]]] = [[] for _ in range(parts)]
    shared[0] += [test for test in tests if test.folder in TOGETHER]
    long = [test for test in tests if test.is_long and test.folder not in TOGETHER]
    for number, part in enumerate(shared):
        part += long[number::parts]
    slow = [test for test in tests if not test.is_long and test.folder in SLOW - TOGETHER]
    for folder in _group_by_folder(slow):
        for part, some in zip(shared, _cut(folder, parts), strict=True):
            part += some
    quick = iter([test for test in tests if not test.is_long and test.folder not in SLOW])
    found: list[Place[T]] = []
    for number, part in enumerate(shared):
        found += itertools.chain.from_iterable(_group_by_folder(part))
        found += itertools.islice(quick, max(0, (len(tests) + number) // parts - len(part)))
    return [place.test for place in (*found, *quick)]


def _group_by_folder(tests: Iterable[Place[T]]) -> list[list[Place[T]]]:
    """Return the tests of each folder, in the order in which the folders first come."""
    found: dict[str, list[Place[T]]] = {}
    for test in tests:
        found.setdefault(test.folder, []).append(test)
    return list(found.values())


def _cut(tests: Sequence[Place[T]], parts: int) -> Iterator[Sequence[Place[T]]]:
    """Yield parts of about one size; a small module, whose tests share fixtures, stays in one."""
    begin = 0
    for number in range(1, parts + 1):
        end = _border(tests, max(begin, len(tests) * number // parts), len(tests) // (2 * parts))
        yield tests[begin:end]
        begin = end


def _border(tests: Sequence[Place[T]], near: int, most: int) -> int:
    """Return where a module ends, at most that far behind; else the place itself."""
    for end in range(near, min(near + most, len(tests)) + 1):
        if end in (0, len(tests)) or tests[end - 1].module != tests[end].module:
            return end
    return near
