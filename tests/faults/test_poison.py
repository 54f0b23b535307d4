"""F12: feeds that bring down whoever reads them, or fail as nobody foresaw: only they may suffer."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from app import clock
from app.jobs import job_id
from app.models import keys
from app.models.jobs import Job, Queue, State, Task
from tests.faults.faulty import CRASHES, FAULTS
from tests.faults.system import System
from tests.jobs import repl
from tests.support.rawserver import Reply

pytestmark = pytest.mark.timeout(3000)

RSS = b"<rss version='2.0'><channel><title>%s</title><item><guid>1</guid></item></channel></rss>"


@pytest.fixture(autouse=True)
def _three_crashes(system: System) -> Iterator[None]:
    """Give up as usual, and see soon that somebody hangs; other tests give nobody up."""
    settings = {"suspects.retries": "3", "suspects.stall": "2", "suspects.memory": str(200 << 20)}
    for name, value in settings.items():
        repl.ask(system.settings, f"set {name} {value}")
    yield
    for name in settings:
        repl.ask(system.settings, f"reset {name}")


def test_F12_poisonous_feeds_are_given_up_alone_and_with_a_reason(system: System, scale: int) -> None:
    reader, good = system.user(), system.farm.growing(10 * scale)
    system.subscribe(reader, good[:5])
    poisons = {how: _poison(system, how) for how in CRASHES}
    guilty = dict(zip(poisons, system.subscribe(reader, list(poisons.values())), strict=True))
    innocent = system.subscribe(reader, good)
    feeds = system.services.gateways.feeds
    system.wait(lambda: all(map(system.farm.expected, good)) and system.stored(good), "the others are read")
    for how, feed_id in guilty.items():
        system.wait(lambda f=feed_id: _given_up(system, f), f"{how} is given up")
        assert feeds.get(feed_id).error == "crashed"
        assert _rests(system, feed_id)
        for ident in _given_up(system, feed_id):
            assert system.services.jobs.status(ident).crashes == 3, "the third crash was the last"
            assert _reasons(system, ident) == {CRASHES[how]}, "it was alone at its last two"
    assert {feeds.get(feed_id).error for feed_id in innocent} == {None}


def _given_up(system: System, feed_id: int) -> list[str]:
    """Return the jobs of this feed alone that ended dead: its reader's pull, the updater's, or both."""
    idents = [job_id(task, {"feed_ids": [feed_id]}) for task in (Task.PULL, Task.PULL_SYSTEM)]
    return [ident for ident in idents if system.services.jobs.status(ident).state is State.FAILED]


def test_F12_a_feed_that_fails_unforeseen_costs_its_batch_nothing(system: System) -> None:
    services, feeds = system.services, system.services.gateways.feeds
    good = system.farm.corpus(6)
    poisons = [_poison(system, how) for how in FAULTS]
    urls = [good[0], poisons[0], *good[1:3], poisons[1], *good[3:5], poisons[2], good[5]]
    # One batch, as the updater makes them; nobody reads these, so it is not the updater's.
    ids = [feeds.get_or_create(url, now=clock.now()).id for url in urls]
    ticket = services.jobs.enqueue(Job(Task.PULL_SYSTEM, {"feed_ids": ids}, Queue.PULL_SYSTEM))
    assert [end.error for end in services.jobs.await_many([ticket], 60)] == [None]
    assert system.stored(good), "its neighbours are stored"
    for url, feed_id in zip(urls, ids, strict=True):
        feed = feeds.get(feed_id)
        assert (feed.error, feed.claim_token) == ("unreadable" if url in poisons else None, None)
        assert feed.next_check_at is not None, "it is tried again"


def _poison(system: System, how: str) -> str:
    return system.farm.scripted(f"/{how}/{system.checked}", Reply(body=RSS % f"poison:{how}".encode()))


def _reasons(system: System, ident: str) -> set[str]:
    """Return what a job's history says of its ends."""
    history = system.client.hget(keys.job(ident), "history")
    assert isinstance(history, bytes)
    return {json.loads(line)["where"] for line in history.decode().splitlines()[1:]}


def _rests(system: System, feed_id: int) -> bool:
    found = system.services.gateways.feeds.get(feed_id)
    return found.next_check_at is not None and found.next_check_at > clock.now() + dt.timedelta(hours=1)
