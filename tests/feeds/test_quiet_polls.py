"""Polls without news: a crash costs a fetch at most, never a feed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from tests.feeds.test_pull import Site, rss, site
from tests.support.fetches import quiet_poll
from tests.support.rawserver import file_reply

__all__ = ["site"]


class Killed(BaseException):
    """The worker is gone."""


KILLS = {
    "before they are stored": ("record_unchanged", False),
    "after they are stored": ("record_unchanged", True),
}


def _make_due(services: Services) -> None:
    due = clock.now() - dt.timedelta(seconds=1)
    services.store.database["feeds"].update_many({}, {"$set": {"next_check_at": due}})


def _due(services: Services) -> set[int]:
    return {feed.id for feed in services.pull.find_due(clock.now(), 10)}


def _count_requests(site: Site) -> int:
    return len(site.server.requests)


@pytest.mark.parametrize("step", KILLS)
@pytest.mark.parametrize("etag", [True, False], ids=["304", "unchanged"])
def test_killed_poll_is_repeated_once_or_not_at_all(
    site: Site, services: Services, monkeypatch: pytest.MonkeyPatch, step: str, etag: bool
) -> None:
    name, after = KILLS[step]
    paths = ("/a", "/b")
    for path in paths:
        site.server.set(path, file_reply(rss(2, 1), etag=etag))
    ids = [site.follow(path).id for path in paths]
    site.pull(ids)
    _make_due(services)
    gateway = services.gateways.feeds
    real: Callable[..., Any] = getattr(gateway, name)

    def die(*args: Any) -> None:
        if after:
            real(*args)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(gateway, name, die)
        with pytest.raises(Killed):
            site.pull(ids, only_due=True)

    lost = step == "before they are stored"
    assert _due(services) == (set(ids) if lost else set())
    before = _count_requests(site)
    repeated = site.pull(ids, only_due=True)
    assert (repeated.unchanged, repeated.skipped) == ((2, 0) if lost else (0, 2))
    assert _count_requests(site) - before == (2 if lost else 0)
    assert _due(services) == set()
    assert all(site.feed(feed_id).next_check_at is not None for feed_id in ids)


def test_late_poll_does_not_hide_a_feed_that_is_claimed_meanwhile(site: Site, services: Services) -> None:
    site.server.set("/a", file_reply(rss(1)))
    feed = site.follow("/a")
    site.pull([feed.id])
    _make_due(services)
    gateway, now = services.gateways.feeds, clock.now()
    assert gateway.claim([feed.id], "other", now, 60)
    gateway.record_unchanged([quiet_poll(feed.id, now + dt.timedelta(hours=1))], now)
    gateway.release("other", [feed.id])
    assert _due(services) == {feed.id}
