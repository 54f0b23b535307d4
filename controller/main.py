"""The controller's process: ``run(settings)`` blocks until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any

from app import clock, logs
from app.config import Settings
from app.errors import StartupError
from app.models.jobs import redis_keys
from app.monitoring import admin_port
from app.runtime import sockets
from app.runtime.redis_errors import OUTAGE, describe_outage
from controller.browsers import Browsers, Stream
from controller.follower import Follower, Row, connect
from controller.handed_sockets import HandoverReceiver
from controller.hub import Hub
from controller.messages import LINE_MAX, get_handover_path, get_socket_path

_log = logs.get(__name__)

_BEAT = redis_keys.ALIVE_SECONDS / 3


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    Raises:
        StartupError: Another controller serves this socket, or the socket can't be created.
    """
    asyncio.run(_serve(settings))
    _log.info("ended")
    return 0


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    path = await asyncio.to_thread(_free, get_socket_path(settings))
    async with connect(settings.redis_url) as client, connect(settings.redis_url) as reading:
        parts = ControllerParts(settings, client, reading)
        server = await _listen(parts.hub, path)
        told = asyncio.create_task(stop.wait())
        tasks = {
            told,
            *map(
                asyncio.create_task,
                (parts.follow_streams(), *parts.build_background_tasks(), _beat(client, parts)),
            ),
        }
        async with _admin(settings, client, parts):
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        server.close()
        parts.close()
        for task in tasks - done:
            task.cancel()
        with contextlib.suppress(*OUTAGE):
            await client.delete(redis_keys.make_alive_key("controller", _ident()))
            await client.zrem(redis_keys.CONTROLLERS, _ident())
        path.unlink(missing_ok=True)
        for task in done - {told}:
            task.result()  # a bug: end with its traceback; the service manager restarts the process


@contextlib.asynccontextmanager
async def _admin(settings: Settings, client: Any, parts: ControllerParts) -> AsyncIterator[None]:
    if not settings.metrics_listen:
        yield
        return
    from app.monitoring import metrics  # 12 MB that only this needs

    async def find_missing() -> list[str]:
        try:
            await client.ping()
        except OUTAGE:
            return ["redis"]
        return []

    async def render_figures() -> bytes:
        streams = metrics.build_family("eventr_event_streams", len(parts.browsers))
        return metrics.render([*metrics.collect_process_metrics("controller"), streams])

    async with admin_port.serve_admin_port(settings, "controller", find_missing, render_figures):
        yield


class ControllerParts:
    """The parts of one controller: a reader of the streams, the hub, the browsers.

    Args:
        settings: The settings.
        client: The Redis client for queries.
        reading: The Redis client for the one blocking read.
    """

    def __init__(self, settings: Settings, client: Any, reading: Any) -> None:
        self._settings = settings
        self.hub = Hub(client, lambda: self._follower.get_position(redis_keys.EVENTS))
        self.browsers = Browsers(client, settings)
        self._follower = Follower(reading, (redis_keys.EVENTS, redis_keys.PEOPLE), self._told, self._back)
        self._reception = HandoverReceiver(lambda: Stream(self.browsers))
        self._server: asyncio.Server | None = None

    def build_background_tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the coroutines that run forever beside :meth:`follow_streams`."""
        return self.hub.results.run(), self.browsers.run()

    def get_figures(self) -> dict[str, int]:
        """Return the number of open ``streams`` to browsers and of ``awaited`` jobs."""
        return {"streams": len(self.browsers), "awaited": len(self.hub.results)}

    async def follow_streams(self) -> None:
        """Find the newest position, admit browsers, and read forever."""
        await self._follower.seek_newest()
        await self.browsers.load_recent(self._follower.at[redis_keys.PEOPLE])
        if self._settings.events_port:
            self._server = await self._listen()
        path = get_handover_path(self._settings)
        self._reception.listen(path)
        try:
            self.hub.results.recheck_all()
            await self._follower.run()
        finally:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop admitting browsers and close their streams."""
        self._reception.close()
        if self._server is not None:
            self._server.close()
        self.browsers.close()

    def _told(self, stream: str, rows: list[Row]) -> None:
        if stream == redis_keys.EVENTS:
            self.hub.handle_events(rows)
        else:
            self.browsers.handle_events(rows)

    def _back(self) -> None:
        self.hub.results.recheck_all()
        self.browsers.resync_all()

    async def _listen(self) -> asyncio.Server:
        host, port = self._settings.events_host, self._settings.events_port
        try:
            return await asyncio.get_running_loop().create_server(
                lambda: Stream(self.browsers), host, port, backlog=1024
            )
        except OSError as e:
            raise StartupError(
                f"The controller can't listen on port {port} of {host}. Change EVENTR_EVENTS_PORT."
            ) from e


async def _listen(hub: Hub, path: Path) -> asyncio.Server:
    before = os.umask(0o177)  # for this user only: events name feeds that people read
    try:
        with sockets.shorten_path(path) as name:
            return await asyncio.start_unix_server(hub.serve, name, limit=LINE_MAX)
    except OSError as e:
        raise StartupError(f"The controller can't listen on {path}: {e.strerror}.") from e
    finally:
        os.umask(before)


def _free(path: Path) -> Path:
    """Make room for the socket; remove one left by a killed controller."""
    try:
        sockets.make_folder(path.parent)
    except OSError as e:
        raise StartupError(f"Can't create the folder {path.parent}: {e.strerror}.") from e
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            with sockets.shorten_path(path) as name:
                probe.connect(name)
        except FileNotFoundError:
            return path
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return path
        except OSError as e:
            raise StartupError(f"The controller can't listen on {path}: {e}.") from e
    raise StartupError(
        "Another controller is already running here. Stop it first, or set EVENTR_HOME to another folder."
    )


async def _beat(client: Any, parts: ControllerParts) -> None:
    ready = False
    sign = {"pid": os.getpid(), "host": socket.gethostname(), "since": clock.now().isoformat()}
    while True:
        try:
            await _sign(client, {**sign, **parts.get_figures()})
        except OUTAGE as e:
            _log.warning("redis_silent", while_="heartbeat", error=describe_outage(e))
        else:
            if not ready:
                ready = True
                _log.info("ready", pid=os.getpid())
        await asyncio.sleep(_BEAT)


async def _sign(client: Any, sign: Mapping[str, Any]) -> None:
    seconds, _ = await client.time()
    async with client.pipeline(transaction=False) as pipe:
        pipe.set(
            redis_keys.make_alive_key("controller", _ident()), json.dumps(sign), ex=redis_keys.ALIVE_SECONDS
        )
        pipe.zremrangebyscore(redis_keys.CONTROLLERS, "-inf", seconds)
        pipe.zadd(redis_keys.CONTROLLERS, {_ident(): seconds + redis_keys.ALIVE_SECONDS})
        await pipe.execute()


def _ident() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
