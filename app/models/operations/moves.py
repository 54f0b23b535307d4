"""Moves of people between cells: the steps, and who should move where. Pure."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import NamedTuple


class MoveStep(enum.StrEnum):
    """How far a move has got; a place without a move has none."""

    #: The documents are copied while the person goes on reading and writing.
    COPY = "copy"
    #: Writes are refused; those that had begun are coming to an end.
    DRAIN = "drain"
    #: Writes are refused; what changed since the copy is copied, and both sides are compared.
    VERIFY = "verify"
    #: The person lives in the new cell; late writes to the old one are carried over.
    CARRY = "carry"
    #: The old cell is emptied.
    CLEAN = "clean"
    #: The move was cancelled; the new cell is emptied.
    CANCEL = "cancel"


#: Steps before the switch: a move can be cancelled in these.
CANCELLABLE = frozenset({MoveStep.COPY, MoveStep.DRAIN, MoveStep.VERIFY})
#: Times after a move at which the old cell is searched for documents of frozen processes.
SWEEPS = (dt.timedelta(minutes=1), dt.timedelta(minutes=10), dt.timedelta(hours=1))
#: Time between the switch and the cleaning of the old cell. Until then, a process that hasn't noticed the
#: switch reads there what it read before.
CLEAN_AFTER = dt.timedelta(seconds=15)
#: Time until the second attempt of a move that failed, and the longest time between two attempts.
RETRY_FIRST, RETRY_LONGEST = dt.timedelta(seconds=5), dt.timedelta(minutes=10)
#: Time until a sweep that failed is repeated.
SWEEP_AGAIN = dt.timedelta(minutes=1)


class Sweep(NamedTuple):
    """A cell that a person left.

    Attributes:
        cell: its name.
        moved: when it was emptied.
        done: how many of :data:`SWEEPS` are over.
    """

    cell: str
    moved: dt.datetime
    done: int = 0

    @property
    def due(self) -> dt.datetime:
        """When the next sweep is due."""
        return self.moved + SWEEPS[min(self.done, len(SWEEPS) - 1)]


class MoveRow(NamedTuple):
    """A move as administrators see it.

    Attributes:
        user_id, name: the person; the name is empty if the account is gone.
        cell, to: where they live, and the other cell of the move.
        step: how far it has got.
        since: when this step began.
        due: when it goes on.
        tries: attempts that failed since the last progress.
        error: a sentence about the last one; empty: none failed.
    """

    user_id: int
    name: str
    cell: str
    to: str
    step: MoveStep
    since: dt.datetime | None
    due: dt.datetime | None = None
    tries: int = 0
    error: str = ""

    @property
    def can_cancel(self) -> bool:
        """Whether the move can still be cancelled."""
        return self.step in CANCELLABLE


class CellPeople(NamedTuple):
    """A cell with its people.

    Attributes:
        name: of the cell.
        people: how many live there.
        leaving: how many of them are being moved.
        weight: share of new people; 0: none.
        share: the same as a part of one; None: no cell has a weight.
    """

    name: str
    people: int
    leaving: int
    weight: int
    share: float | None = None


class MoveResult(NamedTuple):
    """The result of one run of the mover.

    Attributes:
        state: ``moved`` (only the old cell is left to clean), ``normal`` (nothing is left to do),
            ``later`` (it isn't time yet) or ``taken`` (another run goes on with it).
        copied: documents written to the new cell.
        refused_s: seconds for which writes were refused by this run.
        late: documents that a late write had changed after the comparison, and that were carried over.
    """

    state: str
    copied: int = 0
    refused_s: float = 0.0
    late: int = 0


def compute_retry_delay(tries: int) -> dt.timedelta:
    """Return the time until the next attempt of a move after so many that failed."""
    doublings = min(tries - 1, (RETRY_LONGEST // RETRY_FIRST).bit_length())
    return min(RETRY_LONGEST, RETRY_FIRST * (1 << doublings))


def plan_balance(people: Mapping[str, int], weights: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Return (from, to, how many) so that all cells hold people in proportion to their weights.

    Cells with no weight keep nobody. Without any weight, nobody moves.

    Args:
        people: how many people live in each cell.
        weights: the share of each cell; those that aren't named have none.
    """
    total, shares = sum(people.values()), {cell: max(0, weights.get(cell, 0)) for cell in people}
    whole = sum(shares.values())
    if not whole:
        return []
    goals = {cell: total * share // whole for cell, share in shares.items()}
    # What rounding left over goes to the largest shares, so that the goals add up.
    for cell in sorted(shares, key=lambda c: (-shares[c], c))[: total - sum(goals.values())]:
        goals[cell] += 1
    surplus = {cell: people[cell] - goals[cell] for cell in people if people[cell] > goals[cell]}
    plan: list[tuple[str, str, int]] = []
    for to in people:
        lacking = goals[to] - people[to]
        for cell in surplus:
            moved = min(surplus[cell], lacking)
            if moved > 0:
                plan.append((cell, to, moved))
                surplus[cell] -= moved
                lacking -= moved
    return plan
