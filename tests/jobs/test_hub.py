"""The controller: subscribe before or after, resume, and what it refuses; on the real process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from controller import messages
from controller.follower import Follower, connect
from controller.hub import Hub
from controller.messages import Event, Refused, Subscribe, Subscribed
from tests.jobs import support
from workers import outcome


@pytest.fixture
def settings(settings: Settings) -> Iterator[Settings]:
    # The path of a unix socket must be short.
    with tempfile.TemporaryDirectory(prefix="eventr-test-") as home:
        yield dataclasses.replace(settings, home=Path(home))


@pytest.fixture
def controller(settings: Settings, redis_client: redis.Redis, eventually: Any) -> Iterator[support.Process]:
    with support.running("controller.main", settings, "controller") as process:
        eventually(
            lambda: next(redis_client.scan_iter(redis_keys.make_alive_key("controller", "*")), None),
        )
        yield process


@contextlib.contextmanager
def _connected(settings: Settings) -> Iterator[Any]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(str(messages.get_socket_path(settings)))
        with line.makefile("rwb") as stream:
            yield stream


@contextlib.contextmanager
def _subscribed(settings: Settings, wanted: Subscribe) -> Iterator[Any]:
    with _connected(settings) as stream:
        stream.write(messages.encode(wanted))
        stream.flush()
        assert isinstance(messages.decode(stream.readline()), Subscribed)
        yield stream


def _read(stream: Any, count: int) -> list[Event]:
    found = [messages.decode(stream.readline()) for _ in range(count)]
    assert all(isinstance(message, Event) for message in found)
    return found  # type: ignore[return-value]


def _run(jobs: RedisJobs, client: redis.Redis, settings: Settings, keys_: range) -> list[str]:
    """Run jobs to their end; three events each: started, progress, finished."""
    desk = support.desk(client, settings)
    tickets = jobs.enqueue_many([Job(Task.ECHO, {"key": key}, Queue.PULL) for key in keys_])
    for job in desk.claim_jobs(len(tickets), {}, ()):
        desk.report([outcome.ProgressReport(job, {"step": 1})])
        desk.finish([outcome.finish_job(job, None, settings)])
    return [ticket.id for ticket in tickets]


def test_events_reach_who_subscribed_and_nobody_else(
    controller: support.Process, settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    wanted = RedisJobs(settings).enqueue(Job(Task.ECHO, {"key": 3}, Queue.PULL)).id
    with _subscribed(settings, Subscribe()) as everything, _subscribed(settings, Subscribe((wanted,))) as one:
        ids = _run(jobs, redis_client, settings, range(5))
        seen = _read(everything, 15)
        assert sorted(event.id for event in seen if event.kind == "finished") == sorted(ids)
        mine = _read(one, 3)
        assert [event.kind for event in mine] == ["started", "progress", "finished"]
        assert {event.id for event in mine} == {wanted}
        assert json.loads(mine[1].fields["data"]) == {"step": 1}
        assert mine[0].fields["task"] == Task.ECHO


def test_a_late_subscriber_is_told_the_end_at_once(
    controller: support.Process, settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    ids = _run(jobs, redis_client, settings, range(3))
    with _subscribed(settings, Subscribe(tuple(ids))) as stream:
        assert [(event.kind, event.at) for event in _read(stream, 3)] == [("finished", "")] * 3


def test_a_subscriber_resumes_without_loss_also_over_a_restart(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Any
) -> None:
    alive = redis_keys.make_alive_key("controller", "*")
    with support.running("controller.main", settings, "first") as first:
        eventually(lambda: next(redis_client.scan_iter(alive), None))
        with _subscribed(settings, Subscribe()) as stream:
            _run(jobs, redis_client, settings, range(4))
            seen = _read(stream, 6)
            first.stop(9)
    _run(jobs, redis_client, settings, range(4, 8))
    redis_client.delete("none", *redis_client.scan_iter(alive))  # it may have run out
    with support.running("controller.main", settings, "second") as second:
        eventually(lambda: next(redis_client.scan_iter(alive), None))
        with _subscribed(settings, Subscribe(since=seen[-1].at)) as stream:
            seen += _read(stream, 18)
            _run(jobs, redis_client, settings, range(8, 9))
            seen += _read(stream, 3)
        assert second.stop() == 0
    rows: list[Any] = redis_client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    assert [event.at for event in seen] == [at.decode() for at, _ in rows]
    assert not messages.get_socket_path(settings).exists()


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n",
        b"[]\n",
        b'{"op": "nothing"}\n',
        b'{"op": "subscribe", "ids": "all"}\n',
        b'{"op": "subscribe", "more": 1}\n',
        b'{"op": "event", "at": "", "kind": "x", "id": "y"}\n',
        b"x" * (messages.LINE_MAX + 100) + b"\n",
    ],
    ids=["http", "list", "unknown", "ids", "field", "event", "long"],
)
def test_other_lines_are_refused(line: bytes) -> None:
    """Each wrong first line is answered with one sentence and hung up on."""

    async def converse(path: Path) -> list[bytes]:
        server = await asyncio.start_unix_server(Hub(None, _nowhere).serve, path, limit=messages.LINE_MAX)
        async with server:
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(line)
            answer = [await reader.readline(), await reader.read()]
            writer.close()
            return answer

    with tempfile.TemporaryDirectory(prefix="eventr-test-") as folder:
        first, rest = asyncio.run(converse(Path(folder) / "hub.sock"))
    assert isinstance(messages.decode(first), Refused)
    assert rest == b""


async def _nowhere() -> str:
    return "0-0"


def test_who_subscribes_before_the_hub_knows_its_place_misses_nothing(
    settings: Settings, redis_client: redis.Redis
) -> None:
    """As who comes back right after a restart, or when Redis came later than the controller."""

    async def converse(path: Path) -> list[messages.Message]:
        async with connect(settings.redis_url) as client:
            follower = Follower(client, (redis_keys.EVENTS,), lambda _, rows: None, lambda: None)
            hub = Hub(client, lambda: follower.get_position(redis_keys.EVENTS))
            async with await asyncio.start_unix_server(hub.serve, path):
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(messages.encode(Subscribe(since="0-0")))
                answer = asyncio.create_task(reader.readline())
                await asyncio.wait({answer}, timeout=0.5)
                await follower.seek_newest()
                said = [await answer, await reader.readline()]
                writer.close()
                return [messages.decode(line) for line in said]

    at = redis_client.xadd(redis_keys.EVENTS, {"kind": "started", "id": "missed"}).decode()  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="eventr-test-") as folder:
        said = asyncio.run(asyncio.wait_for(converse(Path(folder) / "hub.sock"), 30))
    assert said == [Subscribed(at), Event(at, "started", "missed", {})]


def test_who_is_told_the_end_is_not_told_the_beginning_after_it(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    """A hub that is behind tells the state that it reads, and comes to what led to it afterwards."""
    (old,) = _run(jobs, redis_client, settings, range(1))

    async def converse(path: Path) -> list[messages.Message]:
        async with connect(settings.redis_url) as client:
            hub = Hub(client, _nowhere)
            async with await asyncio.start_unix_server(hub.serve, path):
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(messages.encode(Subscribe((old,))))
                said = [await reader.readline(), await reader.readline()]
                # Once more, as when it is queued again.
                await asyncio.to_thread(_run, jobs, redis_client, settings, range(1))
                hub.handle_events(await client.xrange(redis_keys.EVENTS))
                said += [await reader.readline() for _ in range(3)]
                writer.close()
                return [messages.decode(line) for line in said]

    with tempfile.TemporaryDirectory(prefix="eventr-test-") as folder:
        hello, *events = asyncio.run(asyncio.wait_for(converse(Path(folder) / "hub.sock"), 30))
    assert isinstance(hello, Subscribed)
    rows: list[Any] = redis_client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    told = [(event.at, event.kind) for event in events if isinstance(event, Event)]
    again = [(at.decode(), row[b"kind"].decode()) for at, row in rows[3:]]
    assert [kind for _, kind in again] == ["started", "progress", "finished"]
    assert told == [("", "finished"), *again]


def test_nobody_is_told_that_he_is_heard_before_the_states_are_read() -> None:
    """What he does then would reach him as a state, and what led to it after that."""

    async def converse(path: Path) -> list[bytes]:
        client = connect(f"unix://{path}.none")
        async with await asyncio.start_unix_server(Hub(client, _nowhere).serve, path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(messages.encode(Subscribe(("some",))))
            said = [await reader.readline(), await reader.read()]
            writer.close()
            return said

    with tempfile.TemporaryDirectory(prefix="eventr-test-") as folder:
        said, rest = asyncio.run(asyncio.wait_for(converse(Path(folder) / "hub.sock"), 30))
    assert messages.decode(said) == Refused("Redis isn't responding")
    assert rest == b""


def test_a_second_controller_is_refused(controller: support.Process, settings: Settings) -> None:
    other = support.Process("controller.main", settings, settings.home / "other.log")
    assert other.popen.wait(60) != 0
    assert "Another controller is already running here" in other.log.read_text()
    assert messages.get_socket_path(settings).stat().st_mode & 0o777 == 0o600
