"""Bulk edit: the table of subscriptions, and actions on many of them at once."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple

from app import clock, logs
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.reading.streams import Sources, StreamGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.subscriptions.bulk_edit import (
    LOOSE,
    BulkEditPage,
    BulkEditQuery,
    BulkEditRow,
    Condition,
    Order,
    parse_cursor,
)
from app.models.subscriptions.undo import RestoreResult
from app.ports import EventPort
from app.runtime.weighted_cache import WeightedCache
from app.services.access import require_permission
from app.services.feeds.refresh_requests import RefreshRequests
from app.services.notifications.notifier import Notifier
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

ROWS = 100
FEEDS_MAX = 20_000
TOKEN_MAX = 64
#: Rows kept in a process, of all users together, 0.2 KB each.
ROWS_KEPT = 20_000


class BulkEditService:
    """Shows the table of subscriptions and changes many of them; one undo reverts a whole action.

    Args:
        undo_ttl: seconds for which an action can be undone.
    """

    def __init__(
        self,
        *,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        folders: FolderGateway,
        streams: StreamGateway,
        websubs: WebsubGateway,
        refresh_requests: RefreshRequests,
        events: EventPort,
        notifier: Notifier,
        undo_ttl: float,
    ) -> None:
        self._subscriptions = subscriptions
        self._feeds = feeds
        self._folders = folders
        self._streams = streams
        self._websubs = websubs
        self._asking = refresh_requests
        self._events = events
        self._notifier = notifier
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)
        # The same sources mean that nothing has changed: a thousand rows take 2 ms to make.
        self._kept = WeightedCache[int, _Made](ROWS_KEPT)

    def load_page(self, actor: Actor, query: BulkEditQuery) -> BulkEditPage:
        """Return a page of at most 100 rows.

        Raises:
            InvalidError: the cursor is invalid.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        all_rows, now = self._rows(actor), clock.now()
        if query.order is Order.RATE:
            all_rows = self._rated(all_rows)
        found = [row for row in all_rows if _fits(row, query, now)]
        found.sort(key=lambda row: row.make_sort_key(query.order))
        total = len(found)
        if query.after:
            border = parse_cursor(query.after, query.order)
            found = [row for row in found if row.make_sort_key(query.order) > border]
        rows, more = found[:ROWS], len(found) > ROWS
        counts = collections.Counter(c for row in all_rows for c in row.find_conditions(now))
        return BulkEditPage(
            rows=tuple(rows if query.order is Order.RATE else self._rated(rows)),
            total=total,
            subscriptions=len(all_rows),
            counts=counts,
            folders=tuple(self._folders.find_by_user(actor.user_id)),
            after=rows[-1].make_cursor(query.order) if more else "",
        )

    def find_feed_ids(self, actor: Actor, query: BulkEditQuery) -> list[int]:
        """Return the feed ids of all pages of a query."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        now = clock.now()
        return [row.feed_id for row in self._rows(actor) if _fits(row, query, now)]

    def get_row(self, actor: Actor, feed_id: int) -> BulkEditRow:
        """Return the row of one subscription.

        Raises:
            NotFoundError: the actor isn't subscribed to this feed.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        mine = self._subscriptions.get(actor.user_id, check_id(feed_id, "feed_id"))
        (row,) = self._rated(_make_rows(self._streams.load_sources([mine])))
        return row

    def _rows(self, actor: Actor) -> list[BulkEditRow]:
        mine = self._subscriptions.find_by_user(actor.user_id)
        sources = self._streams.load_all_sources(actor.user_id, mine)
        before = self._kept.get(actor.user_id)
        if before is not None and before.sources is sources:
            return before.rows
        rows = _make_rows(sources)
        self._kept.add(actor.user_id, _Made(sources, rows), len(rows))
        return rows

    def _rated(self, rows: Sequence[BulkEditRow]) -> list[BulkEditRow]:
        rates = self._feeds.find_rates([row.feed_id for row in rows], clock.now())
        return [dataclasses.replace(row, rate=rates.get(row.feed_id, 0.0)) for row in rows]

    def unsubscribe(self, actor: Actor, feed_ids: Sequence[int]) -> tuple[str, int]:
        """End these subscriptions; starred entries stay.

        Returns:
            A token for :meth:`restore`, valid for ``undo_ttl``, and the number of ended subscriptions.

        Raises:
            InvalidError: too many ids, or invalid ones.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        now, feeds = clock.now(), check_ids(feed_ids, "feed", FEEDS_MAX)
        token, gone = self._subscriptions.remove_many(actor.user_id, feeds, now + self._undo_ttl)
        self._websubs.leave_unsubscribed(gone, now)
        self._events.notify_follows(actor.user_id, removed=gone)
        log.info("unsubscribed_many", user_id=actor.user_id, count=len(gone))
        return token, len(gone)

    def restore(self, actor: Actor, token: str) -> RestoreResult:
        """Undo an ``unsubscribe`` of many; people who approve their followers get a request.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
            TooLargeError: the actor has the maximum number of subscriptions.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        token = check_text(token, "token", limit=TOKEN_MAX)
        folders = {folder.id for folder in self._folders.find_by_user(actor.user_id)}
        done = self._subscriptions.restore_many(actor.user_id, token, folders, clock.now())
        self._notifier.notify_follow_requested(actor.user_id, done.requested_user_ids)
        self._events.notify_follows(actor.user_id, added=[s.feed_id for s in done.restored])
        log.info(
            "resubscribed_many",
            user_id=actor.user_id,
            count=len(done.restored),
            asked=len(done.requested_user_ids),
        )
        return done

    def set_paused(self, actor: Actor, feed_ids: Sequence[int], paused: bool) -> int:
        """Pause or resume these subscriptions, except people and saved pages; return how many changed.

        Feeds that are resumed are checked when they would have been, or now if that time has passed.

        Raises:
            InvalidError: too many ids, or invalid ones.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        now, feeds = clock.now(), check_ids(feed_ids, "feed", FEEDS_MAX)
        cards = self._feeds.find_cards(feeds)
        fetched = [feed_id for feed_id in feeds if feed_id in cards and not cards[feed_id].saved]
        changed = self._subscriptions.set_many_paused(actor.user_id, fetched, paused, now)
        if paused:
            self._websubs.leave_unsubscribed(changed, now)
        log.info("subscriptions_paused", user_id=actor.user_id, count=len(changed), paused=paused)
        return len(changed)

    def refresh(self, actor: Actor, feed_ids: Sequence[int]) -> int:
        """Queue pulls of these feeds if the actor subscribes, except people; return their number.

        Raises:
            InvalidError: too many ids, or invalid ones.
            RateLimitedError: too many requests within a minute.
        """
        require_permission(actor, Permission.FEED_REFRESH)
        feeds = check_ids(feed_ids, "feed", FEEDS_MAX)
        mine = [s.feed_id for s in self._subscriptions.find_by_user(actor.user_id, feeds) if not s.person]
        self._asking.request_pulls(actor, mine)
        return len(mine)


class _Made(NamedTuple):
    """The rows of all of a user's subscriptions, and what they were made from. Nobody changes the list."""

    sources: Sources
    rows: list[BulkEditRow]


def _make_rows(sources: Sources) -> list[BulkEditRow]:
    rows, counts = [], sources.unread
    for feed_id, card in sources.cards.items():
        mine = sources.subscriptions[feed_id]
        title = mine.title or card.title or card.url
        newest = dt.datetime.fromtimestamp(card.newest / 1000, dt.UTC) if card.newest else None
        where = mine.folder_ids, mine.paused
        row = BulkEditRow(
            *(feed_id, title, card.url, counts[feed_id], card.error, *where, newest, mine),
            person=mine.person,
            private=mine.private,
            icon=card.picture,
        )
        rows.append(row)
    return rows


def _fits(row: BulkEditRow, query: BulkEditQuery, now: dt.datetime) -> bool:
    if query.condition is not Condition.ALL and query.condition not in row.find_conditions(now):
        return False
    if query.folder == LOOSE and row.folder_ids:
        return False
    if query.folder and query.folder not in row.folder_ids:
        return False
    if not query.words:
        return True
    text = f"{row.title} {row.url}".casefold()
    return all(word in text for word in query.words.casefold().split())
