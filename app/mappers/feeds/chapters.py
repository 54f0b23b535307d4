"""Chapters that were fetched from files of their own: the collection ``chapters``.

    {_id: key of the file's address, rows: [[second, title], …], expires}

A file that couldn't be read has no rows until it expires, so that nothing fetches it at every opening.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson import Binary
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.chapters import Chapter


class ChapterMapper:
    """Document ↔ :class:`Chapter` of one file."""

    def __init__(self, database: Database[Doc]) -> None:
        self._chapters: Collection[Doc] = database["chapters"]

    @translate_errors
    def find(self, key: bytes, now: dt.datetime) -> list[Chapter] | None:
        """Return the chapters of a file; None: it wasn't fetched lately."""
        doc = self._chapters.find_one({"_id": Binary(key), "expires": {"$gt": now}})
        return [Chapter(second, title) for second, title in doc["rows"]] if doc else None

    @translate_errors
    def store_chapters(self, key: bytes, chapters: Sequence[Chapter], expires: dt.datetime) -> None:
        """Store the chapters of a file until they expire."""
        change = {"rows": [list(chapter) for chapter in chapters], "expires": expires}
        self._chapters.update_one({"_id": Binary(key)}, {"$set": change}, upsert=True)
