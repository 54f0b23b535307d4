"""What is pushed arrives or is tried again; nothing owed is lost, and nothing takes long (W3C WebSub §7)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import redis
from werkzeug.wrappers import Response

from app import clock
from app.bootstrap import services as bootstrap
from app.feeds.fetch.fetcher import Fetcher
from app.feeds.websub import hub as rules
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import State
from app.models.sharing.sharing import Audience
from tests.database.test_explain import Recorder, stages, statements
from tests.sharing.conftest import People
from tests.sharing.hub.conftest import Now, another, limited
from tests.support import manager
from tests.support.commands import add_listener
from tests.support.rawserver import RawServer, Reply
from tests.support.servers import Callback, Server
from workers import registry
from workers.updater.updater import queue_due_work

Eventually = Callable[..., Any]


# -- callbacks that fail


def test_a_push_that_fails_is_tried_again_with_the_feed_of_then(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    server.subscribe(callback.url())
    callback.answer = Response(status=500)
    server.services.sharing.share(ann, entries[0])
    server.work()
    server.services.sharing.share(ann, entries[1])
    server.work()
    assert len(callback.pushes) == 1, "news are no reason to ask sooner"
    callback.answer = None
    now.go(minutes=2)
    server.work()
    assert callback.pushes[1].get_data().count(b"<entry>") == 2
    row = server.row(callback.url())
    assert row is not None
    assert (row.owed, row.failures) == (None, 0)


def test_a_dead_callback_is_dropped_at_last(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    server.subscribe(callback.url(), lease_seconds=30 * 86400)
    callback.answer = Response(status=500)
    server.services.sharing.share(ann, entries[0])
    waits, rows = [], server.services.store.database["hubsubs"]
    server.work()
    while doc := rows.find_one({}):
        waits.append((doc["push_at"] - now.at).total_seconds())
        now.at = doc["push_at"]
        server.work()
    assert len(callback.pushes) == server.services.settings.hub_failures == len(waits) + 1
    assert waits[0] < waits[2] < waits[5]
    assert max(waits) < 1.2 * server.services.settings.hub_backoff_max


def test_gone_is_gone(server: Server, ann: Actor, entries: list[int], callback: Callback) -> None:
    server.subscribe(callback.url())
    callback.answer = Response(status=410)
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert server.row(callback.url()) is None
    assert len(callback.pushes) == 1


def test_a_redirected_push_has_failed(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    callback.answer = Response(status=307, headers={"Location": callback.url("/elsewhere")})
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert [p.path for p in callback.pushes] == ["/cb"]
    row = server.row(callback.url())
    assert row is not None
    assert row.failures == 1


def test_a_callback_that_never_answers_holds_nobody_up_for_long(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    with RawServer() as slow:
        allow = (*server.services.settings.hub_allow, slow.origin)
        fetcher = Fetcher(dataclasses.replace(server.services.settings, hub_allow=allow))
        slow.set("/cb", Reply(delay=3600))
        server.subscribe(callback.url())
        row = server.row(callback.url())
        assert row is not None
        db = server.services.store.database["hubsubs"]
        doc = db.find_one({"_id": row.id})
        assert doc is not None
        db.insert_one({**doc, "_id": 5, "callback": slow.url("/cb")})
        server.services.sharing.share(ann, entries[0])
        with fetcher:
            done = asyncio.run(server.services.hub.push_changes(row.feed_id, fetcher, seconds=6))
    assert done == {"pushed": 1, "dropped": 0}
    late = server.services.mappers.hubs.find(5)
    assert late is not None
    assert late.failures == 1


# -- nothing is lost, and nothing takes long


def test_what_is_owed_outlives_redis_and_a_crash_before_anybody_was_told(
    server: Server, ann: Actor, entries: list[int], callback: Callback, redis_client: redis.Redis
) -> None:
    server.subscribe(callback.url())
    services = server.services
    profile = services.gateways.profiles.find(ann.user_id)
    assert profile is not None
    entry = services.gateways.entries.get(ann.user_id, entries[0])
    # As far as a share that dies right after it was stored.
    services.gateways.sharing.share(profile, entry, "kept", Audience.PUBLIC, clock.now())
    redis_client.flushall()
    server.work()
    assert b"kept" in callback.pushes[0].get_data()


def test_a_push_whose_worker_died_is_sent_again(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    row = server.subscribe(callback.url())
    assert row is not None
    server.services.sharing.share(ann, entries[0])
    hubs = server.services.mappers.hubs
    hubs.mark_owed(row.feed_id, now())
    assert hubs.claim_subscribers(row.feed_id, now(), now() + rules.CLAIM, 10) != []
    server.work()
    assert callback.pushes == []
    now.go(minutes=4)
    server.work()
    assert len(callback.pushes) == 1


def test_a_share_during_a_push_is_pushed_after_it(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    row = server.subscribe(callback.url())
    assert row is not None
    hubs = server.services.mappers.hubs
    server.services.sharing.share(ann, entries[0])
    hubs.mark_owed(row.feed_id, now())
    (taken,) = hubs.claim_subscribers(row.feed_id, now(), now() + rules.CLAIM, 10)
    now.go(seconds=1)
    server.services.sharing.share(ann, entries[1])
    hubs.mark_owed(row.feed_id, now())
    hubs.record_results([(taken, b"old")], {}, (), now())
    server.work()
    assert callback.pushes[0].get_data().count(b"<entry>") == 2


def test_sharing_costs_the_same_however_many_subscribe(
    server: Server, ann: Actor, entries: list[int], callback: Callback, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = server.subscribe(callback.url())
    assert row is not None
    found = Recorder()
    add_listener(monkeypatch, found)
    db = server.services.store.database["hubsubs"]
    counts = []
    with contextlib.closing(bootstrap.build(server.services.settings)) as recorded:
        for entry in entries[:3]:
            found.commands.clear()
            recorded.sharing.share(ann, entry)
            counts.append(len(found.commands))
            many = range(len(counts) * 1000, len(counts) * 1000 + 1000)
            doc = db.find_one({"_id": row.id}) or {}
            db.insert_many([{**doc, "_id": n, "callback": f"http://{n}.example/"} for n in many])
    assert counts[1] == counts[2]
    assert db.count_documents({"owed": {"$exists": True}}) == 0, "nobody's row was touched"
    db.delete_many({"_id": {"$lt": 1_000_000}})


def test_every_query_of_the_hub_uses_an_index(
    server: Server, ann: Actor, entries: list[int], callback: Callback, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Recorder()
    add_listener(monkeypatch, found)
    with limited(server) as recorded, another(recorded) as watched:
        watched.subscribe(callback.url())
        watched.subscribe(callback.url("/2"))
        recorded.sharing.share(ann, entries[0])
        watched.work()
        watched.subscribe(callback.url("/2"), mode="unsubscribe")
        recorded.sharing.share(ann, entries[1])
        callback.answer = Response(status=410)
        watched.work()
    database = server.services.store.database
    problems = [
        (query, bad)
        for name, command in found.commands
        for collection, query, explainable in statements(name, command)
        if collection == "hubsubs"
        for bad in {"COLLSCAN", "SORT"}
        & set(stages(database.command("explain", explainable, verbosity="queryPlanner")))
    ]
    assert problems == []
    assert len(found.commands) > 20


def test_subscribers_go_with_the_account(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    server.services.mappers.erasure.erase(ann.user_id, clock.now())
    assert server.services.store.database["hubsubs"].count_documents({}) == 0


def test_the_updater_and_workers_know_these_jobs(
    server: Server, ann: Actor, entries: list[int], callback: Callback, redis_client: redis.Redis
) -> None:
    registry.load_tasks()
    redis_client.flushall()
    server.post(mode="subscribe", topic=server.topic(), callback=callback.url())
    redis_client.flushall()
    queue_due_work(server.services)
    (job, *_) = server.services.hub.find_due_jobs(clock.now(), 10)
    assert registry.find_task(job.task) is not None
    ticket = server.services.jobs.enqueue(job)
    assert not ticket.fresh, "the updater has queued it"
    assert server.services.jobs.get_status(ticket.id).state is State.QUEUED
    server.work()
    server.services.sharing.share(ann, entries[0])
    (push,) = server.services.hub.find_due_jobs(clock.now(), 10)
    assert registry.find_task(push.task) is not None


def test_real_workers_verify_and_push(
    server: Server, people: People, callback: Callback, eventually: Eventually
) -> None:
    who = people.join("ann")
    people.open(who)
    (entry,) = people.blog([who])
    with manager.running(server.services.settings):
        server.post(mode="subscribe", topic=server.topic(), callback=callback.url())
        eventually(
            lambda: (row := server.row(callback.url())) and row.since, message="the callback was asked"
        )
        server.services.sharing.share(who, entry)
        eventually(lambda: callback.pushes, message="it was told")
    assert [r.args["hub.mode"] for r in callback.asked] == ["subscribe"]
    assert b"The text of blog 1" in callback.pushes[0].get_data()
