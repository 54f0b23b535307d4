"""The history of what can be taken back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from app.mappers.feeds import FeedMapper
from app.mappers.removals import MANY, RemovalMapper
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
        together: dict[str, list[tuple[Removal, dt.datetime]]] = {}
        for removal, expires in removals:
            together.setdefault(removal.token.partition(MANY)[0], []).append((removal, expires - ttl))
        removed = [_removed(token, some, titles) for token, some in together.items()]
        return sorted([*self._undos.actions(user_id, now), *removed], key=lambda a: a.at, reverse=True)


def _removed(
    token: str, some: Sequence[tuple[Removal, dt.datetime]], titles: Mapping[int, str]
) -> MassAction:
    removal, at = some[0]
    if removal.token != token:
        return MassAction(f"feeds.{token}", ActionKind.FEEDS, "", len(some), at)
    if removal.folder:
        return MassAction(f"folder.{token}", ActionKind.FOLDER, removal.folder.name, 0, at)
    if removal.search:
        return MassAction(f"search.{token}", ActionKind.SEARCH, removal.search.name, 0, at)
    if removal.moved:
        return MassAction(f"place.{token}", ActionKind.MOVED_FOLDER, removal.moved.name, 0, at)
    was = removal.subscription
    if was is None:
        return MassAction(f"place.{token}", ActionKind.MOVED, "", len(removal.places), at)
    return MassAction(f"feed.{token}", ActionKind.FEED, was.title or titles.get(was.feed_id, ""), 0, at)
