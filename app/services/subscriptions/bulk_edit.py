"""Many subscriptions at once: find them, and do one thing to all that were found."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.reading.read_marks import ReadGateway
from app.gateways.reading.streams import StreamGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.stream import MassMarked
from app.models.subscriptions.bulk_edit import (
    LOOSE,
    Condition,
    ManagerPage,
    ManagerQuery,
    ManagerRow,
    Order,
    parse_cursor,
)
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.undo import Returned
from app.ports import EventPort
from app.services.access import require
from app.services.feeds.refresh_requests import Asking
from app.services.notifications.notifier import Notifier
from app.services.validation import a_text, an_id, some_ids

log = logs.get(__name__)

ROWS = 100
FEEDS_MAX = 20_000
TOKEN_MAX = 64


class ManagerService:
    """The table of subscriptions, and what is done to many of them; each deed is taken back as one.

    Args:
        undo_ttl: seconds.
    """

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        reads: ReadGateway,
        feeds: FeedGateway,
        folders: FolderGateway,
        streams: StreamGateway,
        websubs: WebsubGateway,
        asking: Asking,
        events: EventPort,
        notifier: Notifier,
        *,
        undo_ttl: float,
    ) -> None:
        self._subscriptions = subscriptions
        self._reads = reads
        self._feeds = feeds
        self._folders = folders
        self._streams = streams
        self._websubs = websubs
        self._asking = asking
        self._events = events
        self._notifier = notifier
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def page(self, actor: Actor, query: ManagerQuery) -> ManagerPage:
        """Return a page of at most 100 rows.

        Raises:
            InvalidError: the cursor does not fit.
        """
        require(actor, Permission.SUBSCRIPTION_SEE)
        all_rows, now = self._rows(actor), clock.now()
        if query.order is Order.RATE:
            all_rows = self._rated(all_rows)
        found = [row for row in all_rows if _fits(row, query, now)]
        found.sort(key=lambda row: row.key(query.order))
        total = len(found)
        if query.after:
            border = parse_cursor(query.after, query.order)
            found = [row for row in found if row.key(query.order) > border]
        rows, more = found[:ROWS], len(found) > ROWS
        counts = collections.Counter(c for row in all_rows for c in row.conditions(now))
        return ManagerPage(
            rows=tuple(rows if query.order is Order.RATE else self._rated(rows)),
            total=total,
            subscriptions=len(all_rows),
            counts=counts,
            folders=tuple(self._folders.of_user(actor.user_id)),
            after=rows[-1].cursor(query.order) if more else "",
        )

    def found(self, actor: Actor, query: ManagerQuery) -> list[int]:
        """Return the feeds of all pages of a query."""
        require(actor, Permission.SUBSCRIPTION_SEE)
        now = clock.now()
        return [row.feed_id for row in self._rows(actor) if _fits(row, query, now)]

    def one(self, actor: Actor, feed_id: int) -> ManagerRow:
        """Return the row of one subscription.

        Raises:
            NotFoundError: he is not subscribed to this feed.
        """
        require(actor, Permission.SUBSCRIPTION_SEE)
        mine = self._subscriptions.get(actor.user_id, an_id(feed_id, "feed_id"))
        (row,) = self._rated(self._made([mine]))
        return row

    def _rows(self, actor: Actor) -> list[ManagerRow]:
        return self._made(self._subscriptions.of_user(actor.user_id))

    def _made(self, subscriptions: Sequence[Subscription]) -> list[ManagerRow]:
        sources = self._streams.sources(subscriptions)
        counts = self._streams.counts(sources)
        rows = []
        for feed_id, card in sources.cards.items():
            mine = sources.subscriptions[feed_id]
            newest = dt.datetime.fromtimestamp(card.newest / 1000, dt.UTC) if card.newest else None
            where = mine.folder_ids, mine.paused
            title = mine.title or card.title or card.url
            row = ManagerRow(feed_id, title, card.url, counts[feed_id], card.error, *where, newest)
            rows.append(dataclasses.replace(row, person=mine.person))
        return rows

    def _rated(self, rows: Sequence[ManagerRow]) -> list[ManagerRow]:
        rates = self._feeds.rates([row.feed_id for row in rows], clock.now())
        return [dataclasses.replace(row, rate=rates.get(row.feed_id, 0.0)) for row in rows]

    def mark_read(self, actor: Actor, feed_ids: Sequence[int]) -> MassMarked:
        """Mark all entries of these feeds as read; ``ReadingService.undo`` takes it back.

        Raises:
            InvalidError: too many, or not ids.
        """
        require(actor, Permission.ENTRY_MARK)
        now, feeds = clock.now(), some_ids(feed_ids, "feed", FEEDS_MAX)
        marked, cards = self._reads.mark_all(actor.user_id, feeds, None, now + self._undo_ttl)
        self._feeds.touch(cards, now)
        self._events.counts(actor.user_id)
        log.info("marked_feeds", user_id=actor.user_id, feeds=len(feeds), count=marked.count)
        return marked

    def unsubscribe(self, actor: Actor, feed_ids: Sequence[int]) -> tuple[str, int]:
        """End these subscriptions; starred entries stay.

        Returns:
            A token for :meth:`restore`, good for a day, and how many there were.

        Raises:
            InvalidError: too many, or not ids.
        """
        require(actor, Permission.SUBSCRIPTION_EDIT)
        now, feeds = clock.now(), some_ids(feed_ids, "feed", FEEDS_MAX)
        token, gone = self._subscriptions.remove_many(actor.user_id, feeds, now + self._undo_ttl)
        self._websubs.leave_unread(gone, now)
        self._events.follows(actor.user_id, removed=gone)
        log.info("unsubscribed_many", user_id=actor.user_id, count=len(gone))
        return token, len(gone)

    def restore(self, actor: Actor, token: str) -> Returned:
        """Take back an ``unsubscribe`` of many; people who want to be asked by now are.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his.
            TooLargeError: he has as many subscriptions as he may.
        """
        require(actor, Permission.SUBSCRIPTION_EDIT)
        token = a_text(token, "token", most=TOKEN_MAX)
        folders = {folder.id for folder in self._folders.of_user(actor.user_id)}
        done = self._subscriptions.restore_many(actor.user_id, token, folders, clock.now())
        self._notifier.asked(actor.user_id, done.asked)
        self._events.follows(actor.user_id, added=[s.feed_id for s in done.back])
        log.info("resubscribed_many", user_id=actor.user_id, count=len(done.back), asked=len(done.asked))
        return done

    def refresh(self, actor: Actor, feed_ids: Sequence[int]) -> int:
        """Pull those of these feeds that he reads now, people left out; return how many that are.

        Raises:
            InvalidError: too many, or not ids.
            RateLimitedError: he asked too often.
        """
        require(actor, Permission.FEED_REFRESH)
        feeds = some_ids(feed_ids, "feed", FEEDS_MAX)
        mine = [s.feed_id for s in self._subscriptions.of_user(actor.user_id, feeds) if not s.person]
        self._asking.again(actor, mine)
        return len(mine)


def _fits(row: ManagerRow, query: ManagerQuery, now: dt.datetime) -> bool:
    if query.condition is not Condition.ALL and query.condition not in row.conditions(now):
        return False
    if query.folder == LOOSE and row.folder_ids:
        return False
    if query.folder and query.folder not in row.folder_ids:
        return False
    text = f"{row.title} {row.url}".casefold()
    return all(word in text for word in query.words.casefold().split())
