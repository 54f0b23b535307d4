"""Saved pages: any page of the web as an entry to read later, to tag and to share."""

from __future__ import annotations

import contextlib
import datetime as dt

from app import clock, logs
from app.errors import N_, InvalidError, StoreError
from app.gateways.reading.saved_pages import SavedPageGateway
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.saved import NewPage, SavedPage
from app.ports import EventPort, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.reading.reading import ReadingService
from app.services.validation import check_id, check_text, check_words

log = logs.get(__name__)

URL_MAX = 2048
#: Longest title, and longest text that comes with a page, in characters.
TITLE_MAX, TEXT_MAX = 512, 20_000
TOKEN_MAX = 64
FEED_TITLE = N_("Saved pages")


class SavedPageService:
    """Saves, removes and restores pages.

    Args:
        per_hour: pages that one user may save per hour.
        undo_ttl: seconds for which a removal can be undone.
    """

    def __init__(
        self,
        pages: SavedPageGateway,
        reading: ReadingService,
        jobs: JobPort,
        events: EventPort,
        *,
        limiter: Limiter,
        per_hour: int,
        undo_ttl: float,
    ) -> None:
        self._pages, self._reading = pages, reading
        self._jobs, self._events, self._limiter = jobs, events, limiter
        self._per_hour, self._undo_ttl = per_hour, dt.timedelta(seconds=undo_ttl)

    def save(
        self, actor: Actor, url: str, *, title: str = "", text: str = "", feed_title: str = FEED_TITLE
    ) -> SavedPage:
        """Save a page as an unread entry; a page that was saved before becomes unread again.

        A job fetches its text, and its title if none is given.

        Args:
            text: a passage of the page, which is shown until the page is fetched.
            feed_title: the name of the list of saved pages, in the actor's language.

        Raises:
            InvalidError: the address isn't one of a page, or a text is too long.
            TooLargeError: the actor has the maximum number of pages or subscriptions.
            RateLimitedError: too many pages within the hour.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        address = self._pages.resolve_url(check_text(url, "url", limit=URL_MAX, empty=True))
        if not address:
            text = "Enter the address of a page, such as https://example.org/article."
            raise InvalidError(text, field="url")
        title = check_text(title[:TITLE_MAX] if isinstance(title, str) else title, "title", empty=True)
        page = NewPage(address, title, check_words(text, "text", limit=TEXT_MAX))
        throttle(self._limiter, f"save:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        now = clock.now()
        feed_id = self.prepare_feed(actor, feed_title)
        (saved,) = self._pages.save(feed_id, [page], now)
        if saved.existed:
            self._reading.mark(actor, [saved.entry_id], read=False)
        else:
            self.request_texts([saved])
            self._events.notify_counts(actor.user_id)
        log.info("page_saved", user_id=actor.user_id, entry_id=saved.entry_id, existed=saved.existed)
        return saved

    def prepare_feed(self, actor: Actor, feed_title: str) -> int:
        """Return the feed with the actor's saved pages, which a first call creates and subscribes to."""
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        known = self._pages.find_feed(actor.user_id)
        title = check_text(feed_title, "title")
        feed_id = self._pages.prepare_feed(actor.user_id, title, clock.now())
        if known is None:
            self._events.notify_follows(actor.user_id, added=[feed_id])
        return feed_id

    def find_feed(self, actor: Actor) -> int | None:
        """Return the feed with the actor's saved pages; None: there are none yet."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._pages.find_feed(actor.user_id)

    def request_texts(self, pages: list[SavedPage], *, ahead: bool = False) -> None:
        """Let jobs fetch the texts of pages; ``ahead``: nobody waits for them."""
        queue = Queue.ARTICLES_SYSTEM if ahead else Queue.ARTICLES
        extra = {"ahead": True} if ahead else {}
        jobs = [
            Job(Task.FULL_TEXT, {"feed_id": page.feed_id, "entry_id": page.entry_id, **extra}, queue)
            for page in pages
        ]
        with contextlib.suppress(StoreError):  # opening the page requests its text again
            self._jobs.enqueue_many(jobs)

    def remove(self, actor: Actor, entry_id: int) -> str:
        """Remove a saved page; shares of it stay.

        Returns:
            A token for :meth:`restore`, valid for ``undo_ttl``.

        Raises:
            NotFoundError: the actor hasn't saved such a page.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        expires = clock.now() + self._undo_ttl
        token = self._pages.remove(actor.user_id, check_id(entry_id, "entry_id"), expires)
        self._events.notify_counts(actor.user_id)
        log.info("page_removed", user_id=actor.user_id, entry_id=entry_id)
        return token

    def restore(self, actor: Actor, token: str) -> int:
        """Undo a :meth:`remove`; return the page's id.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
            ExistsError: the actor has saved the page again.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        token = check_text(token, "token", limit=TOKEN_MAX)
        entry_id = self._pages.restore(actor.user_id, token, clock.now())
        self._events.notify_counts(actor.user_id)
        return entry_id
