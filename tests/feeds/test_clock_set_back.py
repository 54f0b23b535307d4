"""F11: a clock that is set back makes no feed late by more than its own interval."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
import redis

from app import clock
from app.bootstrap.services import Services
from tests.feeds.test_pull import Site, rss, site
from tests.support.rawserver import Reply
from workers.updater.updater import Updater

__all__ = ["site"]

NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


def get_wait(site: Site, feed_id: int, now: dt.datetime) -> dt.timedelta:
    due = site.feed(feed_id).next_check_at
    assert due is not None
    return due - now


@pytest.mark.parametrize("back", [2 * HOUR, DAY, 400 * DAY])
@pytest.mark.parametrize("quiet", [False, True])
def test_F11_a_checked_feed_keeps_its_interval(site: Site, back: dt.timedelta, quiet: bool) -> None:
    site.server.set("/feed", Reply(body=rss(1)))
    with clock.set_source(lambda: NOW):
        feed = site.follow("/feed")
        for _ in range(2 if quiet else 1):
            site.pull([feed.id])
        wait = get_wait(site, feed.id, NOW)
    now = NOW - back
    for _ in range(2):
        site.services.pull.correct_late_times(now)
        assert get_wait(site, feed.id, now) == wait
    # The next check makes all times right.
    with clock.set_source(lambda: now + wait):
        assert [due.id for due in site.services.pull.find_due(now + wait, 5)] == [feed.id]
        site.pull([feed.id], only_due=True)
        assert dt.timedelta(0) < get_wait(site, feed.id, now + wait) <= 1.1 * HOUR


@pytest.mark.parametrize("headers", [(), (("Retry-After", "86400"),)])
def test_F11_a_failing_feed_waits_for_its_longest_interval_at_most(
    site: Site, headers: tuple[tuple[str, str], ...]
) -> None:
    site.server.set("/feed", Reply(status=503, headers=headers))
    with clock.set_source(lambda: NOW):
        feed = site.follow("/feed")
        site.pull([feed.id])
    now = NOW - 400 * DAY
    site.services.pull.correct_late_times(now)
    longest = dt.timedelta(seconds=site.services.settings.error_backoff_max * 1.1)
    assert get_wait(site, feed.id, now) == longest
    stored = site.feed(feed.id).retry_at
    assert stored is None or stored - now == longest


def test_F11_a_claim_that_a_dead_worker_left_ends(site: Site, db: Any) -> None:
    site.server.set("/feed", Reply(body=rss(1)))
    feed = site.follow("/feed")
    assert site.services.gateways.feeds.claim([feed.id], "dead", NOW, 180)
    now = NOW - DAY
    site.services.pull.correct_late_times(now)
    assert site.feed(feed.id).claimed_until == now + dt.timedelta(seconds=180)


def test_times_of_a_clock_that_was_not_set_back_stay(services: Services, site: Site, db: Any) -> None:
    now = clock.now().replace(microsecond=0)
    times = [
        {"checked_at": now + dt.timedelta(seconds=30), "next_check_at": now + HOUR},
        {"checked_at": now - HOUR, "next_check_at": now + DAY},
        {"checked_at": now - HOUR, "next_check_at": now - HOUR},
        {"next_check_at": None},
    ]
    ids = [services.gateways.feeds.get_or_create(f"https://f{n}.example/", now=now).id for n in range(4)]
    for feed_id, change in zip(ids, times, strict=True):
        db.feeds.update_one({"_id": feed_id}, {"$set": change})
    before = list(db.feeds.find())
    services.pull.correct_late_times(now)
    assert list(db.feeds.find()) == before


def test_F11_the_updater_sees_that_its_clock_was_set_back(
    services: Services, site: Site, redis_client: redis.Redis
) -> None:
    site.server.set("/feed", Reply(body=rss(1)))
    now = [NOW]
    with clock.set_source(lambda: now[0]):
        feed = site.follow("/feed")
        site.pull([feed.id])
        wait = get_wait(site, feed.id, NOW)
        own = dataclasses.replace(services.settings, updater_lease=600.0)
        updater = Updater(own, redis_client, services.pull, services.jobs)
        assert updater.queue_due_feeds()
        now[0] = NOW - DAY
        assert updater.queue_due_feeds()
        assert get_wait(site, feed.id, now[0]) == wait
