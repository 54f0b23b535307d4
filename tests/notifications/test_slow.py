"""Addresses that never answer, or one byte at a time, hold up no other message (tarpits)."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.config import Settings
from app.models.accounts.actor import Actor
from app.services.notifications.push_backoff import PushBackoff
from tests.notifications.conftest import Browser, Crew, Post, PushService
from tests.sharing.conftest import People
from tests.sharing.hub.conftest import Now
from tests.support import manager
from tests.support.rawserver import RawServer, Reply

Eventually = Callable[..., Any]
#: Longer than any test may take.
EVER = 3600.0


@pytest.fixture
def tarpit() -> Iterator[RawServer]:
    """Never answers at /never, one byte after the other at /drip and its head at once at /body."""
    # Another address than the service: so it is another host.
    with RawServer(hosts=("127.0.0.2",)) as server:
        server.set("/never", Reply(delay=EVER))
        server.set("/drip", Reply(status=201, body=b"x" * 1000, drip=(1, 0.05)))
        server.set("/body", Reply(status=201, body=b"x", unfinished=True, chunked=True))
        yield server


@pytest.fixture
def settings(settings: Settings, service: PushService, tarpit: RawServer) -> Settings:
    """A server that may reach both, and whose own patience with feeds would end no test."""
    return dataclasses.replace(
        settings,
        push_allow=(service.wire.host, tarpit.origin),
        fetch_first_byte_timeout=60,
        fetch_idle_timeout=60,
        fetch_total_timeout=300,
        push_timeout=8,  # in which good ones answer on a busy machine, too
    )


@pytest.mark.parametrize("path", ["/never", "/drip", "/body"])
def test_a_message_has_so_much_time_and_no_more(
    crew: Crew, post: Post, tarpit: RawServer, ann: Actor, path: str
) -> None:
    crew.register(ann, Browser(tarpit.url(path)))
    crew.services.push.send_test(ann)
    assert post.work() in (["later"], ["refused"])


def test_many_of_one_person_hold_up_nobody_else(
    people: People, service: PushService, tarpit: RawServer, settings: Settings, eventually: Eventually
) -> None:
    services, crew = people.services, Crew(people, service)
    ann, mallory = people.join("ann"), people.join("mallory")
    for n in range(12):
        tarpit.set(f"/{n}", Reply(delay=EVER))
        crew.register(mallory, Browser(tarpit.url(f"/{n}")))
    crew.device(ann)
    # One place for such work: each of these would hold it for a while, one after the other.
    with manager.running(dataclasses.replace(settings, push_timeout=5, pull_batches=1)):
        services.push.send_test(mallory)
        eventually(lambda: tarpit.requests)
        services.push.send_test(ann)
        eventually(lambda: service.messages, message="hers came while theirs are still unheard")
        assert len(tarpit.requests) <= 3


def test_a_host_that_is_silent_is_left_alone_and_asked_again(
    crew: Crew, post: Post, tarpit: RawServer, ann: Actor, bob: Actor, now: Now
) -> None:
    for who, path in ((ann, "/never"), (bob, "/other")):
        crew.register(who, Browser(tarpit.url(path)))
        crew.services.push.send_test(who)
    assert post.work() == ["later", "later"]
    assert len(tarpit.requests) == 1, "the second was not asked"
    now.go(seconds=40)
    tarpit.set("/never", Reply(status=201))
    tarpit.set("/other", Reply(status=201))
    assert post.work() == ["sent", "sent"]


def test_who_waits_too_often_for_a_host_gives_up_and_keeps_his_device(
    crew: Crew, post: Post, tarpit: RawServer, ann: Actor, bob: Actor
) -> None:
    crew.register(ann, Browser(tarpit.url("/never")))
    device = crew.register(bob, Browser(tarpit.url("/other")))
    crew.services.push.send_test(ann)
    post.work()
    crew.services.push.send_test(bob)
    ends = [post.work() for _ in range(crew.services.settings.push_tries)]
    assert ends[-1].count("given_up") == 1
    assert [r.path for r in tarpit.requests] == ["/never"]
    found = crew.services.mappers.devices.find(device.id)
    assert found is not None
    assert found.failures == 0


# -- the rules
NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def _seconds(n: float) -> dt.timedelta:
    return dt.timedelta(seconds=n)


@pytest.fixture
def patience() -> PushBackoff:
    return PushBackoff(_seconds(30), _seconds(100), _seconds(5))


def test_one_at_a_time_until_it_answers(patience: PushBackoff) -> None:
    assert patience.acquire("a", 1, NOW) == _seconds(0)
    assert patience.acquire("a", 2, NOW) == _seconds(5)
    assert patience.acquire("b", 1, NOW) == _seconds(5), "another host of the same person"
    assert patience.acquire("b", 2, NOW) == _seconds(0)
    patience.release("a", 1, NOW, unanswered=False)
    for user in range(1, 50):
        assert patience.acquire("a", user, NOW) == _seconds(0), "a host of many, which answers"


def test_each_silence_is_a_longer_pause_up_to_the_longest(patience: PushBackoff) -> None:
    pauses = []
    at = NOW
    for _ in range(4):
        assert patience.acquire("a", 1, at) == _seconds(0)
        patience.release("a", 1, at, unanswered=True)
        pauses.append(patience.acquire("a", 2, at).total_seconds())
        at += _seconds(pauses[-1])
    assert pauses == [30, 60, 100, 100]
    patience.acquire("a", 1, at)
    patience.release("a", 1, at, unanswered=None)
    assert patience.acquire("a", 1, at) == _seconds(0), "nothing was learnt"


def test_a_person_does_not_wait_where_the_host_is_known_to_answer(patience: PushBackoff) -> None:
    patience.acquire("good", 1, NOW)
    patience.release("good", 1, NOW, unanswered=False)
    patience.acquire("tarpit", 2, NOW)
    patience.release("tarpit", 2, NOW, unanswered=True)
    assert patience.acquire("good", 2, NOW) == _seconds(0)
    assert patience.acquire("new", 2, NOW) == _seconds(30)
    assert patience.acquire("new", 3, NOW) == _seconds(0)
