"""Making feeds of pages that have none: a job reads the page, and the person chooses one of its lists."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

from app import clock, logs
from app.config import Settings
from app.errors import SEARCH_FAILED, InvalidError, NotFoundError, get_public_word, get_search_message
from app.gateways.feeds.page_lists import PageListGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import FetchRequest, Target
from app.models.feeds.page_lists import PageView, StoredPage
from app.models.feeds.recipe import ADDRESS_MAX, SELECTOR_MAX, Recipe, RecipeKind
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.fetch_budget import CountingFetcher, FetchBudget
from app.services.validation import check_id, check_text

log = logs.get(__name__)
#: Seconds over which pages that one person has read are counted.
HOUR = 3600


class PageListService:
    """Reads the lists of pages for users; workers fetch the pages."""

    def __init__(
        self,
        pages: PageListGateway,
        jobs: JobPort,
        *,
        limiter: Limiter,
        fetch_budget: FetchBudget,
        settings: Settings,
    ) -> None:
        self._pages = pages
        self._jobs = jobs
        self._limiter = limiter
        self._fetch_budget = fetch_budget
        self._settings = settings

    def find_lists(
        self,
        actor: Actor,
        address: str,
        selectors: Mapping[str, str] | None = None,
        *,
        kind: str = RecipeKind.CSS.value,
        wait: float | None = None,
    ) -> PageView:
        """Return the lists of a page, or ``wait`` set if it isn't read in time; call again then.

        Args:
            selectors: those to try, by the names of :class:`Recipe`; without one, lists are guessed.
            kind: the language of the selectors.
            wait: seconds to wait; None: as in the settings.

        Raises:
            InvalidError: there is no web address in the text, or a selector isn't understood.
            RateLimitedError: too many pages within the hour, or bytes within the day.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        address = check_text(address, "address", limit=ADDRESS_MAX, empty=True)
        page = self._pages.open_page(address, _build_recipe(selectors or {}, kind), clock.now())
        if not page.is_stored:
            limit = self._settings.discoveries_per_hour
            throttle(self._limiter, f"discover:{actor.user_id}", limit=limit, window=HOUR)
            self._fetch_budget.require_budget(actor)
            self._fetch_budget.set_payer(page.key, actor)
            self._pages.store_page(page, clock.now())
        return self._await(actor, page, self._settings.discovery_wait if wait is None else wait)

    def get_progress(self, actor: Actor, key: int) -> PageView:
        """Return the lists of a page by the key of an earlier answer.

        Raises:
            NotFoundError: there is no page with this key, or it has expired.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        page = self._pages.pages.find(check_id(key, "key"), clock.now())
        if page is None:
            raise NotFoundError(key=key)
        return self._await(actor, page, 0)

    def get_outline(self, actor: Actor, key: int) -> str:
        """Return what a page shows, as JSON, see :mod:`app.feeds.pages.outline`.

        Raises:
            NotFoundError: there is no page with this key, it has expired, or it wasn't read as a page.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        found = self._pages.pages.find_outline(check_id(key, "key"), clock.now())
        if found is None:
            raise NotFoundError(key=key)
        return found

    def _await(self, actor: Actor, page: StoredPage, wait: float) -> PageView:
        if page.result is None:
            ticket = self._jobs.enqueue(Job(Task.PAGE_LISTS, {"key": page.key}, Queue.DISCOVERY))
            outcome = next(iter(self._jobs.await_many([ticket], wait)), None)
            if outcome is None:
                return PageView(page.key, page.address, wait=True)
            page = self._pages.pages.find(page.key, clock.now()) or page
        found = page.result
        if found is None:
            message = get_search_message(SEARCH_FAILED)
            return PageView(page.key, page.address, error=SEARCH_FAILED, message=message)
        # Only administrators learn what listens on which host (S13).
        admin = actor.has_permission(Permission.ADMIN_SEE)
        word = get_public_word(found.error, admin=admin) if found.error else None
        sentence = get_search_message(word) if word else None
        return PageView(
            page.key, page.address, title=found.title, lists=found.lists, error=word, message=sentence
        )

    async def run(self, key: int, fetcher: Any) -> dict[str, Any]:
        """Read a page in the worker and store its lists; return {"lists": count, "error": word or None}.

        Safe to run twice.
        """
        page = await asyncio.to_thread(self._pages.pages.find, key, clock.now())
        if page is None:
            return {"lists": 0, "error": "gone"}
        found = page.result
        if found is None:
            counted = CountingFetcher(fetcher)
            request = FetchRequest(page.address.partition("#")[0], Target.PAGE)
            async for fetched in counted.stream_fetches([request]):
                found = await asyncio.to_thread(self._pages.read, page, fetched)
            size = sum(counted.take_received().values())
            await asyncio.to_thread(self._fetch_budget.charge_search, key, size)
            page = dataclasses.replace(page, result=found)
            await asyncio.to_thread(self._pages.store_page, page, clock.now())
        lists, error = (len(found.lists), found.error) if found else (0, SEARCH_FAILED)
        log.info("page_read", key=key, lists=lists, error=error)
        return {"lists": lists, "error": error}


def _build_recipe(selectors: Mapping[str, str], kind: str) -> Recipe | None:
    texts = {name: check_text(text, name, limit=SELECTOR_MAX, empty=True) for name, text in selectors.items()}
    given = {name: text for name, text in texts.items() if text}
    if not given:
        return None
    if "item" not in given:
        raise InvalidError("Enter a selector for the entries.", field="item")
    return Recipe(kind=RecipeKind(kind), **given)
