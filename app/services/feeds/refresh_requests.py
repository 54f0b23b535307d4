"""Pulls that a user requests: started at once, but no user gets more than their share of the workers.

A pull occupies a worker slot until its slowest feed has answered, up to half a minute for a dead host. The
first pulls that a user requests within a minute become separate jobs. All other feeds are made due now, and
the updater pulls them in batches of a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app import clock
from app.gateways.feeds.feeds import FeedGateway
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task, Ticket
from app.ports import JobPort
from app.services.access import Limiter, throttle
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace

#: Feeds per job when a request has many, and jobs per request.
BATCH: Final = 10
BATCHES: Final = 10
_WINDOW = 60


class RefreshRequests:
    """Queues pulls for a user. All raise StoreError when MongoDB or Redis does not answer.

    Args:
        per_minute: pulls of one user per minute that do not wait for the updater.
    """

    def __init__(
        self,
        feeds: FeedGateway,
        jobs: JobPort,
        limiter: Limiter,
        per_minute: int,
        *,
        free_space: FreeSpace,
        fetch_budget: FetchBudget,
    ) -> None:
        self._feeds, self._jobs, self._limiter, self._per_minute = feeds, jobs, limiter, per_minute
        self._free_space, self._fetch_budget = free_space, fetch_budget

    def request_first_pull(self, actor: Actor, feed_id: int) -> Ticket | None:
        """Queue a pull for a new subscriber; None: over the limit, so the updater pulls it within seconds."""
        if self._limiter.count_try(f"pull:{actor.user_id}", self._per_minute, _WINDOW):
            self._leave([feed_id])
            return None
        return self._queue([[feed_id]])[0]

    def request_pulls(self, actor: Actor, feed_ids: Sequence[int]) -> list[Ticket]:
        """Queue pulls of feeds; the updater pulls those beyond the first hundred.

        Raises:
            RateLimitedError: too many requests, or bytes; the message says when to try again.
            NoSpaceError: a disk is almost full.
        """
        self._free_space.require_space()
        self._fetch_budget.require_budget(actor)
        throttle(self._limiter, f"check:{actor.user_id}", limit=self._per_minute, window=_WINDOW)
        now, later = feed_ids[: BATCH * BATCHES], feed_ids[BATCH * BATCHES :]
        self._leave(later)
        size = 1 if len(now) <= BATCHES else BATCH
        return self._queue([now[start : start + size] for start in range(0, len(now), size)])

    def _queue(self, batches: Sequence[Sequence[int]]) -> list[Ticket]:
        return self._jobs.enqueue_many([Job(Task.PULL, {"feed_ids": list(b)}, Queue.PULL) for b in batches])

    def _leave(self, feed_ids: Sequence[int]) -> None:
        self._feeds.force_due(feed_ids, clock.now())
