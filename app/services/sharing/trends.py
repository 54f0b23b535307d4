"""Finding people and articles by what others share and read."""

from __future__ import annotations

from app import clock
from app.gateways.sharing.trends import TrendGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.sharing.trends import SimilarReader, Trend
from app.services.access import require_permission

#: People shown.
PEOPLE = 20


class TrendService:
    """What is shared most, and people who read alike."""

    def __init__(self, trends: TrendGateway, subscriptions: SubscriptionGateway) -> None:
        self._trends, self._subscriptions = trends, subscriptions

    def list_top(self, actor: Actor) -> list[Trend]:
        """Return what everybody shares most at the moment, as far as the actor may see it."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._trends.list_top(actor.user_id, clock.now())

    def list_public(self, rows: int) -> list[Trend]:
        """Return so many at most of what is shared most with everybody; for strangers."""
        return self._trends.list_top(None, clock.now(), rows)

    def list_similar_readers(self, actor: Actor) -> list[SimilarReader]:
        """Return people who read the same feeds; only those who want to be found, to who wants it too."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        feed_ids = self._subscriptions.find_feed_ids(actor.user_id)
        return self._trends.list_similar_readers(actor.user_id, feed_ids, PEOPLE)
