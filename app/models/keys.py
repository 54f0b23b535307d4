"""Every Redis key of Eventr: type, content, expiry. Nothing else spells a key.

Keys that start with ``rq:`` follow RQ's data model, so that RQ's own classes and tools read them.
All scripts assume one Redis (or one primary with replicas), not a Redis Cluster: a job's keys do not
share a hash slot.
"""

from __future__ import annotations

from app.models.jobs import Queue

#: hash · one job: RQ's fields (data, origin, status, created_at, enqueued_at, started_at, ended_at,
#: worker_name, timeout, result_ttl, failure_ttl, description) and ours: ``since`` (ms, first possible
#: stamp of this run's result), ``attempts``, ``failures``, ``crashes``, ``error``, ``progress`` (JSON),
#: ``history`` (one line per failed attempt), ``home`` (queue before it became a suspect), ``parents``.
#: · no expiry until it ends, then result_ttl or failure_ttl.
JOB = "rq:job:"
#: list · job ids in order; head is next · none.
QUEUE = "rq:queue:"
#: set · keys of all queues ever used (RQ's tools list them) · none.
QUEUES = "rq:queues"
#: stream · results of a job, ours has one entry per run · with its job.
RESULTS = "rq:results:"
#: zset · job id → Unix time until which it is kept; by queue · cleaned by each finish.
FINISHED = "rq:finished:"
#: zset · the dead set: job id → Unix time until which it is kept; by queue · cleaned by each finish.
FAILED = "rq:failed:"
#: zset · job id → Unix time at which it is tried again; by queue · emptied by TAKE.
SCHEDULED = "rq:scheduled:"
#: set · keys of the workers' hashes; also per queue, with its name behind a colon · none.
RQ_WORKERS = "rq:workers"
#: hash · what RQ's tools show of a worker · some minutes after its last heartbeat.
RQ_WORKER = "rq:worker:"

#: list · ids of the jobs that one worker has taken and not ended · none; emptied by finish or recovery.
INFLIGHT = "eventr:inflight:"
#: hash · worker name → id of its manager; a worker that is not in it takes nothing · none.
WORKERS = "eventr:workers"
#: zset · manager id → Unix time at which it counts as lost · none; swept by other managers.
MANAGERS = "eventr:managers"
#: stream · what happened to jobs (kind, id, task, queue, worker, …), newest ~20,000 · none.
EVENTS = "eventr:events"
#: channel · wakes idle workers when jobs arrive; a hint only, workers look by themselves too.
WAKE = "eventr:wake"
#: string · JSON {pid, host, since}: ``eventr:alive:<name>:<id>`` of a running process · ALIVE_SECONDS.
ALIVE = "eventr:alive:"
#: string · token of the one updater · its lease.
UPDATER_LEASE = "eventr:lease:updater"

#: string · how often something was tried: ``eventr:try:<what>:<who>`` · with its window. With ``:gate``
#: at its end: exists while no further try is let in · seconds to minutes.
TRIES = "eventr:try:"

ALIVE_SECONDS = 15
#: Newest entries kept in EVENTS, roughly.
EVENTS_KEPT = 20_000


def job(job_id: str) -> str:
    return JOB + job_id


def queue(name: Queue | str) -> str:
    return QUEUE + name


def results(job_id: str) -> str:
    return RESULTS + job_id


def inflight(worker: str) -> str:
    return INFLIGHT + worker


def alive(name: str, ident: str) -> str:
    return f"{ALIVE}{name}:{ident}"
