"""Redis keys: type, content and expiry of every key of Eventr. Nothing else spells a key.

Keys that start with ``rq:`` follow RQ's data model, so that RQ's own classes and tools can read them.
All scripts assume one Redis (or one primary with replicas), not a Redis Cluster: a job's keys don't
share a hash slot.
"""

from __future__ import annotations

from app.models.jobs.jobs import Queue

#: hash · one job: RQ's fields (data, origin, status, created_at, enqueued_at, started_at, ended_at,
#: worker_name, timeout, result_ttl, failure_ttl, description) and ours: ``since`` (ms, earliest possible
#: stamp of this run's result), ``began`` (ms, its last start), ``attempts``, ``failures``, ``crashes``,
#: ``error``, ``progress`` (JSON), ``history`` (a JSON line per failed attempt: attempt, at, worker, error,
#: where), ``home`` (queue before it became a suspect), ``parents``, ``subject`` (the feed it is about).
#: · no expiry until it ends, then result_ttl or failure_ttl.
JOB = "rq:job:"
#: list · job ids in order, next one first · none.
QUEUE = "rq:queue:"
#: set · keys of all queues ever used (RQ's tools list them) · none.
QUEUES = "rq:queues"
#: stream · results of a job, ours has one entry per run · with its job.
RESULTS = "rq:results:"
#: zset · job id → Unix time until which it is kept; by queue · cleaned by each finish.
FINISHED = "rq:finished:"
#: zset · failed jobs as RQ's tools see them: job id → Unix time until which it is kept; by queue
#: · cleaned by each finish.
FAILED = "rq:failed:"
#: zset · job id → Unix time of its retry; by queue · emptied by TAKE.
SCHEDULED = "rq:scheduled:"
#: set · keys of the workers' hashes; also per queue, with its name after a colon · none.
RQ_WORKERS = "rq:workers"
#: hash · a worker as RQ's tools show it · some minutes after its last heartbeat.
RQ_WORKER = "rq:worker:"

#: list · ids of the jobs that one worker has dequeued and not ended · none; emptied by finish or recovery.
INFLIGHT = "eventr:inflight:"
#: hash · worker name → id of its manager; a worker that isn't in it dequeues nothing · none.
WORKERS = "eventr:workers"
#: zset · manager id → Unix time at which it counts as lost · none; swept by other managers.
MANAGERS = "eventr:managers"
#: string · JSON of a manager's report on its groups and workers: ``eventr:manager:<id>``, see
#: ``queue_manager.control.actions.Controls.get_status`` · ALIVE_SECONDS.
MANAGER = "eventr:manager:"
#: zset · id of a controller → Unix time at which it counts as gone · none; swept by other controllers.
CONTROLLERS = "eventr:controllers"
#: zset · the dead set: ids of permanently failed tasks → Unix time of their end, newest ``dead_max``
#: · none; the managers' sweep removes tasks that failure_ttl has expired.
DEAD = "eventr:dead"
#: string · how often workers died on one feed, ``eventr:crashes:<subject>``, in any job
#: · CRASHES_SECONDS after the last.
CRASHES = "eventr:crashes:"
#: set · names of queues that nothing is dequeued from · none; resume removes them.
PAUSED = "eventr:paused"
#: set · names of queues that accept no new jobs · none; resume removes them.
DRAINING = "eventr:draining"
#: hash · live settings of a group or a queue: key → value as text; override the file's · none.
LIVE = "eventr:q:"
#: channel · name of the group or queue whose live settings changed; a hint, managers also check regularly.
LIVE_CHANGED = "eventr:settings"
#: string · id of the manager that last swept stray jobs · the others needn't sweep until it expires.
SWEPT = "eventr:lease:sweep"
#: stream · events of jobs (kind, id, task, queue, worker, …; for small results also stamp, value),
#: newest ~20,000 · none.
EVENTS = "eventr:events"
#: hash · counters of one hour, ``eventr:stats:<hours since 1970>``: counter → number · 49 hours.
STATS = "eventr:stats:"
#: hash · some of these counters by the minute, ``eventr:minutes:<hours since 1970>``: ``MINUTE:WHAT`` →
#: number · 26 hours.
MINUTES = "eventr:minutes:"
#: hash · the counters of all hours together, without peaks; they only ever grow · none.
TOTALS = "eventr:totals"
#: string · number of the hour whose report was last sent · two days.
REPORTED = "eventr:reported"
#: stream · events for people (kind, user, data), newest ~5,000 · PEOPLE_SECONDS after the last.
PEOPLE = "eventr:people"
#: the change log of a database, ``eventr:cache:<database>:``: ``meta`` hash (epoch, number of names so far),
#: ``log`` list of names, ``holds`` zset: token and name → Unix time until which it holds · none. They may be
#: in another Redis (EVENTR_CACHE_URL).
CACHE = "eventr:cache:"
#: string · ids of the feeds that a user follows, 8 bytes each, for the controller · some minutes.
FOLLOWS = "eventr:follows:"
#: channel · wakes idle workers when jobs arrive; only a hint, workers also check regularly.
WAKE = "eventr:wake"
#: string · JSON {pid, host, since}, for a controller also streams and awaited:
#: ``eventr:alive:<name>:<id>`` of a running process · ALIVE_SECONDS.
ALIVE = "eventr:alive:"
#: string · token of the only updater · its lease.
UPDATER_LEASE = "eventr:lease:updater"
#: hash · job id → ids of its feeds, comma-separated: jobs that the updater has queued and not seen
#: end · none; written together with the jobs, by the holder of the lease.
#: end · none; written together with the jobs, by the holder of the lease.
UPDATER_HAND = "eventr:updater:hand"
#: hash · what the updater saw at its last look, see ``workers.updater.updater.Sight`` · ALIVE_SECONDS.
UPDATER_STATS = "eventr:updater:stats"
#: string · ``eventr:rate:<host or group>``: ms at which all used tokens are refilled and, after a space,
#: first ms not yet reserved for a postponed feed · when both are past.
HOST_RATE = "eventr:rate:"
#: string · ``eventr:stop:<host>``: end of a pause that the host requested, ms, the reservation as above, and
#: 1 if an urgent request passed the pause · until then.
HOST_STOP = "eventr:stop:"
#: set · ``eventr:asks:<host>``: hashes of the addresses that asked for a pause, 20 at most · until its end.
HOST_ASKS = "eventr:asks:"

#: hash · ``eventr:bytes:<day>``: user id, or ``all`` → bytes fetched on that day. With the suffix ``:over``:
#: set of the users who have spent their budget · two days.
BYTES = "eventr:bytes:"
#: string · ``eventr:payer:<key of a search>``: id of the user who started it · an hour.
BYTES_PAYER = "eventr:payer:"

#: Delayed tasks, in four shards by the hash of their names. All of it can be rebuilt from the database.
#: hash · ``eventr:later:states:<shard>``: task → its bucket, its first request and the number of requests.
#: hash · ``eventr:later:args:<shard>``: task → JSON of its arguments.
#: zset · ``eventr:later:buckets:<shard>``: minute → minute, of all buckets.
#: zset · ``eventr:later:due:<minute>:<shard>``: task → when it is due, ms. · none, all four.
#: string · ``eventr:later:lock:<minute>:<shard>``: token of the process that empties a bucket · 30 s.
LATER = "eventr:later:"
LATER_DUE, LATER_LOCK = LATER + "due:", LATER + "lock:"
LATER_SHARDS = 4
#: Counter in TOTALS: delayed tasks that were more than a minute late.
LATER_MISSED = "later:missed"

#: string · rises with each change of ``places``; only where EVENTR_CELLS is set · none.
PLACE_EPOCH = "eventr:places:epoch"
#: string · ``eventr:slot:<number>``: token of the process whose ids end in it · 120 s.
SLOT = "eventr:slot:"

#: string · number of attempts: ``eventr:try:<what>:<who>`` · with its window. With the suffix ``:gate``:
#: exists while no further attempt is allowed · seconds to minutes.
TRIES = "eventr:try:"

#: none · never exists: a write that could only change an existing key shows whether Redis accepts writes.
PROBE = "eventr:probe"

ALIVE_SECONDS = 15
#: Longer than a feed that crashes workers needs for its attempts, seconds.
CRASHES_SECONDS = 600
#: Newest entries kept in EVENTS, approximately.
EVENTS_KEPT = 20_000
#: Newest entries kept in PEOPLE, approximately, and how long after the last one, seconds.
PEOPLE_KEPT = 5_000
PEOPLE_SECONDS = 3600


def make_job_key(job_id: str) -> str:
    return JOB + job_id


def make_queue_key(name: Queue | str) -> str:
    return QUEUE + name


def make_results_key(job_id: str) -> str:
    return RESULTS + job_id


def make_inflight_key(worker: str) -> str:
    return INFLIGHT + worker


def make_live_settings_key(name: str) -> str:
    return LIVE + name


def make_follows_key(user_id: int) -> str:
    return f"{FOLLOWS}{user_id}"


def make_hour_key(number: int) -> str:
    return f"{STATS}{number}"


def make_minutes_key(hour: int) -> str:
    return f"{MINUTES}{hour}"


def make_manager_key(ident: str) -> str:
    return MANAGER + ident


def make_later_key(what: str, shard: int) -> str:
    """Return the key of a shard's ``states``, ``args`` or ``buckets``."""
    return f"{LATER}{what}:{shard}"


def make_alive_key(name: str, ident: str) -> str:
    return f"{ALIVE}{name}:{ident}"


def make_feed_subject(feed_id: int) -> str:
    """Return the subject of jobs about this feed only."""
    return f"feed:{feed_id}"


def make_crashes_key(subject: str) -> str:
    return CRASHES + subject
