"""The history of what can be taken back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from app.mappers.feeds import FeedMapper
from app.mappers.removals import RemovalMapper
from app.mappers.snapshots import UndoMapper
from app.models.history import ActionKind, MassAction
from app.models.removal import Removal


class UndoGateway:
    """Reads and writes the collections ``undos`` and ``removals`` for the history."""

    def __init__(self, undos: UndoMapper, removals: RemovalMapper, feeds: FeedMapper) -> None:
        self._undos = undos
        self._removals = removals
        self._feeds = feeds

    def note(self, user_id: int, action: MassAction) -> None:
        """Put a mass action, whose undo is kept already, into the history."""
        self._undos.note(user_id, action.undo, action)

    def history(self, user_id: int, now: dt.datetime, ttl: dt.timedelta) -> list[MassAction]:
        """Return what can be taken back, the newest first."""
        removals = self._removals.of_user(user_id, now)
        feeds = [r.subscription.feed_id for r, _ in removals if r.subscription and not r.subscription.title]
        cards = self._feeds.cards(feeds)
        titles = {f: card.title or card.url for f, card in cards.items()}
        removed = [_removed(removal, expires - ttl, titles) for removal, expires in removals]
        return sorted([*self._undos.actions(user_id, now), *removed], key=lambda a: a.at, reverse=True)


def _removed(removal: Removal, at: dt.datetime, titles: Mapping[int, str]) -> MassAction:
    if removal.folder:
        return MassAction(f"folder.{removal.token}", ActionKind.FOLDER, removal.folder.name, 0, at)
    was = removal.subscription
    name = (was.title or titles.get(was.feed_id, "")) if was else ""
    return MassAction(f"feed.{removal.token}", ActionKind.FEED, name, 0, at)
