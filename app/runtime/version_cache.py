"""A cache of decoded documents that keeps only the last version of each, in a limited number of bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")

#: Where an ``_id`` of eight bytes is in a document that starts with it. Another layout only costs hits: the
#: whole documents are compared.
_ID = slice(4, 17)


class VersionCache(Generic[V]):
    """The decoded form of the documents used last; threads may share it.

    A cache by all bytes of a document would also keep the versions that nobody asks for again, until newer
    ones of all documents push them out. Here a new version replaces the one before.

    Documents are kept in two generations. When the recent one has half of the bytes, it becomes the older
    one, and the older one is dropped. So a hit costs two lookups at most, and no order of use is maintained.

    Args:
        decode: Decodes the bytes of a document.
        bytes_max: Most bytes in the cache: the documents, and an estimate of their decoded forms.
        spare: Bytes that a decoded form and its place in the cache take besides twice its document's bytes.
    """

    def __init__(self, decode: Callable[[bytes], V], *, bytes_max: int, spare: int) -> None:
        self._decode = decode
        self._half = bytes_max // 2
        self._spare = spare
        self._lock = threading.Lock()
        self._recent: dict[bytes, tuple[bytes, V]] = {}
        self._older: dict[bytes, tuple[bytes, V]] = {}
        self._recent_bytes = self._older_bytes = 0

    @property
    def size(self) -> int:
        """Estimated bytes of the kept documents."""
        return self._recent_bytes + self._older_bytes

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def decode(self, raw: bytes) -> V:
        """Return the decoded form of a document, the same object for the same bytes while it is kept."""
        found = self._recent.get(raw[_ID])
        if found is not None and found[0] == raw:
            return found[1]
        return self._renew(raw[_ID], raw)

    def _renew(self, key: bytes, raw: bytes) -> V:
        older = self._older.get(key)
        value = older[1] if older is not None and older[0] == raw else self._decode(raw)
        weight = self._weigh(raw)
        with self._lock:
            if (older := self._older.pop(key, None)) is not None:
                self._older_bytes -= self._weigh(older[0])
            if (before := self._recent.pop(key, None)) is not None:
                self._recent_bytes -= self._weigh(before[0])
            if weight > self._half:
                return value
            if self._recent_bytes + weight > self._half:
                self._older, self._older_bytes = self._recent, self._recent_bytes
                self._recent, self._recent_bytes = {}, 0
            self._recent[key] = raw, value
            self._recent_bytes += weight
        return value

    def _weigh(self, raw: bytes) -> int:
        return 3 * len(raw) + self._spare
