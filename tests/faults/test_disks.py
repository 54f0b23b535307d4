"""F10: a disk that fails to flush, or takes only a part of what is written: nothing is acknowledged."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pymongo
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.config import Settings
from app.embedded.mongodb import MongoDB
from app.embedded.redisserver import Redis
from app.embedded.server import Server
from app.errors import StoreError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Store

Eventually = Callable[..., None]


@contextlib.contextmanager
def _running(server: Server) -> Iterator[psutil.Process]:
    server.start()
    try:
        server.wait()
        assert server.process is not None
        yield psutil.Process(server.process.pid)
    finally:
        server.stop()


def _is_traced(pid: int) -> bool:
    found = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return all(re.search(r"^TracerPid:\t[1-9]", status, re.MULTILINE) for status in found)


@contextlib.contextmanager
def fail_flushes(process: psutil.Process) -> Iterator[None]:
    """Let each flush of a process report an error of the disk, inside the block."""
    command = ["strace", "--quiet=attach,exit", "-f", "-p", str(process.pid)]
    command += ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO", "-o", "/dev/null"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        try:
            # Attached as soon as the kernel says so of all threads: any of them may flush.
            while not _is_traced(process.pid):
                assert tracer.poll() is None, tracer.stderr.read() if tracer.stderr else ""
            yield
        finally:
            tracer.send_signal(signal.SIGTERM)
            tracer.wait()


@translate_errors
def _insert(store: Store, number: int) -> None:
    store.database["things"].insert_one({"_id": number})


def test_F10_a_mongodb_whose_disk_fails_to_flush_acknowledges_nothing(
    tmp_path: Path, eventually: Eventually
) -> None:
    """mongod ends itself then; its successor has all that was acknowledged."""
    settings = Settings(home=tmp_path, embedded_cache=1 << 28)
    acknowledged = []
    with _running(MongoDB(settings)) as process, contextlib.closing(_store(settings)) as store:
        for number in range(20):
            _insert(store, number)
            acknowledged.append(number)
        with fail_flushes(process), pytest.raises(StoreError):
            _insert(store, 20)
        eventually(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    with _running(MongoDB(settings)), contextlib.closing(_store(settings)) as store:
        found = [doc["_id"] for doc in store.database["things"].find().sort("_id", pymongo.ASCENDING)]
        assert found[: len(acknowledged)] == acknowledged
        assert found[len(acknowledged) :] in ([], [20]), "written or not, but whole"
        _insert(store, 99)


def _store(settings: Settings) -> Store:
    return Store(MongoDB(settings).address, "faulty")


def test_F10_a_redis_whose_disk_takes_half_a_write_keeps_a_whole_file(tmp_path: Path) -> None:
    """The kernel takes the part up to the limit; Redis refuses further writes and cuts the rest off."""
    settings = Settings(home=tmp_path)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # programs that it starts inherit this
    try:
        acknowledged = _fill(settings)
    finally:
        signal.signal(signal.SIGXFSZ, ignored)
    with _running(Redis(settings)), _client(settings) as client:
        assert [client.get(f"key{n}") for n in range(len(acknowledged))] == acknowledged


def _fill(settings: Settings) -> list[bytes]:
    """Write until a write is cut in the middle, then go on with room; return what was acknowledged."""
    acknowledged: list[bytes] = []
    value = b"x" * 10_000

    def write() -> None:
        with _client(settings) as client:
            client.set(f"key{len(acknowledged)}", value)
        acknowledged.append(value)

    with _running(Redis(settings)) as process:
        write()
        (limit, hard) = process.rlimit(resource.RLIMIT_FSIZE)
        process.rlimit(resource.RLIMIT_FSIZE, (35_000, hard))
        with pytest.raises(redis.ResponseError, match="MISCONF"):
            # While a flush is still running, Redis puts its writes off for up to two seconds.
            _repeat(write, 20_000)
        full = len(acknowledged)
        process.rlimit(resource.RLIMIT_FSIZE, (limit, hard))
        for _ in range(200):
            with contextlib.suppress(redis.ResponseError):
                write()
                if len(acknowledged) > full + 3:
                    break
        assert len(acknowledged) > full + 3, "it goes on by itself"
    return acknowledged


def _repeat(write: Callable[[], None], times: int) -> None:
    for _ in range(times):
        write()


def _client(settings: Settings) -> redis.Redis:
    return redis.Redis.from_url(Redis(settings).address, socket_timeout=30, retry=Retry(NoBackoff(), 0))
