"""Positions in recordings: how many are kept, and for how long."""

from __future__ import annotations

import datetime as dt

from app.mappers.reading.playback import PlaybackMapper
from app.models.reading.playback import PlayPosition


class PlaybackGateway:
    """Stores positions.

    Args:
        limit: positions per user; a further one replaces the oldest.
        days: after which a position is forgotten.
    """

    def __init__(self, positions: PlaybackMapper, *, limit: int, days: int) -> None:
        self._positions = positions
        self._limit, self._life = limit, dt.timedelta(days=days)

    def record(self, user_id: int, position: PlayPosition) -> None:
        """Store a position; above the limit, delete the oldest."""
        if self._positions.save(user_id, position, position.at + self._life):
            self._positions.trim_oldest(user_id, self._limit)

    def find_start(self, user_id: int, url: str) -> int:
        """Return the second from which a recording continues: 0 if it is new or was heard to its end."""
        found = self._positions.find(user_id, url)
        return found.seconds if found and not found.is_finished else 0

    def list_positions(self, user_id: int) -> list[PlayPosition]:
        """Return all positions of a user, the latest first."""
        return self._positions.list_latest(user_id, self._limit)
