"""``eventr up``: all of Eventr on one machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import click
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import cli, embedded, logs
from app.commands import ports, web_address
from app.commands.processes import load_parts, migrate
from app.commands.requirements import require_libraries
from app.commands.secret import ensure_secret_key
from app.commands.settings_check import require_usable, warn_unknown_settings
from app.commands.stores import require_external_stores, require_stores
from app.config import Settings, build_env_name
from app.embedded.child import REMEDY, ChildProcess, spawn
from app.embedded.fork import Child, can_fork, fork, wait_until_alone
from app.embedded.signals import watch_signals
from app.embedded.supervisor import LOG_BYTES, LOGS_KEPT, ProcessSpec, Supervisor
from app.errors import StartupError
from app.models.jobs import redis_keys
from app.monitoring import admin_port
from app.runtime import redis_connections as connections
from app.runtime.private_file import open_private
from app.runtime.redis_errors import OUTAGE

#: Our processes in start order: a process comes after the ones that it uses.
PROCESSES = ("controller", "manager", "updater", "web")
#: Stop order: first the sources of work, then the processes that do it, then the ones that hear of it …
STOP_FIRST = ("updater", "web", "manager", "controller")
#: … and last the stores, because every process writes to them until its end.
STOP_LAST = ("redis", "mongodb")
#: Seconds that all processes together get until they respond.
READY_TIMEOUT = 120.0
#: Seconds that a process gets to exit, in addition to the time for running jobs.
_GRACE = 5.0
#: Seconds for which threads of closed drivers may take to end before the processes start.
_ALONE_SECONDS = 5.0


@click.command()
def up() -> None:
    """Run all of Eventr on this machine: databases, web server, manager, controller and updater."""
    settings = Settings.from_env()
    logs.configure(settings.log_level, settings.log_format)
    warn_unknown_settings()
    require_libraries()
    require_usable(settings)
    require_external_stores(settings)  # before our own servers start in vain
    with _stop_requests() as stop, embedded.hold_instance_lock(settings) as layout:
        _log_to_file(layout)
        port = ports.require_free(settings.host, settings.port)
        _require_admin_ports(settings)
        # The key is also created or refused here, before any process starts that would fail without it.
        _run(ensure_secret_key(dataclasses.replace(settings, home=layout.home, port=port)), stop)


class StopRequests:
    """Counts the requests to stop. A plain number, because a signal handler must not wait for a lock."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    def is_requested(self) -> bool:
        return self.count > 0

    def is_forced(self) -> bool:
        """Return whether a second request came: processes that are still running are killed."""
        return self.count > 1


@contextlib.contextmanager
def _stop_requests() -> Iterator[StopRequests]:
    stop = StopRequests()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(settings: Settings, stop: StopRequests) -> None:
    layout = embedded.Layout.from_settings(settings)
    running = embedded.EmbeddedServers(settings)
    supervisor = Supervisor([*_servers(running), *_processes(running.settings, layout)])
    click.echo("Starting Eventr…")
    try:
        supervisor.start([server.name for server in running.servers])
        migrate(require_stores(settings), stop.is_requested)
        load_parts()
        wait_until_alone(_ALONE_SECONDS)
        supervisor.start(PROCESSES)
        if supervisor.wait_ready(READY_TIMEOUT, stop.is_requested):
            click.echo(_welcome(settings, layout))
        with watch_signals() as signals:
            while not stop.is_requested():
                supervisor.restart_dead()
                signals.wait(supervisor.get_pause())
        click.echo("Stopping Eventr…")
    finally:
        supervisor.stop(STOP_FIRST, stop.is_forced)
        supervisor.stop(STOP_LAST)  # never forced: a clean stop spares the next start a repair
        running.stop(include_found=True)
    click.echo("Eventr has stopped.")


def _servers(running: embedded.EmbeddedServers) -> list[ProcessSpec]:
    def build_spec(server: embedded.Server) -> ProcessSpec:
        def start() -> ChildProcess | None:
            server.start()
            try:
                server.wait()
            except StartupError:
                server.stop()  # otherwise it would lock its folder against the next attempt
                raise
            return server.process

        return ProcessSpec(server.name, start, lambda _: server.is_responding(), server.log_file, grace=60)

    return [build_spec(server) for server in running.servers]


def _processes(settings: Settings, layout: embedded.Layout) -> list[ProcessSpec]:
    environment = {
        **os.environ,
        build_env_name("home"): str(layout.home),
        build_env_name("port"): str(settings.port),
        "PYTHONUNBUFFERED": "1",
    }
    signs = connections.connect(settings.redis_url, socket_timeout=2, retry=Retry(NoBackoff(), 0))

    def make_health_check(name: str) -> Callable[[int | None], bool]:
        return lambda pid: (
            web_address.is_responding(settings) if name == "web" else _has_sign(signs, name, pid)
        )

    def build_spec(name: str) -> ProcessSpec:
        log_file = layout.log / f"{name}.log"

        def start() -> ChildProcess:
            if can_fork():
                return fork(Child(run=cli.main, arguments=("eventr", name), log=log_file, env=environment))
            return spawn([sys.executable, "-m", "app", name], log=log_file, env=environment)

        grace = settings.stop_grace + _GRACE
        return ProcessSpec(name, start, make_health_check(name), log_file, grace)

    return list(map(build_spec, PROCESSES))


def _has_sign(signs: redis.Redis, name: str, pid: int | None) -> bool:
    """Return whether this very process has a heartbeat; those of killed ones last for seconds."""
    try:
        found = signs.scan_iter(match=redis_keys.make_alive_key(name, "*"), count=1000)
        return any(json.loads(text)["pid"] == pid for key in found if (text := signs.get(key)))
    except OUTAGE:
        return False


def _require_admin_ports(settings: Settings) -> None:
    """Raise StartupError for a port in use: the processes would run, but without their admin port."""
    if settings.metrics_listen:
        for name in admin_port.OFFSETS:
            ports.require_free(
                *admin_port.find_bind_address(settings, name), settings=(build_env_name("metrics_listen"),)
            )


def _welcome(settings: Settings, layout: embedded.Layout) -> str:
    return (
        f"Eventr is running at {web_address.get_public_url(settings)}\n  data: "
        f"{layout.home / 'data'}\n  logs: {layout.log}\n{_admin_ports(settings)}  stop: "
        "Ctrl-C"
    )


def _admin_ports(settings: Settings) -> str:
    if not settings.metrics_listen:
        return ""
    ports = (f"{admin_port.get_url(settings, name)} ({name})" for name in admin_port.OFFSETS)
    return f"  metrics: {', '.join(ports)}\n"


class LogFile(logging.handlers.RotatingFileHandler):
    """Our own log file; reports a failing disk once, until a write succeeds again."""

    _failed = _told = False

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=open_private)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._failed = False
        super().emit(record)
        self._told = self._failed

    def handleError(self, record: logging.LogRecord) -> None:
        """Report in one sentence that the file can't be written; other errors keep their traceback."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._failed = True
        if not self._told:
            click.echo(f"Can't write to the log {self.baseFilename}: {error.strerror}.", err=True)


def _log_to_file(layout: embedded.Layout) -> None:
    """Write our own log next to the others; the terminal shows warnings only."""
    terminal = logging.getLogger().handlers[0]
    path = layout.log / "up.log"
    try:
        file = LogFile(path, maxBytes=LOG_BYTES, backupCount=LOGS_KEPT, encoding="utf-8")
    except OSError as e:
        raise StartupError(f"Can't open {path} ({e.strerror}). {REMEDY}.") from e
    file.setFormatter(terminal.formatter)
    logging.getLogger().addHandler(file)
    terminal.setLevel(logging.WARNING)
