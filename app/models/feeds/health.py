"""The health of a feed, for its page."""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.models.feeds.feed import Feed
from app.models.feeds.fetch_log import FetchLog
from app.models.feeds.websub import PushSource


@dataclasses.dataclass(frozen=True, slots=True)
class FeedHealth:
    """The data of the feed page.

    Attributes:
        log: the last fetches, and counts for the last hours and days.
        message: the sentence for its error.
        rests_until: the end of a pause that its site requested.
        forecast: expected seconds between entries, by hour of day (UTC).
        per_week: entries per week over the last ten days.
    """

    feed: Feed
    log: FetchLog
    message: str | None
    next_check_at: dt.datetime | None
    rests_until: dt.datetime | None = None
    pushed_by: PushSource | None = None
    forecast: tuple[float, ...] = ()
    per_week: float = 0.0
