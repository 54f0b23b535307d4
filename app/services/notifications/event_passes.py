"""Passes with which a browser opens its stream of events."""

from __future__ import annotations

from app.errors import AuthRequiredError
from app.gateways.accounts.sessions import SessionGateway
from app.gateways.accounts.tokens import TokenGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Token
from app.models.accounts.user import Session
from app.ports import EventPort
from app.runtime import identity_map
from app.services.access import require_permission


class EventPassService:
    """Issues passes for the stream of events."""

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        sessions: SessionGateway,
        tokens: TokenGateway,
        events: EventPort,
    ) -> None:
        self._subscriptions, self._sessions, self._tokens = subscriptions, sessions, tokens
        self._events = events

    def create_pass(self, actor: Actor, credential: Session | Token) -> str:
        """Return a pass for the actor's stream of events; the pass is valid for a minute.

        Args:
            credential: the session or token of this request.

        Raises:
            AuthRequiredError: the session or token has just ended.
            StoreError: MongoDB or Redis does not answer.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        # Read the position first: subscriptions added while the feed ids are read come after it.
        at = self._events.get_position()
        # A logout published before this position is not repeated after it, so check again here.
        with identity_map.bypass():
            if isinstance(credential, Token):
                lives = self._tokens.is_token_alive(actor.user_id, credential.id)
            else:
                lives = self._sessions.is_session_alive(credential.key, actor.user_id)
            if not lives:
                raise AuthRequiredError
            feed_ids = self._subscriptions.find_feed_ids(actor.user_id)
        return self._events.issue_pass(actor.user_id, feed_ids, at)
