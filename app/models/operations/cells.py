"""Cells: the replica sets that hold what belongs to one person alone, and who lives where."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

#: The name of the home store, where people without a place live.
HOME = "home"
#: Low bits of an id that hold the slot of its process, for documents that may live in several stores.
SLOT_BITS = 10
SLOTS = 1 << SLOT_BITS
#: Seconds after which every process that isn't frozen has noticed a change of a place.
PLACE_SECONDS = 0.25
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}", re.ASCII)
_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[^\s,:@/?\[\]]+)(?::\d{1,5})?"
#: Users, hosts and options as MongoDB's driver reads them; it checks the rest.
_URI = re.compile(rf"mongodb(?:\+srv)?://(?:[^\s@/?]*@)?{_HOST}(?:,{_HOST})*(?:[/?]\S*)?", re.ASCII)


class PlaceState(enum.StrEnum):
    """What happens to a person's data."""

    NORMAL = "normal"
    #: Being copied to another cell: reads go on, writes are refused.
    MIGRATING = "migrating"
    #: The person lives in the new cell; their documents in the old one are being deleted.
    CLEANING = "cleaning"


class Place(NamedTuple):
    """Where a person lives.

    Attributes:
        user_id: the person.
        cell: name of the cell that holds their data.
        state: what happens to it.
        to: the other cell while the state isn't normal: the next one, or in ``cleaning`` the previous one.
        epoch: rises with each change of the place.
        step: how far the move has got, for the mover.
    """

    user_id: int
    cell: str
    state: PlaceState = PlaceState.NORMAL
    to: str = ""
    epoch: int = 0
    step: str = ""


class CellRow(NamedTuple):
    """A cell as administrators see it.

    Attributes:
        name: of the cell.
        people: how many people live there.
        moving: how many of them are being moved.
        weight: share of new people; 0: none.
        configured: whether ``EVENTR_CELLS`` names it.
        responding: whether it responds; None: not asked.
    """

    name: str
    people: int
    moving: int
    weight: int
    configured: bool
    responding: bool | None = None


def parse_cells(value: str) -> dict[str, str]:
    """Return name → address from ``name=mongodb://… name2=…``.

    Raises:
        ValueError: the text has another form, or a name twice.
    """
    found: dict[str, str] = {}
    for part in value.split():
        name, _, address = part.partition("=")
        if not _NAME.fullmatch(name) or name == HOME or name in found or not _URI.fullmatch(address):
            raise ValueError(name)
        found[name] = address
    return found
