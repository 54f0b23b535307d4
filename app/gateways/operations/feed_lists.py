"""Lists of all feeds for administrators, without the secret parts of their addresses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app.errors import InvalidError, NotFoundError
from app.feeds.urls import redact_url
from app.mappers.operations.feed_lists import FeedListMapper
from app.models.feeds.feed import Feed
from app.models.operations.feed_list import FeedCounts, FeedFilter, FeedList, FeedOrder, FeedQuery, FeedRow

_DAY = dt.timedelta(days=1)
#: Length of a slot of the plan, minutes.
SLOT = 15


class FeedListGateway:
    """Reads lists of feeds; pauses, resumes and clears feeds."""

    def __init__(self, lists: FeedListMapper) -> None:
        self._lists = lists

    def list_feeds(self, query: FeedQuery, now: dt.datetime, limit: int) -> FeedList:
        """Return a page of the feeds that match a query.

        Raises:
            InvalidError: the cursor is invalid.
        """
        if query.order is FeedOrder.SLOWEST:
            return self._find_slowest(query, now)
        found = self._lists.list_feeds(query, _cursor(query.after), limit + 1)
        rows = tuple(_row(feed) for feed in found[:limit])
        last = found[limit - 1] if len(found) > limit else None
        return FeedList(rows, f"{last.subscribers}.{last.id}" if last else "")

    def _find_slowest(self, query: FeedQuery, now: dt.datetime) -> FeedList:
        slowest = self._lists.find_slow(query, now - _DAY)
        feeds = self._lists.find_many(list(slowest))
        return FeedList(tuple(_row(feeds[i], slowest=ms) for i, ms in slowest.items() if i in feeds))

    def find_many(self, feed_ids: Sequence[int]) -> dict[int, FeedRow]:
        """Return these feeds by id; those that were merged or deleted are left out."""
        return {feed_id: _row(feed) for feed_id, feed in self._lists.find_many(feed_ids).items()}

    def get(self, feed_id: int) -> FeedRow:
        """Return a feed.

        Raises:
            NotFoundError: there is no such feed.
        """
        found = self.find_many([feed_id])
        _found(feed_id in found, feed_id)
        return found[feed_id]

    def count_feeds(self) -> FeedCounts:
        """Return the number of feeds of each kind."""
        words = self._lists.count_error_words()
        return FeedCounts(
            total=self._lists.count(FeedFilter.ALL),
            errors=sum(count for _, count in words),
            dead=self._lists.count(FeedFilter.DEAD),
            never=self._lists.count(FeedFilter.NEVER),
            paused=self._lists.count(FeedFilter.PAUSED),
            orphaned=self._lists.count(FeedFilter.ORPHANED),
            words=tuple(words),
        )

    def count_planned(self, now: dt.datetime, until: dt.datetime) -> dict[dt.datetime, int]:
        """Return how many polls are planned from now on, by the start of a slot of 15 minutes."""
        return self._lists.count_planned(now, until, SLOT)

    def pause(self, feed_id: int) -> None:
        """Stop polling a feed; its readers can still refresh it by hand.

        Raises, like :meth:`resume` and :meth:`clear`: NotFoundError: there is no such feed.
        """
        _found(self._lists.pause(feed_id), feed_id)

    def resume(self, feed_id: int, now: dt.datetime) -> None:
        """Resume polling a feed, starting now."""
        _found(self._lists.resume(feed_id, now), feed_id)

    def clear(self, feed_id: int, now: dt.datetime) -> None:
        """Clear a feed's errors and poll it now."""
        _found(self._lists.clear(feed_id, now), feed_id)


def _found(is_there: bool, feed_id: int) -> None:
    if not is_there:
        raise NotFoundError(feed_id=feed_id)


def _cursor(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    readers, _, feed_id = text.partition(".")
    if not (readers + feed_id).isascii() or not (readers.isdigit() and feed_id.isdigit()):
        raise InvalidError("Can't load more of this list. Reload it.", field="after")
    return int(readers[:16]), int(feed_id[:16])


def _row(feed: Feed, slowest: int = 0) -> FeedRow:
    address = redact_url(feed.url)
    return FeedRow(
        id=feed.id,
        title=feed.title,
        address=address,
        link=feed.url if address == feed.url else "",
        error=feed.error,
        errors=feed.errors,
        error_since=feed.error_since,
        checked_at=feed.checked_at,
        next_check_at=feed.next_check_at,
        subscribers=feed.subscribers,
        paused=feed.paused,
        slowest=slowest,
        site=feed.site_url if feed.site_url and redact_url(feed.site_url) == feed.site_url else "",
    )
