"""Readers who see small pictures in their lists, and the newest pictures of feeds for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from pymongo.collection import Collection as Table

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc

_CARD = "card"


class CardReaderMapper:
    """Reads sessions, preferences and views of many users at once, and pictures of entries."""

    def __init__(self, cells: Cells) -> None:
        database = cells.home.database
        self._sessions: Table[Doc] = database["sessions"]
        self._users: Table[Doc] = database["users"]
        self._views = cells.get_table("streamviews")
        self._entries: Table[Doc] = database["entries"]

    @translate_errors
    def filter_active(self, user_ids: Collection[int], since: dt.datetime) -> set[int]:
        """Return those of these users who have used a browser since then, and see pictures through here."""
        query = {"user_id": {"$in": list(user_ids)}, "seen": {"$gte": since}}
        active = {doc["user_id"] for doc in self._sessions.find(query, {"_id": 0, "user_id": 1})}
        # Only choices that differ from the defaults are stored.
        shown = {"_id": {"$in": list(active)}, "settings.images": {"$in": [None, "eventr"]}, "leaving": None}
        return {doc["_id"] for doc in self._users.find(shown, {"_id": 1})} if active else set()

    @translate_errors
    def find_card_streams(self, user_ids: Collection[int]) -> dict[int, set[str]]:
        """Return the streams that users see as cards, by user; "" stands for the preference for all."""
        users = {"$in": list(user_ids)}
        streams: dict[int, set[str]] = {}
        for doc in self._users.find({"_id": users, "settings.density": _CARD}, {"_id": 1}):
            streams.setdefault(doc["_id"], set()).add("")
        shown = {"_id": 0, "user_id": 1, "stream": 1}
        for views, people in self._views.group_by_people(user_ids):
            for doc in views.find({"user_id": {"$in": people}, "density": _CARD}, shown):
                streams.setdefault(doc["user_id"], set()).add(doc["stream"])
        return streams

    @translate_errors
    def find_newest(self, feed_id: int, count: int) -> list[tuple[int, str, str | None]]:
        """Return id, picture and page of those of a feed's newest ``count`` entries that have a picture."""
        found = self._entries.find({"feed_id": feed_id}, {"image": 1, "url": 1}).sort("seq", -1).limit(count)
        return [(doc["_id"], doc["image"], doc.get("url")) for doc in found if doc.get("image")]
