"""Entries that are marked as read some days after they arrived."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.gateways.reading import auto_read as batches
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Task
from app.models.reading.history import ActionKind
from app.models.reading.stream import Sort, StreamQuery, StreamRef
from app.services.reading import auto_read
from tests.support.reader import add_user, pull, rss

ALL = StreamRef.parse("all")
START = clock.now()
At = Callable[[float], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """``at(3)``: it is three days after the start from now on. Ids are times, and go back with the test."""
    monkeypatch.setattr(ids, "_last", 0)

    def set_day(day: float) -> None:
        monkeypatch.setattr(clock, "now", lambda: START + dt.timedelta(days=day))

    set_day(0)
    return set_day


@pytest.fixture
def ann(services: Services, at: At) -> Actor:
    return add_user(services)


def _follow(services: Services, who: Actor, name: str, days: int) -> int:
    feed_id = services.subscriptions.subscribe(who, _url(name)).subscription.feed_id
    services.subscriptions.update(who, feed_id, read_after=days)
    return feed_id


def _url(name: str) -> str:
    return f"https://{name}.example/feed"


def _bring(services: Services, feed_id: int, name: str, *titles: str) -> None:
    pull(services, [feed_id], {_url(name): rss(name, [(title, "<p>x</p>") for title in titles])})


def _unread(services: Services, who: Actor) -> set[str]:
    page = services.reading.load_page(who, StreamQuery(ALL, Sort.NEWEST, limit=1000))
    return {row.title for row in page.rows if not row.read}


def _run(services: Services, after: int = 0) -> dict[str, int]:
    return services.auto_read.run(after, seconds=60.0)


def test_entries_are_marked_when_their_days_are_over(services: Services, ann: Actor, at: At) -> None:
    weekly = _follow(services, ann, "weekly", 7)
    _bring(services, weekly, "weekly", "old")
    never = services.subscriptions.subscribe(ann, _url("never")).subscription.feed_id
    _bring(services, never, "never", "kept")
    at(5)
    _bring(services, weekly, "weekly", "new", "old")
    at(6.9)
    assert _run(services) == {"users": 1, "entries": 0}
    at(7.1)
    assert _run(services) == {"users": 1, "entries": 1}
    assert _unread(services, ann) == {"new", "kept"}
    at(12.1)
    _run(services)
    assert _unread(services, ann) == {"kept"}


def test_an_undone_mark_is_not_repeated(services: Services, ann: Actor, at: At) -> None:
    feed_id = _follow(services, ann, "blog", 3)
    _bring(services, feed_id, "blog", "one", "two")
    at(3.1)
    assert _run(services)["entries"] == 2
    (action,) = services.marking.list_history(ann).actions
    assert (action.kind, action.count, action.about) == (ActionKind.AUTO, 2, f"feed/{feed_id}")
    services.reading.undo_mass_mark(ann, action.undo)
    assert _unread(services, ann) == {"one", "two"}
    at(3.2)
    assert _run(services)["entries"] == 0
    assert _unread(services, ann) == {"one", "two"}
    services.subscriptions.restore(ann, services.subscriptions.unsubscribe(ann, feed_id))
    assert _run(services)["entries"] == 0
    _bring(services, feed_id, "blog", "three")
    at(6.3)
    assert _run(services)["entries"] == 1
    assert _unread(services, ann) == {"one", "two"}, "they have had their turn"


def test_a_death_between_mark_and_record_changes_nothing(
    services: Services, ann: Actor, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed_id = _follow(services, ann, "blog", 1)
    _bring(services, feed_id, "blog", "one")
    at(1.1)
    with monkeypatch.context() as patch:
        patch.setattr(services.gateways.auto_read, "set_done", _die)
        with pytest.raises(KeyboardInterrupt):
            _run(services)
    assert _unread(services, ann) == set()
    assert _run(services)["entries"] == 0
    assert len(services.marking.list_history(ann).actions) == 1


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_for_a_new_reader_the_days_begin_with_the_subscription(
    services: Services, ann: Actor, at: At
) -> None:
    feed_id = _follow(services, ann, "blog", 7)
    _bring(services, feed_id, "blog", "one")
    at(30)
    bob = add_user(services, "bob")
    _follow(services, bob, "blog", 7)
    _run(services)
    assert (_unread(services, ann), _unread(services, bob)) == (set(), {"one"})
    at(37.1)
    _run(services)
    assert _unread(services, bob) == set()


def test_nobody_counts_as_having_read_the_feed(services: Services, ann: Actor, at: At, db: Any) -> None:
    feed_id = _follow(services, ann, "blog", 1)
    _bring(services, feed_id, "blog", "one")
    at(1.1)
    before = db.feeds.find_one({"_id": feed_id}).get("read_at")
    assert _run(services)["entries"] == 1
    assert db.feeds.find_one({"_id": feed_id}).get("read_at") == before


def test_a_run_that_ends_early_continues_in_another_job(
    services: Services, ann: Actor, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH", 1)
    readers = [ann, add_user(services, "bob"), add_user(services, "cleo")]
    for who in readers:
        _bring(services, _follow(services, who, "blog", 1), "blog", "one")
        _bring(services, _follow(services, who, "news", 1), "news", "two")
    at(1.1)
    done = services.auto_read.run(0, seconds=60.0, is_stopping=lambda: True)
    assert done == {"users": 1, "entries": 2}
    first = min(who.user_id for who in readers)
    assert _run(services, first) == {"users": 2, "entries": 4}
    assert all(_unread(services, who) == set() for who in readers)


def test_a_job_is_queued_once_an_hour_and_only_if_it_has_work(services: Services, ann: Actor, at: At) -> None:
    find = services.auto_read.find_due_jobs
    assert find(clock.now()) == []
    _follow(services, ann, "blog", 1)
    assert find(clock.now()) == []
    later = clock.now() + auto_read.EVERY
    assert [job.task for job in find(later)] == [Task.AUTO_READ]
    assert find(later) == []


@pytest.mark.parametrize("days", [-1, 366])
def test_days_out_of_range_are_refused(services: Services, ann: Actor, days: int) -> None:
    with pytest.raises(InvalidError, match="365"):
        _follow(services, ann, "blog", days)
