"""The controller's process: ``run(settings)`` blocks until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from pathlib import Path

import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import clock, logs
from app.config import Settings
from app.errors import StartupError
from app.models import keys
from controller.hub import Hub
from controller.messages import LINE_MAX

_log = logs.get(__name__)

_BEAT = keys.ALIVE_SECONDS / 3
_OUTAGE = (redis.ConnectionError, redis.TimeoutError)


def socket_path(settings: Settings) -> Path:
    """Where the hub listens: newline-separated JSON, see :mod:`controller.messages`."""
    return settings.home / "run" / "controller.sock"


def run(settings: Settings) -> int:
    """Pass events on until told to stop; returns the exit code.

    Raises:
        StartupError: another controller serves this socket, or it cannot be made.
    """
    asyncio.run(_serve(settings))
    _log.info("ended")
    return 0


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Longer than the block of a read, and nothing repeated in silence: the hub itself goes on.
    client = redis.asyncio.Redis.from_url(settings.redis_url, socket_timeout=6, retry=Retry(NoBackoff(), 0))
    hub = Hub(client)
    path = await asyncio.to_thread(_free, socket_path(settings))
    async with client:
        server = await _listen(hub, path)
        told = asyncio.create_task(stop.wait())
        tasks = {told, asyncio.create_task(hub.follow()), asyncio.create_task(_beat(client))}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        server.close()
        for task in tasks - done:
            task.cancel()
        with contextlib.suppress(*_OUTAGE):
            await client.delete(keys.alive("controller", _ident()))
        path.unlink(missing_ok=True)
        for task in done - {told}:
            task.result()  # a fault of ours: end with its traceback, whoever watches us starts us again


async def _listen(hub: Hub, path: Path) -> asyncio.Server:
    before = os.umask(0o177)  # ours alone: events name feeds that people read
    try:
        return await asyncio.start_unix_server(hub.serve, path, limit=LINE_MAX)
    except OSError as e:
        raise StartupError(f"The controller cannot listen at {path}: {e.strerror}.") from e
    finally:
        os.umask(before)


def _free(path: Path) -> Path:
    """Make room for the socket; one that a killed controller left is removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as e:
        raise StartupError(f"The folder {path.parent} cannot be made: {e.strerror}.") from e
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return path
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return path
        except OSError as e:
            raise StartupError(f"The controller cannot listen at {path}: {e}.") from e
    raise StartupError("Another controller runs here already. Stop it first, or use another EVENTR_HOME.")


async def _beat(client: redis.asyncio.Redis) -> None:
    ready = False
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": clock.now().isoformat()})
    while True:
        try:
            await client.set(keys.alive("controller", _ident()), text, ex=keys.ALIVE_SECONDS)
        except _OUTAGE:
            _log.warning("redis_silent", while_="heartbeat")
        else:
            if not ready:
                ready = True
                _log.info("ready", pid=os.getpid())
        await asyncio.sleep(_BEAT)


def _ident() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
