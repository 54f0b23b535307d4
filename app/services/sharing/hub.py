"""Our own WebSub hub: pushes public streams to their subscribers (W3C WebSub §5 to §7).

There is no actor here: anyone may subscribe to what anyone may read. Rate limits bound the requests, and each
callback must confirm that it wants the subscription.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from typing import Any

from app import clock, logs
from app.errors import NotFoundError, StoreError
from app.gateways.sharing.hub import HubGateway
from app.models.feeds.fetched import Fetched
from app.models.jobs.jobs import Job, Queue, Task
from app.models.sharing.hub import HubForm, IntentVerification
from app.ports import FetchStreamer, JobPort
from app.services.access import Limiter, throttle

log = logs.get(__name__)

#: The time limit of a batch, in timeouts of one callback: some hosts have several callbacks.
_TURNS = 2


class HubService:
    """Accepts subscriptions, verifies them and pushes changes; its page, shares, the updater and the workers
    call it.

    Args:
        enabled: False: this server has no hub.
        per_hour: requests per network address and hour.
        timeout: seconds that one callback may take.
    """

    def __init__(
        self,
        hubs: HubGateway,
        jobs: JobPort,
        limiter: Limiter,
        *,
        enabled: bool,
        per_hour: int,
        timeout: float,
    ) -> None:
        self._hubs, self._jobs, self._limiter = hubs, jobs, limiter
        self._on, self._per_hour, self._patience = enabled, per_hour, timeout
        self._asking = False

    @property
    def address(self) -> str | None:
        """The hub's address, which feeds link to; None: there is no hub."""
        return self._hubs.address if self._on else None

    def submit_request(self, form: HubForm, network: str) -> None:
        """Accept a request; a job then verifies the intent with its callback.

        Args:
            network: the network address that the request comes from.

        Raises:
            InvalidError, NotFoundError, TooLargeError: the request is invalid; ``field`` names the part.
            NotFoundError: there is no hub.
            RateLimitedError: too many requests within the hour.
        """
        if not self._on:
            raise NotFoundError
        throttle(self._limiter, f"hub:{network}", limit=self._per_hour, window=clock.HOUR)
        sub_id = self._hubs.submit_request(form, clock.now())
        if sub_id is not None:
            self._queue(_verify_job(sub_id))

    def notify_subscribers(self, feed_id: int) -> None:
        """Queue the push of a stream's change; takes the same time for any number of subscribers.

        The push is already stored with the change, so the updater finds it if this fails.
        """
        if not self._on:
            return
        with contextlib.suppress(StoreError):
            if self._hubs.has_subscribers(feed_id):
                self._queue(_push_job(feed_id))

    def _queue(self, job: Job) -> None:
        try:
            self._jobs.enqueue(job)
        except StoreError:
            log.warning("hub_waits", task=job.task.value)

    # -- the updater

    def find_due_jobs(self, now: dt.datetime, limit: int) -> list[Job]:
        """Return the jobs that are due; harmless to queue again while they wait or run."""
        if not self._on:
            return []
        verify, push = self._hubs.find_due(now, limit)
        return [*map(_verify_job, verify), *map(_push_job, push)]

    # -- workers

    async def verify_intents(self, sub_id: int, fetcher: FetchStreamer) -> dict[str, Any]:
        """Verify the intent of a subscription with its callback, and of all others that are due.

        They are verified together, and one such job runs at a time. Strangers choose these addresses, so slow
        ones must not delay each other or a worker's other jobs. The updater finds requests that arrive
        meanwhile.
        """
        if self._asking:
            return {"confirmed": None}
        self._asking = True
        try:
            questions = await asyncio.to_thread(self._hubs.begin_verifications, sub_id, clock.now())
            by_id = {question.subscriber.id: question for question in questions}
            meant: dict[int, bool] = {}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TURNS * self._patience):
                    async for fetched in fetcher.stream_fetches([question.request for question in questions]):
                        question = by_id.pop(fetched.request.key)
                        meant[question.subscriber.id] = await self._asked(question, fetched)
            for question in by_id.values():
                await self._asked(question, None)
        finally:
            self._asking = False
        return {"confirmed": meant.get(sub_id)}

    async def _asked(self, question: IntentVerification, fetched: Fetched | None) -> bool:
        return await asyncio.to_thread(self._hubs.finish_verification, question, fetched, clock.now())

    async def push_changes(self, feed_id: int, fetcher: FetchStreamer, *, seconds: float) -> dict[str, int]:
        """Push a stream's change to all subscribers that lack it, for a limited time; the updater finds the
        rest.

        Args:
            seconds: the job's time limit. A batch gets at most half of it; deliveries not done by then have
                failed, so that deliberately slow hosts don't delay others for long.
        """
        of_batch = min(seconds / 2, _TURNS * self._patience)
        last_begin = time.monotonic() + seconds / 3
        pushed = dropped = 0
        while time.monotonic() < last_begin:
            batch = await asyncio.to_thread(self._hubs.claim_deliveries, feed_id, clock.now())
            if not batch:
                break
            answers: list[Fetched] = []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(of_batch):
                    async for fetched in fetcher.stream_fetches([d.request for d in batch]):
                        answers.append(fetched)
            got, gone = await asyncio.to_thread(self._hubs.record_results, batch, answers, clock.now())
            pushed, dropped = pushed + got, dropped + gone
            log.info("hub_pushed", feed_id=feed_id, sent=len(batch), arrived=got, dropped=gone)
        return {"pushed": pushed, "dropped": dropped}


def _verify_job(sub_id: int) -> Job:
    return Job(Task.HUB_VERIFY, {"id": sub_id}, Queue.PULL_SYSTEM)


def _push_job(feed_id: int) -> Job:
    return Job(Task.HUB_PUSH, {"feed_id": feed_id}, Queue.PULL_SYSTEM)
