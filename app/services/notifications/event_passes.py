"""Lets a browser listen to what happens while its page is open."""

from __future__ import annotations

from app.errors import AuthRequiredError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.tokens import TokenGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Token
from app.models.accounts.user import Session
from app.ports import EventPort
from app.services.access import require


class LiveService:
    """Hands out passes to the stream of events."""

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        accounts: AccountGateway,
        tokens: TokenGateway,
        events: EventPort,
    ) -> None:
        self._subscriptions, self._accounts, self._tokens = subscriptions, accounts, tokens
        self._events = events

    def admit(self, actor: Actor, by: Session | Token) -> str:
        """Return a pass with which a browser of the actor may listen; it holds for a minute.

        Args:
            by: what he has come with.

        Raises:
            AuthRequiredError: that has just ended.
            StoreError: MongoDB or Redis does not answer.
        """
        require(actor, Permission.SUBSCRIPTION_SEE)
        # The place first: what he subscribes to while his feeds are read lies behind it.
        at = self._events.position()
        # An end that was told before this place is no news behind it; so it is looked at once more.
        if isinstance(by, Token):
            lives = self._tokens.lives(actor.user_id, by.id)
        else:
            lives = self._accounts.lives(by.key, actor.user_id)
        if not lives:
            raise AuthRequiredError
        return self._events.admit(actor.user_id, self._subscriptions.feed_ids(actor.user_id), at)
