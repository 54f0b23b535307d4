"""The manager's decisions, as pure functions of a snapshot: no clock, no process, no Redis."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from queue_manager.groups import Group

#: Above this multiple of its memory limit, a worker is killed at once.
HARD_MEMORY = 1.5
#: Seconds for starting and connecting; a worker that waits for Redis sends no ticks yet.
STARTUP = 120.0
#: Seconds beyond the grace period that a worker gets to return jobs and end.
MARGIN = 5.0
#: First and longest pause after a worker that died before it was ready, seconds.
PAUSE_FIRST, PAUSE_MOST = 0.25, 30.0

#: An idle worker sends so many signs of life before it would count as stalled, but not more rarely than this,
#: in seconds.
SIGNS, TICK_MOST = 4, 5.0

#: Reasons why a worker is stopped or killed.
SHUTDOWN, MEMORY, TIMEOUT, STALL = "shutdown", "memory", "timeout", "stall"
IDLE, SETTINGS, OPERATOR = "idle", "settings", "operator"
_BLAMED = {MEMORY, TIMEOUT, STALL}
#: The fork server died, so the exit codes of its children are unknown; multiprocessing's value for this.
UNKNOWN_EXIT = 255
#: SIGTERM and SIGINT before the handlers are installed, and the exit code of a worker without a manager.
_INNOCENT_EXITS = {0, -15, -2, 75, UNKNOWN_EXIT}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker's current state; times are monotonic seconds.

    Attributes:
        last_sign: Time of its last message, or of its start.
        deadlines: Deadlines of its running jobs.
        leaving: Since when it accepts no more jobs; None: it accepts jobs.
        reason: Why it was stopped; None if it left on its own.
        killed: Why SIGKILL was sent already.
    """

    name: str
    group: str
    born: float
    last_sign: float
    rss: int = 0
    mode: str = "loop"
    ready: bool = False
    deadlines: tuple[float, ...] = ()
    leaving: float | None = None
    reason: str | None = None
    killed: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """Start a worker of this group."""

    group: str


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """Send SIGTERM: accept no more jobs, finish the running ones, return the rest."""

    worker: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Kill:
    """Send SIGKILL."""

    worker: str
    reason: str


Action = Start | Stop | Kill


@dataclasses.dataclass(frozen=True, slots=True)
class DeathVerdict:
    """What to do with the jobs of a dead worker.

    Attributes:
        is_crash: True: count a crash for each job and run it alone from now on; False: back to the front.
        reason: The reason for the history of the jobs.
    """

    is_crash: bool
    reason: str


def decide_actions(
    now: float,
    groups: Sequence[Group],
    workers: Sequence[WorkerView],
    *,
    stopping: bool,
    targets: Mapping[str, int],
    not_before: Mapping[str, float],
) -> list[Action]:
    """Return the actions to take now.

    Args:
        now: The current time.
        groups: All groups, including those no longer served that still have workers.
        workers: The current workers.
        stopping: Whether the manager is stopping.
        targets: The number of workers per group (see :func:`queue_manager.scale.decide_scale`); a group
            without an entry is no longer served.
        not_before: Per group, the earliest time to start the next worker (see :func:`compute_pause`).
    """
    of = {group.name: group for group in groups}
    actions = [a for w in workers if (a := _tend(now, of[w.group], w, stopping, targets)) is not None]
    if stopping:
        return actions
    told = {action.worker for action in actions if not isinstance(action, Start)}
    for group in groups:
        serving = [w for w in workers if w.group == group.name and is_serving(w)]
        missing = targets.get(group.name, 0) - len(serving)
        if missing > 0 and now >= not_before.get(group.name, now):
            actions += [Start(group.name)] * missing
        elif missing < 0:
            staying = [w for w in serving if w.name not in told]
            actions += _spare(staying, -missing - (len(serving) - len(staying)))
    return actions


def is_serving(worker: WorkerView) -> bool:
    """Return whether a worker accepts jobs, or will when it is ready."""
    return worker.leaving is None and not worker.killed


def _spare(serving: Sequence[WorkerView], count: int) -> list[Action]:
    """Stop idle workers, the oldest first, since they have had the most time to grow."""
    idle = sorted((w for w in serving if w.ready and not w.deadlines), key=lambda w: w.born)
    return [Stop(worker.name, IDLE) for worker in idle[: max(0, count)]]


def _tend(
    now: float, group: Group, worker: WorkerView, stopping: bool, wanted: Mapping[str, int]
) -> Action | None:
    if worker.killed:
        return None
    reason = _kill_reason(now, group, worker)
    if reason:
        return Kill(worker.name, reason)
    if worker.leaving is not None:
        return None
    if stopping:
        return Stop(worker.name, SHUTDOWN)
    if worker.rss > group.memory:
        return Stop(worker.name, MEMORY)
    # Workers adopt all other changes while running.
    if group.name not in wanted or worker.mode != group.mode:
        return Stop(worker.name, SETTINGS)
    return None


def _kill_reason(now: float, group: Group, worker: WorkerView) -> str | None:
    if any(now > deadline for deadline in worker.deadlines):
        return TIMEOUT
    if worker.rss > group.memory * HARD_MEMORY:
        return MEMORY
    # A solo worker is silent while it works; its deadline applies then.
    silent = now - worker.last_sign
    if silent > (group.stall if worker.ready else STARTUP) and not (
        worker.mode == "solo" and worker.deadlines
    ):
        return STALL
    if worker.leaving is not None and now - worker.leaving > group.grace + MARGIN:
        # If it was stopped for its memory and didn't end, its jobs are to blame; otherwise none is.
        return worker.reason or SHUTDOWN
    return None


def judge_death(exitcode: int | None, killed: str | None) -> DeathVerdict:
    """Judge a worker's death.

    Args:
        exitcode: The exit code; negative: the signal that ended the process.
        killed: Why the manager killed the worker; None if it didn't.
    """
    if killed is not None:
        return DeathVerdict(killed in _BLAMED, killed)
    if exitcode in _INNOCENT_EXITS:
        return DeathVerdict(False, "ended")
    what = f"signal {-exitcode}" if exitcode is not None and exitcode < 0 else f"exit {exitcode}"
    return DeathVerdict(True, what)


def compute_tick(stall: float) -> float:
    """Return the seconds between two signs of life of an idle worker.

    Args:
        stall: Seconds without a sign of life after which it is killed.
    """
    return min(TICK_MOST, stall / SIGNS)


def compute_pause(deaths: int) -> float:
    """Return the seconds until the next start after so many workers in a row died before they were ready."""
    # The exponent has a limit, since hours of deaths would overflow a float.
    return 0.0 if deaths <= 0 else min(PAUSE_MOST, PAUSE_FIRST * 2.0 ** min(deaths - 1, 16))
