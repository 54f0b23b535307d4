"""The queue manager's process: ``run(settings)`` blocks until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal

from app import logs
from app.config import Settings
from queue_manager import groups, recovery
from queue_manager.supervisor import Supervisor

_log = logs.get(__name__)


def run(settings: Settings) -> int:
    """Start and watch the workers of this server; returns the exit code.

    The first signal gives running jobs their grace, the second ends at once. Either way the jobs that
    did not end are back in their queues, and no process is left.

    Raises:
        SettingsError: the queue settings do not fit.
    """
    wanted = groups.load(settings)
    asyncio.run(_supervise(settings, wanted))
    _log.info("ended")
    return 0


async def _supervise(settings: Settings, wanted: tuple[groups.Group, ...]) -> None:
    manager = recovery.identity()
    link = recovery.Recovery(settings, manager)
    supervisor = Supervisor(settings, wanted, link, manager)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    try:
        await supervisor.run()
    finally:
        await link.close()
