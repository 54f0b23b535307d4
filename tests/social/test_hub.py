"""Our own hub: who may subscribe, what he is sent, and that nothing owed is lost (W3C WebSub)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import hmac
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pymongo
import pytest
import redis
from werkzeug.wrappers import Response

from app import bootstrap, clock
from app.bootstrap import Services
from app.config import Settings
from app.errors import TooLargeError
from app.feeds import hub as rules
from app.feeds.fetch import Fetcher
from app.models.actor import Actor
from app.models.hub import HubForm
from app.models.jobs import State
from app.models.sharing import Audience
from tests.data.test_explain import Recorder, stages, statements
from tests.social.conftest import People
from tests.social.servers import Callback, Server
from tests.support.rawserver import RawServer, Reply
from tests.support.wire import Wire
from tests.support.world import World
from workers import registry
from workers.updater import queue_more

Eventually = Callable[..., Any]
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class Now:
    """The clock of a test."""

    at = START

    def __call__(self) -> dt.datetime:
        return self.at

    def go(self, **span: float) -> None:
        self.at += dt.timedelta(**span)


@pytest.fixture
def now() -> Iterator[Now]:
    moment = Now()
    with clock.set_source(moment):
        yield moment


@pytest.fixture
def callback() -> Iterator[Callback]:
    made = Callback()
    with made.wire:
        yield made


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as made:
        yield made


@pytest.fixture
def settings(settings: Settings, wire: Wire, callback: Callback) -> Settings:
    """A server that others can reach, and that may reach the callback and itself."""
    allow = (wire.host, callback.wire.host)
    return dataclasses.replace(settings, base_url=wire.url(), hub="on", websub="on", fetch_allow=allow)


@pytest.fixture
def server(services: Services, wire: Wire) -> Iterator[Server]:
    with contextlib.closing(Server(services, wire)) as made:
        yield made


@pytest.fixture
def ann(people: People, now: Now) -> Actor:
    who = people.join("ann")
    people.open(who)
    return who


@pytest.fixture
def entries(people: People, ann: Actor) -> list[int]:
    return people.blog([ann], 5)


# -- subscribing and being told


def test_a_share_is_pushed_signed_and_as_it_is_served(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    row = server.subscribe(callback.url("/cb?of=mine"), secret="s3cret", lease_seconds=86400)
    (asked,) = callback.asked
    assert asked.args["of"] == "mine"
    assert asked.args["hub.mode"] == "subscribe"
    assert asked.args["hub.topic"] == server.topic()
    assert asked.args["hub.lease_seconds"] == "86400"
    assert row is not None
    assert row.expires == START + dt.timedelta(days=1)

    server.services.sharing.share(ann, entries[0], note="Read this")
    server.work()
    (push,) = callback.pushes
    body = push.get_data()
    assert b"Read this" in body
    assert push.full_path.rstrip("?") == "/cb?of=mine"
    assert push.headers["X-Hub-Signature"] == "sha256=" + hmac.new(b"s3cret", body, "sha256").hexdigest()
    assert push.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    assert push.headers["Link"] == f'<{server.wire.url("/hub")}>; rel="hub", <{server.topic()}>; rel="self"'


def test_what_is_edited_and_taken_back_is_pushed_too(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    sharing = server.services.sharing
    server.subscribe(callback.url(), topic=server.topic(end="feed.json"))
    share = sharing.share(ann, entries[0], note="one").share
    server.work()
    sharing.edit(ann, share.id, note="two")
    server.work()
    sharing.remove(ann, share.id)
    server.work()
    bodies = [push.get_data() for push in callback.pushes]
    assert [(b"one" in b, b"two" in b) for b in bodies] == [(True, False), (False, True), (False, False)]
    assert {push.headers["Content-Type"] for push in callback.pushes} == {"application/feed+json"}
    assert "X-Hub-Signature" not in callback.pushes[0].headers


def test_a_burst_of_shares_is_one_push(
    server: Server, ann: Actor, entries: list[int], callback: Callback, redis_client: redis.Redis
) -> None:
    server.subscribe(callback.url())
    redis_client.flushall()
    for entry in entries:
        server.services.sharing.share(ann, entry)
    assert redis_client.llen("rq:queue:feed-pull-sys") == 1
    server.work()
    assert len(callback.pushes) == 1
    assert callback.pushes[0].get_data().count(b"<entry>") == len(entries)


def test_who_unsubscribes_hears_no_more(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    assert server.subscribe(callback.url(), mode="unsubscribe") is None
    assert [a.args["hub.mode"] for a in callback.asked] == ["subscribe", "unsubscribe"]
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert callback.pushes == []
    assert server.post(mode="unsubscribe", topic=server.topic(), callback=callback.url()) == (202, "")


def test_nobody_is_unsubscribed_who_did_not_mean_it(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    callback.answer = Response(status=404)
    row = server.subscribe(callback.url(), mode="unsubscribe")
    assert row is not None
    assert row.ask is None
    callback.answer = None
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert len(callback.pushes) == 1


def test_leases_keep_within_bounds(server: Server, ann: Actor, callback: Callback) -> None:
    table = [(1, 3600), (7200, 7200), (10**11, 30 * 86400), (0, 864000), ("x", 864000)]
    for wanted, given in table:
        row = server.subscribe(callback.url(), lease_seconds=wanted)
        assert row is not None
        assert row.expires == START + dt.timedelta(seconds=given)


def test_a_lease_ends_unless_it_is_renewed(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    server.subscribe(callback.url(), lease_seconds=3600)
    now.go(minutes=50)
    row = server.subscribe(callback.url(), lease_seconds=3600, secret="new")
    assert row is not None
    assert (row.expires, row.secret, row.since) == (now.at + dt.timedelta(hours=1), "new", START)
    now.go(minutes=61)
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert callback.pushes == []
    assert server.row(callback.url()) is None


def test_a_callback_that_does_not_confirm_is_forgotten(
    server: Server, ann: Actor, callback: Callback
) -> None:
    moved = Response(status=301, headers={"Location": callback.url("/there")})
    answers = [Response("wrong"), Response(""), Response(status=404), Response(status=204), moved]
    for count, answer in enumerate(answers, 1):
        callback.answer = answer
        assert server.subscribe(callback.url()) is None
        assert len(callback.asked) == count, "no redirect is followed"


def test_a_callback_that_is_away_is_asked_again_and_then_forgotten(
    server: Server, ann: Actor, callback: Callback, now: Now
) -> None:
    callback.answer = Response(status=503)
    assert server.subscribe(callback.url()) is not None
    now.go(minutes=2)
    callback.answer = None
    server.work()
    row = server.row(callback.url())
    assert row is not None
    assert row.since == now.at
    callback.answer = Response(status=503)
    other = callback.url("/other")
    server.subscribe(other)
    for _ in range(4):
        now.go(minutes=10)
        server.work()
    assert server.row(other) is None
    assert len([a for a in callback.asked if a.path == "/other"]) == 3


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
        allow = (*server.services.settings.fetch_allow, slow.origin)
        fetcher = Fetcher(dataclasses.replace(server.services.settings, fetch_allow=allow))
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
            done = asyncio.run(server.services.hub.push(row.feed_id, fetcher, seconds=1))
    assert done == {"pushed": 1, "dropped": 0}
    late = server.services.mappers.hubs.get(5)
    assert late is not None
    assert late.failures == 1


# -- what may be a callback, and what a topic

PRIVATE = [
    "http://127.0.0.1/cb",
    "http://127.0.0.1:6379/",
    "http://localhost/cb",
    "http://[::1]/cb",
    "http://10.0.0.1/cb",
    "http://172.16.3.4/cb",
    "http://192.168.1.1/cb",
    "http://169.254.169.254/latest/meta-data",
    "http://100.64.0.1/cb",
    "http://0.0.0.0/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "http://[fd00::1]/cb",
    "http://[fe80::1]/cb",
    "http://2130706433/cb",
    "http://0x7f.1/cb",
    "http://printer.local/cb",
    "http://example.com:22/cb",
    "http://user:pass@example.com/cb",
    "ftp://example.com/cb",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "//example.com/cb",
    "http://example.com/cb#part",
    "http://example.com/c b",
    "http://example.com/\r\nX: y",
    "",
    "http://example.com/" + "x" * 2048,
]


def test_callbacks_that_may_not_be_fetched_are_refused(server: Server, ann: Actor) -> None:
    for url in PRIVATE:
        answer = server.post(mode="subscribe", topic=server.topic(), callback=url)
        assert answer == (400, "invalid hub.callback"), url


def test_a_name_with_a_private_address_is_never_asked(server: Server, ann: Actor) -> None:
    with RawServer() as inner:
        world = World(inner)
        world.add("inner.example", "10.0.0.7")
        world.names["turns.example"] = [["10.0.0.8"]]
        for name in ("inner", "turns"):
            url = f"http://{name}.example/cb"
            assert server.post(mode="subscribe", topic=server.topic(), callback=url)[0] == 202
            row = server.row(url)
            assert row is not None
            with world.fetcher() as fetcher:
                asyncio.run(server.services.hub.verify(row.id, fetcher))
            assert server.row(url) is None
        assert world.connects == []


TOPICS = [
    "/@nobody/atom.xml",
    "/@bob/atom.xml",
    "/@cleo/atom.xml",
    "/@hidden/feed.json",
    "/@none/atom.xml",
    "/@ANN/atom.xml",
    "/@%61nn/atom.xml",
    "/@ann",
    "/@ann/",
    "/@ann/atom.xml?x=1",
    "/@ann/rss.xml",
    "/read/all/atom.xml",
    "",
]


def test_only_public_feeds_of_this_server_are_topics(
    server: Server, people: People, ann: Actor, callback: Callback
) -> None:
    people.open(people.join("bob"), Audience.FOLLOWERS)
    people.open(people.join("cleo"), Audience.PRIVATE)
    people.join("none")
    hidden = people.join("hidden")
    people.open(hidden)
    server.services.mappers.profiles.change(hidden.user_id, {"hidden": True})
    foreign = ["https://other.example/@ann/atom.xml", "atom.xml", "\0"]
    for topic in [*map(server.wire.url, TOPICS), *foreign]:
        answer = server.post(mode="subscribe", topic=topic, callback=callback.url())
        assert answer == (404, "not_found hub.topic"), topic
    assert server.services.store.database["hubsubs"].count_documents({}) == 0


def test_a_name_in_another_script_is_a_topic(
    server: Server, people: People, now: Now, callback: Callback
) -> None:
    who = people.join("Ольга")
    people.open(who)
    row = server.subscribe(callback.url(), quote("Ольга"))
    assert row is not None
    server.services.sharing.post(who, "", "Привет")
    server.work()
    assert "Привет" in callback.pushes[0].get_data().decode()


def test_what_does_not_fit_is_said(server: Server, ann: Actor, callback: Callback) -> None:
    asked = {"mode": "subscribe", "topic": server.topic(), "callback": callback.url()}
    for name, value in (
        ("mode", "publish"),
        ("mode", "denied"),
        ("secret", "x" * 200),
        ("secret", "ü" * 100),
    ):
        assert server.post(**{**asked, name: value}) == (400, f"invalid hub.{name}")


def test_a_stream_that_is_no_longer_public_is_denied(
    server: Server, people: People, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    server.post(mode="subscribe", topic=server.topic(), callback=callback.url("/late"))
    people.open(ann, Audience.FOLLOWERS)
    server.work()
    said = [(a.path, a.args["hub.mode"]) for a in callback.asked]
    assert said[0] == ("/cb", "subscribe")
    assert sorted(said[1:]) == [("/cb", "denied"), ("/late", "denied")]
    assert callback.asked[-1].args["hub.topic"] == server.topic()
    assert server.services.store.database["hubsubs"].count_documents({}) == 0
    server.services.sharing.share(ann, entries[0], note="for friends")
    server.work()
    assert callback.pushes == []


def test_shares_for_fewer_people_cause_no_push(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    for entry, audience in zip(entries, (Audience.FOLLOWERS, Audience.PRIVATE), strict=False):
        server.services.sharing.share(ann, entry, audience=audience)
        server.work()
    assert callback.pushes == []
    row = server.row(callback.url())
    assert row is not None
    assert row.owed is None


# -- limits


def limited(server: Server, **changed: Any) -> contextlib.closing[Services]:
    return contextlib.closing(bootstrap.build(dataclasses.replace(server.services.settings, **changed)))


@contextlib.contextmanager
def another(services: Services) -> Iterator[Server]:
    """Put other services on the same stores behind a socket."""
    with Wire() as wire, contextlib.closing(Server(services, wire)) as made:
        yield made


@pytest.mark.parametrize(
    ("limit", "field"), [("hub_stream_max", "hub.topic"), ("hub_host_max", "hub.callback")]
)
def test_subscriptions_are_counted_and_renewals_are_not(
    server: Server, ann: Actor, callback: Callback, limit: str, field: str
) -> None:
    with limited(server, **{limit: 2}) as few:
        for path in ("/1", "/2", "/1"):
            few.hub.request(HubForm("subscribe", server.topic(), callback.url(path)), "net")
        with pytest.raises(TooLargeError) as refused:
            few.hub.request(HubForm("subscribe", server.topic(), callback.url("/3")), "net")
    assert refused.value.ids["field"] == field


def test_one_address_asks_so_often_and_no_longer_a_body(
    server: Server, ann: Actor, callback: Callback
) -> None:
    with limited(server, hub_per_hour=2, hub_form_max=1024) as few, another(few) as strict:
        form = {"mode": "subscribe", "topic": server.topic(), "callback": callback.url()}
        assert strict.post(**form, secret="x" * 2000)[0] == 413
        assert [strict.post(**form)[0] for _ in range(3)] == [202, 202, 429]


def test_without_a_hub_there_is_none(server: Server, ann: Actor, callback: Callback) -> None:
    with limited(server, hub="off") as off:
        assert off.hub.address is None
        off.hub.tell(1)
        assert off.hub.due(clock.now(), 10) == []
    assert not rules.is_on(Settings())
    assert rules.is_on(Settings(base_url="https://eventr.example.org"))


# -- nothing is lost, and nothing takes long


def test_what_is_owed_outlives_redis_and_a_crash_before_anybody_was_told(
    server: Server, ann: Actor, entries: list[int], callback: Callback, redis_client: redis.Redis
) -> None:
    server.subscribe(callback.url())
    services = server.services
    profile = services.gateways.profiles.get(ann.user_id)
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
    hubs.spread(row.feed_id, now())
    assert hubs.take(row.feed_id, now(), now() + rules.CLAIM, 10) != []
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
    hubs.spread(row.feed_id, now())
    (taken,) = hubs.take(row.feed_id, now(), now() + rules.CLAIM, 10)
    now.go(seconds=1)
    server.services.sharing.share(ann, entries[1])
    hubs.spread(row.feed_id, now())
    hubs.end([(taken, b"old")], {}, (), now())
    server.work()
    assert callback.pushes[0].get_data().count(b"<entry>") == 2


def test_sharing_costs_the_same_however_many_subscribe(
    server: Server, ann: Actor, entries: list[int], callback: Callback, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = server.subscribe(callback.url())
    assert row is not None
    found, original = Recorder(), pymongo.MongoClient
    monkeypatch.setattr(
        "app.mappers.store.MongoClient", lambda *a, **k: original(*a, **k, event_listeners=[found])
    )
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
    found, original = Recorder(), pymongo.MongoClient
    monkeypatch.setattr(
        "app.mappers.store.MongoClient", lambda *a, **k: original(*a, **k, event_listeners=[found])
    )
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
    registry.load()
    redis_client.flushall()
    server.post(mode="subscribe", topic=server.topic(), callback=callback.url())
    redis_client.flushall()
    queue_more(server.services)
    (job, *_) = server.services.hub.due(clock.now(), 10)
    assert registry.find(job.task) is not None
    ticket = server.services.jobs.enqueue(job)
    assert not ticket.fresh, "the updater has queued it"
    assert server.services.jobs.status(ticket.id).state is State.QUEUED
    server.work()
    server.services.sharing.share(ann, entries[0])
    (push,) = server.services.hub.due(clock.now(), 10)
    assert registry.find(push.task) is not None
