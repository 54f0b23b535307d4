"""A worker whose connection breaks after Redis has acted, but before the reply arrives."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from tests.jobs import support
from workers import outcome
from workers.queue_client import QueueClient, connect


class Relay:
    """Passes everything on to Redis, and breaks a connection instead of passing on one reply."""

    def __init__(self, redis_url: str) -> None:
        self._to = urlsplit(redis_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}{self._database()}"
        #: The reply to the next request with these bytes is lost.
        self.lose = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _database(self) -> str:
        return "" if self._to.scheme == "unix" else self._to.path

    def _connect(self) -> socket.socket:
        if self._to.scheme == "unix":
            found = socket.socket(socket.AF_UNIX)
            found.connect(self._to.path)
            return found
        return socket.create_connection((self._to.hostname or "127.0.0.1", self._to.port or 6379))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Pass on one request and its reply at a time; all of them here are shorter than a buffer."""
        with client, self._connect() as server, contextlib.suppress(OSError):
            while request := client.recv(1 << 16):
                server.sendall(request)
                reply = server.recv(1 << 16)
                if self.lose and self.lose in request:
                    self.lose = b""
                    return
                client.sendall(reply)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def relay(settings: Settings) -> Iterator[Relay]:
    with contextlib.closing(Relay(settings.redis_url)) as running:
        yield running


@pytest.fixture
def desk(relay: Relay, redis_client: redis.Redis) -> Iterator[QueueClient]:
    redis_client.hset(redis_keys.WORKERS, "w1", "test:1:1")
    with contextlib.closing(connect(relay.url)) as client:
        made = QueueClient(client, "w1", [str(q) for q in Queue])
        assert made.claim_jobs(1, {}, ()) == [], "the scripts are loaded"
        yield made


def _job(key: int) -> Job:
    return Job(Task.ECHO, {"key": key}, Queue.PULL)


def test_jobs_whose_claim_was_not_answered_are_put_back_and_claimed_again(
    relay: Relay, desk: QueueClient, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    jobs.enqueue_many([_job(key) for key in range(3)])
    (known,) = desk.claim_jobs(1, {}, ())
    relay.lose = desk._take.sha.encode()
    with pytest.raises(StoreError):
        desk.claim_jobs(1, {}, [known])
    inflight = redis_keys.make_inflight_key("w1")
    assert redis_client.llen(inflight) == 2, "Redis has given the job away"
    found = desk.claim_jobs(5, {}, [known])
    assert [(job.args["key"], job.attempt) for job in found] == [(1, 2), (2, 1)]
    assert redis_client.llen(inflight) == 3
    (last,) = jobs.enqueue_many([_job(3)])
    assert [job.id for job in desk.claim_jobs(5, {}, ())] == [last.id], "nothing more is put back"


def test_an_outcome_whose_answer_was_lost_is_recorded_once(
    relay: Relay, desk: QueueClient, jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue(_job(1))
    (taken,) = desk.claim_jobs(1, {}, ())
    ends = [outcome.finish_job(taken, 7, settings)]
    relay.lose = desk._finish.sha.encode()
    with pytest.raises(StoreError):
        desk.finish(ends)
    assert desk.finish(ends) == [False], "it is recorded already"
    assert support.ends(redis_client) == {taken.id: 1}


def test_a_worker_claims_from_its_current_queues_only(
    desk: QueueClient, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    jobs.enqueue_many([_job(1), Job(Task.ECHO, {"key": 2}, Queue.DISCOVERY)])
    desk.set_queues([str(Queue.DISCOVERY)])
    assert [job.args["key"] for job in desk.claim_jobs(5, {}, ())] == [2]
    desk.set_queues([str(Queue.PULL)])
    assert [job.args["key"] for job in desk.claim_jobs(5, {}, ())] == [1]


def test_a_claim_loads_all_scripts_that_a_worker_needs(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    redis_client.script_flush()
    desk = support.desk(redis_client, settings)
    assert desk.claim_jobs(1, {}, ()) == []
    assert all(redis_client.script_exists(*(script.sha for script in desk._scripts)))
