"""The settings in force and the target number of workers per group, from the file, live changes and load."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import psutil

from app import logs
from app.config import Settings
from app.runtime.redis_errors import OUTAGE, describe_outage
from queue_manager import groups, load, overrides, policy
from queue_manager.groups import Group, QueueSettings
from queue_manager.load import QueueLoads, QueueState
from queue_manager.overrides import Overrides
from queue_manager.processes import WorkerProcesses
from queue_manager.scale import Scale, decide_scale

_log = logs.get(__name__)

#: Seconds between two looks at the queues and the live settings; hints arrive at once. While no job waits or
#: runs, and no retry is planned, the second applies, unless a job arrives.
LOOK, IDLE_LOOK = 1.0, 10.0
_OUTAGE_PAUSE = 0.5
#: Weight of one more second in the smoothed CPU use: a single burst must not delay a worker's start.
_CPU_WEIGHT = 0.3


class WorkerTargets:
    """The settings in force and the size of each group.

    Args:
        settings: The settings of the process.
        table: The queue settings of the file.
        client: An async client of Redis.
        crew: The worker processes.
        changed: Called when workers may have to be started or stopped, or need new orders.
    """

    def __init__(
        self,
        settings: Settings,
        table: QueueSettings,
        client: Any,
        crew: WorkerProcesses,
        changed: Callable[[], None],
    ) -> None:
        self._settings, self._crew, self._changed = settings, crew, changed
        self.loads, self.overrides = QueueLoads(client), Overrides(client)
        self._file = self.table = table
        self._changes: overrides.Changes = {}
        #: Groups that are no longer served; they may still have workers.
        self.retired: dict[str, Group] = {}
        self._scales: dict[str, Scale] = {}
        self._waiting: dict[str, QueueState] = {}
        self._managers = 1
        self._cpu = 0.0
        self._hint = asyncio.Event()  # look now
        self._stir = asyncio.Event()  # don't look as rarely as when idle
        self._adopt()

    def get_wanted(self) -> dict[str, int]:
        """Return the target number of workers by group."""
        return {group.name: self._scales[group.name].wanted for group in self.table.groups}

    def reload(self) -> QueueSettings:
        """Read the settings file again; return the settings in force.

        Raises:
            SettingsError: The file isn't valid; nothing has changed.
        """
        self._file = groups.load(self._settings)
        self._adopt()
        _log.info("settings_read", groups=",".join(group.name for group in self.table.groups))
        self.warn()
        return self.table

    def warn(self) -> None:
        """Log the queues that no group of this manager serves."""
        if unserved := self.table.list_unserved():
            _log.warning("queues_unserved", queues=",".join(unserved))

    async def read_overrides(self) -> None:
        """Adopt the current live settings; raises one of :data:`app.runtime.redis_errors.OUTAGE`."""
        changes = await self.overrides.read(self._file)
        if changes != self._changes:
            self._changes = changes
            names = [f"{name}.{key}" for name, row in changes.items() for key in row]
            _log.info("live_settings", changed=",".join(names))
            self._adopt()

    async def follow_changes(self) -> None:
        """Follow live settings and load forever; wait while Redis is down."""
        # The first value covers the time since the counters started; later ones cover one second.
        psutil.cpu_percent()
        while True:
            try:
                await self._look()
            except OUTAGE as e:
                _log.warning("redis_silent", while_="looking at queues", error=describe_outage(e))
                await asyncio.sleep(_OUTAGE_PAUSE)
                continue
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next look."""
        began = time.monotonic()
        self._hint.clear()
        if await _is_set(self._hint, LOOK):
            return  # a CPU value over a shorter time means little
        if self._is_idle():
            await _is_set(self._stir, IDLE_LOOK - LOOK)
        weight = 1 - (1 - _CPU_WEIGHT) ** (time.monotonic() - began)
        self._cpu += (psutil.cpu_percent() - self._cpu) * weight

    def _is_idle(self) -> bool:
        waiting = any(queue.length or queue.planned for queue in self._waiting.values())
        return not waiting and not any(child.running for child in self._crew)

    async def listen(self) -> None:
        """Listen forever for hints that make the next look urgent."""
        await self.overrides.follow_changes(self._hurry, self._arrived)

    async def _look(self) -> None:
        self._stir.clear()  # before reading: a later arrival isn't seen by this look
        await self.read_overrides()
        queues = {queue for group in self.table.groups for queue in group.queues}
        self._waiting = await self.loads.read_queues(sorted(queues))
        self._managers = await self.loads.count_managers()
        for group in self.table.groups:
            before = self._scales[group.name].wanted
            self._scales[group.name] = state = self._scaled(group)
            if state.wanted != before:
                cpu = round(self._cpu)
                _log.info("scaled", group=group.name, before=before, wanted=state.wanted, cpu=cpu)
                self._changed()

    def _adopt(self) -> None:
        """Put the file's settings and the live changes in force."""
        before = self.table
        self.table = overrides.apply(self._file, self._changes)
        self.retired |= {group.name: group for group in before.groups}
        for group in self.table.groups:
            self.retired.pop(group.name, None)
            self._scales[group.name] = self._scaled(group)
        self._crew.apply_table(self.table)
        self._changed()

    def _scaled(self, group: Group) -> Scale:
        now = time.monotonic()
        views = [child.build_view(now) for child in self._crew if child.spec.group == group.name]
        return decide_scale(
            now,
            group,
            self._scales.get(group.name),
            load.compute_load(group, self._waiting, self._crew.list_running(group.name), self._managers),
            starting=any(policy.is_serving(view) and not view.ready for view in views),
            cpu=self._cpu,
        )

    def _hurry(self) -> None:
        self._hint.set()
        self._stir.set()

    def _arrived(self, queue: str) -> None:
        """Look at once if jobs arrive in a queue that none of this manager's workers serves now."""
        self._stir.set()
        if any(queue in g.queues and self._scales[g.name].wanted == 0 for g in self.table.groups):
            self._hint.set()


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most this long; return whether it is set."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
