"""Settings → Reading statistics, and the same in REST."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.statistics import Counted, DayCounts
from app.web.view.reading_chart import draw_days, sum_spans
from tests.sharing.conftest import People
from tests.web.conftest import Visitor

PAGE = "/settings/statistics"
Eventually = Callable[..., object]


def test_statistics_are_switched_on_and_off(ann: Visitor, services: Services, db: Any) -> None:
    assert "Turn on" in ann.get(PAGE).text
    assert ann.post(PAGE, {"on": "1"}).location == PAGE
    actor = Actor(db.users.find_one({"name": "ann"})["_id"])
    services.gateways.statistics.count(actor.user_id, Counted.READ, 1234, clock.now())
    shown = ann.get(PAGE).text
    assert "Statistics are on" in shown
    assert shown.count("1,234") >= 5  # in each sum, as the most, in both tables
    ann.post(PAGE, {"on": "0"})
    off = ann.get(PAGE).text
    assert "1,234" not in off
    assert db.readingdays.count_documents({}) == 0


def test_the_most_read_feeds_are_listed(
    ann: Visitor, services: Services, db: Any, eventually: Eventually
) -> None:
    actor, people = Actor(db.users.find_one({"name": "ann"})["_id"]), People(services)
    for name, read in (("seldom", 1), ("often", 3), ("never", 0)):
        entries = people.blog([actor], 3, name)
        services.reading.mark(actor, entries[:read], True)
    ann.post(PAGE, {"on": "1"})
    eventually(lambda: services.reading.list_most_read(actor, 9)[0] == 4)
    _, feeds = services.reading.list_most_read(actor, 9)
    assert [(one.title, one.reads) for one in feeds] == [("often", 3), ("seldom", 1)]
    assert [one.title for one in services.reading.list_most_read(actor, 1)[1]] == ["often"]
    shown = ann.get(PAGE).text
    assert "Of the 4 entries you read last" in shown
    assert shown.index(f'href="/read/feed/{feeds[0].feed_id}" dir') < shown.index(
        f'feed/{feeds[1].feed_id}" dir'
    )


def test_bars_are_as_high_as_the_counts() -> None:
    days = [DayCounts(dt.date(2026, 3, n), read=n * 10) for n in range(1, 4)]
    chart = draw_days(days, Counted.READ)
    assert (chart.most, chart.total, chart.width) == (30, 60, 60)
    assert chart.bars == "M2 60v-20.0h16V60zM22 60v-40.0h16V60zM42 60v-60.0h16V60z"
    assert draw_days(days, Counted.SHARED).bars == ""
    few = draw_days([DayCounts(dt.date(2026, 3, 1), starred=1)], Counted.STARRED)
    assert (few.most, few.bars) == (1, "M2 60v-15.0h16V60z"), "one star in a day is a low bar"
    assert [(span, one.read) for span, one in sum_spans(days)] == [(1, 30)]
