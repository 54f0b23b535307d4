"""Budgets and back-off of hosts: which feeds of a pull may be fetched now."""

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

#: Seconds to pause a host that answers 429 without Retry-After.
PAUSE: Final = 60
#: Seconds. A feed that has answered within this time goes on while its host is paused for other feeds.
ANSWERED: Final = 3600


class HostLimits:
    """Postpones feeds whose host has no budget left, and records the back-off that hosts request."""

    def __init__(self, feeds: FeedGateway, budget: HostBudget) -> None:
        self._feeds, self._budget = feeds, budget

    def admit_polls(self, polls: Mapping[int, FeedPoll], *, urgent: bool) -> dict[int, FeedPoll]:
        """Return the feeds that may be fetched now, and postpone the others until their host has budget.

        Calls Redis, and MongoDB when a feed is postponed; blocking.

        Raises:
            StoreError: MongoDB does not answer.
        """
        now = clock.now()
        recent = now.timestamp() * 1000 - ANSWERED * 1000
        waits = self._budget.take_tokens(
            [parse_host(p.url) for p in polls.values()],
            urgent=urgent,
            unpaused=[p.error is None and p.checked_ms > recent for p in polls.values()],
        )
        if not any(waits):
            return dict(polls)
        late = zip(polls, waits, strict=True)
        self._feeds.postpone_checks(
            [NextCheck(i, now + dt.timedelta(seconds=wait)) for i, wait in late if wait], now
        )
        return {i: poll for (i, poll), wait in zip(polls.items(), waits, strict=True) if not wait}

    def record_backoff(self, poll: FeedPoll, fetched: Fetched) -> None:
        """Record that a host answered 429 or sent Retry-After for a feed; blocking. The feed's own back-off
        is stored separately.

        Only feeds that have answered count, and only at the host of their own address. Otherwise anyone could
        pause a host by subscribing to addresses there that never were feeds, or to a redirect to it.
        """
        if not poll.checked_ms or parse_host(poll.url) != parse_host(fetched.url):
            return
        if seconds := fetched.retry_after if fetched.retry_after is not None else PAUSE:
            self._budget.pause_host(parse_host(fetched.url), seconds, poll.url)


def has_backoff_request(fetched: Fetched) -> bool:
    """Return whether the host answered 429 or sent a Retry-After header."""
    return fetched.status == 429 or fetched.retry_after is not None
