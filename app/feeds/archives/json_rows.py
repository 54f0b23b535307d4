"""Rows of a long JSON document, one after the other: the document is never in memory as a whole."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from app.errors import InvalidError
from app.feeds.archives.unpack import PIECE, Readable, build_damage_error
from app.feeds.archives.values import HALVES, replace_halves

#: Longest row, characters: an entry with its text.
ROW_MAX: Final = 16 << 20
#: Start of the list in an object: of Google Reader's format, of tt-rss and of Miniflux. No text can contain
#: it unescaped.
_ITEMS = re.compile(r'[{,]\s*"(?:items|articles|entries)"\s*:\s*\[')
#: Longest text before the list.
_HEAD_MAX: Final = 64 << 10
_SPACE = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()


def iter_rows(source: Readable) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array, or of the array ``items``, ``articles`` or ``entries`` of an object.

    Raises:
        InvalidError: the document is damaged, cut off, or something else.
    """
    text = _Text(source)
    text.skip_head()
    while (row := text.read_row()) is not None:
        if isinstance(row, dict):
            yield row


class _Text:
    def __init__(self, source: Readable) -> None:
        self._source = source
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._text, self._at, self._ended = "", 0, False

    def _read_more(self, size: int) -> bool:
        """Read at least ``size`` characters more, if there are any; return whether there were."""
        parts, count = [self._text[self._at :]], 0
        while count < size and not self._ended:
            piece = self._source.read(PIECE)
            self._ended = not piece
            parts.append(self._decode(piece, self._ended))
            count += len(parts[-1])
        self._text, self._at = "".join(parts), 0
        return count > 0

    def skip_head(self) -> None:
        """Skip everything before the first row."""
        self._read_more(_HEAD_MAX)
        start = len(self._text) - len(self._text.lstrip())
        if self._text[start : start + 1] == "[":
            self._at = start + 1
        elif found := _ITEMS.search(self._text):
            self._at = found.end()
        else:
            raise _build_error()

    def read_row(self) -> Any:
        """Return the next row, None at the end of the list."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                break
            if not self._read_more(PIECE):
                raise build_damage_error()  # the list has no end
        if self._text[self._at] == "]":
            return None
        while True:
            try:
                row, self._at = _decode(self._text, self._at)
            except RecursionError as e:
                raise _build_error() from e
            except ValueError as e:
                # Either the row isn't complete yet, or it is damaged. Twice as much each time.
                have = len(self._text) - self._at
                if have > ROW_MAX or not self._read_more(max(PIECE, have)):
                    raise build_damage_error() from e
            else:
                return row if row is not None else {}


def _decode(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at a place of a text, without halves of characters, and its end."""
    row, end = _decoder.raw_decode(text, at)
    return (replace_halves(row) if HALVES.search(text, at, end) else row), end


def _build_error() -> InvalidError:
    return InvalidError("A file in this archive isn't a list of entries that Eventr knows.")
