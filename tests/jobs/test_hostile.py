"""Jobs that somebody else wrote into Redis: nothing of theirs runs, and they end dead with a reason."""

from __future__ import annotations

import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
import redis
from rq.utils import now, utcformat

from app.adapters.redis.jobs import RedisJobs
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Outcome, Queue, Task, Ticket
from tests.jobs import support
from tests.jobs.conftest import Engine
from workers import job as taken


class _Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def _plant(client: redis.Redis, job_id: str, data: bytes, **fields: Any) -> None:
    row = {"data": data, "status": "queued", "origin": "feed-pull", "created_at": utcformat(now()), **fields}
    client.hset(redis_keys.make_job_key(job_id), mapping=row)
    client.rpush(redis_keys.make_queue_key(Queue.PULL), job_id)


def _await(jobs: RedisJobs, job_ids: list[str]) -> dict[str, Outcome]:
    return {o.id: o for o in jobs.await_many([Ticket(i, 1) for i in job_ids], 30)}


def test_J01_code_put_into_redis_never_runs(engine: Engine, tmp_path: Path) -> None:
    jobs, redis_client = engine.jobs, engine.client
    touched = tmp_path / "X"
    command = f"touch {touched}"
    call = json.dumps(["os.system", None, [command], {}]).encode()
    method = json.dumps(["system", "os", [command], {}]).encode()
    builtin = json.dumps(["builtins.eval", None, [f"open({str(touched)!r}, 'w')"], {}]).encode()
    echo = json.dumps([str(Task.ECHO), None, [], {"a": 1}]).encode()
    bomb = pickle.dumps(_Bomb(touched))
    hooks = {
        name: "os.system"
        for name in ("success_callback_name", "failure_callback_name", "stopped_callback_name")
    }
    _plant(redis_client, "pickled", zlib.compress(pickle.dumps(("os.system", None, (_Bomb(touched),), {}))))
    _plant(redis_client, "plain-pickle", bomb)
    _plant(redis_client, "named", zlib.compress(call))
    _plant(redis_client, "plain-named", call)
    _plant(redis_client, "method", zlib.compress(method))
    _plant(redis_client, "builtin", zlib.compress(builtin))
    _plant(redis_client, "private", json.dumps(["workers.tasks.selftest._kill", None, [], {}]).encode())
    _plant(
        redis_client, "hooked", zlib.compress(echo), meta=bomb, result=bomb, dependency_id="named", **hooks
    )
    ends = _await(
        jobs, ["pickled", "plain-pickle", "named", "plain-named", "method", "builtin", "private", "hooked"]
    )
    errors = {job_id: outcome.error for job_id, outcome in ends.items()}
    assert errors.pop("hooked") is None
    assert {errors.pop("pickled"), errors.pop("plain-pickle")} == {"bad_job"}
    assert set(errors.values()) == {"unknown_task"}
    assert len(errors) == 5
    assert not touched.exists()
    dead = {job_id.decode() for job_id in redis_client.zrange(redis_keys.FAILED + Queue.PULL, 0, -1)}  # type: ignore[union-attr]
    assert dead & set(ends) == set(ends) - {"hooked"}
    assert all(outcome.message for outcome in ends.values() if outcome.error)


def test_J01_broken_jobs_end_dead_and_others_go_on(engine: Engine) -> None:
    jobs, redis_client = engine.jobs, engine.client
    name = str(Task.ECHO)
    shapes: dict[str, bytes] = {
        "empty": b"",
        "no-json": b"\xff\xfe",
        "scalar": b"7",
        "short": json.dumps([name]).encode(),
        "no-name": json.dumps([None, None, [], {}]).encode(),
        "no-dict": json.dumps([name, None, [], [1]]).encode(),
        "positional": json.dumps([name, None, [1], {}]).encode(),
        "deep": b"[" * 50_000,
        "wrong-args": json.dumps([str(Task.SLEEP), None, [], {"minutes": 1}]).encode(),
    }
    for job_id, data in shapes.items():
        _plant(redis_client, job_id, data, attempts="0")
    redis_client.set(redis_keys.make_job_key("string"), "no hash")
    redis_client.rpush(redis_keys.make_queue_key(Queue.PULL), "string", "gone", "not an id: \xff")
    good = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
    assert [outcome.error for outcome in jobs.await_many([good], 30)] == [None]
    ends = _await(jobs, list(shapes))
    assert {ends.pop("wrong-args").error} == {"bad_arguments"}
    assert {outcome.error for outcome in ends.values()} == {"bad_job"}
    assert len(ends) == len(shapes) - 1
    assert not any(support.leftovers(redis_client).values())


def test_J06_a_packed_flood_is_not_unpacked() -> None:
    flood = zlib.compress(b'["selftest.echo", null, [], {"a": "' + b"x" * (64 << 20) + b'"}]')
    assert len(flood) < 100_000
    job = taken.parse_job([b"a", b"feed-pull", 1, b"1", flood, b"0", b"0", b"", b"0"])
    assert job.problem is not None
    assert job.problem[0] == "bad_job"
    assert job.args == {}


@pytest.mark.parametrize("number", [b"", b"-1", b"x", b"1e9", "٣".encode()])
def test_J01_odd_counters_count_as_none(number: bytes) -> None:
    job = taken.parse_job([b"a", b"feed-pull", 1, number, b"[]", number, number, b"", number])
    assert (job.since, job.failures, job.crashes) == (0, 0, 0)


def test_J06_redis_holds_no_secret_and_no_text_of_an_error(engine: Engine) -> None:
    jobs, redis_client, settings = engine.jobs, engine.client, engine.settings
    ticket = jobs.enqueue(Job(Task.CRASH, {"how": "raise"}, Queue.PULL))
    (outcome,) = jobs.await_many([ticket], 30)
    assert outcome.error == "unexpected"
    dumped = b"".join(_texts(redis_client))
    assert b"RuntimeError" in dumped
    assert b"canary" not in dumped
    assert b"mongodb" not in dumped
    assert settings.redis_url.encode() not in dumped


def _texts(client: redis.Redis) -> list[bytes]:
    """All values of Redis, compressed and encoded ones also in clear."""
    texts = [client.dump(key) or b"" for key in client.scan_iter()]
    for key in client.scan_iter(redis_keys.RESULTS + "*"):
        job_id = key.decode().removeprefix(redis_keys.RESULTS)
        texts += [str(view).encode() for view in client.xrange(key)]  # type: ignore[union-attr]
        texts.append(str(_report(client, job_id)).encode())
    # By type: beside the jobs, what RQ keeps of one has the same prefix.
    for key in client.scan_iter(redis_keys.JOB + "*", _type="hash"):
        texts += list(client.hgetall(key).values())  # type: ignore[union-attr]
    return texts


def _report(client: redis.Redis, job_id: str) -> str | None:
    from rq.job import Job as RqJob
    from rq.serializers import JSONSerializer

    result = RqJob.fetch(job_id, connection=client, serializer=JSONSerializer).latest_result()
    return result.exc_string if result else None
