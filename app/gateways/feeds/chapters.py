"""Chapters of episodes in files of their own: which file an entry names, and what was in it."""

from __future__ import annotations

import datetime as dt
import hashlib

from app.feeds.parse.chapters import parse_chapters
from app.mappers.feeds.chapters import ChapterMapper
from app.models.feeds.chapters import Chapter
from app.models.feeds.parsed import FileRole
from app.models.media.recordings import list_recordings
from app.models.reading.entry import Entry

#: Time until a file is fetched again: after a success, and after a failure.
KEPT, RETRY = dt.timedelta(days=7), dt.timedelta(hours=1)


class ChapterGateway:
    """Finds and stores chapters."""

    def __init__(self, chapters: ChapterMapper) -> None:
        self._chapters = chapters

    def find_file(self, entry: Entry) -> str | None:
        """Return the address of an entry's file of chapters; None without one, or without one recording."""
        if len(list_recordings(entry)) != 1:
            return None
        files = (file.url for file in entry.enclosures if file.role is FileRole.CHAPTERS)
        return next((url for url in files if url.startswith(("https://", "http://"))), None)

    def find(self, url: str, now: dt.datetime) -> list[Chapter] | None:
        """Return the chapters in the file at an address; None: it has to be fetched."""
        return self._chapters.find(_make_key(url), now)

    def store_chapters(self, url: str, body: bytes | None, now: dt.datetime) -> list[Chapter]:
        """Store and return what is in a file; None: it couldn't be fetched."""
        found = parse_chapters(body) if body else []
        self._chapters.store_chapters(_make_key(url), found, now + (KEPT if found else RETRY))
        return found


def _make_key(url: str) -> bytes:
    return hashlib.sha256(url.encode()).digest()[:16]
