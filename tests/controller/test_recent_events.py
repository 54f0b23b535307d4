"""The recent events that a controller keeps for browsers that reconnect: how many, and what is missing."""

from __future__ import annotations

from typing import Any

from controller import audience
from controller.audience import RecentEvents, UserEvent

ANN = 7


def add_events(recent: RecentEvents, count: int, kind: str, data: dict[str, Any], user: int | None) -> None:
    for number in range(1, count + 1):
        recent.add(UserEvent(f"{number}-0", kind, user, data))


def test_as_many_events_are_kept_as_the_limit_allows() -> None:
    recent = RecentEvents((0, 0))
    add_events(recent, 3 * audience.RECENT, "counts", {}, ANN)
    assert len(recent) == audience.RECENT
    newest = 3 * audience.RECENT
    assert recent.find_missed(ANN, set(), (newest - 2, 0)) == [
        (f"{newest - 1}-0", "counts", {}),
        (f"{newest}-0", "counts", {}),
    ]


def test_events_about_many_feeds_are_kept_until_they_name_too_many() -> None:
    recent, feeds = RecentEvents((0, 0)), {str(feed): 1 for feed in range(1000)}
    most = audience.RECENT_FEEDS // 1000
    add_events(recent, most, "new", feeds, None)
    assert len(recent) == most
    assert recent.find_missed(ANN, {5}, (0, 0)) is not None
    add_events(recent, 10 * most, "new", feeds, None)
    assert len(recent) == most
    # A browser that was away for longer loads everything again instead of missing something.
    assert recent.find_missed(ANN, {5}, (0, 0)) is None


def test_a_change_of_many_subscriptions_weighs_as_much_as_it_names() -> None:
    recent, half = RecentEvents((0, 0)), list(range(audience.RECENT_FEEDS // 4))
    add_events(recent, 10, "follows", {"added": half, "removed": half}, ANN)
    assert len(recent) == 2
    add_events(recent, 10, "counts", {}, ANN)
    assert len(recent) == 12
