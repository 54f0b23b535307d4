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
from app.jobs import job_id
from app.models import keys
from app.models.jobs import Job, Queue, State, Task
from tests.faults import checks
from tests.faults.system import System
from tests.jobs import support
from tests.support.rawserver import Reply, Request

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
        (job,) = support.effects(1, seconds=0.5, start=start + n)
        tickets = _at_once(50, lambda job=job: jobs.enqueue(job))  # type: ignore[misc]
        assert {ticket.id for ticket in tickets} == {tickets[0].id}
        assert sum(ticket.fresh for ticket in tickets) == 1
        system.client.rpush(keys.queue(Queue.PULL), *[tickets[0].id] * 50)
        assert [o.error for o in jobs.await_many(tickets, 60)] == [None]
    system.wait(lambda: not system.client.llen(keys.queue(Queue.PULL)), "the copies are dropped")
    done = [key for key, _ in support.traces(system.client) if start <= key < start + scale]
    assert sorted(done) == list(range(start, start + scale))
    # The same feed pulled by many at once, under many tokens: each entry is there once (R02, R03).
    urls = system.farm.corpus(2)
    feed_ids = system.subscribe(system.user(), urls)
    pulls = [Job(Task.PULL, {"feed_ids": [*feed_ids, -n]}, Queue.PULL) for n in range(20)]
    assert {o.error for o in jobs.await_many(jobs.enqueue_many(pulls), 60)} == {None}


def test_F16_a_push_that_comes_twenty_times_is_one_pull(system: System) -> None:
    feed_id, path, token = _pushed_feed(system)
    asked = len(system.farm.server.seen(path))
    body = b"new entries"
    signature = "sha256=" + hmac.new(SECRET.encode(), body, "sha256").hexdigest()
    assert set(_at_once(TIMES, lambda: _push(system, token, body, signature))) == {202}
    pull = job_id(Task.WEBSUB_PULL, {"feed_id": feed_id})
    system.wait(lambda: _pulled(system, pull), "the feed is pulled")
    system.wait(lambda: system.services.gateways.feeds.get(feed_id).last_seq == 2, "the new entry is there")
    assert set(_at_once(TIMES, lambda: _push(system, token, body, signature))) == {202}
    # A job that comes too late finds that no push waits any more, and asks nobody.
    system.wait(lambda: system.services.jobs.status(pull).state is State.FINISHED, "no pull runs")
    # Pushes that came after a pull had begun are owed another, half a minute later: a slow machine sees it.
    assert 1 <= sum(_pulled(system, pull)) <= 3
    assert len(system.farm.server.seen(path)) - asked < TIMES, "that, and polls that came due since"
    assert system.db.entries.count_documents({"feed_id": feed_id}) == 2


def _pushed_feed(system: System) -> tuple[int, str, str]:
    """Return a feed with one entry whose hub may push, its path and its callback; its polls rest."""
    path, token = f"/pushed/{system.checked}", f"token-{system.seed}-{system.checked}"
    items = b"<item><guid>1</guid></item>"

    def answer(_: Request) -> Reply:
        return Reply(body=RSS % items, close=True)

    url = system.farm.scripted(path, answer)
    (feed_id,) = system.subscribe(system.user(), [url])
    feeds, rows = system.services.gateways.feeds, system.services.mappers.websubs
    system.wait(lambda: feeds.get(feed_id).last_seq == 1, "the feed is read")
    assert rows.add(feed_id, "http://127.0.0.1:9/hub", url, token, SECRET, clock.now())
    items += b"<item><guid>2</guid></item>"
    rest = clock.now() + dt.timedelta(hours=1)
    system.db.websubs.update_one({"token": token}, {"$set": {"tend_at": rest}})

    def rests() -> bool:
        done = system.db.feeds.update_one(
            {"_id": feed_id, "claim_token": None}, {"$set": {"next_check_at": rest}}
        )
        return bool(done.matched_count) and not system.client.llen(keys.queue(Queue.PULL_SYSTEM))

    system.wait(rests, "its polls rest")
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
    rows: list[Any] = system.client.xrange(keys.EVENTS)  # type: ignore[assignment]
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
