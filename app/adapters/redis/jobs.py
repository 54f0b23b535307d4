"""The job queue in Redis: the only port that enqueues jobs, as RQ jobs with the JSON serializer.

    jobs = RedisJobs(settings)
    ticket = jobs.enqueue(Job(Task.PULL, {"feed_ids": [17]}, Queue.PULL))
    for outcome in jobs.await_many([ticket], timeout=5): ...

The id of a job is the hash of its task and arguments, so the same work is never queued twice. RQ's own
``enqueue`` isn't used: it queues an id twice, or refuses an id for as long as an old record exists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app.adapters.redis.lua import run_all
from app.config import Settings
from app.errors import DrainingError, InvalidError, StoreError, TooLargeError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, JobView, Outcome, State, Task, Ticket
from app.runtime import identity_map, redis_errors
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy
from controller.client import ResultReader

#: Longest JSON of a job's arguments, bytes, and longest text in it (J06): enough for ids and addresses.
ARGS_MAX = 64 << 10
TEXT_MAX = 4096
_BATCH = 500


def canonicalise_args(args: dict[str, Any]) -> str:
    """Return the canonical JSON text of arguments: sorted keys, no spaces.

    Raises:
        InvalidError: not JSON, or more than ids: values must be numbers, short texts and lists of them.
        TooLargeError: longer than 64 KiB.
    """
    for name, value in args.items():
        if not all(_is_id(item) for item in (value if isinstance(value, list | tuple) else [value])):
            raise InvalidError("A job's arguments can contain only IDs.", argument=name)
    try:
        text = json.dumps(args, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as e:
        raise InvalidError("A job's arguments must be JSON.") from e
    if len(text) > ARGS_MAX:
        raise TooLargeError("This job's arguments are too long.", length=len(text), limit=ARGS_MAX)
    return text


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT_MAX
    return value is None or isinstance(value, int | float | bool)


def hash_job(task: str, args: dict[str, Any]) -> str:
    """Return the identity of a job: 32 hex digits over its task and arguments."""
    # Not for security: RQ allows [A-Za-z0-9_-] in ids, and 128 bits never collide by accident.
    return hashlib.md5(f"{task}\n{canonicalise_args(args)}".encode(), usedforsecurity=False).hexdigest()


def _subject(job: Job) -> str:
    """Return the subject of a job about one feed, else "": crashes of all jobs about it count together."""
    if job.task == Task.WEBSUB_PULL:
        return redis_keys.make_feed_subject(job.args["feed_id"])
    feeds: list[int] = job.args.get("feed_ids", []) if job.task in (Task.PULL, Task.PULL_SYSTEM) else []
    return redis_keys.make_feed_subject(feeds[0]) if len(feeds) == 1 else ""


class RedisJobs:
    """:class:`app.ports.JobPort` on Redis. Connects at first use; safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @lazy
    def _client(self) -> redis.Redis:
        # Few retries: a page that waits for Redis reports the outage after a second. ENQUEUE is repeatable.
        retry = Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.5), 3)
        return connections.connect(self._settings.redis_url, retry=retry)

    @lazy
    def _script(self) -> Any:
        text = resources.files("app.adapters.redis").joinpath("enqueue.lua").read_text()
        return self._client.register_script(text)

    @lazy
    def _results(self) -> ResultReader:
        return ResultReader.from_settings(self._settings)

    def enqueue(self, job: Job) -> Ticket:
        """Queue a job, or join the same one; see :class:`app.ports.JobPort`."""
        return self.enqueue_many([job])[0]

    def enqueue_many(
        self, jobs: Sequence[Job], *, front: bool = False, parents: Sequence[str] = ()
    ) -> list[Ticket]:
        """Queue many jobs, 500 per round trip.

        Args:
            jobs: the jobs; tickets are returned in their order.
            front: queue before all waiting jobs, for parts of a job that has already waited.
            parents: attempt tokens of a dead job whose work these jobs continue; see ``Context.parents``.

        Raises:
            DrainingError: a queue accepts no new jobs; jobs of other queues may have been queued.
        """
        calls = [self._call(job, front, parents) for job in jobs]
        replies: list[Any] = []
        with _store():
            for start in range(0, len(calls), _BATCH):
                some = calls[start : start + _BATCH]
                replies += run_all(
                    self._client,
                    [(self._script, names, args) for names, args in some],
                    replicas=self._settings.redis_replicas,
                )
        if any(fresh < 0 for fresh, _ in replies):
            raise DrainingError
        return [
            Ticket(args[0], int(since), bool(fresh))
            for (_, args), (fresh, since) in zip(calls, replies, strict=True)
        ]

    def enqueue_in(self, pipe: Any, jobs: Sequence[Job]) -> list[str]:
        """Add jobs to the caller's transaction; return their ids in order.

        Args:
            pipe: a pipeline of redis-py. It gets one script per job, whose reply is (fresh, since). ``fresh``
                is 1, 0 for a job that already existed, -1 if the queue accepts no new jobs.
            jobs: the jobs.
        """
        calls = [self._call(job, front=False, parents=()) for job in jobs]
        for names, args in calls:
            self._script(keys=names, args=args, client=pipe)
        return [args[0] for _, args in calls]

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> Iterator[Outcome]:
        """Yield outcomes as they arrive; see :class:`app.ports.JobPort`."""
        with _store():
            for outcome in self._results.await_many(tickets, timeout):
                identity_map.forget_all()  # the job may have changed what the caller reads next
                yield outcome
        identity_map.forget_all()

    def get_status(self, job_id: str) -> JobView:
        """Return the current state of a job."""
        names = ("status", "progress", "error", "failures", "crashes")
        with _store():
            row: list[Any] = self._client.hmget(redis_keys.make_job_key(job_id), names)
        state, progress, error, failures, crashes = (v.decode() if v else "" for v in row)
        return JobView(
            id=job_id,
            state=State(state) if state in set(State) else State.MISSING,
            progress=json.loads(progress) if progress else {},
            error=error or None,
            failures=int(failures or 0),
            crashes=int(crashes or 0),
        )

    def is_running(self, job_id: str, since: int, attempt: int) -> bool:
        """Return whether this attempt of a job still runs: it has not ended, and no worker took it over."""
        with _store():
            names = ("status", "since", "attempts")
            row: list[Any] = self._client.hmget(redis_keys.make_job_key(job_id), names)
        return [value and value.decode() for value in row] == [State.STARTED, str(since), str(attempt)]

    def clear_crashes(self, feed_id: int) -> None:
        """Forget the crashes of jobs about this feed only, after a successful read."""
        with _store():
            self._client.delete(redis_keys.make_crashes_key(redis_keys.make_feed_subject(feed_id)))

    def ping(self) -> None:
        """Raise StoreError if Redis doesn't answer, or rejects Eventr's login; the sentence then says so."""
        try:
            with _store():
                self._client.ping()
        except StoreError as e:
            if problem := redis_errors.describe_refusal(e.__cause__):
                raise StoreError(problem) from e
            raise

    def close(self) -> None:
        """Close connections that were opened."""
        for name in ("_client", "_results"):
            if (part := self.__dict__.get(name)) is not None:
                part.close()

    def _call(self, job: Job, front: bool, parents: Sequence[str]) -> tuple[list[str], list[Any]]:
        ident = hash_job(job.task, job.args)
        names = [
            redis_keys.make_job_key(ident),
            redis_keys.make_queue_key(job.queue),
            redis_keys.make_results_key(ident),
            redis_keys.QUEUES,
        ]
        names += [redis_keys.DRAINING, redis_keys.DEAD]
        fields: dict[str, Any] = self._record(ident, job).to_dict(include_result=False)
        if subject := _subject(job):
            fields["subject"] = subject
        if parents:
            fields["parents"] = " ".join(parents)
        # The script sets RQ's status, because only the script knows whether the job is queued.
        del fields["status"]
        flat = [part for pair in fields.items() for part in pair]
        return names, [ident, str(job.queue), int(front), redis_keys.WAKE, *flat]

    def _record(self, ident: str, job: Job) -> RqJob:
        settings = self._settings
        record = RqJob.create(
            str(job.task),
            kwargs=job.args,
            id=ident,
            connection=self._client,
            serializer=JSONSerializer,
            origin=str(job.queue),
            description=str(job.task),
            timeout=settings.job_timeout,
            result_ttl=settings.result_ttl,
            failure_ttl=settings.failure_ttl,
        )
        record.enqueued_at = record.created_at
        return record


@contextmanager
def _store() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as e:
        raise StoreError from e
