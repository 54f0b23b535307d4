"""Chapters of episodes: a job fetches their file when someone opens the episode."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from app import clock, logs
from app.errors import NotFoundError, StoreError
from app.gateways.feeds.chapters import ChapterGateway
from app.gateways.reading.entries import EntryGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.chapters import Chapter
from app.models.feeds.fetched import FetchRequest, Target
from app.models.feeds.hosts import parse_host
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.entry import Entry
from app.ports import FetchStreamer, HostBudget, JobPort
from app.services.access import require_permission
from app.services.fetch_budget import FetchBudget
from app.services.validation import check_id

log = logs.get(__name__)

#: Seconds that a fetch waits for its host's budget. Later, the next opening requests it again.
PATIENCE: Final = 5.0


class ChapterService:
    """Finds the chapters that an entry's feed names by an address."""

    def __init__(
        self,
        chapters: ChapterGateway,
        entries: EntryGateway,
        jobs: JobPort,
        *,
        budget: HostBudget,
        fetch_budget: FetchBudget,
    ) -> None:
        self._chapters, self._entries, self._jobs = chapters, entries, jobs
        self._budget, self._fetch_budget = budget, fetch_budget

    def find(self, actor: Actor, entry: Entry) -> Sequence[Chapter] | None:
        """Return the chapters of an entry that the actor reads; None: a job fetches them now."""
        require_permission(actor, Permission.ENTRY_READ)
        url = self._chapters.find_file(entry)
        if url is None:
            return ()
        found = self._chapters.find(url, clock.now())
        if found is None:
            args = {"user_id": actor.user_id, "entry_id": entry.id}
            with contextlib.suppress(StoreError):  # the next opening requests it again
                self._jobs.enqueue(Job(Task.CHAPTERS, args, Queue.DISCOVERY))
        return found

    def find_for_entry(self, actor: Actor, entry_id: int) -> Sequence[Chapter] | None:
        """Return the chapters of an entry; None: a job fetches them now.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
        """
        require_permission(actor, Permission.ENTRY_READ)
        return self.find(actor, self._entries.get(actor.user_id, check_id(entry_id, "entry_id")))

    async def fetch(self, user_id: int, entry_id: int, fetcher: FetchStreamer) -> dict[str, Any]:
        """Fetch the chapters of an entry that a user reads, unless they are stored; safe to run twice."""
        with contextlib.suppress(NotFoundError):
            entry = await asyncio.to_thread(self._entries.get, user_id, entry_id)
            url = self._chapters.find_file(entry)
            if url is not None and await asyncio.to_thread(self._chapters.find, url, clock.now()) is None:
                return await self._fetch(url, entry.url or "", fetcher)
        return {"state": "ended"}

    async def _fetch(self, url: str, page: str, fetcher: FetchStreamer) -> dict[str, Any]:
        wait = await asyncio.to_thread(self._find_wait, parse_host(url))
        if wait > PATIENCE:
            return {"state": "put_off"}
        await asyncio.sleep(wait)  # the rate limit of the host
        # Nobody typed this address, so it may not lead to private addresses (S11).
        request = FetchRequest(url, target=Target.CHAPTERS, referred_by=page or "https://invalid/")
        async for fetched in fetcher.stream_fetches([request]):
            self._fetch_budget.charge_pictures(fetched.wire_bytes)
            body = None if fetched.error else fetched.body
            found = await asyncio.to_thread(self._chapters.store_chapters, url, body, clock.now())
            error = fetched.error.word if fetched.error else None
            log.info("chapters_fetched", count=len(found), error=error)
        return {"state": "fetched"}

    def _find_wait(self, host: str) -> float:
        if self._fetch_budget.is_spent(clock.now()):
            return PATIENCE + 1
        return max(*self._budget.find_pauses([host]), *self._budget.take_tokens([host], urgent=True))
