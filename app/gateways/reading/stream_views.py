"""Stored display settings of a user's streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from app.mappers.reading.stream_views import StreamViewMapper
from app.models.accounts.page_save import PageSave
from app.models.reading.stream import StreamRef


class StreamViewGateway:
    """Stores the display settings of streams, at most ``limit`` per user."""

    def __init__(self, views: StreamViewMapper, *, limit: int) -> None:
        self._views = views
        self._most = limit

    def get(self, user_id: int, ref: StreamRef) -> Mapping[str, str]:
        """Return the stored settings of a stream."""
        return self._views.get(user_id, ref)

    def set(
        self,
        user_id: int,
        ref: StreamRef,
        changes: Mapping[str, str],
        now: dt.datetime,
        save: PageSave | None = None,
    ) -> None:
        """Store changes, unless a later save of the same page came first.

        Above the limit, delete the settings changed longest ago.
        """
        if self._views.set(user_id, ref, changes, now, save):
            self._views.trim_oldest(user_id, self._most)
