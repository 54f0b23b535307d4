"""The mover: takes all that belongs to one person from one cell to another while they go on reading.

    copy → drain → verify → (switch) → carry → clean        cancelled before the switch: cancel

Each run begins by raising the epoch of the person's place and by taking the fences of both cells. So a run
that is still alive somewhere, frozen or slow, can neither switch nor write anymore. All steps can be
repeated, and the next run continues one that was killed anywhere. ``docs/design/moves.md`` explains why.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
import uuid
from collections.abc import Callable
from functools import partial

from app import clock, logs
from app.errors import N_, CellError, ConflictError, EventrError, InvalidError, NotFoundError, StoreError
from app.mappers.mongo.cells import Cells
from app.mappers.operations.moves import MoveMapper
from app.mappers.operations.person_documents import (
    NAMES,
    Differences,
    Digests,
    PersonDocuments,
    StaleRunError,
    compare,
    compute_digest,
    get_key,
)
from app.models.operations.cells import HOME, PLACE_SECONDS, Place, PlaceState
from app.models.operations.moves import (
    CANCELLABLE,
    CLEAN_AFTER,
    SWEEP_AGAIN,
    CellPeople,
    MoveResult,
    MoveRow,
    MoveStep,
    Sweep,
)
from app.models.transactions import TRANSACTION_SECONDS

log = logs.get(__name__)

#: Seconds until each process has noticed that a person's writes are refused, with a margin.
NOTICE_SECONDS = PLACE_SECONDS + 0.1
#: Longest wait for writes that had begun before; sweeps find the writes of processes that are frozen longer.
DRAIN_SECONDS = 10.0 + TRANSACTION_SECONDS
#: Writes that began so long ago are waited for while the person can still write.
OLD_SECONDS = 0.2
#: Passes of the copy while the person goes on writing, and changes that the last one may leave.
PASSES, FEW = 5, 200
#: Passes while writes are refused; more would mean that they aren't.
LAST_PASSES = 20

Hook = Callable[[Place, str], None]


def _ignore(*_: object) -> None:
    """Do nothing."""


class MoveGateway:
    """Starts, continues and cancels moves.

    Args:
        cells: all cells.
        moves: what a move keeps.
        announce: tells all processes that a place has changed; raises StoreError.
        settle: called with a person and the two cells after a switch: settles numbers at home.
        at: called at each point of a run; tests end the process there.
    """

    def __init__(
        self,
        cells: Cells,
        moves: MoveMapper,
        announce: Callable[[], object],
        settle: Callable[[int, tuple[str, str]], None] = _ignore,
        at: Hook = _ignore,
    ) -> None:
        self._cells, self._places, self._moves = cells, cells.places, moves
        self._announce, self._settle, self._at = announce, settle, at

    # -- what administrators ask for
    def start(self, user_id: int, cell: str) -> bool:
        """Let a person move to a cell; return False if they live there.

        Raises:
            InvalidError: there is no such cell.
            ConflictError: the person is being moved already, or their account is being deleted.
            CellMismatchError: the address of one of both cells leads to the database of another cell.
        """
        if cell not in self._cells.names:
            raise InvalidError("There is no cell with this name.", field="cell")
        if self._moves.is_leaving(user_id):
            raise ConflictError("This account is being deleted.", user_id=user_id)
        place = self._find(user_id)
        if place.step:
            raise ConflictError("This person is being moved already.", user_id=user_id)
        if place.cell == cell:
            return False
        self._cells.verify((place.cell, cell))
        self._change(place, to=cell, step=MoveStep.COPY.value)
        return True

    def cancel(self, user_id: int) -> None:
        """Cancel a person's move; they can write again at once.

        Raises:
            NotFoundError: they aren't being moved.
            ConflictError: they live in the new cell already.
        """
        place = self._find(user_id)
        if not place.step:
            raise NotFoundError("This person isn't being moved.")
        if place.step == MoveStep.CANCEL:
            return
        if place.step not in CANCELLABLE:
            raise ConflictError("This move can't be cancelled anymore.", user_id=user_id)
        self._change(place, state=PlaceState.NORMAL, step=MoveStep.CANCEL.value)
        self._announce()

    def start_many(self, cell: str, to: str, count: int) -> int:
        """Let people of a cell move to another one; return how many, which may be fewer than ``count``."""
        started, after = 0, 0
        while started < count:
            found = self._moves.find_resting(cell, after, min(1000, count - started))
            if not found:
                break
            for user_id in found:
                with contextlib.suppress(ConflictError):  # they are being moved or deleted already
                    started += self.start(user_id, to)
            after = found[-1]
        return started

    def close_cell(self, cell: str) -> None:
        """Place no new people in a cell."""
        self._places.set_weights({cell: 0})

    # -- what administrators see
    def list_cells(self) -> list[CellPeople]:
        """Return all cells with the number of people, the home store first."""
        counts, weights = self._places.count_people(), self._places.find_weights()
        away = sum(people for cell, (people, _) in counts.items() if cell != HOME)
        whole, rows = sum(weights.get(name, 0) for name in self._cells.names), []
        for name in self._cells.names:
            people, leaving = counts.get(name, (0, 0))
            if name == HOME:
                # Most people at home have no place.
                people = max(0, self._moves.count_users() - away)
            weight = weights.get(name, 0)
            rows.append(CellPeople(name, people, leaving, weight, weight / whole if whole else None))
        return rows

    def count_settled(self) -> dict[str, int]:
        """Return how many people will live in each cell after the moves in progress."""
        people = {row.name: row.people for row in self.list_cells()}
        for cell, to, count in self._moves.count_transfers():
            people[cell] = people.get(cell, 0) - count
            people[to] = people.get(to, 0) + count
        return people

    def list_moves(self, limit: int) -> list[MoveRow]:
        """Return the moves in progress, oldest first."""
        rows = self._moves.list_moves(limit)
        return sorted(rows, key=lambda row: (row.since.timestamp() if row.since else 0.0, row.user_id))

    def count_steps(self) -> dict[str, int]:
        """Return how many moves there are by step; all steps are named."""
        found = self._moves.count_steps()
        return {step.value: found.get(step.value, 0) for step in MoveStep}

    # -- the work
    def find_due(self, now: dt.datetime, limit: int) -> list[int]:
        """Return people whose move or sweep is to go on; without cells, nothing is asked."""
        return self._moves.find_due(now, limit) if self._cells.is_spread else []

    def run(self, user_id: int, now: dt.datetime) -> MoveResult:
        """Continue a person's move, or sweep the cells that they left.

        Raises:
            CellMismatchError: an address leads to the database of another cell; nothing was touched.
            StoreError: a cell isn't responding; the next run continues. Writes aren't refused until then.
        """
        place = self._find(user_id)
        if not place.step:
            return self._sweep(place, now)
        due = self._moves.find_due_time(place)
        if place.step in CANCELLABLE and self._moves.is_leaving(user_id):
            self.cancel(user_id)
            place, due = self._find(user_id), now
        if due is None and place.step == MoveStep.CLEAN:
            # The run that switched died at once: no process was notified, and the time is unknown.
            self._set_times(place)
            self._announce()
            return MoveResult("later")
        if due is not None and due > now:
            return MoveResult("later")
        self._moves.begin_attempt(user_id, clock.now())
        try:
            place = self._take_over(place)
            self._cells.verify((place.cell, place.to))
            return _Run(self, place).finish(now)
        except StaleRunError:
            log.info("move_taken_over", user_id=user_id)
            return MoveResult("taken")
        except EventrError as e:
            with contextlib.suppress(StoreError):
                self._moves.record_failure(user_id, _describe(e), clock.now())
            raise

    def _take_over(self, place: Place) -> Place:
        """Make sure that no other run can take the next step.

        If the last run died while writes were refused, they are allowed until this one has come as far.
        """
        if place.state is not PlaceState.MIGRATING:
            return self._change(place)
        changed = self._change(place, state=PlaceState.NORMAL, step=MoveStep.COPY.value)
        self._announce()
        return changed

    def _find(self, user_id: int) -> Place:
        return self._places.read_place(user_id) or Place(user_id, HOME)

    def _change(self, place: Place, **changes: object) -> Place:
        changed = self._places.update(place, **changes)
        if changed is None:
            raise StaleRunError(user_id=place.user_id)
        if changed.step != place.step:
            self._set_times(changed)
        return changed

    def _set_times(self, place: Place) -> None:
        now = clock.now()
        wait = CLEAN_AFTER if place.step == MoveStep.CLEAN else dt.timedelta()
        self._moves.set_times(place, now, now + wait)

    def _sweep(self, place: Place, now: dt.datetime) -> MoveResult:
        """Carry over what frozen processes have inserted in a cell that the person had left."""
        late = 0
        self._moves.postpone_sweeps(place.user_id, now + SWEEP_AGAIN)
        for sweep in self._moves.find_sweeps(place.user_id):
            if sweep.cell == place.cell:
                self._moves.forget_sweep(place.user_id, sweep.cell)
            elif sweep.due <= now:
                late += self._sweep_cell(place, sweep.cell)
                self._moves.end_sweep(place.user_id, sweep.cell)
        return MoveResult("normal", late=late)

    def _sweep_cell(self, place: Place, cell: str) -> int:
        self._cells.verify((cell, place.cell))
        token, count = uuid.uuid4().hex, 0
        old = PersonDocuments(self._cells.get_store(cell), place.user_id, token)
        names = old.find_filled()
        if not names:
            return 0
        new = PersonDocuments(self._cells.get_store(place.cell), place.user_id, token)
        old.take_fence()
        new.take_fence()
        for name in names:

            def keep(batch: list[bytes], name: str = name) -> None:
                nonlocal count
                count += sum(new.add_late(name, raw, None) for raw in batch)

            old.remove_all(name, keep)
        self._settle(place.user_id, (cell, place.cell))
        old.drop_fence()
        new.drop_fence()
        log.warning("move_swept", user_id=place.user_id, documents=count)
        return count


def _describe(error: EventrError) -> str:
    """Return a sentence about the failure of a move for administrators."""
    if type(error) in (StoreError, CellError):
        return N_("A cell or Redis isn't responding.")
    return error.sentence


class _Run:
    """One run of the mover for one person."""

    def __init__(self, gateway: MoveGateway, place: Place) -> None:
        self._gateway, self._place = gateway, place
        token, cells = uuid.uuid4().hex, gateway._cells
        # The cell in which the person lives, and the other one: before the switch it is the new cell.
        self._here = PersonDocuments(cells.get_store(place.cell), place.user_id, token)
        self._there = PersonDocuments(cells.get_store(place.to), place.user_id, token)
        #: What the last comparison has found in the old cell.
        self._digests: dict[str, Digests] = {}
        self._copied = self._late = 0
        self._refused = 0.0

    def finish(self, now: dt.datetime) -> MoveResult:
        self._here.take_fence()
        self._there.take_fence()
        self._stop("taken")
        step = MoveStep(self._place.step)
        if step is MoveStep.CANCEL:
            return self._end_cancelled()
        if step is MoveStep.CARRY:
            # The run that switched has died, perhaps before it told anyone.
            self._gateway._announce()
            self._load_digests()
            return self._carry()
        if step is MoveStep.CLEAN:
            return self._clean(now)
        self._copy()
        try:
            self._refuse_and_switch()
        except StaleRunError:
            raise
        except EventrError:
            self._allow_writes()
            raise
        return self._carry()

    def _stop(self, point: str) -> None:
        self._gateway._at(self._place, point)

    def _change(self, **changes: object) -> None:
        self._place = self._gateway._change(self._place, **changes)

    # -- before writes are refused
    def _copy(self) -> None:
        """Copy while the person goes on; each pass copies what has changed since the one before."""
        # What frozen processes wrote there, if the person has lived there before.
        for sweep in self._gateway._moves.find_sweeps(self._place.user_id):
            if sweep.cell == self._place.to:
                self._gateway._sweep_cell(self._place, sweep.cell)
                self._gateway._moves.forget_sweep(self._place.user_id, sweep.cell)
        for _ in range(PASSES):
            if self._copy_differences() <= FEW:
                break
        self._stop("copied")

    def _copy_differences(self) -> int:
        """Make the new cell like the old one; return how many documents differed."""
        count, now = 0, clock.now()
        for name in NAMES:
            old = self._digests[name] = self._here.compute_digests(name, now)
            found = compare(old, self._there.compute_digests(name, now))
            if found.wanted or found.unwanted:
                self._copy_collection(name, found)
                count += len(found.wanted) + sum(key not in old for key in found.unwanted)
        return count

    def _copy_collection(self, name: str, found: Differences) -> None:
        # First all deletions: a unique key may have gone from one document to another.
        self._there.delete(name, found.unwanted)
        for batch in self._here.read(name, found.wanted):
            self._there.add_documents(name, batch)
            self._copied += len(batch)
            self._stop("batch")

    # -- while writes are refused
    def _refuse_and_switch(self) -> None:
        self._wait_for_old_writes()
        began = time.monotonic()
        self._change(state=PlaceState.MIGRATING, step=MoveStep.DRAIN.value)
        self._gateway._announce()
        self._stop("marked")
        self._drain(began)
        self._change(step=MoveStep.VERIFY.value)
        self._stop("drained")
        for _ in range(LAST_PASSES):
            if not self._copy_differences():
                break
        else:
            raise ConflictError("The documents keep changing.", user_id=self._place.user_id)
        # Whatever differs from these was written late, and is carried over even if this run dies.
        self._here.save_digests(self._digests)
        self._stop("verified")
        place = self._place
        self._change(cell=place.to, to=place.cell, state=PlaceState.CLEANING, step=MoveStep.CARRY.value)
        self._here, self._there = self._there, self._here
        self._refused = time.monotonic() - began
        self._stop("switched")
        self._gateway._announce()

    def _wait_for_old_writes(self) -> None:
        """Wait for writes that take long, before the person's writes are refused.

        Such as a transaction of a process that was killed: MongoDB ends it after 5 s.
        """
        end = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < end and self._here.has_writes_since(OLD_SECONDS):
            time.sleep(0.1)  # MongoDB has no event for this

    def _drain(self, began: float) -> None:
        """Wait until the writes that had begun before the mark have ended."""
        time.sleep(NOTICE_SECONDS)  # by then, every process has read the new epoch
        noticed = time.monotonic()
        while (now := time.monotonic()) < began + DRAIN_SECONDS:
            runs = self._here.has_writes_since(now - noticed + 0.001)
            if runs is None:
                # MongoDB's user may not ask what is running: wait as long as a transaction can last.
                time.sleep(max(0.0, began + TRANSACTION_SECONDS - now))
            if not runs:
                return
            time.sleep(0.02)  # MongoDB has no event for this

    def _allow_writes(self) -> None:
        """Go back to the copy, because this run can't go on and the person should be able to write."""
        changed = self._gateway._places.update(self._place, state=PlaceState.NORMAL, step=MoveStep.COPY.value)
        if changed is not None:
            log.warning("move_interrupted", user_id=self._place.user_id)
            self._gateway._set_times(changed)
            self._gateway._announce()

    # -- after the switch
    def _carry(self) -> MoveResult:
        """Carry over what was written in the old cell before all processes had noticed the switch."""
        if self._carry_late():
            self._there.save_digests(self._digests)
        self._stop("carried")
        self._settle()
        self._stop("settled")
        self._change(step=MoveStep.CLEAN.value)
        return MoveResult("moved", self._copied, self._refused, self._late)

    def _load_digests(self) -> bool:
        """Load what the old cell had at the switch; return whether it is being emptied already."""
        found = self._there.load_digests()
        if found is None and any(
            sweep.cell == self._place.to for sweep in self._gateway._moves.find_sweeps(self._place.user_id)
        ):
            found = {name: {} for name in NAMES}, True  # a run before this one died at its end
        if found is None:
            # An earlier version of this program switched. What the person has deleted since must not come
            # back, and nothing tells it from what was written late.
            log.warning("move_without_digests", user_id=self._place.user_id)
            now = clock.now()
            found = {name: self._there.compute_digests(name, now) for name in NAMES}, False
        self._digests, emptying = found
        return emptying

    def _carry_late(self) -> bool:
        """Carry over what was written in the old cell since the last comparison; return whether anything was.

        What the person has changed or deleted in the new cell since then stays so.
        """
        now, found = clock.now(), False
        for name in NAMES:
            before, after = self._digests[name], self._there.compute_digests(name, now)
            for key in before.keys() - after.keys():
                self._late += self._here.delete_late(name, key, before[key])
            changed = [key for key, digest in after.items() if before.get(key) != digest]
            for batch in self._there.read(name, changed):
                self._carry_documents(name, batch)
            found = found or before != after
            self._digests[name] = after
        return found

    def _carry_documents(self, name: str, batch: list[bytes]) -> None:
        """Carry those of these documents over that have changed or are new since the last comparison."""
        before = self._digests[name]
        for raw in batch:
            was = before.get(get_key(raw))
            if was != compute_digest(raw):
                self._late += self._here.add_late(name, raw, was)

    def _clean(self, now: dt.datetime) -> MoveResult:
        """Empty the old cell; carry over what was written there since the last comparison."""
        if not self._load_digests():
            self._carry_late()
            self._there.save_digests(self._digests, emptying=True)
        self._stop("emptying")
        # Also before the old documents are deleted: they say which numbers count the person.
        self._settle()
        for name in NAMES:
            self._there.remove_all(name, partial(self._carry_documents, name))
            self._stop("cleaned")
        self._settle()
        self._gateway._moves.add_sweep(self._place.user_id, Sweep(self._place.to, now))
        self._stop("swept")
        self._end()
        return MoveResult("normal", late=self._late)

    def _settle(self) -> None:
        self._gateway._settle(self._place.user_id, (self._place.to, self._place.cell))

    def _end_cancelled(self) -> MoveResult:
        for name in NAMES:
            self._there.remove_all(name)
            self._stop("emptied")
        self._end()
        return MoveResult("normal")

    def _end(self) -> None:
        self._here.drop_digests()
        self._there.drop_digests()
        self._change(state=PlaceState.NORMAL, to="", step="")
        # Without a fence, no run can write.
        self._here.drop_fence()
        self._there.drop_fence()
        self._stop("ended")
