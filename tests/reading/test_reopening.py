"""Entries become unread again when their text changes, for readers who want that."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
import redis
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app import clock
from app.bootstrap.services import Services
from app.gateways.reading import reopening
from app.models.accounts.actor import Actor
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue, Task
from app.models.reading.rules import Rule
from app.models.reading.stream import Sort, StreamQuery, StreamRef
from tests.support.reader import Canned, add_user, elsewhere, rss

ALL = StreamRef.parse("all")
URL = "https://blog.example/feed"


class Queued:
    """The jobs of this kind in the real queue."""

    def __init__(self, services: Services, client: redis.Redis) -> None:
        self._services, self._client = services, client

    def take(self) -> list[dict[str, Any]]:
        """Take all jobs from the queue and return their arguments."""
        found = []
        while (raw := self._client.lpop(redis_keys.make_queue_key(Queue.PULL_SYSTEM))) is not None:
            job = RqJob.fetch(raw.decode(), connection=self._client, serializer=JSONSerializer)  # type: ignore[union-attr]
            self._client.delete(redis_keys.make_job_key(job.id))
            if job.func_name == Task.REOPEN:
                found.append(job.kwargs)
        return found

    def run(self) -> int:
        """Run all queued jobs, and those that they queue; return how many entries became unread."""
        done = 0
        while jobs := self.take():
            done += sum(self._services.reopening.run(**args, seconds=60.0)["entries"] for args in jobs)
        return done


@pytest.fixture
def queued(services: Services, redis_client: redis.Redis) -> Queued:
    return Queued(services, redis_client)


@pytest.fixture
def ann(services: Services) -> Actor:
    return _follow(services, "ann", reopen=True)


def _follow(services: Services, name: str, *, reopen: bool) -> Actor:
    who = add_user(services, name)
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    services.subscriptions.update(who, feed_id, reopen=reopen)
    return who


def _pull(services: Services, items: list[tuple[str, str]], minute: int) -> int:
    (feed,) = services.gateways.feeds.get_or_create_many([URL], now=clock.now(), due=clock.now())
    body = rss("Blog", items)
    later = clock.now() + dt.timedelta(minutes=minute)
    with clock.set_source(lambda: later):
        elsewhere(lambda: asyncio.run(services.pull.pull([feed.id], Canned({URL: body}))))
    return feed.id


def _unread(services: Services, who: Actor) -> set[str]:
    rows = services.reading.load_page(who, StreamQuery(ALL, Sort.NEWEST, limit=100)).rows
    return {row.title for row in rows if not row.read}


def test_a_changed_entry_becomes_unread_for_those_who_want_it(
    services: Services, ann: Actor, queued: Queued, db: Any
) -> None:
    bob = _follow(services, "bob", reopen=False)
    _pull(services, [("one", "<p>old text</p>"), ("two", "<p>x</p>")], 0)
    assert queued.take() == []
    for who in (ann, bob):
        services.reading.mark_all(who, ALL)
    feed_id = _pull(services, [("one", "<p>new text</p>"), ("two", "<p>x</p>")], 5)
    (job,) = queued.take()
    assert job["feed_id"] == feed_id
    assert services.reopening.run(**job, seconds=60.0) == {"entries": 1}
    assert (_unread(services, ann), _unread(services, bob)) == ({"one"}, set())
    assert services.reading.get_tree(ann).unread == 1
    assert services.reopening.run(**job, seconds=60.0) == {"entries": 0}, "a job may run twice"
    _pull(services, [("one", "<p>new text</p>"), ("two", "<p>x</p>")], 10)
    assert queued.take() == [], "nothing has changed"


def test_a_changed_entry_that_a_rule_hides_stays_hidden_and_read(
    services: Services, ann: Actor, queued: Queued
) -> None:
    services.rules.save(ann, Rule(0, "", "advert", hide=True))
    _pull(services, [("advert", "<p>old</p>"), ("news", "<p>old</p>")], 0)
    services.rule_runner.run(clock.now() + dt.timedelta(minutes=1), seconds=30)
    services.reading.mark_all(ann, ALL)
    _pull(services, [("advert", "<p>new</p>"), ("news", "<p>new</p>")], 5)
    assert queued.run() == 1
    assert services.reading.get_tree(ann).unread == 1
    assert _unread(services, ann) == {"news"}
    _pull(services, [("advert", "<p>newer</p>"), ("news", "<p>new</p>")], 10)
    assert queued.run() == 0, "nothing but the hidden entry has changed"


def test_without_such_readers_no_job_is_queued(services: Services, queued: Queued) -> None:
    _follow(services, "bob", reopen=False)
    _pull(services, [("one", "<p>old</p>")], 0)
    _pull(services, [("one", "<p>new</p>")], 5)
    assert queued.take() == []


def test_a_feed_with_a_new_look_reopens_nothing(
    services: Services, ann: Actor, queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopening, "ENTRIES_MAX", 2)
    titles = ["one", "two", "three"]
    _pull(services, [(title, "<p>old</p>") for title in titles], 0)
    services.reading.mark_all(ann, ALL)
    _pull(services, [(title, "<p>new</p>") for title in titles], 5)
    assert queued.run() == 0
    assert _unread(services, ann) == set()


def test_many_readers_are_done_by_several_jobs(
    services: Services, queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reopening, "BATCH", 2)
    readers = [_follow(services, f"reader{n}", reopen=True) for n in range(5)]
    _pull(services, [("one", "<p>old</p>")], 0)
    for who in readers:
        services.reading.mark_all(who, ALL)
    _pull(services, [("one", "<p>new</p>")], 5)
    (job,) = queued.take()
    turns = iter([False, False, True])
    first = services.reopening.run(**job, seconds=60.0, is_stopping=lambda: next(turns))
    assert first == {"entries": 3}
    (later,) = queued.take()
    second = services.reopening.run(**later, seconds=60.0, is_stopping=lambda: True)
    assert second == {"entries": 1}, "a worker that always stops gets on, too"
    assert queued.run() == 1
    assert all(_unread(services, who) == {"one"} for who in readers)
