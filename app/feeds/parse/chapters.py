"""Chapters of an episode in a file of their own: the JSON of ``podcast:chapters``. Pure.

The file comes from a foreign server, so everything in it is checked. Its pictures and links aren't used.
"""

from __future__ import annotations

import itertools
import json

from app.feeds.parse.draft import MOST_CHAPTERS
from app.models.feeds.chapters import CHAPTERS_BYTES, Chapter
from app.models.names import to_one_line

#: Longest title, characters.
_TITLE = 200
#: The last second at which a chapter may begin.
_LATEST = 10 * 86400


def parse_chapters(body: bytes) -> list[Chapter]:
    """Return the chapters in a file by their time, without those outside of the table of contents.

    Whatever isn't a chapter is left out; a file that isn't one of chapters has none.
    """
    if len(body) > CHAPTERS_BYTES:
        return []
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return []
    rows = found.get("chapters") if isinstance(found, dict) else None
    chapters: dict[int, Chapter] = {}
    for row in itertools.islice(rows if isinstance(rows, list) else (), MOST_CHAPTERS):
        if isinstance(row, dict) and (chapter := _read(row)):
            chapters.setdefault(chapter.second, chapter)
    return sorted(chapters.values())


def _read(row: dict[str, object]) -> Chapter | None:
    start, title = row.get("startTime"), row.get("title")
    is_time = isinstance(start, int | float) and not isinstance(start, bool) and 0 <= start <= _LATEST
    if not is_time or not isinstance(title, str) or row.get("toc") is False:
        return None
    line = to_one_line(title, _TITLE)
    return Chapter(int(start), line) if line else None  # type: ignore[call-overload]
