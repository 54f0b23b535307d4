"""How many workers a group needs: pure functions over what waits, what runs and how busy the machine is.

Up at once when jobs wait and cannot be held, by doubling, with a pause between two steps; never beyond
the maximum, nor on a machine that is busy already: high load ends in a queue. Down by one, when for a
whole ``max_idle`` fewer would have done. So a level that was left is not left again within that time,
whatever the load does: it cannot flap.
"""

from __future__ import annotations

import dataclasses
import math

from queue_manager.groups import Group

#: A first job that waits for less has not been seen by a worker yet, seconds.
PATIENCE = 1.0
#: Shortest time between two steps up, and between two down, seconds: what the last one did must show.
PAUSE_UP, PAUSE_DOWN = 2.0, 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a group has to do.

    Attributes:
        waiting, waiting_system: jobs in its queues, of these in system queues; paused queues do not count.
        oldest: how long the first of them has waited, seconds.
        busy, busy_system: jobs that run in its workers.
    """

    waiting: int = 0
    waiting_system: int = 0
    oldest: float = 0.0
    busy: int = 0
    busy_system: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """How many workers a group is to have, and what is remembered for the next decision.

    Attributes:
        changed: time of the last step.
        peaks: (time, workers needed), both strictly falling towards the past's and the future's end: the
            highest need since any time within ``max_idle`` is the first that is not older.
    """

    wanted: int
    changed: float = -math.inf
    peaks: tuple[tuple[float, int], ...] = ()


def count_needed(group: Group, load: Load) -> int:
    """Return how many workers would hold all that runs and waits, within the group's bounds."""
    slots = group.slots if group.mode == "loop" else 1
    of_all = math.ceil((load.busy + load.waiting) / slots)
    of_system = math.ceil((load.busy_system + load.waiting_system) / min(slots, group.system_slots))
    return min(max(of_all, of_system, group.min_workers), group.max_workers)


def decide_scale(
    now: float, group: Group, state: Scale | None, load: Load, *, starting: bool = False, cpu: float = 0.0
) -> Scale:
    """Return the next state.

    Args:
        state: the last one, None at the start.
        starting: a worker of the group is not ready yet, so what it will take still waits.
        cpu: percent of the machine in use.
    """
    need = count_needed(group, load)
    state = state or Scale(group.min_workers)
    peaks = _remember(state.peaks, now, need, group.max_idle)
    # Bounds that were changed hold at once.
    wanted = min(max(state.wanted, group.min_workers), group.max_workers)
    step = _up(now, group, state, load, wanted, starting, cpu) if need > wanted else 0
    if step:
        return Scale(min(need, wanted + step), now, peaks)
    if peaks[0][1] < wanted and now - state.changed >= PAUSE_DOWN:
        return Scale(wanted - 1, now, peaks)
    return Scale(wanted, state.changed, peaks)


def _up(now: float, group: Group, state: Scale, load: Load, wanted: int, starting: bool, cpu: float) -> int:
    if wanted == 0:
        return 1
    held_back = starting or cpu > group.cpu or now - state.changed < PAUSE_UP
    return 0 if held_back or load.oldest < PATIENCE else wanted


def _remember(
    peaks: tuple[tuple[float, int], ...], now: float, need: int, keep: float
) -> tuple[tuple[float, int], ...]:
    """Add a need; drop what is too old, and what a later and higher one makes meaningless."""
    return (*(peak for peak in peaks if peak[0] > now - keep and peak[1] > need), (now, need))
