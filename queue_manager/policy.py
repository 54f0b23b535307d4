"""What the manager does, decided by pure functions over a snapshot: no clock, no process, no Redis."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from queue_manager.groups import Group

#: Above so many times its memory limit a worker is killed at once, without being asked to end first.
HARD_MEMORY = 1.5
#: Time to start and to connect, seconds; a worker that waits for Redis ticks not yet.
STARTUP = 120.0
#: What a worker gets beyond its grace to give jobs back and to end, seconds.
MARGIN = 5.0
#: First and longest pause after a worker that died before it was ready, seconds.
PAUSE_FIRST, PAUSE_MOST = 0.25, 30.0

#: Why a worker is told to end, or killed.
SHUTDOWN, MEMORY, TIMEOUT, STALL = "shutdown", "memory", "timeout", "stall"
IDLE, SETTINGS, OPERATOR = "idle", "settings", "operator"
_BLAMED = {MEMORY, TIMEOUT, STALL}
#: The fork server died, and nobody knows how its children end; multiprocessing's word for it.
UNKNOWN_EXIT = 255
#: SIGTERM and SIGINT before the handlers are there, and the exit code of a worker without a manager.
_INNOCENT_EXITS = {0, -15, -2, 75, UNKNOWN_EXIT}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker as it is now. Times are seconds of the monotonic clock.

    Attributes:
        sign: last message of it, or its start.
        deadlines: of the jobs that run in it.
        leaving: since when it takes no more jobs; None: it takes jobs.
        reason: why it was told to leave; None when it left by itself.
        killed: why SIGKILL was sent already.
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
    """Send SIGTERM: take no more, end what runs, give the rest back."""

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
    """What becomes of the jobs that a dead worker held.

    Attributes:
        crash: True: each is charged with a crash and runs alone from now on; False: back to the front.
        reason: for the history of the jobs.
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
    """Return what to do now.

    Args:
        groups: also those that are not served any more while they have workers.
        wanted: by group, how many workers it is to have (see :func:`queue_manager.scale.scale`); a group
            that is not named is not served any more.
        not_before: by group, when the next worker may be started (see :func:`pause`).
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
    """Whether a worker takes jobs, or will as soon as it is ready."""
    return worker.leaving is None and not worker.killed


def _spare(serving: Sequence[WorkerView], count: int) -> list[Action]:
    """Let workers that do nothing leave, those first that have had the most time to grow."""
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
    # All else is learned on the way.
    if group.name not in wanted or worker.mode != group.mode:
        return Stop(worker.name, SETTINGS)
    return None


def _kill_reason(now: float, group: Group, worker: WorkerView) -> str | None:
    if any(now > deadline for deadline in worker.deadlines):
        return TIMEOUT
    if worker.rss > group.memory * HARD_MEMORY:
        return MEMORY
    # A solo worker is silent while it works: its deadline guards it then.
    silent = now - worker.last_sign
    if silent > (group.stall if worker.ready else STARTUP) and not (
        worker.mode == "solo" and worker.deadlines
    ):
        return STALL
    if worker.leaving is not None and now - worker.leaving > group.grace + MARGIN:
        # Asked to end for its memory and did not: what it runs is to blame. Else nobody is.
        return worker.reason or SHUTDOWN
    return None


def judge_death(exitcode: int | None, killed: str | None) -> DeathVerdict:
    """Judge a death.

    Args:
        exitcode: of the process; negative: the signal that ended it.
        killed: why the manager killed it, None when it did not.
    """
    if killed is not None:
        return DeathVerdict(killed in _BLAMED, killed)
    if exitcode in _INNOCENT_EXITS:
        return DeathVerdict(False, "ended")
    what = f"signal {-exitcode}" if exitcode is not None and exitcode < 0 else f"exit {exitcode}"
    return DeathVerdict(True, what)


def compute_pause(deaths: int) -> float:
    """Seconds until the next start after so many workers in a row that died before they were ready."""
    # The exponent has a limit too: no float holds what hours of deaths come to.
    return 0.0 if deaths <= 0 else min(PAUSE_MOST, PAUSE_FIRST * 2.0 ** min(deaths - 1, 16))
