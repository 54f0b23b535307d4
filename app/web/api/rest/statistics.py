"""Reading statistics."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.web.api.rest.shapes import Body, Query, Shape
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services

TAG = "Settings"


class ReadingDay(Shape, frozen=True):
    """How many entries you read one by one, starred and shared on a day in your time zone."""

    day: dt.date
    read: int
    starred: int
    shared: int


class ReadingStatistics(Shape, frozen=True):
    """The last days, the oldest first; empty while statistics are off."""

    on: bool
    items: tuple[ReadingDay, ...]


class StatisticsQuery(Query, frozen=True):
    """How many days to return, up to `EVENTR_STATISTICS_DAYS` of the server."""

    days: Annotated[int, Meta(ge=1, le=3650)] = 30


class StatisticsSwitch(Body, frozen=True):
    """Whether Eventr counts. Switching it off deletes all numbers."""

    on: bool


_DAY = add_example(ReadingDay(day=dt.date(2026, 11, 1), read=31, starred=2, shared=1))
add_example(ReadingStatistics(on=True, items=(_DAY,)))
add_example(StatisticsQuery(days=7))
add_example(StatisticsSwitch(on=True))


@add_operation("GET", "/me/statistics", "Get your reading statistics", scope=Scope.READ, tag=TAG)
def get_statistics(actor: Actor, query: StatisticsQuery) -> ReadingStatistics:
    """Only you can get them."""
    days = get_services().statistics.list_days(actor, query.days)
    items = tuple(ReadingDay(day=d.day, read=d.read, starred=d.starred, shared=d.shared) for d in days or ())
    return ReadingStatistics(on=days is not None, items=items)


@add_operation(
    "PUT", "/me/statistics", "Turn reading statistics on or off", scope=Scope.SETTINGS, tag=TAG, status=204
)
def switch_statistics(actor: Actor, body: StatisticsSwitch) -> None:
    """They are off at first. Turning them off deletes all numbers."""
    get_services().statistics.set_enabled(actor, body.on)
