"""Cells as administrators see them."""

from __future__ import annotations

from collections.abc import Mapping

from app.gateways.operations.moves import MoveGateway
from app.mappers.mongo.cells import Cells
from app.models.operations.cells import HOME, CellRow


class CellGateway:
    """Lists cells and sets their shares of new people."""

    def __init__(self, cells: Cells, mover: MoveGateway) -> None:
        self._cells, self._mover = cells, mover

    def is_configured(self, cell: str) -> bool:
        """Return whether a cell is configured; the home store always is."""
        return cell in self._cells.names

    def lives_in(self, user_id: int, cell: str) -> bool:
        """Return whether a person lives in a cell.

        Raises:
            StoreError: the home store isn't responding.
        """
        return self._cells.find_place(user_id).cell == cell

    def list_cells(self) -> list[CellRow]:
        """Return all cells, the home store first, and those that only ``places`` names last."""
        responding = self._cells.ping_all() | {HOME: True}
        rows = [
            CellRow(row.name, row.people, row.leaving, row.weight, True, responding[row.name])
            for row in self._mover.list_cells()
        ]
        if not any(row.weight for row in rows):
            rows[0] = rows[0]._replace(weight=1)  # new people stay at home until someone sets weights
        counts = self._cells.places.count_people()
        others = sorted(set(counts).difference(self._cells.names))
        return [*rows, *(CellRow(name, *counts[name], 0, False, False) for name in others)]

    def accept_empty(self, cell: str) -> None:
        """Accept that a cell's database is new, and prepare it."""
        self._cells.places.forget_used(cell)
        self._cells.prepare_missing()

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Set the share of new people of these cells."""
        self._cells.places.set_weights(weights)
