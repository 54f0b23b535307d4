"""Moves of people between cells: what administrators ask for, and the jobs that do it."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any, Protocol

from app import clock, logs
from app.errors import ConflictError, InvalidError, NotFoundError
from app.gateways.operations.moves import MoveGateway
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.jobs import Job, Queue, Task
from app.models.operations.cells import HOME
from app.models.operations.moves import CellPeople, MoveRow, plan_balance
from app.ports import JobPort
from app.services.access import require_permission

log = logs.get(__name__)

#: Jobs that are queued at a time, moves on the admin page, and people whose move is begun by one command.
AT_ONCE, SHOWN, TOGETHER = 20, 100, 10_000

#: Seconds between two counts of people for monitoring.
COUNT_SECONDS = 60.0


class UserNames(Protocol):
    """Finds people by name; implemented in :mod:`app.mappers.accounts.users`."""

    def find_by_name(self, name: str) -> int | None: ...


class MoveService:
    """Moves people between cells."""

    def __init__(self, moves: MoveGateway, users: UserNames, jobs: JobPort) -> None:
        self._moves, self._users, self._jobs = moves, users, jobs
        self._counted: tuple[float, dict[str, int]] | None = None

    # -- for workers and the updater
    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of moves and sweeps that are due; a repeated call returns the same jobs."""
        return [make_move_job(user_id) for user_id in self._moves.find_due(now, AT_ONCE)]

    def run(self, user_id: int) -> dict[str, Any]:
        """Continue a person's move, or search the cell that they left.

        Safe to run twice, even concurrently, and to be killed anywhere.

        Raises:
            StoreError: a store isn't responding; the next run continues.
        """
        done = self._moves.run(user_id, clock.now())
        if done.state in ("moved", "normal"):
            log.info(
                "move_step_done",
                user_id=user_id,
                state=done.state,
                copied=done.copied,
                refused_s=round(done.refused_s, 3),
                late=done.late,
            )
        return {"state": done.state, "copied": done.copied, "refused_s": round(done.refused_s, 3)}

    # -- for administrators
    def list_cells(self, actor: Actor) -> list[CellPeople]:
        """Return the cells with the number of people who live there; none if there is only the home store.

        Raises:
            ForbiddenError: the actor isn't an admin.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        return self._moves.list_cells()

    def list_moves(self, actor: Actor) -> list[MoveRow]:
        """Return the moves in progress, at most 100, oldest first.

        Raises:
            ForbiddenError: the actor isn't an admin.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        return self._moves.list_moves(SHOWN)

    def start(self, actor: Actor, name: str, cell: str) -> bool:
        """Begin to move a person; return False if they live there.

        Raises:
            ForbiddenError: the actor may not manage users.
            NotFoundError: there is no such person.
            InvalidError: there is no such cell.
            ConflictError: the person is being moved already.
        """
        require_permission(actor, Permission.USER_MANAGE)
        user_id = self._find(name)
        if not self._moves.start(user_id, cell):
            return False
        log.info("move_started", user_id=user_id, by=actor.user_id, cell=cell)
        self._jobs.enqueue(make_move_job(user_id))
        return True

    def cancel(self, actor: Actor, name: str) -> None:
        """Cancel the move of a person.

        Raises:
            ForbiddenError: the actor may not manage users.
            NotFoundError: there is no such person, or they aren't being moved.
            ConflictError: they live in the new cell already.
        """
        require_permission(actor, Permission.USER_MANAGE)
        user_id = self._find(name)
        self._moves.cancel(user_id)
        log.info("move_cancelled", user_id=user_id, by=actor.user_id)
        self._jobs.enqueue(make_move_job(user_id))

    def start_balancing(self, actor: Actor, limit: int = TOGETHER) -> int:
        """Begin to move people so that all cells hold people by their weights; return how many.

        Raises:
            ForbiddenError: the actor may not manage users.
            ConflictError: no cell has a weight.
        """
        require_permission(actor, Permission.USER_MANAGE)
        cells = self._moves.list_cells()
        if not any(cell.weight for cell in cells):
            raise ConflictError("No cell has a weight. Set the weights with 'eventr admin place' first.")
        weights = {cell.name: cell.weight for cell in cells}
        count = self._begin_moves(self._moves.count_settled(), weights, limit)
        log.info("cells_balanced", count=count, by=actor.user_id)
        return count

    def drain(self, actor: Actor, cell: str, limit: int = TOGETHER) -> int:
        """Begin to move everyone out of a cell, and place nobody new there; return how many.

        Raises:
            ForbiddenError: the actor may not manage users.
            InvalidError: there is no such cell.
            ConflictError: no other cell has a weight.
        """
        require_permission(actor, Permission.USER_MANAGE)
        cells = self._moves.list_cells()
        if cell not in {row.name for row in cells}:
            raise InvalidError("There is no cell with this name.", field="cell")
        weights = {row.name: row.weight for row in cells if row.name != cell}
        if not any(weights.values()):
            # Without weights, everyone lives at home.
            if cell == HOME:
                raise ConflictError(
                    "No other cell has a weight. Set the weights with 'eventr admin place' first."
                )
            weights[HOME] = 1
        self._moves.close_cell(cell)
        # Only this cell gives people away.
        people = {row.name: 0 for row in cells} | {cell: self._moves.count_settled()[cell]}
        count = self._begin_moves(people, weights, limit)
        log.info("cell_drained", count=count, by=actor.user_id, cell=cell)
        return count

    def _begin_moves(self, people: dict[str, int], weights: dict[str, int], limit: int) -> int:
        count = 0
        for cell, to, wanted in plan_balance(people, weights):
            count += self._moves.start_many(cell, to, min(wanted, limit - count))
        return count

    def _find(self, name: str) -> int:
        user_id = self._users.find_by_name(name)
        if user_id is None:
            raise NotFoundError("There is no user with this name.")
        return user_id

    # -- for monitoring
    def count_steps(self) -> dict[str, int]:
        """Return how many moves there are by step; all steps are named.

        Raises:
            StoreError: the database isn't responding.
        """
        return self._moves.count_steps()

    def count_people(self) -> dict[str, int]:
        """Return how many people live in each cell, as of at most a minute ago: all places are read for it.

        Raises:
            StoreError: the database isn't responding.
        """
        now = time.monotonic()
        if self._counted is None or now >= self._counted[0] + COUNT_SECONDS:
            self._counted = now, {cell.name: cell.people for cell in self._moves.list_cells()}
        return self._counted[1]


def make_move_job(user_id: int) -> Job:
    """Return the job that continues a person's move."""
    return Job(Task.MOVE, {"user_id": user_id}, Queue.MAINTENANCE)
