"""A save of an open page that saves each change at once."""

from __future__ import annotations

from typing import NamedTuple


class PageSave(NamedTuple):
    """Which save it is: of two saves of one page, the one with the higher turn has the newer values.

    Attributes:
        page: a random name of the page as it was loaded.
        turn: the number of the save in that page. A request that is sent again keeps its turn.
    """

    page: str
    turn: int
