"""The number of workers that a group needs: pure functions of its waiting and running jobs and the CPU load.

Scaling up doubles at once when jobs wait, with a pause between steps. It never exceeds the maximum, and it
stops on a busy machine, where jobs wait instead. Scaling down removes one worker if fewer would have been
enough for a whole ``max_idle``. So a size that was left isn't left again within that time, and the number
of workers can't oscillate.
"""

from __future__ import annotations

import dataclasses
import math

from queue_manager.groups import Group

#: Seconds; a first job that waits for less may not have been seen by a worker yet.
PATIENCE = 1.0
#: Seconds between two steps up, and between two down, so that the last step can take effect.
PAUSE_UP, PAUSE_DOWN = 2.0, 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a group.

    Attributes:
        waiting, waiting_system: Jobs in its queues, and those of them in system queues; without paused
            queues.
        oldest: Wait of the first of these jobs, seconds.
        busy, busy_system: Jobs that run in its workers, and those of them from system queues.
    """

    waiting: int = 0
    waiting_system: int = 0
    oldest: float = 0.0
    busy: int = 0
    busy_system: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """The target number of workers of a group, and the memory for the next decision.

    Attributes:
        wanted: The target number.
        changed: Time of the last step.
        peaks: (time, workers needed): times ascending, needs descending. The highest need since a time is the
            first entry that isn't older.
    """

    wanted: int
    changed: float = -math.inf
    peaks: tuple[tuple[float, int], ...] = ()


def count_needed(group: Group, load: Load) -> int:
    """Return the number of workers for all running and waiting jobs, within the group's bounds."""
    slots = group.slots if group.mode == "loop" else 1
    of_all = math.ceil((load.busy + load.waiting) / slots)
    of_system = math.ceil((load.busy_system + load.waiting_system) / min(slots, group.system_slots))
    return min(max(of_all, of_system, group.min_workers), group.max_workers)


def decide_scale(
    now: float, group: Group, state: Scale | None, load: Load, *, starting: bool = False, cpu: float = 0.0
) -> Scale:
    """Return the next state.

    Args:
        now: The current time.
        group: The group.
        state: The last state; None at the start.
        load: The group's load.
        starting: A worker of the group isn't ready yet, so the jobs it will run are still waiting.
        cpu: CPU use of the machine, percent.
    """
    need = count_needed(group, load)
    state = state or Scale(group.min_workers)
    peaks = _remember(state.peaks, now, need, group.max_idle)
    # Changed bounds apply at once.
    wanted = min(max(state.wanted, group.min_workers), group.max_workers)
    step = (
        _up(now, group, state, load=load, wanted=wanted, starting=starting, cpu=cpu) if need > wanted else 0
    )
    if step:
        return Scale(min(need, wanted + step), now, peaks)
    if peaks[0][1] < wanted and now - state.changed >= PAUSE_DOWN:
        return Scale(wanted - 1, now, peaks)
    return Scale(wanted, state.changed, peaks)


def _up(
    now: float, group: Group, state: Scale, *, load: Load, wanted: int, starting: bool, cpu: float
) -> int:
    if wanted == 0:
        return 1
    held_back = starting or cpu > group.cpu or now - state.changed < PAUSE_UP
    return 0 if held_back or load.oldest < PATIENCE else wanted


def _remember(
    peaks: tuple[tuple[float, int], ...], now: float, need: int, keep: float
) -> tuple[tuple[float, int], ...]:
    """Add a need; drop entries that are too old, or lower than this later one."""
    return (*(peak for peak in peaks if peak[0] > now - keep and peak[1] > need), (now, need))
