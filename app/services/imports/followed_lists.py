"""OPML lists on the web that a user follows: added, checked twice a day by a job, and answered."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from app import clock, logs
from app.errors import EventrError, InvalidError, RateLimitedError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.imports.followed_lists import NAME_MAX, URL_MAX, FollowedListGateway, list_feed_ids
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import Fetched, FetchRequest, Target, Validators
from app.models.feeds.hosts import parse_host
from app.models.imports.followed_lists import NO_LIST, FollowedList, ListView
from app.models.imports.imports import Import
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import FetchStreamer, HostBudget, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace
from app.services.imports.runner import make_import_job
from app.services.subscriptions.bulk_edit import BulkEditService
from app.services.validation import check_id, check_text

log = logs.get(__name__)

#: Seconds that a check waits for its host's budget, and the time after which it is tried again.
PATIENCE: Final = 5.0
LATER: Final = dt.timedelta(minutes=10)
#: Lists that are queued at once.
AT_ONCE: Final = 100
#: Checks that a user may ask for within an hour.
CHECKS_PER_HOUR: Final = 20


class FollowedListService:
    """Follows lists, and answers what is to become of feeds that are no longer in them."""

    def __init__(
        self,
        lists: FollowedListGateway,
        accounts: AccountGateway,
        bulk_edit: BulkEditService,
        jobs: JobPort,
        *,
        limiter: Limiter,
        budget: HostBudget,
        fetch_budget: FetchBudget,
        free_space: FreeSpace,
    ) -> None:
        self._lists, self._accounts, self._bulk_edit, self._jobs = lists, accounts, bulk_edit, jobs
        self._limiter, self._budget, self._fetch_budget = limiter, budget, fetch_budget
        self._free_space = free_space

    def list_lists(self, actor: Actor) -> Sequence[ListView]:
        """Return the actor's lists, the oldest first, with the removed feeds that the actor still has."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return [self._lists.build_view(one) for one in self._lists.lists.find_by_user(actor.user_id)]

    def add(self, actor: Actor, address: str, name: str = "") -> FollowedList:
        """Follow the list at an address; its feeds come into a folder of this name.

        Args:
            name: empty: the title of the list.

        Raises:
            InvalidError: this isn't a web address.
            ExistsError: the actor follows this address already.
            TooLargeError: the actor follows the maximum number of lists.
            RateLimitedError: too many checks within the hour, or the day's bytes are spent.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        address = check_text(address, "url", limit=URL_MAX, empty=True)
        name = check_text(name, "name", limit=NAME_MAX, empty=True)
        self._require_room(actor)
        found = self._lists.add(actor.user_id, address, name, clock.now())
        log.info("list_followed", user_id=actor.user_id, list_id=found.id)
        self._queue(found)
        return found

    def _require_room(self, actor: Actor) -> None:
        self._fetch_budget.require_budget(actor)
        throttle(self._limiter, f"list:{actor.user_id}", limit=CHECKS_PER_HOUR, window=clock.HOUR)

    def check(self, actor: Actor, list_id: int) -> None:
        """Check a list now.

        Raises:
            NotFoundError: the actor has no such list.
            RateLimitedError: too many checks within the hour, or the day's bytes are spent.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._lists.get(actor.user_id, check_id(list_id, "list_id"))
        self._require_room(actor)
        self._lists.lists.set_due(actor.user_id, found.id, clock.now())
        self._queue(found)

    def _queue(self, one: FollowedList) -> None:
        try:
            self._jobs.enqueue(_make_job(one.user_id, one.id))
        except EventrError as e:  # the updater queues it later
            log.warning("list_not_queued", list_id=one.id, error=e.word)

    def remove(self, actor: Actor, list_id: int) -> None:
        """Follow a list no longer; the feeds and their folder stay.

        Raises:
            NotFoundError: the actor has no such list.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        found = self._lists.get(actor.user_id, check_id(list_id, "list_id"))
        self._lists.lists.remove(actor.user_id, found.id)
        log.info("list_left", user_id=actor.user_id, list_id=found.id)

    def answer(self, actor: Actor, list_id: int, *, unsubscribe: bool) -> tuple[str, int]:
        """Unsubscribe from the feeds that are no longer in a list, or keep them.

        Returns:
            As ``BulkEditService.unsubscribe``; an empty token if nothing was unsubscribed.

        Raises:
            NotFoundError: the actor has no such list.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        view = self._lists.build_view(self._lists.get(actor.user_id, check_id(list_id, "list_id")))
        done, gone = ("", 0), list(list_feed_ids(view))
        if unsubscribe and gone:
            done = self._bulk_edit.unsubscribe(actor, gone)
        self._lists.forget_gone(view.of)
        return done

    # -- checks by a job
    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of lists that are due; none while a disk is short."""
        if self._free_space.find_shortage():
            return []
        return [_make_job(user_id, list_id) for user_id, list_id in self._lists.lists.find_due(now, AT_ONCE)]

    async def run(self, user_id: int, list_id: int, fetcher: FetchStreamer) -> dict[str, Any]:
        """Check a list if it is due: safe to run twice, and to be killed anywhere.

        New feeds become an import, which is begun in the transaction that stores the list.

        Raises:
            StoreError: the store didn't answer; a later run continues.
        """
        now = clock.now()
        one = await asyncio.to_thread(self._lists.claim, user_id, list_id, now)
        if one is None:
            return {"state": "ended"}
        wait = await asyncio.to_thread(self._find_wait, one, now)
        if wait > PATIENCE:
            await asyncio.to_thread(
                self._lists.lists.set_due, user_id, list_id, now + LATER, one.next_check_at
            )
            return {"state": "put_off"}
        await asyncio.sleep(wait)  # the rate limit of the host
        known = Validators(one.etag, one.last_modified)
        request = FetchRequest(one.url, target=Target.FEED, validators=known)
        async for fetched in fetcher.stream_fetches([request]):
            self._fetch_budget.charge_user(user_id, fetched.wire_bytes)
            begun = await asyncio.to_thread(self._store, one, fetched)
            if begun is not None:
                await asyncio.to_thread(self._jobs.enqueue, make_import_job(user_id, begun.id))
        return {"state": "checked"}

    def _find_wait(self, one: FollowedList, now: dt.datetime) -> float:
        user = self._accounts.find_user(one.user_id)
        if user is None:  # the account is being deleted
            return PATIENCE + 1
        try:
            self._fetch_budget.require_budget(user.actor)
        except RateLimitedError:
            return PATIENCE + 1
        host = parse_host(one.url)
        return max(*self._budget.find_pauses([host]), *self._budget.take_tokens([host], urgent=True))

    def _store(self, one: FollowedList, fetched: Fetched) -> Import | None:
        """Store the result of a check; return the import of what is new."""
        now, error, begun = clock.now(), fetched.error.word if fetched.error else "", None
        wait = dt.timedelta(seconds=fetched.retry_after or 0)
        if not error and not fetched.unchanged:
            try:
                begun = self._lists.store_list(one, fetched.body or b"", fetched.validators, now)
            except (InvalidError, TooLargeError):
                error = NO_LIST
        if error:
            self._lists.store_failure(one, error, now, wait)
        elif fetched.unchanged:
            self._lists.store_unchanged(one, now)
        log.info("list_checked", list_id=one.id, error=error, new=begun.goal if begun else 0)
        return begun


def _make_job(user_id: int, list_id: int) -> Job:
    return Job(Task.LIST, {"user_id": user_id, "list_id": list_id}, Queue.IMPORT)
