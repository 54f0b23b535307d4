"""WebSub: subscribing to the hubs of feeds, and pulling a feed when its hub pushes.

There is no actor here, because hubs have no account. Their rights are limited by the callback's token, by our
own requests and by signatures. The worst that a hub can cause is one pull per interval.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app import clock, logs
from app.errors import NotFoundError, StoreError
from app.gateways.feeds.websubs import WebsubGateway, parse_intent
from app.models.feeds.websub import PushPullOutcome
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import FetchStreamer, JobPort
from app.services.feeds.pull import PullService
from app.services.feeds.pull_batch import PullResult

log = logs.get(__name__)


class WebsubService:
    """The subscriber: the calls of the callback, the updater and the workers.

    Args:
        enabled: False: no requests to hubs, and callbacks answer 404.
    """

    def __init__(self, websubs: WebsubGateway, pulls: PullService, jobs: JobPort, *, enabled: bool) -> None:
        self._websubs, self._pulls, self._jobs, self._on = websubs, pulls, jobs, enabled

    # -- the callback

    def answer_hub(self, token: str, parameters: Mapping[str, str]) -> str:
        """Answer a hub that verifies our request or denies it.

        Raises:
            NotFoundError: there is no such callback, or we made no such request.
        """
        self._require_on()
        return self._websubs.answer_hub(token, parse_intent(parameters), clock.now())

    def accept_push(self, token: str, signature: str, read_body: Callable[[], bytes]) -> None:
        """Accept a push: the feed is pulled now, or as soon as the interval since the last pull is over.

        Args:
            signature: the header ``X-Hub-Signature``.
            read_body: returns the raw body; not called for an unknown callback. The body serves only to check
                the signature.

        Raises:
            NotFoundError: there is no such callback, or its feed isn't subscribed anymore.
        """
        self._require_on()
        pushed = self._websubs.accept_push(token, signature, read_body, clock.now())
        if pushed.feed_id is None:
            return
        try:
            self._jobs.enqueue(_pull_job(pushed.feed_id))
        except StoreError:
            log.warning("push_waits", feed_id=pushed.feed_id)  # the push is stored: the updater finds it

    def check_callback(self, token: str) -> None:
        """Check that a push may come, before its body is received.

        Raises:
            NotFoundError: there is no such callback, or its feed isn't subscribed anymore.
        """
        self._require_on()
        self._websubs.get_receiver(token)

    def _require_on(self) -> None:
        if not self._on:
            raise NotFoundError

    # -- the updater

    def find_due_jobs(self, now: dt.datetime, limit: int) -> list[Job]:
        """Return the jobs that are due: waiting pushes first, then requests to hubs.

        Queueing them again while they wait or run is harmless, because a job's identity is unique.
        """
        if not self._on:
            return []
        subscriptions, feeds = self._websubs.find_due(now, limit)
        tend = [Job(Task.WEBSUB_TEND, {"id": each}, Queue.PULL_SYSTEM) for each in subscriptions]
        return [*map(_pull_job, feeds), *tend]

    # -- workers

    async def tend_subscription(self, sub_id: int, fetcher: FetchStreamer) -> dict[str, Any]:
        """Send a hub the request that a subscription needs now: subscribe, renew or unsubscribe."""
        ask = await asyncio.to_thread(self._websubs.begin_request, sub_id, clock.now())
        if ask is None:
            return {"asked": None}
        async for fetched in fetcher.stream_fetches([ask.request]):
            await asyncio.to_thread(self._websubs.end_request, ask, fetched, clock.now())
        return {"asked": ask.mode.value}

    async def pull(
        self,
        feed_id: int,
        fetcher: FetchStreamer,
        *,
        token: str,
        dead_tokens: Sequence[str] = (),
        is_held: Callable[[], bool] | None = None,
        last: bool = False,
    ) -> dict[str, int]:
        """Pull a feed whose hub has pushed.

        Args:
            token, dead, is_held: as in :meth:`PullService.pull`.
            last: earlier attempts crashed their workers; if this one does too, the pull isn't retried.
        """
        begun = await asyncio.to_thread(self._websubs.begin_pull, feed_id, clock.now(), last=last)
        if begun is None:
            return {"feeds": 0}
        result = await self._pulls.pull(
            [feed_id], fetcher, token=token, dead_tokens=dead_tokens, is_held=is_held, urgent=False
        )
        await asyncio.to_thread(self._websubs.end_pull, begun, _outcome(result), clock.now())
        return result.to_json()


def _outcome(result: PullResult) -> PushPullOutcome:
    if not result.feeds:
        return PushPullOutcome.NOT_ASKED
    return PushPullOutcome.DONE if result.new or result.errors else PushPullOutcome.NOTHING_NEW


def _pull_job(feed_id: int) -> Job:
    return Job(Task.WEBSUB_PULL, {"feed_id": feed_id}, Queue.PULL_SYSTEM)
