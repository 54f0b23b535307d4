"""Cells as administrators see them."""

from __future__ import annotations

from collections.abc import Mapping

from app.errors import StoreError
from app.mappers.mongo.cells import Cells
from app.models.operations.cells import HOME, CellRow


class CellGateway:
    """Lists cells and sets their shares of new people."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def is_configured(self, cell: str) -> bool:
        """Return whether a cell is configured; the home store always is."""
        return cell in self._cells.names

    def list_cells(self) -> list[CellRow]:
        """Return all cells, the home store first, and those that only ``places`` names last."""
        counts, weights = self._cells.places.count_people(), self._cells.places.find_weights()
        names = self._cells.names
        if not any(weights.get(name) for name in names):
            weights[HOME] = 1
        rows = []
        for name in [*names, *sorted(set(counts) - set(names))]:
            people, moving = counts.get(name, (0, 0))
            configured = name in names
            rows.append(
                CellRow(name, people, moving, weights.get(name, 0), configured, self._is_responding(name))
            )
        return rows

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Set the share of new people of these cells."""
        self._cells.places.set_weights(weights)

    def _is_responding(self, cell: str) -> bool:
        try:
            self._cells.get_store(cell).ping()
        except StoreError:
            return False
        return True
