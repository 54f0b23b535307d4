"""The worker's side of the queue protocol: claim jobs, record outcomes, report progress. Blocking calls.

A claimed job is in the worker's in-flight list in Redis from the moment it leaves the queue until its
outcome is recorded. So a worker can die at any instruction and its manager finds its jobs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq.utils import now, utcformat

from app.adapters.redis.lua import Call, load_scripts, run_all
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import USER_QUEUES
from app.runtime import redis_connections as connections
from workers.job import ClaimedJob, parse_job
from workers.outcome import AttemptOutcome, ProgressReport


class UnregisteredError(Exception):
    """This worker's jobs were recovered, or Redis was emptied: the worker must end."""


def connect(redis_url: str) -> redis.Redis:
    """Return a client without automatic retries: a TAKE sent twice would claim twice."""
    return connections.connect(redis_url, retry=Retry(NoBackoff(), 0))


def load_script(name: str) -> str:
    """Return a script, with the shared part for scripts that end jobs in front of it."""
    text = resources.files("workers").joinpath(f"{name}.lua").read_text()
    shared = (
        resources.files("app.adapters.redis").joinpath("bury.lua").read_text() if name == "finish" else ""
    )
    return shared + text


class QueueClient:
    """Claims and ends jobs in the name of one worker. One call at a time per instance.

    Raises:
        StoreError: By each method, if Redis doesn't answer; the call may have had its effect.
    """

    def __init__(
        self,
        client: redis.Redis,
        worker: str,
        queues: Sequence[str],
        dead_max: int = 10_000,
        replicas: int = 0,
    ) -> None:
        self._client, self._dead_max, self._replicas = client, dead_max, replicas
        self._worker = worker
        self._queues = tuple(queues)
        self._inflight = redis_keys.make_inflight_key(worker)
        #: Whether this client has ever claimed; how often it has connected; and how often when the jobs that
        #: Redis holds for it were last certain (None: a reply was lost).
        self._known, self._connects = False, 0
        self._certain: int | None = None
        connections.notify_connects(client, self._count_connect)
        self._line: Any = None  # a connection for outcomes that are sent without waiting
        self._scripts = [
            client.register_script(load_script(name))
            for name in ("take", "finish", "put_back_unknown", "progress")
        ]
        self._take, self._finish, self._put_back, self._progress = self._scripts
        #: Seconds until the next retry in its queues, as the last :meth:`claim_jobs` saw it if it claimed
        #: nothing; None: there is none.
        self.next_retry: float | None = None

    def set_queues(self, queues: Sequence[str]) -> None:
        """Claim from these queues from now on, by priority."""
        self._queues = tuple(queues)

    def claim_jobs(
        self, limit: int, caps: Mapping[str, int], held: Iterable[ClaimedJob], system: int | None = None
    ) -> list[ClaimedJob]:
        """Claim up to ``limit`` jobs by priority, from each queue at most its cap.

        Args:
            limit: Most jobs to claim.
            caps: Most jobs per queue; a queue without an entry has no cap.
            held: The jobs that this worker knows it holds. After a lost reply, all others are put back.
            system: Most jobs of all system queues together; None: no limit.

        Raises:
            UnregisteredError: This worker may not claim jobs anymore.
        """
        self.next_retry = None
        names = [self._inflight, redis_keys.WORKERS, redis_keys.EVENTS, redis_keys.PAUSED]
        args: list[Any] = [self._worker, limit, utcformat(now()), redis_keys.EVENTS_KEPT]
        args.append(limit if system is None else system)
        for queue in self._queues:
            names += [redis_keys.make_queue_key(queue), redis_keys.SCHEDULED + queue]
            args += [caps.get(queue, limit), int(queue not in USER_QUEUES)]
        try:
            if self._certain != self._connects:
                self._settle_claims(held)
            before, self._certain = self._connects, None
            rows = run_all(self._client, [(self._take, names, args)], replicas=self._replicas)[0]
            self._certain = before
        except redis.RedisError as e:
            raise StoreError from e
        if rows is None:
            raise UnregisteredError(self._worker)
        if not isinstance(rows[0], list):
            self.next_retry = max(0.0, float(rows[0])) if rows[0] else None
            return []
        return [parse_job(row) for row in rows]

    def _count_connect(self) -> None:
        self._connects += 1

    def _settle_claims(self, held: Iterable[ClaimedJob]) -> None:
        """Put back what Redis holds for this worker unknown to it.

        That is the claims of a lost reply, and, where a fail-over led to another server, jobs whose end that
        server has never heard of.
        """
        # Load all scripts at once: this may be a different Redis than before, and progress delayed by a
        # missing script would arrive after its job's end and be lost.
        load_scripts(self._client, self._scripts)
        if self._known:
            tokens = [job.token for job in held]
            self._put_back(
                keys=[self._inflight, redis_keys.EVENTS], args=[self._worker, redis_keys.EVENTS_KEPT, *tokens]
            )
        self._known = True

    def limit_pause(self, seconds: float) -> float:
        """Return how long an idle worker may sleep: these seconds, or until the next retry."""
        return seconds if self.next_retry is None else min(seconds, self.next_retry)

    def finish(
        self, outcomes: Sequence[AttemptOutcome], reports: Sequence[ProgressReport] = ()
    ) -> list[bool]:
        """Record outcomes in one round trip; False if a job was no longer this worker's.

        Safe to repeat: an outcome that is recorded already is refused.

        Args:
            outcomes: The outcomes to record.
            reports: Progress to publish first; progress of ended attempts is ignored.
        """
        stamp = utcformat(now())
        calls = [self._progress_of(report) for report in reports]
        calls += [(self._finish, self._names(end.job), self._args(end, stamp)) for end in outcomes]
        try:
            return [bool(done) for done in run_all(self._client, calls)[len(reports) :]]
        except redis.RedisError as e:
            raise StoreError from e

    def send_outcome(self, outcome: AttemptOutcome) -> None:
        """Record an outcome without waiting for the answer, which :meth:`read_answer` returns in order.

        After a StoreError from this method, :meth:`has_answer` or :meth:`read_answer`, the outcomes without
        an answer are uncertain: repeat them with :meth:`finish`.
        """
        names, args = self._names(outcome.job), self._args(outcome, utcformat(now()))
        with self._on_line():
            if self._line is None:
                load_scripts(self._client, self._scripts)
                self._line = self._client.connection_pool.get_connection()
            self._line.send_command("EVALSHA", self._finish.sha, len(names), *names, *args)

    def has_answer(self) -> bool:
        """Return whether :meth:`read_answer` would not wait."""
        with self._on_line():
            return bool(self._line.can_read(0))

    def read_answer(self) -> bool:
        """Wait for the answer to a sent outcome; False: the job was no longer this worker's."""
        with self._on_line():
            return bool(self._line.read_response())

    @contextlib.contextmanager
    def _on_line(self) -> Iterator[None]:
        try:
            yield
        except redis.RedisError as e:
            # Even if Redis was emptied and doesn't know the script.
            self._hang_up()
            raise StoreError from e

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.disconnect()
            self._client.connection_pool.release(line)

    def report(self, reports: Sequence[ProgressReport]) -> None:
        """Publish progress only."""
        self.finish((), reports)

    def _progress_of(self, report: ProgressReport) -> Call:
        job, data = report.job, json.dumps(report.data)
        names = [redis_keys.make_job_key(job.id), redis_keys.EVENTS]
        return self._progress, names, [job.id, job.attempt, data, redis_keys.EVENTS_KEPT, self._worker]

    def _names(self, job: ClaimedJob) -> list[str]:
        return [
            redis_keys.make_job_key(job.id),
            self._inflight,
            redis_keys.make_results_key(job.id),
            redis_keys.EVENTS,
            redis_keys.DEAD,
        ]

    def _args(self, ending: AttemptOutcome, stamp: str) -> list[Any]:
        job = ending.job
        return [
            job.id,
            job.attempt,
            str(ending.kind),
            stamp,
            ending.error,
            ending.message,
            ending.body,
            ending.seconds if ending.kind == "retry" else int(ending.seconds),
            ending.where,
            self._worker,
            job.token,
            redis_keys.EVENTS_KEPT,
            redis_keys.WAKE,
            self._dead_max,
            job.since,
        ]
