"""Pulls that a user asks for: at once, but nobody's feeds hold more of the workers than his share.

A pull holds one of a worker's slots until its slowest feed has answered, half a minute where it never does.
Of what one user asks for in a minute the first pulls are jobs of their own; the rest is due at once and left
to the updater, which puts a hundred into a job.
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

#: Feeds in one job of many, and such jobs for one request.
BATCH: Final = 10
BATCHES: Final = 10
_WINDOW = 60


class RefreshRequests:
    """Queues pulls for a user. All raise StoreError when MongoDB or Redis does not answer.

    Args:
        per_minute: pulls of one user that do not wait for the updater.
    """

    def __init__(self, feeds: FeedGateway, jobs: JobPort, limiter: Limiter, per_minute: int) -> None:
        self._feeds, self._jobs, self._limiter, self._per_minute = feeds, jobs, limiter, per_minute

    def request_first_pull(self, actor: Actor, feed_id: int) -> Ticket | None:
        """Pull a feed for a new subscriber; None: the updater does, within seconds."""
        if self._limiter.count_try(f"pull:{actor.user_id}", self._per_minute, _WINDOW):
            self._leave([feed_id])
            return None
        return self._queue([[feed_id]])[0]

    def request_pulls(self, actor: Actor, feed_ids: Sequence[int]) -> list[Ticket]:
        """Pull feeds anew; the updater pulls what is beyond the first hundred of many.

        Raises:
            RateLimitedError: he asked too often; the sentence says when to come back.
        """
        throttle(self._limiter, f"check:{actor.user_id}", limit=self._per_minute, window=_WINDOW)
        now, later = feed_ids[: BATCH * BATCHES], feed_ids[BATCH * BATCHES :]
        self._leave(later)
        size = 1 if len(now) <= BATCHES else BATCH
        return self._queue([now[start : start + size] for start in range(0, len(now), size)])

    def _queue(self, batches: Sequence[Sequence[int]]) -> list[Ticket]:
        return self._jobs.enqueue_many([Job(Task.PULL, {"feed_ids": list(b)}, Queue.PULL) for b in batches])

    def _leave(self, feed_ids: Sequence[int]) -> None:
        self._feeds.force_due(feed_ids, clock.now())
