"""The history of actions that can be undone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.snapshots import UndoMapper
from app.mappers.subscriptions.undo import MANY, RemovalMapper
from app.models.reading.history import ActionKind, HistoryCursor, HistoryPage, MassAction
from app.models.subscriptions.undo import Removal


class UndoHistoryGateway:
    """Records actions in the collection ``undos``, and lists them with those in ``removals``."""

    def __init__(self, undos: UndoMapper, removals: RemovalMapper, feeds: FeedMapper) -> None:
        self._undos = undos
        self._removals = removals
        self._feeds = feeds

    def record_action(self, user_id: int, action: MassAction) -> None:
        """Add a mass action whose undo is already stored to the history."""
        self._undos.set_action(user_id, action.undo, action)

    def list_history(
        self, user_id: int, now: dt.datetime, ttl: dt.timedelta, limit: int, after: HistoryCursor | None
    ) -> HistoryPage:
        """Return a page of the actions that can be undone, newest first."""
        end = (after.at + ttl, after.token) if after else None
        removals = self._removals.find_newest(user_id, now, limit + 1, end)
        feeds = [r.subscription.feed_id for r, *_ in removals if r.subscription and not r.subscription.title]
        titles = {f: card.title or card.url for f, card in self._feeds.find_cards(feeds).items()}
        removed = [_removed(removal, count, expires - ttl, titles) for removal, count, expires in removals]
        done = [*self._undos.find_actions(user_id, now, limit + 1, after), *removed]
        done.sort(key=lambda action: action.cursor, reverse=True)
        page = tuple(done[:limit])
        return HistoryPage(page, page[-1].cursor if len(done) > limit else None)


def _removed(removal: Removal, count: int, at: dt.datetime, titles: Mapping[int, str]) -> MassAction:
    token, many, _feed = removal.token.partition(MANY)
    if many:
        return MassAction(f"feeds.{token}", ActionKind.FEEDS, "", count, at)
    if removal.folder:
        return MassAction(f"folder.{token}", ActionKind.FOLDER, removal.folder.name, 0, at)
    if removal.search:
        return MassAction(f"search.{token}", ActionKind.SEARCH, removal.search.name, 0, at)
    if removal.share:
        return MassAction(f"share.{token}", ActionKind.SHARE, removal.title, 0, at)
    if removal.note:
        return MassAction(f"note.{token}", ActionKind.NOTE, "", 0, at)
    if removal.page:
        return MassAction(f"page.{token}", ActionKind.PAGE, removal.page.get("title", ""), 0, at)
    if removal.moved:
        return MassAction(f"place.{token}", ActionKind.MOVED_FOLDER, removal.moved.name, 0, at)
    was = removal.subscription
    if was is None:
        return MassAction(f"place.{token}", ActionKind.MOVED, "", len(removal.places), at)
    return MassAction(f"feed.{token}", ActionKind.FEED, was.title or titles.get(was.feed_id, ""), 0, at)
