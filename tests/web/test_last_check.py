"""The feed page states the last check as it was, also when it failed."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.feeds.feed import FetchRecord
from tests.support.fetches import record_fetches
from tests.web.conftest import Visitor


@pytest.fixture
def feed_id(services: Services, ann: Visitor) -> int:
    found = services.mappers.users.find_credentials("ann")
    assert found is not None
    done = services.subscriptions.subscribe(found.user.actor, "http://blog.example/feed")
    return done.subscription.feed_id


def facts(page: str) -> dict[str, str]:
    """Return the facts of a feed page, by their names."""
    rows = re.findall(r"<dt>(.*?)</dt>\s*<dd[^>]*>(.*?)</dd>", page, re.DOTALL)
    return {name: re.sub(r"<[^>]+>", "", value).strip() for name, value in rows}


def test_failed_check_is_the_last_check(services: Services, ann: Visitor, db: Any, feed_id: int) -> None:
    now = clock.now().replace(microsecond=0)
    good, bad = now - dt.timedelta(days=3), now - dt.timedelta(minutes=5)
    state = {"checked_at": good, "error": "http_503", "errors": 4, "error_since": good}
    db.feeds.update_one({"_id": feed_id}, {"$set": state})
    record_fetches(services, [FetchRecord(feed_id, good, 200, 9, 99, 1)])
    record_fetches(services, [FetchRecord(feed_id, bad, 503, 9, 0, 0, "http_503")])

    said = facts(ann.get(f"/feeds/{feed_id}").text)

    assert "5 min ago" in said["Last check"]
    assert "HTTP 503" in said["Last check"]
    assert said["Last successful check"].startswith("3 d")


def test_check_that_never_succeeded_says_so(services: Services, ann: Visitor, db: Any, feed_id: int) -> None:
    bad = clock.now().replace(microsecond=0) - dt.timedelta(minutes=5)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "http_404", "errors": 1}})
    record_fetches(services, [FetchRecord(feed_id, bad, 404, 9, 0, 0, "http_404")])
    said = facts(ann.get(f"/feeds/{feed_id}").text)
    assert "5 min ago" in said["Last check"]
    assert said["Last successful check"] == "none yet"


def test_successful_check_is_named_once(services: Services, ann: Visitor, db: Any, feed_id: int) -> None:
    good = clock.now().replace(microsecond=0) - dt.timedelta(minutes=5)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"checked_at": good}})
    record_fetches(services, [FetchRecord(feed_id, good, 200, 9, 99, 1)])
    said = facts(ann.get(f"/feeds/{feed_id}").text)
    assert "5 min ago" in said["Last check"]
    assert "Last successful check" not in said


@pytest.mark.parametrize("error", [None, "timeout"])
def test_S13_only_a_feed_that_is_read_is_called_slow(
    services: Services, ann: Visitor, db: Any, feed_id: int, error: str | None
) -> None:
    """A refused connection, a closed port and one that swallows everything look alike."""
    state = {"slow": True, "error": error, "errors": 1 if error else 0, "checked_at": clock.now()}
    db.feeds.update_one({"_id": feed_id}, {"$set": state})
    page = ann.get(f"/feeds/{feed_id}").text
    assert ("This site answers slowly" in page) is (error is None)
