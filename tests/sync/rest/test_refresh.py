"""Refreshes of feeds whose site wants no requests for a while: the answer says until when."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.sync.rest.conftest import Program

NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
UNTIL = NOW + dt.timedelta(hours=2)


@pytest.fixture
def feeds(services: Services, ann: Actor, db: Any) -> list[int]:
    """Two feeds; the first rests for two hours."""
    ids = [
        services.subscriptions.subscribe(ann, f"http://{name}.example/feed").subscription.feed_id
        for name in ("rests", "answers")
    ]
    db.feeds.update_one({"_id": ids[0]}, {"$set": {"retry_at": UNTIL, "error": "http_429", "errors": 1}})
    return ids


def test_refresh_of_a_resting_feed_says_until_when(mine: Program, feeds: list[int]) -> None:
    with clock.set_source(lambda: NOW):
        answer = mine.post(f"/subscriptions/{feeds[0]}/refresh")
        health = mine.get(f"/subscriptions/{feeds[0]}/health").get_json()
    assert answer.status_code == 202
    body = answer.get_json()
    assert (body["resting"], body["rests_until"]) == (1, "2026-11-20T14:00:00Z")
    assert body["message"].startswith("1 feed wasn't checked: its site limits requests until ")
    assert answer.headers["Retry-After"] == "7200"
    assert health["rests_until"] == "2026-11-20T14:00:00Z"


def test_refresh_of_other_feeds_has_nothing_to_wait_for(mine: Program, feeds: list[int]) -> None:
    with clock.set_source(lambda: NOW):
        one, every = mine.post(f"/subscriptions/{feeds[1]}/refresh"), mine.post("/subscriptions/refresh")
        health = mine.get(f"/subscriptions/{feeds[1]}/health").get_json()
    body = one.get_json()
    assert (body["resting"], body["rests_until"], body["message"]) == (0, None, "Checking 1 feed")
    assert "Retry-After" not in one.headers
    assert health["rests_until"] is None
    # One of two feeds rests: the other is checked, so repeating the request isn't the remedy.
    assert (every.get_json()["resting"], every.get_json()["rests_until"]) == (1, "2026-11-20T14:00:00Z")
    assert "Retry-After" not in every.headers
