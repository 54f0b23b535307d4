"""The entries that a feed listed at its last fetch, as their hashes tell."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from app.feeds.entry_hashes import HALF, KEY, ROW

#: Separates, in ``Diff.guids``, the listed entries' guids from those of entries that left the document.
AWAY = bytes(HALF)
#: Fewer known links and titles than this can't show that guids change at each fetch.
FEWEST = 2


def split_rows(seen: bytes) -> list[bytes]:
    """Return the rows of ``seen``, 16 bytes each."""
    return [seen[at : at + ROW] for at in range(0, len(seen) - ROW + 1, ROW)]


def has_enough_known(known: int, total: int) -> bool:
    """Return whether enough entries (more than a tenth) are known to prove that the guids didn't change."""
    return 10 * known > total


class KnownEntries:
    """The rows of the last fetch, by identity, by key and by the feed's own guid (``guids``)."""

    def __init__(self, seen: bytes, guids: bytes = b"") -> None:
        self._rows = split_rows(seen)
        self.by_guid = {row[HALF:]: row for row in self._rows}
        last = [guids[at : at + HALF] for at in range(0, len(guids), HALF)]
        self._listed = last.index(AWAY) if AWAY in last else len(self._rows)
        self._guids = last[: self._listed] + last[self._listed + 1 :]

    @functools.cached_property
    def aliases(self) -> list[tuple[bytes, bytes]]:
        """Each row with the guid under which the feed last listed its entry."""
        return list(zip(self._rows, self._guids or self.by_guid, strict=False))

    @functools.cached_property
    def by_alias(self) -> dict[bytes, bytes]:
        """The rows by the guids in :attr:`aliases`; of two with the same guid, the first row."""
        if not self._guids:
            return self.by_guid
        return {guid: row for row, guid in reversed(self.aliases)}

    @functools.cached_property
    def by_key(self) -> dict[bytes, bytes]:
        """The rows of listed entries by key; a key that several entries share identifies none of them."""
        rows = self._rows[: self._listed]
        counts = Counter(row[:KEY] for row in rows)
        return {row[:KEY]: row for row in rows if counts[row[:KEY]] == 1}

    @functools.cached_property
    def by_body(self) -> dict[bytes, bytes]:
        """The guids by everything shown but the link; a body that several entries share identifies none.

        An entry that came back under another link has a row among the listed entries and one among the
        unlisted entries. The listed row counts.
        """
        bodies = [row[KEY:HALF] for row, _ in self.aliases]
        listed, away = Counter(bodies[: self._listed]), Counter(bodies[self._listed :])
        return {
            body: guid
            for body, (row, guid) in reversed(list(zip(bodies, self.aliases, strict=True)))
            if (listed[body] or away[body]) == 1 and self.by_alias[guid] == row
        }

    @functools.cached_property
    def unlisted(self) -> dict[bytes, bytes]:
        """The rows of entries that left the document, by content."""
        return {row[:HALF]: row for row in self._rows[self._listed :]}

    def find_by_text(self, lasting: bytes, content: bytes) -> bytes | None:
        """Return the row of an entry whose guid can't identify it."""
        row = self.by_guid.get(lasting)
        if row is None or self.unlisted.get(row[:HALF]) == row:
            row = self.by_key.get(content[:KEY])
        return row or self.unlisted.get(content)

    def is_known_by_guid(self, guid: bytes, content: bytes) -> bool:
        """Return whether the entry known by this guid has the same link and title."""
        return guid in self.by_guid and self.by_guid[guid][:KEY] == content[:KEY]

    def has_stable_guids(self, own: Sequence[bytes], keys: Sequence[bytes]) -> bool:
        """Return whether half of the entries, or of the listed ones, have the guids of the last fetch.

        Changed titles and links are fine, unless an entry has the link and title of another one.
        """
        listed = {row[:KEY] for row in self._rows[: self._listed]}
        pairs = [
            (self.by_alias[guid][:KEY], key)
            for guid, key in zip(own, keys, strict=True)
            if guid in self.by_alias
        ]
        is_true = all(was == key or key not in listed for was, key in pairs)
        same = sum(is_true or was == key for was, key in pairs)
        return same >= FEWEST and 2 * same >= min(len(own), self._listed)
