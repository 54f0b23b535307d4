"""Cells for administrators and the updater: their people, places of new people, and recounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app import clock, logs
from app.errors import EventrError, InvalidError, StoreError
from app.gateways.operations.cells import CellGateway
from app.gateways.operations.outbox import OutboxGateway, RecountResult
from app.gateways.reading.saved_pages import SavedPageGateway
from app.gateways.sharing.follows import FollowGateway
from app.models.accounts.actor import Actor, Permission
from app.models.operations.cells import CellRow
from app.models.sharing.sharing import RelationshipKind
from app.ports import EventPort
from app.services.access import require_permission

_log = logs.get(__name__)

#: Largest share of new people.
WEIGHT_MAX = 1000


class CellService:
    """Lists cells, sets where new people are placed, and settles numbers that include people of cells.

    All methods for administrators raise: ForbiddenError: the actor isn't an admin. StoreError: a store isn't
    responding.

    Args:
        deliver: delivers notifications that waited for a person's data; returns how many.
        pages: finishes what a crash has left of removals of saved pages.
        follows: does what people have decided about subscriptions to them.
    """

    def __init__(
        self,
        cells: CellGateway,
        outbox: OutboxGateway,
        deliver: Callable[[], int],
        pages: SavedPageGateway,
        *,
        follows: FollowGateway,
        events: EventPort,
    ) -> None:
        self._cells, self._outbox, self._deliver, self._pages = cells, outbox, deliver, pages
        self._follows, self._events = follows, events

    def list_cells(self, actor: Actor) -> list[CellRow]:
        """Return all cells with their people, the home store first."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._cells.list_cells()

    def place_new_people(self, actor: Actor, weights: Mapping[str, int]) -> None:
        """Set the share of new people of these cells.

        Raises:
            InvalidError: there is no such cell, or a share is out of range.
        """
        require_permission(actor, Permission.USER_MANAGE)
        for cell, weight in weights.items():
            if not self._cells.is_configured(cell):
                raise InvalidError("There is no cell named %(cell)s.", cell=cell, field="cell")
            if not 0 <= weight <= WEIGHT_MAX:
                raise InvalidError("A share must be from 0 to %(limit)s.", limit=WEIGHT_MAX, field="weight")
        self._cells.set_weights(weights)
        _log.info("cells_weighted", by=actor.user_id, weights=dict(weights))

    def accept_empty(self, actor: Actor, cell: str) -> None:
        """Accept that the data of a cell is lost, and begin anew with the empty database at its address.

        Raises:
            InvalidError: there is no such cell.
        """
        require_permission(actor, Permission.USER_MANAGE)
        if not self._cells.is_configured(cell):
            raise InvalidError("There is no cell named %(cell)s.", cell=cell, field="cell")
        self._cells.accept_empty(cell)
        _log.warning("cell_accepted_empty", by=actor.user_id, cell=cell)

    def recount(self, actor: Actor) -> RecountResult:
        """Count the readers of all feeds and the keepers of all entries again.

        Raises:
            StoreError: a cell isn't responding; nothing is lost, run it again.
        """
        require_permission(actor, Permission.JOB_MANAGE)
        found = self._outbox.recount(clock.now())
        _log.info("recounted", by=actor.user_id, **found._asdict())
        return found

    # -- for pages

    def is_own_outage(self, user_id: int | None, error: EventrError) -> bool:
        """Return whether a cell that is down, or a move, concerns a person's own data.

        Args:
            user_id: the person; None: nobody is logged in.
            error: a CellError or MovingError.
        """
        whose, cell = error.ids.get("user_id"), error.ids.get("cell")
        if user_id is None:
            return False
        if whose is not None or cell is None:
            return whose is None or whose == user_id
        try:
            return self._cells.lives_in(user_id, str(cell))
        except StoreError:
            return True

    # -- for the updater

    @property
    def is_spread(self) -> bool:
        """Whether there are cells beside the home store."""
        return self._outbox.is_needed

    def finish_follows(self) -> int:
        """Do what a crash or a cell that was down has left of blocks and follow requests; return how many.

        Raises:
            StoreError: the home store isn't responding.
        """
        done = self._follows.finish_decisions(clock.now())
        for decision, feed_id in done:
            if decision.kind is RelationshipKind.ACCEPTED:
                self._events.notify_follows(decision.user_id, added=[feed_id])
            else:
                self._events.notify_follows(decision.user_id, removed=[feed_id])
        return len(done)

    def settle_outbox(self) -> int:
        """Settle what cells have changed, deliver what waits, and finish what a crash has left.

        Returns:
            How many rows, notifications and people that concerned.

        Raises:
            StoreError: the home store isn't responding.
        """
        if not self._outbox.is_needed:
            return 0
        # First: a notification is about what people may see.
        finished = self.finish_follows() + self._pages.finish_left(clock.now())
        return self._outbox.settle_rows(clock.now()) + self._deliver() + finished
