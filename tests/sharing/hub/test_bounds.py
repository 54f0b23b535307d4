"""What may be a callback and what a topic, and how many there may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from app import clock
from app.config import Settings
from app.errors import TooLargeError
from app.feeds.websub import hub as rules
from app.models.accounts.actor import Actor
from app.models.sharing.hub import HubForm
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.sharing.hub.conftest import Now, another, limited
from tests.support.rawserver import RawServer
from tests.support.servers import Callback, Server
from tests.support.world import World

Eventually = Callable[..., Any]


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
                asyncio.run(server.services.hub.verify_intents(row.id, fetcher))
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
    server.services.mappers.profiles.update(hidden.user_id, {"hidden": True})
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
    server.services.sharing.publish_post(who, "", "Привет")
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


@pytest.mark.parametrize(
    ("limit", "field"), [("hub_stream_max", "hub.topic"), ("hub_host_max", "hub.callback")]
)
def test_subscriptions_are_counted_and_renewals_are_not(
    server: Server, ann: Actor, callback: Callback, limit: str, field: str
) -> None:
    with limited(server, **{limit: 2}) as few:
        for path in ("/1", "/2", "/1"):
            few.hub.submit_request(HubForm("subscribe", server.topic(), callback.url(path)), "net")
        with pytest.raises(TooLargeError) as refused:
            few.hub.submit_request(HubForm("subscribe", server.topic(), callback.url("/3")), "net")
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
        off.hub.notify_subscribers(1)
        assert off.hub.find_due_jobs(clock.now(), 10) == []
    assert not rules.is_enabled(Settings())
    assert rules.is_enabled(Settings(base_url="https://eventr.example.org"))
