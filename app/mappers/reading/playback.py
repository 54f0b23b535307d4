"""Positions in recordings: the collection ``playback``, one document per user and recording."""

from __future__ import annotations

import datetime as dt

from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.reading.playback import PlayPosition, name_recording


class PlaybackMapper:
    """Document ↔ :class:`PlayPosition`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._positions = cells.get_table("playback")

    @translate_errors
    def find(self, user_id: int, url: str) -> PlayPosition | None:
        """Return a user's position in a recording."""
        found = self._positions.get(user_id).find_one({"user_id": user_id, "file": name_recording(url)})
        return _read(found) if found else None

    @translate_errors
    def list_latest(self, user_id: int, limit: int) -> list[PlayPosition]:
        """Return a user's positions, the latest first."""
        found = self._positions.get(user_id).find({"user_id": user_id}).sort("at", -1).limit(limit)
        return list(map(_read, found))

    @translate_errors
    def save(self, user_id: int, position: PlayPosition, expires: dt.datetime) -> bool:
        """Store a position unless there is a newer one; return whether there was none before."""
        change = {
            "entry_id": position.entry_id,
            "url": position.url,
            "seconds": position.seconds,
            "duration": position.duration,
            "at": position.at,
            "expires": expires,
        }
        key = {"user_id": user_id, "file": name_recording(position.url), "at": {"$lte": position.at}}
        try:
            result = self._positions.get(user_id).update_one(key, {"$set": change}, upsert=True)
        except DuplicateKeyError:
            return False  # a newer one was faster
        return result.upserted_id is not None

    @translate_errors
    def trim_oldest(self, user_id: int, limit: int) -> None:
        """Delete the oldest positions, keeping ``limit``."""
        old = (
            self._positions.get(user_id)
            .find({"user_id": user_id}, {"_id": 0, "file": 1})
            .sort("at", -1)
            .skip(limit)
        )
        if files := [doc["file"] for doc in old]:
            self._positions.get(user_id).delete_many({"user_id": user_id, "file": {"$in": files}})


def _read(doc: Doc) -> PlayPosition:
    return PlayPosition(
        entry_id=doc["entry_id"],
        url=doc["url"],
        seconds=doc["seconds"],
        duration=doc["duration"],
        at=doc["at"],
    )
