"""F12: feeds that bring down whoever reads them, or fail as nobody foresaw: only they may suffer."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from app import clock
from app.adapters.redis.jobs import hash_job
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from tests.faults.faulty import CRASHES, FAULTS
from tests.faults.system import STUCK, System
from tests.support.rawserver import Reply

pytestmark = pytest.mark.timeout(3000)

RSS = b"<rss version='2.0'><channel><title>%s</title><item><guid>1</guid></item></channel></rss>"


@pytest.fixture(autouse=True)
def _three_crashes(system: System) -> Iterator[None]:
    """Give up as usual, and see soon that somebody hangs; other tests give nobody up."""
    with system.changed({"suspects.retries": "3", "suspects.memory": str(200 << 20), **STUCK}):
        yield


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
        deaths = _deaths(system, feed_id)
        assert len(deaths) >= 3, "it was given every try"
        # Another's death may take a job of it along at any time, one that read nothing of it.
        own = list(deaths.values()).count(CRASHES[how])
        assert own <= 3, "the third crash was the last, whoever asked"
        alone = {where for worker, where in deaths.items() if worker.startswith("suspects-")}
        # Where the machine has no memory or time at hand, a hog stands still before it has had its fill.
        may = {CRASHES[how], *({"stall"} if how == "hog" else ())}
        assert alone, "it was alone at its end"
        assert alone <= may
    # Who is given up rests for longer than this waits. Any other error is of one poll, for want of an answer.
    system.wait(lambda: {feeds.get(feed_id).error for feed_id in innocent} == {None}, "the innocent are well")


def _pulls(feed_id: int) -> list[str]:
    """Return the jobs of this feed alone: its reader's pull, and the updater's."""
    return [hash_job(task, {"feed_ids": [feed_id]}) for task in (Task.PULL, Task.PULL_SYSTEM)]


def _given_up(system: System, feed_id: int) -> bool:
    """Whether a job of this feed alone ended dead, and none is left that could crash anybody."""
    states = {system.services.jobs.get_status(ident).state for ident in _pulls(feed_id)}
    return State.FAILED in states and states <= {State.FAILED, State.FINISHED, State.MISSING}


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


def _deaths(system: System, feed_id: int) -> dict[str, str]:
    """Return the workers that died of this feed, and how, as the histories of its jobs tell it, in order."""
    lines = []
    for ident in _pulls(feed_id):
        history = system.client.hget(redis_keys.make_job_key(ident), "history") or b""
        assert isinstance(history, bytes)
        lines += [json.loads(line) for line in history.decode().splitlines()]
    crashes = sorted((line["at"], line["worker"], line["where"]) for line in lines)
    return {worker: where for _, worker, where in crashes if where in CRASHES.values()}


def _rests(system: System, feed_id: int) -> bool:
    found = system.services.gateways.feeds.get(feed_id)
    return found.next_check_at is not None and found.next_check_at > clock.now() + dt.timedelta(hours=1)
