"""The health of all feeds, for administrators; every change is logged (W20)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.operations.feed_lists import SLOT, FeedListGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetch_log import FetchLog
from app.models.jobs.jobs import Job, Queue, Task
from app.models.operations import throughput
from app.models.operations.feed_list import FeedCounts, FeedList, FeedQuery, FeedRow
from app.models.operations.hourly_stats import HOUR_MS
from app.models.operations.throughput import Slot
from app.ports import EnginePort, JobPort
from app.services.access import require_permission
from app.services.validation import check_id, check_text

log = logs.get(__name__)

PAGE = 50
#: Quarter hours ahead that the schedule chart shows.
AHEAD = 8
_WORD, _TEXT, _CURSOR = 64, 256, 40


class FeedListService:
    """Lists feeds by their health; checks, pauses and resumes them.

    All methods raise: ForbiddenError: the actor isn't an admin. StoreError: MongoDB or Redis does not answer.
    """

    def __init__(self, lists: FeedListGateway, feeds: FeedGateway, engine: EnginePort, jobs: JobPort) -> None:
        self._lists, self._feeds, self._engine, self._jobs = lists, feeds, engine, jobs

    def list_feeds(self, actor: Actor, query: FeedQuery) -> FeedList:
        """Return a page of the feeds that match a query.

        Raises:
            InvalidError: a text is too long, or the cursor is invalid.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        checked = FeedQuery(
            query.filter,
            check_text(query.word, "word", limit=_WORD, empty=True),
            check_text(query.text, "text", limit=_TEXT, empty=True),
            check_text(query.after, "after", limit=_CURSOR, empty=True),
            query.order,
        )
        return self._lists.list_feeds(checked, clock.now(), PAGE)

    def get_feed(self, actor: Actor, feed_id: int) -> tuple[FeedRow, FetchLog]:
        """Return a feed and its latest fetches.

        Raises:
            NotFoundError: there is no such feed.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        feed = self._lists.get(check_id(feed_id, "feed"))
        return feed, self._feeds.find_fetch_log(feed.id)

    def find_names(self, actor: Actor, feed_ids: Sequence[int]) -> dict[int, str]:
        """Return the names of these feeds by id; those that were merged or deleted are left out."""
        require_permission(actor, Permission.ADMIN_SEE)
        return {feed_id: feed.name for feed_id, feed in self._lists.find_many(feed_ids).items()}

    def count_feeds(self, actor: Actor) -> FeedCounts:
        """Return the number of feeds of each kind."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._lists.count_feeds()

    def list_day_slots(self, actor: Actor) -> tuple[Slot, ...]:
        """Return the polls of the last 24 hours and those planned for the next two, by quarter hour."""
        require_permission(actor, Permission.ADMIN_SEE)
        now = clock.now()
        hour = int(now.timestamp() * 1000) // HOUR_MS
        found = self._engine.load_minutes(range(hour - 24, hour + 1))
        planned = self._lists.count_planned(now, now + dt.timedelta(minutes=SLOT * AHEAD))
        return throughput.list_day_slots(found, planned, now, AHEAD)

    def check_now(self, actor: Actor, feed_id: int) -> None:
        """Queue a pull of a feed now."""
        require_permission(actor, Permission.FEED_MANAGE)
        feed_id = check_id(feed_id, "feed")
        self._jobs.enqueue(Job(Task.PULL, {"feed_ids": [feed_id]}, Queue.PULL))
        log.info("feed_checked", feed_id=feed_id, by=actor.user_id)

    def pause(self, actor: Actor, feed_id: int) -> None:
        """Stop polling a feed; its readers can still refresh it by hand.

        Raises, like :meth:`resume` and :meth:`clear`: NotFoundError: there is no such feed.
        """
        require_permission(actor, Permission.FEED_MANAGE)
        self._lists.pause(check_id(feed_id, "feed"))
        log.info("feed_paused", feed_id=feed_id, by=actor.user_id)

    def resume(self, actor: Actor, feed_id: int) -> None:
        """Resume polling a feed, starting now."""
        require_permission(actor, Permission.FEED_MANAGE)
        self._lists.resume(check_id(feed_id, "feed"), clock.now())
        log.info("feed_resumed", feed_id=feed_id, by=actor.user_id)

    def clear(self, actor: Actor, feed_id: int) -> None:
        """Clear a feed's errors and poll it now."""
        require_permission(actor, Permission.FEED_MANAGE)
        self._lists.clear(check_id(feed_id, "feed"), clock.now())
        log.info("feed_cleared", feed_id=feed_id, by=actor.user_id)
