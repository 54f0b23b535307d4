"""Who subscribed to a stream by its owner's former name hears on, as long as that name is kept for him."""

from __future__ import annotations

import contextlib

import pytest

from app.bootstrap import services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.database.test_explain import Recorder
from tests.sharing.conftest import People
from tests.sharing.hub.conftest import Now
from tests.support.commands import add_listener
from tests.support.servers import Callback, Server

#: Of ``name_days``, and a day more.
KEPT = 91


def _rename(server: Server, who: Actor, name: str) -> None:
    server.services.gateways.accounts.set_identity(who.user_id, name, f"{name}@example.org")


def _self(server: Server, topic: str) -> str:
    return f'<{server.wire.url("/hub")}>; rel="hub", <{topic}>; rel="self"'


def test_subscribers_by_all_names_are_told(
    server: Server, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url("/first"), "ann")
    _rename(server, ann, "Änne")
    second = server.topic("%C3%84nne", "feed.json")
    server.subscribe(callback.url("/second"), topic=second)
    # In another case it is the same name, and another address.
    _rename(server, ann, "änne")
    _rename(server, ann, "anna")
    server.subscribe(callback.url("/third"), "anna")
    server.services.sharing.share(ann, entries[0], note="Read this")
    server.work()
    told = {push.path: push for push in callback.pushes}
    assert {path: push.headers["Link"] for path, push in told.items()} == {
        "/first": _self(server, server.topic("ann")),
        "/second": _self(server, second),
        "/third": _self(server, server.topic("anna")),
    }
    assert told["/first"].get_data() == told["/third"].get_data()
    assert b"/@anna/atom.xml" in told["/first"].get_data()
    assert b"Read this" in told["/second"].get_data()
    assert told["/second"].headers["Content-Type"] == "application/feed+json; charset=utf-8"
    server.services.sharing.share(ann, entries[1])
    server.work()
    assert len(callback.pushes) == 6
    assert not any(a.args["hub.mode"] == "denied" for a in callback.asked)


def test_such_a_subscription_is_renewed_and_none_begun(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    before = server.subscribe(callback.url(), lease_seconds=86400)
    _rename(server, ann, "anna")
    now.go(hours=20)
    after = server.subscribe(callback.url(), lease_seconds=86400)
    assert before is not None
    assert after is not None
    assert (after.id, after.expires) == (before.id, before.expires + (now.at - before.since))  # type: ignore[operator]
    other = server.post(mode="subscribe", topic=server.topic("ann"), callback=callback.url("/other"))
    assert other == (404, "not_found hub.topic")
    now.go(hours=10)
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert len(callback.pushes) == 1
    assert server.subscribe(callback.url(), mode="unsubscribe") is None


def test_with_the_name_ends_what_it_was_asked_under(
    server: Server, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    _rename(server, ann, "anna")
    _rename(server, ann, "ann")
    server.subscribe(callback.url("/kept"), "ann")
    for _ in range(3):
        now.go(days=20)
        server.subscribe(callback.url("/kept"), "ann", lease_seconds=30 * 86400)
    _rename(server, ann, "anna")
    for _ in range(4):
        now.go(days=20)
        server.subscribe(callback.url("/kept"), "ann", lease_seconds=30 * 86400)
    now.go(days=KEPT - 80)
    asked = {"mode": "subscribe", "topic": server.topic("ann"), "callback": callback.url("/kept")}
    assert server.post(**asked) == (404, "not_found hub.topic")
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert callback.pushes == []
    assert callback.asked[-1].args["hub.mode"] == "denied"
    assert callback.asked[-1].args["hub.topic"] == server.topic("ann")
    assert server.row(callback.url("/kept")) is None


def test_who_has_the_name_next_is_somebody_else(
    server: Server, people: People, ann: Actor, entries: list[int], callback: Callback, now: Now
) -> None:
    server.subscribe(callback.url("/old"))
    server.subscribe(callback.url("/both"))
    _rename(server, ann, "anna")
    rows = server.services.store.database["hubsubs"]
    now.go(days=KEPT)
    rows.update_many({}, {"$set": {"expires": now.at.replace(year=2027)}})
    bob = people.join("bob")
    people.open(bob)
    _rename(server, bob, "ann")
    server.services.sharing.publish_post(bob, "", "Of the other one")
    # What was asked for under this name is Bob's now.
    row = server.subscribe(callback.url("/both"), "ann")
    assert row is not None
    assert row.user_id == bob.user_id
    server.services.sharing.share(ann, entries[0], note="Of the first one")
    server.services.sharing.publish_post(bob, "", "More of the other one")
    server.work()
    assert [push.path for push in callback.pushes] == ["/both"]
    assert b"More of the other one" in callback.pushes[0].get_data()
    assert b"Of the first one" not in callback.pushes[0].get_data()
    assert [(a.path, a.args["hub.mode"]) for a in callback.asked[3:]] == [("/old", "denied")]


def test_a_stream_that_is_closed_is_closed_by_all_names(
    server: Server, people: People, ann: Actor, entries: list[int], callback: Callback
) -> None:
    server.subscribe(callback.url())
    _rename(server, ann, "anna")
    people.open(ann, Audience.FOLLOWERS)
    asked = {"mode": "subscribe", "topic": server.topic("ann"), "callback": callback.url()}
    assert server.post(**asked) == (404, "not_found hub.topic")
    server.services.sharing.share(ann, entries[0])
    server.work()
    assert callback.pushes == []
    assert callback.asked[-1].args["hub.mode"] == "denied"


def test_names_cost_no_queries_each(
    server: Server,
    ann: Actor,
    entries: list[int],
    callback: Callback,
    now: Now,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Recorder()
    add_listener(monkeypatch, found)
    counts = []
    with contextlib.closing(services.build(server.services.settings)) as recorded:
        for n in range(4):
            name = "ann" if n == 0 else f"ann{n}"
            if n:
                _rename(server, ann, name)
            row = server.subscribe(callback.url(f"/{n}"), name)
            assert row is not None
            server.services.sharing.share(ann, entries[n])
            recorded.gateways.profiles.find(ann.user_id)
            found.commands.clear()
            hubs = recorded.hub._hubs
            taken = hubs.claim_deliveries(row.feed_id, now())
            assert [bool(t.digest) for t in taken] == [True] * (n + 1)
            # The feed itself has one more entry each time, of the same feed.
            counts.append(len(found.commands))
            hubs.record_results(taken, (), now())
            now.go(minutes=5)
    assert counts[1] == counts[2] == counts[3]
