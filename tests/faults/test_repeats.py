"""F16: what comes many times, at once or one after the other, has one effect."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import http.client
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from app import clock
from app.adapters.redis.jobs import hash_job
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from tests.faults import checks
from tests.faults.system import System
from tests.jobs import support
from tests.support.rawserver import Reply

pytestmark = pytest.mark.timeout(3000)

T = TypeVar("T")
TIMES = 20
SECRET = "the hub's and ours"
RSS = b"<rss version='2.0'><channel><title>Pushed</title>%s</channel></rss>"


def _at_once(times: int, work: Callable[[], T]) -> list[T]:
    with ThreadPoolExecutor(10) as crowd:
        return list(crowd.map(lambda _: work(), range(times)))


def test_F16_what_comes_fifty_times_is_done_once(system: System, scale: int) -> None:
    jobs = system.services.jobs
    start = 4_000_000
    for n in range(scale):
        (job,) = support.effects(1, start=start + n)
        # Nobody takes it before all have come: once it has ended, the next one is another run.
        system.client.sadd(redis_keys.PAUSED, str(Queue.PULL))
        try:
            tickets = _at_once(50, lambda job=job: jobs.enqueue(job))  # type: ignore[misc]
            assert {ticket.id for ticket in tickets} == {tickets[0].id}
            assert sum(ticket.fresh for ticket in tickets) == 1
            system.client.rpush(redis_keys.make_queue_key(Queue.PULL), *[tickets[0].id] * 50)
        finally:
            system.client.srem(redis_keys.PAUSED, str(Queue.PULL))
        assert [o.error for o in jobs.await_many(tickets, 60)] == [None]
    system.wait(
        lambda: not system.client.llen(redis_keys.make_queue_key(Queue.PULL)), "the copies are dropped"
    )
    done = [key for key, _ in support.traces(system.client) if start <= key < start + scale]
    assert sorted(done) == list(range(start, start + scale))
    # The same feed pulled by many at once, under many tokens: each entry is there once (R02, R03).
    urls = system.farm.corpus(2)
    feed_ids = system.subscribe(system.user(), urls)
    pulls = [Job(Task.PULL, {"feed_ids": [*feed_ids, -n]}, Queue.PULL) for n in range(20)]
    assert {o.error for o in jobs.await_many(jobs.enqueue_many(pulls), 60)} == {None}


def test_F16_a_push_that_comes_twenty_times_is_one_pull(system: System) -> None:
    feed_id, path, token = _pushed_feed(system)
    body = b"new entries"
    signature = "sha256=" + hmac.new(SECRET.encode(), body, "sha256").hexdigest()
    websubs, jobs = system.services.mappers.websubs, system.services.jobs
    pull = Job(Task.WEBSUB_PULL, {"feed_id": feed_id}, Queue.PULL_SYSTEM)

    def push() -> None:
        assert set(_at_once(TIMES, lambda: _push(system, token, body, signature))) == {202}

    with system.quiet():
        asked = len(system.farm.server.seen(path))
        assert _run(system, feed_id, pull, push) == [1]
        assert system.services.gateways.feeds.get(feed_id).last_seq == 2, "the new entry is there"
        assert len(system.farm.server.seen(path)) == asked + 1
        # A job that comes too late finds that no push waits any more, and asks nobody.
        assert _run(system, feed_id, pull, lambda: jobs.enqueue(pull)) == [1, 0]
        # Pushes that come within the interval wait for its end, all for the same pull.
        last = clock.now() + dt.timedelta(hours=1)
        _put(system, token, pulled_at=last)
        push()
        row = websubs.find_by_token(token)
        assert row is not None
        assert row.pull_at == _stored(last) + dt.timedelta(seconds=system.settings.websub_interval)
        over = clock.now() - dt.timedelta(seconds=1)
        assert _run(system, feed_id, pull, lambda: _put(system, token, pulled_at=over, pull_at=over)) == [
            1,
            0,
            1,
        ]
        assert len(system.farm.server.seen(path)) == asked + 2
    assert system.db.entries.count_documents({"feed_id": feed_id}) == 2


def _run(system: System, feed_id: int, pull: Job, work: Callable[[], object]) -> list[int]:
    """In a quiet system, let a pull begin after all this work; return how many feeds each one has asked."""
    system.db.feeds.update_one(
        {"_id": feed_id}, {"$set": {"next_check_at": clock.now() + dt.timedelta(hours=1)}}
    )
    client, queue, ident = system.client, str(Queue.PULL_SYSTEM), hash_job(pull.task, pull.args)
    before = len(_pulled(system, ident))
    client.sadd(redis_keys.PAUSED, queue)
    try:
        client.srem(redis_keys.DRAINING, queue)
        work()
        system.wait(lambda: system.services.jobs.get_status(ident).state is State.QUEUED, "the pull waits")
    finally:
        # From here on it runs, and what it makes due is not polled.
        client.sadd(redis_keys.DRAINING, queue)
        client.srem(redis_keys.PAUSED, queue)
    system.wait(lambda: len(_pulled(system, ident)) > before, "the feed is pulled")
    system.wait(lambda: not checks.stuck_jobs(client), "nothing else waits")
    return _pulled(system, ident)


def _put(system: System, token: str, **times: dt.datetime) -> None:
    system.db.websubs.update_one({"token": token}, {"$set": times})


def _stored(at: dt.datetime) -> dt.datetime:
    """Return a time as MongoDB keeps it, in milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _pushed_feed(system: System) -> tuple[int, str, str]:
    """Return a feed with one entry, and a second one since, whose hub may push; its path and its callback."""
    path, token = f"/pushed/{system.checked}", f"token-{system.seed}-{system.checked}"
    url = system.farm.scripted(path, Reply(body=RSS % b"<item><guid>1</guid></item>", close=True))
    (feed_id,) = system.subscribe(system.user(), [url])
    feeds, rows = system.services.gateways.feeds, system.services.mappers.websubs
    system.wait(lambda: feeds.get(feed_id).last_seq == 1, "the feed is read")
    rest = clock.now() + dt.timedelta(hours=1)
    with system.quiet():
        # The hub itself is never asked, and no poll may find the second entry.
        assert rows.add(feed_id, "http://127.0.0.1:9/hub", url, token=token, secret=SECRET, now=clock.now())
        _put(system, token, tend_at=rest)
        system.db.feeds.update_one({"_id": feed_id}, {"$set": {"next_check_at": rest}})
    both = b"<item><guid>2</guid></item><item><guid>1</guid></item>"
    system.farm.server.set(path, Reply(body=RSS % both, close=True))
    return feed_id, path, token


def _push(system: System, token: str, body: bytes, signature: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", system.up.port, timeout=20)
    try:
        headers = {"X-Hub-Signature": signature, "Content-Type": "application/rss+xml"}
        connection.request("POST", f"/websub/{token}", body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def _pulled(system: System, ident: str) -> list[int]:
    """Return how many feeds each run of a pull has asked."""
    rows: list[Any] = system.client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    ends = [row[b"value"] for _, row in rows if (row[b"id"].decode(), row[b"kind"]) == (ident, b"finished")]
    return [json.loads(base64.b64decode(value))["feeds"] for value in ends]


def test_F16_forms_that_are_sent_again_and_again_count_once(system: System) -> None:
    """There are no keys for repeats: each form says what shall be so, and twice is the same as once."""
    actor, browser = system.person()
    (url,) = system.farm.corpus(1)

    def sent(path: str, **fields: object) -> set[int | None]:
        browsers = [system.browser(actor) for _ in range(4)]
        return set(_at_once(TIMES, lambda: browsers[id(fields) % 4].post(path, **fields)))

    assert sent("/subscribe", url=url) == {303}
    assert system.db.subscriptions.count_documents({"user_id": actor.user_id}) == 1
    system.wait(lambda: system.stored([url]), "its entries are there")
    total = checks.unread(system.db, actor.user_id)
    held = system.db.subscriptions.find_one({"user_id": actor.user_id})
    assert held is not None
    entry = system.db.entries.find_one({"feed_id": held["feed_id"]}, sort=[("seq", -1)])
    assert entry is not None
    assert sent("/entries/mark", entry=entry["_id"], read="true") == {303}
    assert checks.unread(system.db, actor.user_id) == total - 1
    assert sent("/entries/star", entry=entry["_id"], on="true") == {303}
    assert system.db.marks.count_documents({"user_id": actor.user_id}) == 1
    assert browser.get("/read/all") == 200
    snapshot = re.search(r'data-snapshot="([^"]+)"', browser.text)
    assert snapshot is not None
    form: dict[str, object] = {"stream": "all", "snapshot": snapshot[1]}
    done = [system.browser(actor).json("/read/mark-all", form) for _ in range(3)]
    assert [each["count"] for each in done] == [total - 1, 0, 0]
    undone = [system.browser(actor).post("/undo", token=done[0]["undo"]) for _ in range(3)]
    assert undone == [303, 404, 404]
    assert checks.unread(system.db, actor.user_id) == browser.json("/api/counts")["total"] == total - 1
    assert sent(f"/feeds/{held['feed_id']}/unsubscribe") <= {303, 404}
    assert system.db.feeds.find_one({"_id": held["feed_id"]})["subscribers"] == 0
