"""What reading a page may cost, whatever its elements and selectors are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.errors import ParseError

#: Most elements that are visited to read a page, and most characters of text and HTML that are taken from it.
#: A page of 30,000 elements, each in four entries that are inside one another, needs fewer.
MAX_VISITED, MAX_TAKEN = 1_000_000, 16 << 20


class Budget:
    """Counts visited elements and taken characters.

    Entries may be inside one another, and each of their parts is looked for separately. So a small page may
    hold its text hundreds of times.

    Args:
        times: multiplies both limits.

    Attributes:
        visited, taken: elements and characters so far.
    """

    __slots__ = ("_times", "taken", "visited")

    def __init__(self, times: int = 1) -> None:
        self._times = times
        self.visited = self.taken = 0

    def count_element(self) -> None:
        """Count one element.

        Raises:
            ParseError: ``too_large``: the budget is used up.
        """
        self.visited += 1
        if self.visited > self._times * MAX_VISITED:
            raise ParseError("too_large", f"{self.visited} elements of nested entries")

    def count_text(self, text: str) -> str:
        """Count the characters of a text, and return it.

        Raises:
            ParseError: ``too_large``: the budget is used up.
        """
        self.taken += len(text)
        if self.taken > self._times * MAX_TAKEN:
            raise ParseError("too_large", f"{self.taken} characters of nested entries")
        return text

    def find_elements(self, element: Any, *tags: str) -> Iterator[Any]:
        """Yield an element and all below it that have one of these names, or any; count all that are passed.

        Raises:
            ParseError: ``too_large``: the budget is used up.
        """
        for found in element.iter():
            self.count_element()
            if not tags or found.tag in tags:
                yield found
