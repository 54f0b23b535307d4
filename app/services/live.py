"""Lets a browser listen to what happens while its page is open."""

from __future__ import annotations

from app.gateways.subscriptions import SubscriptionGateway
from app.models.actor import Actor, Permission
from app.ports import EventPort
from app.services.access import require


class LiveService:
    """Hands out passes to the stream of events."""

    def __init__(self, subscriptions: SubscriptionGateway, events: EventPort) -> None:
        self._subscriptions = subscriptions
        self._events = events

    def admit(self, actor: Actor) -> str:
        """Return a pass with which a browser of the actor may listen; it holds for a minute.

        Raises:
            StoreError: MongoDB or Redis does not answer.
        """
        require(actor, Permission.SUBSCRIPTION_SEE)
        # The place first: what he subscribes to while his feeds are read lies behind it.
        at = self._events.position()
        return self._events.admit(actor.user_id, self._subscriptions.feed_ids(actor.user_id), at)
