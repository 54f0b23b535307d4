"""Fetches in the logs of feeds, as pulls write them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from app import clock
from app.bootstrap.services import Services
from app.mappers.feeds.fetch_log import build_log_update
from app.models.feeds.feed import FetchRecord, UnchangedPoll


def record_fetches(services: Services, records: Iterable[FetchRecord]) -> None:
    """Add fetches to their feeds' logs, in this order."""
    feeds = services.store.database["feeds"]
    for record in records:
        feeds.update_one({"_id": record.feed_id}, [{"$set": build_log_update(record)}])


def quiet_poll(feed_id: int, until: dt.datetime, at: dt.datetime | None = None) -> UnchangedPoll:
    """Return the result of a poll that was answered by 304."""
    return UnchangedPoll(FetchRecord(feed_id, at or clock.now(), 304, 5, 0), until)
