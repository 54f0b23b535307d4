"""What is remembered of how a user looks at his streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from app.mappers.reading.stream_views import StreamViewMapper
from app.models.reading.stream import StreamRef


class StreamViewGateway:
    """Keeps views of streams, of each user at most ``most``."""

    def __init__(self, views: StreamViewMapper, *, limit: int) -> None:
        self._views = views
        self._most = limit

    def get(self, user_id: int, ref: StreamRef) -> Mapping[str, str]:
        """Return what is kept of a stream."""
        return self._views.get(user_id, ref)

    def set(self, user_id: int, ref: StreamRef, changes: Mapping[str, str], now: dt.datetime) -> None:
        """Keep changes; what was changed longest ago makes room."""
        if self._views.set(user_id, ref, changes, now):
            self._views.trim_oldest(user_id, self._most)
