"""Trends: the most shared entries, and people who read the same feeds."""

from __future__ import annotations

from app import clock
from app.gateways.sharing.trends import TrendGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.sharing.trends import SimilarReader, Trend
from app.services.access import require_permission

#: People in a list of similar readers.
PEOPLE = 20


class TrendService:
    """Lists the most shared entries, and similar readers."""

    def __init__(self, trends: TrendGateway, subscriptions: SubscriptionGateway) -> None:
        self._trends, self._subscriptions = trends, subscriptions

    def list_top(self, actor: Actor) -> list[Trend]:
        """Return the currently most shared entries, as far as the actor may see them."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._trends.list_top(actor.user_id, clock.now())

    def list_public(self, rows: int) -> list[Trend]:
        """Return at most ``rows`` of the most shared public entries, for strangers."""
        return self._trends.list_top(None, clock.now(), rows)

    def list_similar_readers(self, actor: Actor) -> list[SimilarReader]:
        """Return people who read the same feeds, if they and the actor both opted in."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        feed_ids = self._subscriptions.find_feed_ids(actor.user_id)
        return self._trends.list_similar_readers(actor.user_id, feed_ids, PEOPLE)
