"""Trends: the most shared entries, and people who read the same feeds."""

from __future__ import annotations

import dataclasses

from app import clock
from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.sharing.trends import TrendGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.feed_search import parse_query
from app.models.reading.stream import EntryRow
from app.models.sharing.trends import FoundPerson, SimilarReader, Trend, TrendRow
from app.services.access import require_permission
from app.services.reading.pages import build_row

#: People in a list of similar readers.
PEOPLE = 20


class TrendService:
    """Lists the most shared entries, and similar readers."""

    def __init__(
        self,
        trends: TrendGateway,
        subscriptions: SubscriptionGateway,
        streams: StreamGateway,
        tags: TagGateway,
    ) -> None:
        self._trends, self._subscriptions = trends, subscriptions
        self._streams, self._tags = streams, tags

    def list_top(self, actor: Actor) -> list[Trend]:
        """Return the currently most shared entries, as far as the actor may see them."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._trends.list_top(actor.user_id, clock.now())

    def list_rows(self, actor: Actor, limit: int) -> list[EntryRow]:
        """Return the most shared entries as rows of a list."""
        return [one.row for one in self.list_with_rows(actor, limit)]

    def list_with_rows(self, actor: Actor, limit: int | None = None) -> list[TrendRow]:
        """Return the most shared entries beside their rows: the entry itself if it's in the actor's feeds,
        else its latest share.

        Args:
            limit: the most entries to return; None: as configured.
        """
        require_permission(actor, Permission.ENTRY_READ)
        found = self._trends.list_top(actor.user_id, clock.now(), limit)
        if not found:
            return []
        feed_ids = list({one.entry.feed_id for one in found})
        mine = self._subscriptions.find_by_user(actor.user_id, feed_ids)
        sources = self._streams.load_sources(mine, extra_feed_ids=feed_ids)
        marks = self._tags.find_marks(actor.user_id, [one.entry.id for one in found])
        rows = []
        for one in found:
            starred = one.entry.id in marks and marks[one.entry.id].starred
            row = build_row(one.entry, sources, starred, (), one.sharers)
            row = row if row.markable else dataclasses.replace(row, id=one.sharers[0].share_id)
            rows.append(TrendRow(one, row))
        return rows

    def list_public(self, rows: int) -> list[Trend]:
        """Return at most ``rows`` of the most shared public entries, for strangers."""
        return self._trends.list_top(None, clock.now(), rows)

    def find_people(self, actor: Actor, text: str) -> list[FoundPerson]:
        """Return people whose names have words that begin like these, if they and the actor opted in."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        words = parse_query(text)
        return self._trends.find_people(actor.user_id, words, PEOPLE) if words else []

    def list_similar_readers(self, actor: Actor) -> list[SimilarReader]:
        """Return people who read the same feeds, if they and the actor both opted in."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        feed_ids = self._subscriptions.find_feed_ids(actor.user_id)
        return self._trends.list_similar_readers(actor.user_id, feed_ids, PEOPLE)
