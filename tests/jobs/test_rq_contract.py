"""What we rely on in RQ: its classes read what our scripts write, and the worker methods that we call.

RQ is pinned to one minor version; when these fail after an upgrade, the scripts must follow its model.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import redis
import rq
from rq.job import Job as RqJob
from rq.job import JobStatus
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.results import Result
from rq.serializers import JSONSerializer
from rq.worker import BaseWorker

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from tests.jobs import support
from tests.jobs.conftest import Engine
from workers import outcome


def _fetch(client: redis.Redis, job_id: str) -> RqJob:
    return RqJob.fetch(job_id, connection=client, serializer=JSONSerializer)


def test_rq_reads_a_queued_job(jobs: RedisJobs, redis_client: redis.Redis, settings: Settings) -> None:
    ticket = jobs.enqueue(Job(Task.ECHO, {"feed_ids": [1, 2]}, Queue.PULL))
    record = _fetch(redis_client, ticket.id)
    assert (record.func_name, record.kwargs, record.args) == (Task.ECHO, {"feed_ids": [1, 2]}, [])
    assert (record.origin, record.get_status()) == (Queue.PULL, JobStatus.QUEUED)
    assert (record.result_ttl, record.failure_ttl) == (settings.result_ttl, settings.failure_ttl)
    assert record.enqueued_at is not None
    queue = rq.Queue(Queue.PULL, connection=redis_client, serializer=JSONSerializer)
    assert queue.job_ids == [ticket.id]
    assert [q.name for q in rq.Queue.all(redis_client, serializer=JSONSerializer)] == [Queue.PULL]


def test_rq_reads_a_started_and_a_finished_job(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
    (taken,) = desk.claim_jobs(1, {}, ())
    record = _fetch(redis_client, ticket.id)
    assert (record.get_status(), record.worker_name) == (JobStatus.STARTED, "w1")
    assert record.started_at is not None
    desk.finish([outcome.finish_job(taken, {"new": 3}, settings)])
    record = _fetch(redis_client, ticket.id)
    assert record.get_status() == JobStatus.FINISHED
    assert record.return_value() == {"new": 3}
    result = record.latest_result()
    assert result is not None
    assert (result.type, result.worker_name) == (Result.Type.SUCCESSFUL, "w1")
    registry = FinishedJobRegistry(Queue.PULL, connection=redis_client, serializer=JSONSerializer)
    assert registry.get_job_ids(cleanup=False) == [ticket.id]
    for key in (redis_keys.make_job_key(ticket.id), redis_keys.make_results_key(ticket.id)):
        assert 0 < int(redis_client.ttl(key)) <= settings.result_ttl  # type: ignore[arg-type]


def test_rq_reads_retries_and_failures(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, eventually: Any
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([outcome.fail_job(taken, ValueError("secret"), settings)])
    scheduled = ScheduledJobRegistry(Queue.PULL, connection=redis_client, serializer=JSONSerializer)
    assert scheduled.get_job_ids(cleanup=False) == [ticket.id]
    assert _fetch(redis_client, ticket.id).get_status() == JobStatus.SCHEDULED
    (taken,) = eventually(lambda: desk.claim_jobs(1, {}, ()))
    desk.finish([outcome.fail_job(taken, outcome.BadJobError("bad_job", "No."), settings)])
    record = _fetch(redis_client, ticket.id)
    result = record.latest_result()
    assert result is not None
    assert (record.get_status(), result.type) == (JobStatus.FAILED, Result.Type.FAILED)
    assert str(result.exc_string).startswith("bad_job: No.")
    failed = FailedJobRegistry(Queue.PULL, connection=redis_client, serializer=JSONSerializer)
    assert failed.get_job_ids(cleanup=False) == [ticket.id]


def test_rq_sees_our_workers(engine: Engine, eventually: Any) -> None:
    found = eventually(lambda: rq.Worker.all(engine.client, serializer=JSONSerializer))
    assert {queue.name for worker in found for queue in worker.queues} <= set(Queue)
    assert {worker.name for worker in found} <= set(support.workers(engine.client))
    engine.manager.stop()
    assert rq.Worker.all(engine.client, serializer=JSONSerializer) == []


def test_the_methods_that_we_call_or_override_are_there() -> None:
    for name in ("register_birth", "register_death", "heartbeat", "work"):
        assert callable(getattr(BaseWorker, name))
    wanted = {"queues", "name", "connection", "serializer", "worker_ttl"}
    assert wanted <= set(inspect.signature(BaseWorker.__init__).parameters)
    wanted = {"kwargs", "id", "connection", "serializer", "origin", "timeout", "result_ttl", "failure_ttl"}
    assert wanted <= set(inspect.signature(RqJob.create).parameters)
    assert "include_result" in inspect.signature(RqJob.to_dict).parameters
    assert JSONSerializer.loads(json.dumps([1]).encode()) == [1]
    prefixes = (RqJob.redis_job_namespace_prefix, rq.Queue.redis_queue_namespace_prefix)
    assert prefixes == (redis_keys.JOB, redis_keys.QUEUE)
    registries = (FinishedJobRegistry, FailedJobRegistry, ScheduledJobRegistry)
    templates = [registry.key_template.format("") for registry in registries]
    assert templates == [redis_keys.FINISHED, redis_keys.FAILED, redis_keys.SCHEDULED]
