"""Who subscribes to a public stream, for how long, and that he meant it (W3C WebSub §5)."""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Callable
from typing import Any

import redis
from werkzeug.wrappers import Response

from app.models.accounts.actor import Actor
from tests.sharing.hub.conftest import START, Now
from tests.support.servers import Callback, Server

Eventually = Callable[..., Any]


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
    sharing.update_share(ann, share.id, note="two")
    server.work()
    sharing.remove_share(ann, share.id)
    server.work()
    bodies = [push.get_data() for push in callback.pushes]
    assert [(b"one" in b, b"two" in b) for b in bodies] == [(True, False), (False, True), (False, False)]
    assert {push.headers["Content-Type"] for push in callback.pushes} == {
        "application/feed+json; charset=utf-8"
    }
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
