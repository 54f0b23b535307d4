"""``eventr web | manager | controller | updater``: one process each, in the foreground.

These commands read the settings, send the logs to stderr and call the part's own ``run``. Keeping
processes alive is the task of ``eventr up`` or of the machine's service manager.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import click
import setproctitle

from app import logs
from app.commands import ports
from app.commands.schema import require_schema, wait_for_schema
from app.commands.secret import ensure_secret_key
from app.commands.settings_check import warn_unknown_settings
from app.commands.spool import SpoolLimits
from app.commands.stores import require_stores
from app.commands.unread import UnreadLimits
from app.config import Settings
from app.embedded.lifeline import PR_SET_PDEATHSIG
from app.runtime.gc import freeze_loaded

#: Connections per web process.
_CONNECTIONS = 1000
#: Modules of all parts, which ``eventr up`` loads once for all of them.
_PARTS = (
    "app.application",
    "app.bootstrap.services",
    "app.commands.gunicorn_log",
    "app.commands.gunicorn_worker",
    "controller.main",
    "gunicorn.arbiter",
    "queue_manager.main",
    "workers.main",
    "workers.updater.updater",
)


def load_parts() -> None:
    """Load the modules of all parts, so that copies of this process share their memory."""
    for name in _PARTS:
        importlib.import_module(name)
    freeze_loaded()


def prepare(name: str) -> Settings:
    """Do the first steps of every process: settings, logs, title, addresses of the servers.

    Raises:
        SettingsError: a setting is invalid.
        StartupError: a store isn't responding, or a newer program has upgraded the database.
    """
    given = Settings.from_env()
    logs.configure(given.log_level, given.log_format)
    warn_unknown_settings()
    setproctitle.setproctitle(f"eventr {name}")
    settings = require_stores(given)
    require_schema(settings)
    return settings


def _run(name: str, part: Callable[[Settings], int], *, upgraded: bool = False) -> None:
    """Run a process.

    Args:
        upgraded: first wait until the database has this program's schema.
    """
    settings = prepare(name)
    if upgraded:
        wait_for_schema(settings)
    freeze_loaded()
    sys.exit(part(settings))


@click.command()
def manager() -> None:
    """Run the queue manager and its workers."""
    from queue_manager.child import copy_fork_server
    from queue_manager.main import run

    copy_fork_server()  # now, because connections to the stores have threads
    # Workers sign the addresses of pictures in the feeds of shares.
    _run("manager", lambda settings: run(ensure_secret_key(settings)), upgraded=True)


@click.command()
def controller() -> None:
    """Run the controller, which passes events on to browsers and other processes."""
    from controller.main import run

    _allow_many_connections(16_384)
    _run("controller", lambda settings: run(ensure_secret_key(settings)))


@click.command()
def updater() -> None:
    """Run the updater, which queues the feeds that are due."""
    from workers.updater.updater import run

    _run("updater", run, upgraded=True)


@click.command()
def web() -> None:
    """Run the web server (gunicorn)."""
    # Flask would read this variable; a debugger on a public port runs anyone's code (W19).
    os.environ.pop("FLASK_DEBUG", None)
    settings = ensure_secret_key(prepare("web"))
    migrate(settings)
    _allow_many_connections()
    ports.require_free(settings.host, settings.port)
    _gunicorn(settings)


def migrate(settings: Settings, cancelled: Callable[[], bool] = lambda: False) -> None:
    """Upgrade the database and create missing indexes before the first write that a unique index must check.

    Args:
        cancelled: returns True when this process should stop.

    Raises:
        StartupError: a newer program has upgraded the database, or this process should stop.
        StoreError: MongoDB isn't responding.
    """
    from app.bootstrap import services as bootstrap  # all of Eventr, which other processes don't need

    with contextlib.closing(bootstrap.build(settings)) as services:
        services.migrate(cancelled)


def _allow_many_connections(wanted: int = 4096) -> None:
    # A worker waits for a thousand clients at once, which is the usual limit of open files.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _gunicorn(settings: Settings) -> None:
    from gunicorn.app.base import BaseApplication

    from app import application
    from app.web.view import compiled
    from controller.messages import get_handover_path

    class Server(BaseApplication):
        # For app.commands.gunicorn_worker.
        handover = get_handover_path(settings)
        unread_limits = build_unread_limits(settings)
        spool_limits = build_spool_limits(settings)

        def load_config(self) -> None:
            for name, value in build_gunicorn_options(settings).items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            return built

    # Everything is loaded, compiled and built before the first fork, and nothing connects yet. So workers
    # start faster and share these pages, and a worker's first page is nearly as fast as later ones.
    compiled.compile_templates(application.__package__)
    built = application.build(settings)
    freeze_loaded()
    Server().run()


def build_unread_limits(settings: Settings) -> UnreadLimits:
    """Return the limits for responses that clients don't read."""
    return UnreadLimits(
        seconds=settings.web_unread_seconds,
        # Behind a proxy, all connections have the proxy's address.
        per_address=0 if settings.trusted_proxies else settings.web_unread_per_address,
        bytes_each=settings.web_unread_bytes,
        bytes_all=settings.web_unread_total,
        threads=max(1, settings.web_threads // 4),
        clients=_CONNECTIONS // 2,
    )


def build_spool_limits(settings: Settings) -> SpoolLimits:
    """Return the limits for uploads that a web process receives."""
    return SpoolLimits(
        folder=settings.home / "media" / "up",
        count=settings.upload_spools,
        per_address=settings.upload_spools_per_address,
        proxies=settings.trusted_proxies,
        idle_seconds=settings.upload_idle_seconds,
        rate=settings.upload_rate,
        rate_seconds=settings.upload_rate_seconds,
    )


def build_gunicorn_options(settings: Settings) -> dict[str, Any]:
    """Return gunicorn's settings: threads, and no open interface that isn't needed (security.md W17)."""
    return {
        "bind": f"[{settings.host}]:{settings.port}"
        if ":" in settings.host
        else f"{settings.host}:{settings.port}",
        "workers": settings.web_workers,
        "threads": settings.web_threads,
        "worker_connections": _CONNECTIONS,
        "worker_class": "app.commands.gunicorn_worker.PatientWorker",
        "umask": 0o077,
        "control_socket_disable": True,
        "header_map": "refuse",
        # The application counts trusted proxies itself, so gunicorn must not trust any.
        "forwarded_allow_ips": "",
        "keepalive": 5,
        "timeout": 60,
        "graceful_timeout": 10,
        "limit_request_line": 8190,
        "limit_request_fields": 100,
        "post_fork": _die_with_master,
        "post_worker_init": lambda worker: freeze_loaded(),
        "proc_name": "eventr web",
        "logger_class": "app.commands.gunicorn_log.RootLogger",
        "loglevel": settings.log_level,
        # Heartbeat files on disk can stall a worker when the disk is busy.
        "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,  # noqa: S108
    }


def _die_with_master(master: Any, worker: Any) -> None:
    # Without this the workers of a killed master keep the port for up to a second.
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
