"""A server that is lost with its manager; no engine runs beside, its workers would use the same Redis."""

from __future__ import annotations

import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import State
from tests.jobs import support


def test_of_a_lost_server_only_time_tells_and_its_jobs_come_back_uncounted(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    tickets = jobs.enqueue_many(support.effects(3))
    desk = support.desk(redis_client, settings, "far")
    redis_client.hset(redis_keys.WORKERS, "far", "elsewhere-1:77:88")
    assert len(desk.claim_jobs(3, {}, ())) == 3
    now, _ = redis_client.time()
    redis_client.zadd(redis_keys.MANAGERS, {"elsewhere-1:77:88": now + settings.manager_lease})
    assert support.linked(settings, lambda link: link.sweep()) == {}
    # Its last heartbeat is too long ago.
    redis_client.zadd(redis_keys.MANAGERS, {"elsewhere-1:77:88": now - 1})
    found = support.linked(settings, lambda link: link.sweep())
    assert found == {ticket.id: "returned" for ticket in tickets}
    assert {(v.state, v.crashes, v.failures) for v in (jobs.get_status(t.id) for t in tickets)} == {
        (State.QUEUED, 0, 0)
    }
    assert redis_client.zcard(redis_keys.MANAGERS) == 0
    assert not support.workers(redis_client)
