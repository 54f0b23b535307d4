"""The queue manager's process: ``run(settings)`` blocks until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

from app import logs
from app.config import Settings
from app.monitoring import admin_port
from queue_manager import groups, recovery
from queue_manager.child import copy_fork_server
from queue_manager.control import repl
from queue_manager.control.actions import Controls
from queue_manager.status import publish_status
from queue_manager.supervisor import Supervisor

_log = logs.get(__name__)


def run(settings: Settings) -> int:
    """Start and watch the workers of this server; return the exit code.

    The first signal gives running jobs the grace period; the second kills them. Either way, unfinished jobs
    are back in their queues and no process is left. SIGHUP reads the queue settings again, SIGUSR1 logs the
    state.

    Raises:
        SettingsError: The queue settings aren't valid.
    """
    table = groups.load(settings)
    copy_fork_server()  # if its command hasn't done so
    asyncio.run(_supervise(settings, table))
    _log.info("ended")
    return 0


async def _supervise(settings: Settings, table: groups.QueueSettings) -> None:
    manager = recovery.build_identity()
    link = recovery.Recovery(settings, manager)
    supervisor = Supervisor(settings, table, link, manager)
    controls = Controls(supervisor)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    loop.add_signal_handler(signal.SIGHUP, supervisor.on_hangup)
    loop.add_signal_handler(signal.SIGUSR1, _print, controls)
    try:
        async with (
            repl.serve_operators(settings, controls),
            publish_status(settings, controls),
            _admin(settings, controls),
        ):
            await supervisor.run()
    finally:
        await link.close()


@contextlib.asynccontextmanager
async def _admin(settings: Settings, controls: Controls) -> AsyncIterator[None]:
    if not settings.metrics_listen:
        yield
        return
    from queue_manager.metrics import ManagerMetrics  # 12 MB that only this needs

    async with (
        contextlib.aclosing(ManagerMetrics(settings, controls)) as figures,
        admin_port.serve_admin_port(settings, "manager", figures.find_missing, figures.render),
    ):
        yield


def _print(controls: Controls) -> None:
    """Log the state, one event per group and worker."""
    status = controls.get_status()
    for group in status["groups"]:
        _log.info("group_state", group=group["name"], serving=group["serving"], wanted=group["wanted"])
    for worker in status["workers"]:
        fields = {key: worker[key] for key in ("group", "pid", "age_s", "jobs_done", "rss_mb", "state")}
        running = ",".join(run["task"] for run in worker["current"])
        _log.info("worker_state", worker=worker["name"], running=running, **fields)
