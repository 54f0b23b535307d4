"""Which feeds of a pull may be asked now: hosts have a budget, and some want to be left alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

from app import clock
from app.gateways.feeds.feeds import FeedGateway
from app.models.feeds.feed import FeedPoll, NextCheck
from app.models.feeds.fetched import Fetched
from app.models.feeds.hosts import parse_host
from app.ports import HostBudget

#: What a host gets that says 429 but not for how long, seconds.
PAUSE: Final = 60


class HostLimits:
    """Puts feeds off whose host has no request left, and notes what hosts ask for."""

    def __init__(self, feeds: FeedGateway, budget: HostBudget) -> None:
        self._feeds, self._budget = feeds, budget

    def admit_polls(self, polls: Mapping[int, FeedPoll], *, urgent: bool) -> dict[int, FeedPoll]:
        """Return the feeds that may be asked now; the others are due again when their turn has come.

        Blocking calls to Redis, and to MongoDB when a feed is put off.

        Raises:
            StoreError: MongoDB does not answer.
        """
        waits = self._budget.take_tokens([parse_host(p.url) for p in polls.values()], urgent=urgent)
        if not any(waits):
            return dict(polls)
        now = clock.now()
        late = zip(polls, waits, strict=True)
        self._feeds.postpone_checks(
            [NextCheck(i, now + dt.timedelta(seconds=wait)) for i, wait in late if wait], now
        )
        return {i: poll for (i, poll), wait in zip(polls.items(), waits, strict=True) if not wait}

    def record_backoff(self, fetched: Fetched) -> None:
        """Leave the host alone that answered 429 or 503; the feed itself rests for all it asks. Blocking."""
        if seconds := fetched.retry_after if fetched.retry_after is not None else PAUSE:
            self._budget.pause_host(parse_host(fetched.url), seconds, fetched.url)


def has_backoff_request(fetched: Fetched) -> bool:
    """Whether a host said that it gets too many requests."""
    return fetched.status == 429 or fetched.retry_after is not None
