"""Sends entries to services of their readers: by rules, by hand, and when they are starred or shared.

A request is a row in the database, unique for its target, entry and cause. A job sends it, again after
failures, always with the same id. So an entry is sent at least once, and a receiver can tell a repeat.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urljoin

from app import clock, logs
from app.config import Settings
from app.errors import EventrError, InvalidError, NotFoundError, RateLimitedError
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.targets import CLAIMED, TargetGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.hosts import parse_host
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.targets import (
    AUTOMATIC,
    Delivery,
    DeliveryState,
    NoPageError,
    Occasion,
    Target,
    TargetKind,
    Wanted,
)
from app.ports import FetchStreamer, HostBudget, JobPort
from app.services.access import Limiter, require_permission, require_sending, throttle
from app.services.validation import check_id, check_text

log = logs.get(__name__)

NAME_MAX = 64
#: Deliveries that a page shows.
SHOWN = 20
#: Users whose jobs are queued at once.
AT_ONCE = 100
#: Seconds that a delivery waits for the rate limit of its host within the job; it is postponed otherwise.
PATIENCE = 5.0
#: Time for which what is due for a closed account waits, before it is looked at again.
CLOSED = dt.timedelta(days=1)
#: Seconds that a test, or what is sent again, waits for its result.
TEST_WAIT = 5.0
#: Entries that were given up for so long aren't sent again.
GIVEN_UP = dt.timedelta(days=7)


class SendingService:
    """Edits the services of a user, and sends entries to them."""

    def __init__(
        self,
        targets: TargetGateway,
        entries: EntryGateway,
        jobs: JobPort,
        *,
        limiter: Limiter,
        budget: HostBudget,
        settings: Settings,
    ) -> None:
        self._targets, self._entries, self._jobs = targets, entries, jobs
        self._limiter, self._budget, self._settings = limiter, budget, settings

    # -- targets
    def list_targets(self, actor: Actor) -> list[Target]:
        """Return the actor's targets, the oldest first.

        Addresses of topics and of chats let everyone send who knows them. So an actor who may not edit the
        targets sees scheme, host and port of them.
        """
        require_permission(actor, Permission.ENTRY_READ)
        found = self._targets.targets.find_by_user(actor.user_id)
        if actor.has_permission(Permission.SHARE_EDIT):
            return found
        return [dataclasses.replace(one, address=urljoin(one.address, "/")) for one in found]

    def list_deliveries(self, actor: Actor, entry_id: int | None = None) -> list[Delivery]:
        """Return the latest deliveries of the actor, or those of one entry."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._targets.targets.list_latest(actor.user_id, SHOWN, entry_id)

    def add(
        self,
        actor: Actor,
        kind: TargetKind,
        address: str,
        *,
        name: str = "",
        secret: str = "",
        on: Sequence[Occasion] = (),
    ) -> Target:
        """Add a target.

        Args:
            name: empty: the host of its address.
            on: occasions among ``AUTOMATIC`` at which entries are sent.

        Raises:
            InvalidError: the address or the secret can't be used.
            TooLargeError: the actor has the maximum number of targets.
        """
        require_sending(actor)  # entries go there automatically
        name = check_text(name, "name", limit=NAME_MAX, empty=True)
        occasions = [one for one in AUTOMATIC if one in on]
        address = check_text(address, "address", limit=4096, empty=True)
        found = self._targets.add(
            actor.user_id,
            kind,
            address,
            name=name or _name_host(address) or kind.value,
            secret=secret,
            on=occasions,
        )
        log.info("target_added", user_id=actor.user_id, target_id=found.id, kind=kind.value)
        return found

    def set_enabled(self, actor: Actor, target_id: int, enabled: bool) -> Target:
        """Switch a target on or off. What waits is sent once it is on again.

        Raises:
            NotFoundError: the actor has no such target.
        """
        _require_edit(actor)
        self._targets.get(actor.user_id, check_id(target_id, "target_id"))
        self._targets.targets.set_enabled(actor.user_id, target_id, enabled)
        return self._targets.get(actor.user_id, target_id)

    def change_secret(self, actor: Actor, target_id: int, secret: str) -> Target:
        """Replace the secret of a target; its rules and its history stay, and what waits is sent with it.

        Args:
            secret: empty: none, for kinds that need none.

        Raises:
            NotFoundError: the actor has no such target.
            InvalidError: the secret can't be used.
            ConflictError: its address was changed meanwhile.
        """
        require_sending(actor)  # what waits goes there automatically
        target_id = check_id(target_id, "target_id")
        self._targets.set_secret(actor.user_id, target_id, secret, clock.now())
        log.info("target_secret_changed", user_id=actor.user_id, target_id=target_id)
        return self._continue(actor, target_id)

    def change_address(self, actor: Actor, target_id: int, address: str, secret: str = "") -> Target:
        """Replace the address of a target; its rules and its history stay, and what waits is sent there.

        A name that was the host of the old address becomes that of the new one.

        Args:
            secret: empty: the stored one stays, if there is one. It can't for another scheme, host or port.

        Raises:
            NotFoundError: the actor has no such target.
            InvalidError: the address or the secret can't be used.
            ConflictError: its address was changed meanwhile.
        """
        require_sending(actor)  # what waits goes there automatically
        target_id = check_id(target_id, "target_id")
        address = check_text(address, "address", limit=4096, empty=True)
        self._targets.set_address(
            actor.user_id, target_id, address, secret, clock.now(), name_host=_name_host
        )
        log.info("target_address_changed", user_id=actor.user_id, target_id=target_id)
        return self._continue(actor, target_id)

    def _continue(self, actor: Actor, target_id: int) -> Target:
        """Send what waits for a target that was changed, and return it."""
        try:
            self._jobs.enqueue(_job(actor.user_id))
        except EventrError as e:  # the updater queues it later
            log.warning("sending_not_queued", user_id=actor.user_id, error=e.word)
        return self._targets.get(actor.user_id, target_id)

    def remove(self, actor: Actor, target_id: int) -> None:
        """Delete a target; what waits isn't sent.

        Raises:
            NotFoundError: the actor has no such target.
        """
        _require_edit(actor)
        self._targets.get(actor.user_id, check_id(target_id, "target_id"))
        self._targets.targets.remove(actor.user_id, target_id)
        log.info("target_removed", user_id=actor.user_id, target_id=target_id)

    def test(self, actor: Actor, target_id: int) -> Target:
        """Send a test message, and return the target with the result, if there is one in time.

        Raises:
            NotFoundError: the actor has no such target.
            InvalidError: it is off.
            RateLimitedError: too many within the hour.
        """
        _require_edit(actor)
        self._begin(
            actor, check_id(target_id, "target_id"), 0, f"{Occasion.TEST}:{_now_ms()}", wait=TEST_WAIT
        )
        return self._targets.get(actor.user_id, target_id)

    def retry(self, actor: Actor, target_id: int) -> Target:
        """Send again what a target didn't get: what waits, and the latest entries that were given up.

        If there is none, a test is sent. Returns the target with the result, if there is one in time.

        Raises:
            NotFoundError: the actor has no such target.
            InvalidError: it is off.
            RateLimitedError: too many within the day.
        """
        require_sending(actor)  # what waits goes there automatically
        target_id, now = check_id(target_id, "target_id"), clock.now()
        target = self._targets.get(actor.user_id, target_id)
        if not target.enabled:
            raise InvalidError("This service is off.", target_id=target_id)
        # Entries that are sent again are in no count of the day. So these attempts have a limit of their own.
        most = self._settings.sends_per_day
        limit = max(1, most // SHOWN)
        throttle(self._limiter, f"send-again:{actor.user_id}", limit=limit, window=clock.DAY)
        if not self._targets.targets.retry(actor.user_id, target_id, now, now - GIVEN_UP, min(SHOWN, most)):
            return self.test(actor, target_id)
        ticket = self._jobs.enqueue(_job(actor.user_id))
        next(iter(self._jobs.await_many([ticket], TEST_WAIT)), None)
        return self._targets.get(actor.user_id, target_id)

    # -- entries
    def send(self, actor: Actor, entry_id: int, target_id: int) -> Target:
        """Send an entry to a target of the actor; again within a minute is the same request.

        Raises:
            NotFoundError: there is no such entry or target, or the actor may not see the entry.
            InvalidError: the target is off.
            RateLimitedError: too many within the hour.
        """
        require_sending(actor)
        entry = self._entries.get(actor.user_id, check_id(entry_id, "entry_id"))
        target_id = check_id(target_id, "target_id")
        return self._begin(actor, target_id, entry.id, f"{Occasion.KEY}:{_now_ms() // 60_000}")

    def _begin(self, actor: Actor, target_id: int, entry_id: int, cause: str, *, wait: float = 0.0) -> Target:
        mine = self._targets.targets.find_by_user(actor.user_id)
        target = next((one for one in mine if one.id == target_id), None)
        if target is None:
            raise NotFoundError("You don't have this service.", target_id=target_id)
        if not target.enabled:
            raise InvalidError("This service is off.", target_id=target_id)
        limit = self._settings.sends_per_hour
        throttle(self._limiter, f"send:{actor.user_id}", limit=limit, window=clock.HOUR)
        wanted = [Wanted(target_id, entry_id, cause)]
        if self._targets.store_requests(actor.user_id, wanted, clock.now(), mine)[1]:
            raise RateLimitedError(
                "At most %(limit)s entries are sent per day. Try again tomorrow.",
                limit=self._settings.sends_per_day,
                retry_after=clock.HOUR,
            )
        ticket = self._jobs.enqueue(_job(actor.user_id))
        if wait:
            next(iter(self._jobs.await_many([ticket], wait)), None)
        return target

    def request_all(self, user_id: int, wanted: Sequence[Wanted]) -> None:
        """Let entries be sent that rules have matched; a repeat changes nothing.

        Closed accounts request nothing.
        """
        if wanted and self._targets.users.is_enabled(user_id):
            self._request(user_id, wanted)

    def request_automatic(self, user_id: int, entry_ids: Sequence[int], occasion: Occasion) -> None:
        """Let entries be sent that were just starred or shared, to targets that want them."""
        try:
            mine = [one for one in self._targets.targets.find_by_user(user_id) if occasion in one.on]
            self._request(user_id, [Wanted(one.id, i, occasion.value) for one in mine for i in entry_ids])
        except EventrError as e:  # the star or share is stored already
            log.warning("not_sent", user_id=user_id, occasion=occasion.value, error=e.word)

    def _request(self, user_id: int, wanted: Sequence[Wanted]) -> None:
        if wanted and self._targets.store_requests(user_id, wanted, clock.now())[0]:
            try:
                self._jobs.enqueue(_job(user_id))
            except EventrError as e:  # the updater queues it later
                log.warning("sending_not_queued", user_id=user_id, error=e.word)

    # -- jobs
    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of users with deliveries that are due."""
        return [_job(user_id) for user_id in self._targets.targets.find_due(now, AT_ONCE)]

    async def run(
        self,
        user_id: int,
        fetcher: FetchStreamer,
        seconds: float,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Send what is due for a user for at most ``seconds``; a later run continues. Safe to repeat.

        Nothing is sent for an account that is closed or gone.
        """
        end, done = time.monotonic() + seconds, 0
        if not await asyncio.to_thread(self._targets.users.is_enabled, user_id):
            now = clock.now()
            await asyncio.to_thread(self._targets.targets.postpone_user, user_id, now + CLOSED, now)
            return {"done": 0}
        while time.monotonic() < end and not is_stopping():
            now = clock.now()
            one = await asyncio.to_thread(self._targets.targets.claim, user_id, now, now + CLAIMED)
            if one is None:
                break
            await self._send(one, fetcher)
            done += 1
        return {"done": done}

    async def _send(self, one: Delivery, fetcher: FetchStreamer) -> None:
        prepared = await asyncio.to_thread(self._prepare, one)
        if prepared is None:
            return
        target, request, wait = prepared
        await asyncio.sleep(wait)  # the rate limit of the host
        fetched: Fetched | None = None
        async for answer in fetcher.stream_fetches([request]):
            fetched = answer
        error = await asyncio.to_thread(self._targets.record_result, one, fetched, clock.now())
        log.info("entry_sent", user_id=one.user_id, kind=target.kind.value, error=error, tries=one.tries)

    def _prepare(self, one: Delivery) -> tuple[Target, FetchRequest, float] | None:
        """Return a delivery's target, its request and the seconds to wait before it.

        None: it isn't sent now, which is recorded.
        """
        gateway, now = self._targets, clock.now()
        target = gateway.targets.find(one.user_id, one.target_id)
        if target is None:
            gateway.targets.store_state(one, DeliveryState.FAILED, "gone")
            return None
        wait = self._find_wait(target, one, now)
        if wait > PATIENCE:
            gateway.postpone(one, wait, now)
            gateway.targets.postpone_target(one.user_id, one.target_id, now + dt.timedelta(seconds=wait), now)
            return None
        try:
            request = gateway.build_request(target, one)
        except NoPageError:
            gateway.store_outcome(one, "no_page", now)
            return None
        except InvalidError:
            gateway.store_outcome(one, "secret", now)
            return None
        if request is None:
            gateway.targets.store_state(one, DeliveryState.FAILED, "entry_gone")
            return None
        return target, request, wait

    def _find_wait(self, target: Target, one: Delivery, now: dt.datetime) -> float:
        """Return the seconds until a delivery may begin: a target may be off or rest, a host has a limit."""
        if not target.enabled:
            return clock.HOUR
        # A person who tests has just mended something.
        is_new_test = one.occasion is Occasion.TEST and one.tries <= 1
        if target.rests_until is not None and target.rests_until > now and not is_new_test:
            # Not within this job, even if it is soon.
            return max((target.rests_until - now).total_seconds(), 2 * PATIENCE)
        host = parse_host(target.address)
        return max(*self._budget.find_pauses([host]), *self._budget.take_tokens([host], urgent=True))


def _require_edit(actor: Actor) -> None:
    """Check that an actor may edit targets."""
    require_permission(actor, Permission.SHARE_EDIT)


def _job(user_id: int) -> Job:
    return Job(Task.SEND, {"user_id": user_id}, Queue.PULL_SYSTEM)


def _name_host(address: str) -> str:
    return parse_host(address if "://" in address else f"https://{address.strip()}")[:NAME_MAX]


def _now_ms() -> int:
    return clock.to_millis(clock.now())
