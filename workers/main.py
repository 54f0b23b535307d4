"""Entry point of a worker process; the queue manager starts it by name, in a fork with its modules loaded."""

from __future__ import annotations

import os
import socket
import sys
from multiprocessing.connection import Connection

import setproctitle

from app import logs
from app.config import Settings
from app.errors import StartupError
from app.models.jobs.workers import WorkerSpec
from app.runtime.gc import freeze_loaded
from workers import lifeline, registry
from workers.rlimits import limit_memory
from workers.worker import EventrWorker, wait_for_redis

_log = logs.get(__name__)

registry.load_tasks()


def run(spec: WorkerSpec, settings: Settings, line: socket.socket | None, pipe: Connection | None) -> None:
    """Work until stopped, then end the process.

    Args:
        spec: The orders.
        settings: The settings.
        line: Socket for messages to the manager.
        pipe: Closes when the manager ends, which ends this process too.
    """
    if pipe is not None:
        lifeline.exit_with_parent(pipe)
    logs.configure(settings.log_level, settings.log_format)
    setproctitle.setproctitle(f"eventr worker {spec.group}")
    limit_memory(spec.memory)
    # Page requests have priority: readers must not notice a refresh of all feeds.
    os.nice(settings.worker_nice)
    freeze_loaded()
    with logs.bind(worker=spec.name):
        try:
            EventrWorker(spec, settings, wait_for_redis(settings), lifeline.ManagerChannel(line)).work()
        except StartupError as e:
            _log.error("refused_to_start", reason=e.message)
            sys.exit(1)
    sys.stderr.flush()
    # All outcomes are recorded. Threads of plain tasks that outlived the grace period must not block the end.
    os._exit(0)
