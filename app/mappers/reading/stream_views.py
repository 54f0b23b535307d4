"""Display settings of streams: the collection ``streamviews``, one document per user and stream."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.page_saves import set_if_current
from app.mappers.mongo.store import Doc, Part
from app.mappers.mongo.together import Kept, ListRead
from app.models.accounts.page_save import PageSave
from app.models.cache import CacheKind
from app.models.reading.stream import StreamRef
from app.models.reading.stream_view import FIELDS
from app.runtime import identity_map


class StreamViewMapper:
    """Document ↔ settings that differ from the user's preferences. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._views = cells.get_table("streamviews")

    @translate_errors
    def get(self, user_id: int, ref: StreamRef) -> Mapping[str, str]:
        """Return the stored settings of a stream."""

        def _fetch() -> Mapping[str, str]:
            found = self._views.get(user_id).find_one({"user_id": user_id, "stream": str(ref)})
            return _settings([found] if found else [])

        return identity_map.find_once("streamviews", "of", (user_id, str(ref)), _fetch)

    def plan(self, user_id: int, ref: StreamRef) -> ListRead:
        """Return the read of :meth:`get`, to be sent with others."""
        part = Part(
            self._views.get(user_id), [{"$match": {"user_id": user_id, "stream": str(ref)}}], "user_stream"
        )
        kept = Kept(CacheKind.STREAM_VIEWS, user_id, [{"$match": {"user_id": user_id}}])

        def parse(docs: Sequence[Doc]) -> Mapping[str, str]:
            return _settings([doc for doc in docs if doc["stream"] == str(ref)])

        return ListRead(part, "of", (user_id, str(ref)), parse, kept)

    @translate_errors
    def set(
        self,
        user_id: int,
        ref: StreamRef,
        changes: Mapping[str, str],
        now: dt.datetime,
        save: PageSave | None = None,
    ) -> bool:
        """Store changes of settings, unless a later save of the same page came first.

        Returns:
            Whether the stream had none before.
        """
        fields: Doc = {**changes, "at": now}
        update = [{"$set": set_if_current(fields, save)}] if save else {"$set": fields}
        result = self._views.get(user_id).update_one(
            {"user_id": user_id, "stream": str(ref)}, update, upsert=True
        )
        return result.upserted_id is not None

    @translate_errors
    def trim_oldest(self, user_id: int, limit: int) -> None:
        """Delete the settings changed longest ago, keeping ``limit`` streams."""
        old = (
            self._views.get(user_id)
            .find({"user_id": user_id}, {"_id": 0, "stream": 1})
            .sort("at", -1)
            .skip(limit)
        )
        streams = [doc["stream"] for doc in old]
        if streams:
            self._views.get(user_id).delete_many({"user_id": user_id, "stream": {"$in": streams}})


def _settings(docs: Sequence[Doc]) -> Mapping[str, str]:
    return {name: doc[name] for doc in docs for name in FIELDS if name in doc}
