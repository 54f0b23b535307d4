"""Servers whose validators are wrong: they answer 304 although the feed has new entries."""

from __future__ import annotations

import datetime as dt

import pytest

from app import clock
from app.config import Settings
from app.models.feeds.feed import FeedPoll
from app.models.feeds.fetched import Validators
from app.services.feeds.pull import build_request
from tests.feeds.test_pull import Site, rss, site
from tests.support.rawserver import Reply, Request

__all__ = ["site"]

NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
DAY_MS = 86_400_000
FULL_MS = int(Settings().fetch_full_days * DAY_MS)


class Server:
    """A feed whose server answers each conditional request by 304 while ``lies``."""

    def __init__(self, site: Site, *, changes_etag: bool) -> None:
        self.numbers, self.lies, self._changes_etag = [1], True, changes_etag
        self.conditions: list[bool] = []
        site.server.set("/feed", self._answer)

    def _answer(self, request: Request) -> Reply:
        condition = request.headers.get("if-none-match")
        self.conditions.append(condition is not None)
        etag = f'"{max(self.numbers)}"' if self._changes_etag else '"always"'
        if condition is not None and (self.lies or condition == etag):
            return Reply(status=304, headers=(("ETag", etag),))
        return Reply(body=rss(*reversed(self.numbers)), headers=(("ETag", etag),))


@pytest.mark.parametrize("changes_etag", [True, False])
def test_server_that_always_answers_304_is_found_out_and_still_read(site: Site, changes_etag: bool) -> None:
    server = Server(site, changes_etag=changes_etag)
    with clock.set_source(lambda: NOW):
        feed = site.follow("/feed")
        site.pull([feed.id])
    server.numbers.append(2)
    with clock.set_source(lambda: NOW + 4 * DAY):
        assert site.pull([feed.id]).new == 1
    assert site.feed(feed.id).distrusted_at == NOW + 4 * DAY
    assert server.conditions == [False, False, True]

    # From now on, the next poll gets new entries at once.
    server.numbers.append(3)
    with clock.set_source(lambda: NOW + 4 * DAY + dt.timedelta(minutes=5)):
        assert site.pull([feed.id]).new == 1
    assert server.conditions[3] is False

    # A server that was mended gets conditional requests again.
    server.lies = False
    server.numbers.append(4)
    with clock.set_source(lambda: NOW + 4 * DAY + dt.timedelta(minutes=10)):
        assert site.pull([feed.id]).new == 1
        # An ETag that never changes still gets 304, so that server isn't mended.
        assert (site.feed(feed.id).distrusted_at is None) == changes_etag
        assert site.pull([feed.id]).not_modified == changes_etag


def test_right_validators_stay_trusted_and_cost_one_full_fetch_in_days(site: Site) -> None:
    server = Server(site, changes_etag=True)
    server.lies = False
    moment = NOW
    with clock.set_source(lambda: moment):
        feed = site.follow("/feed")
        site.pull([feed.id])
        for hour in range(1, 12):
            moment = NOW + hour * 12 * dt.timedelta(hours=1)
            server.numbers += [hour + 1] if hour % 3 == 0 else []
            site.pull([feed.id])
    assert site.feed(feed.id).distrusted_at is None
    assert site.feed(feed.id).last_seq == 4
    full = server.conditions[1:].count(False)
    assert full in (1, 2), server.conditions


@pytest.mark.parametrize("minutes", [2, 60, 24 * 60])
def test_full_fetches_are_rare_and_take_turns(minutes: int) -> None:
    step, start = minutes * 60_000, 1_795_000_000_000
    known = Validators('"1"', None, b"h" * 16)

    def is_full(feed_id: int, now: int) -> bool:
        poll = FeedPoll(feed_id, "http://a.example/", 0, validators=known, checked_ms=now - step)
        return build_request(poll, now, FULL_MS).validators.etag is None

    polls = [start + n * step for n in range(4 * FULL_MS // step)]
    assert [is_full(7, now) for now in polls].count(True) == 4
    at_once = sum(is_full(feed_id, start) for feed_id in range(1, 2001))
    assert at_once <= 2000 * step / FULL_MS * 1.3 + 10


def test_full_fetch_without_change_stays_a_quiet_poll(site: Site) -> None:
    Server(site, changes_etag=True)
    with clock.set_source(lambda: NOW):
        feed = site.follow("/feed")
        site.pull([feed.id])
    before = site.feed(feed.id)
    with clock.set_source(lambda: NOW + 4 * DAY):
        result = site.pull([feed.id])
    assert (result.unchanged, result.not_modified) == (1, 0)
    after = site.feed(feed.id)
    assert (after.validators, after.distrusted_at) == (before.validators, None)
    assert after.checked_at == NOW + 4 * DAY


def test_an_address_that_changes_is_trusted_again(site: Site) -> None:
    Server(site, changes_etag=True)
    feed = site.follow("/feed")
    gateway = site.services.gateways.feeds
    gateway.record_validator_test(feed.id, feed.url, NOW)
    gateway.move(feed.id, site.server.url("/other"))
    assert site.feed(feed.id).distrusted_at is None
