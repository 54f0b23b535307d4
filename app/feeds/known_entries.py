"""The entries that a feed listed at its last fetch, as their hashes tell."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence

from app.feeds.entry_hashes import HALF, KEY, PLACE, ROW, hash_former_name
from app.models.feeds.parsed import ParsedEntry

#: Signs of a query, fragment or session: earlier versions made other keys of links with them.
_MARKS = re.compile(r"[?#;]")
#: Separates, in ``seen``, the rows of listed entries from those of entries that left a shorter document.
GONE = bytes(ROW)
#: Begins the row of a link behind which one entry follows the other; its identity follows.
SHARED = bytes(KEY) + b"next"
#: Begins the last row of ``seen`` if links changed in their queries alone: the keys of two of them follow.
_COUNTED = bytes(HALF)
#: Most rows of entries that left.
REMEMBERED = 500
#: Separates, in ``Diff.guids``, the listed entries' guids from those of entries that left the document.
AWAY = bytes(HALF)
#: Fewer known links and titles than this can't show that guids change at each fetch.
FEWEST = 2


def split_rows(seen: bytes) -> list[bytes]:
    """Return the rows of ``seen``, 16 bytes each."""
    return [seen[at : at + ROW] for at in range(0, len(seen) - ROW + 1, ROW)]


def count_listed(seen: bytes) -> int:
    """Return how many rows of ``seen`` belong to entries that the last document listed."""
    if GONE not in seen:  # also false if zeros are parts of two rows
        return len(seen) // ROW
    rows = split_rows(seen)
    return rows.index(GONE) if GONE in rows else len(rows)


def join_rows(
    listed: Sequence[bytes],
    before: Sequence[bytes],
    room: int | None = None,
    *,
    shared_links: Sequence[bytes] = (),
) -> bytes:
    """Return ``seen`` for these listed rows.

    Where a document is shorter than the last one, the entries that left it stay known: such documents are
    often complete again soon.

    Args:
        listed: the rows of entries that the document lists.
        before: the rows of the last fetch.
        room: how many rows of entries that left to keep; None: as many as keep the number of rows.
        shared_links: identities that belonged to one entry after the other; they stay known as well.
    """
    if room is None:
        room = min(len(before) - len(listed), REMEMBERED)
    if shared_links:
        shared = [SHARED + identity for identity in shared_links]
        before = [*shared, *(row for row in before if row[HALF:] not in shared_links)]
        room = max(room, len(shared))
    if room <= 0:
        return b"".join(listed)
    guids = {row[HALF:] for row in listed}
    gone = [row for row in before if row[HALF:] not in guids and row != GONE][:room]
    return b"".join([*listed, GONE, *gone]) if gone else b"".join(listed)


def append_counted(seen: bytes, keys: Sequence[bytes], *, is_split: bool) -> bytes:
    """Return ``seen`` with the keys of two entries whose links changed in their queries alone.

    Args:
        is_split: whether the listed rows must end before this one, as they do where there are no ``guids``.
    """
    split = GONE if is_split and count_listed(seen) * ROW == len(seen) else b""
    return seen + split + _COUNTED + b"".join(keys)


def renew_names(seen: bytes, entries: Sequence[ParsedEntry], contents: Sequence[bytes]) -> bytes:
    """Return ``seen`` with the keys of today for entries whose keys earlier versions made otherwise."""
    if not seen:
        return seen
    names = {seen[at : at + KEY] for at in range(0, len(seen), ROW)}
    former = {
        hash_former_name(entry.url, entry.title): content[:KEY]
        for entry, content in zip(entries, contents, strict=True)
        if content[:KEY] not in names and entry.url and _MARKS.search(entry.url)
    }
    if former.keys().isdisjoint(names):
        return seen
    return b"".join([former.get(row[:KEY], row[:KEY]) + row[KEY:] for row in split_rows(seen)])


def has_enough_known(known: int, total: int) -> bool:
    """Return whether enough entries (more than a tenth) are known to prove that the guids didn't change."""
    return 10 * known > total


class KnownEntries:
    """The rows of the last fetch, by identity, by key and by the feed's own guid (``guids``)."""

    def __init__(self, seen: bytes, guids: bytes = b"") -> None:
        rows = split_rows(seen)
        #: The keys that :func:`append_counted` added.
        self.counted: set[bytes] = set()
        if rows and rows[-1][:HALF] == _COUNTED and rows[-1] != GONE:
            row = rows.pop()
            self.counted = {row[HALF:-KEY], row[-KEY:]}
        last = [guids[at : at + HALF] for at in range(0, len(guids), HALF)]
        if GONE in seen and GONE in rows:
            self.listed = rows.index(GONE)
            del rows[self.listed]
        else:
            self.listed = last.index(AWAY) if AWAY in last else len(rows)
        self.rows = rows
        self.by_guid = {row[HALF:]: row for row in rows}
        self._guids = last[: self.listed] + last[self.listed + 1 :]

    @functools.cached_property
    def aliases(self) -> list[tuple[bytes, bytes]]:
        """Each row with the guid under which the feed last listed its entry."""
        return list(zip(self.rows, self._guids or self.by_guid, strict=False))

    @functools.cached_property
    def last_guids(self) -> dict[bytes, bytes]:
        """The rows → the guids in :attr:`aliases`."""
        return dict(self.aliases)

    @functools.cached_property
    def by_alias(self) -> dict[bytes, bytes]:
        """The rows by the guids in :attr:`aliases`; of two with the same guid, the first row."""
        if not self._guids:
            return self.by_guid
        return {guid: row for row, guid in reversed(self.aliases)}

    @functools.cached_property
    def ambiguous(self) -> set[bytes]:
        """The guids that several entries had when they were last listed."""
        if len(self.by_alias) == len(self.rows):
            return set()
        return {guid for guid, n in Counter(guid for _, guid in self.aliases).items() if n > 1}

    @functools.cached_property
    def by_key(self) -> dict[bytes, bytes]:
        """The rows of listed entries by key; a key that several entries share identifies none of them."""
        rows = self.rows[: self.listed]
        counts = Counter(row[:KEY] for row in rows)
        return {row[:KEY]: row for row in rows if counts[row[:KEY]] == 1}

    @functools.cached_property
    def guids_by_key(self) -> dict[bytes, bytes]:
        """The last guids of listed entries by key, as :attr:`by_key`."""
        return {
            row[:KEY]: guid
            for row, guid in self.aliases[: self.listed]
            if self.by_key.get(row[:KEY]) == row and self.by_alias[guid] == row
        }

    @functools.cached_property
    def guids_by_place(self) -> dict[bytes, bytes]:
        """The last guids of listed entries by the row without query and guid, if it is the entry's own."""
        places = [row[:PLACE] + row[KEY:HALF] for row, _ in self.aliases[: self.listed]]
        counts = Counter(places)
        return {
            place: guid
            for place, (row, guid) in zip(places, self.aliases, strict=False)
            if counts[place] == 1 and self.by_alias[guid] == row
        }

    @functools.cached_property
    def guids_of_gone(self) -> dict[bytes, bytes]:
        """The last guids of entries that left the document, by content."""
        return {row[:HALF]: guid for row, guid in self.aliases[self.listed :] if self.by_alias[guid] == row}

    @functools.cached_property
    def by_body(self) -> dict[bytes, bytes]:
        """The guids by everything shown but the link; a body that several entries share identifies none.

        An entry that came back under another link has a row among the listed entries and one among the
        unlisted entries. The listed row counts.
        """
        bodies = [row[KEY:HALF] for row, _ in self.aliases]
        listed, away = Counter(bodies[: self.listed]), Counter(bodies[self.listed :])
        return {
            body: guid
            for body, (row, guid) in reversed(list(zip(bodies, self.aliases, strict=True)))
            if (listed[body] or away[body]) == 1 and self.by_alias[guid] == row
        }

    @functools.cached_property
    def unlisted(self) -> dict[bytes, bytes]:
        """The rows of entries that left the document, by content."""
        return {row[:HALF]: row for row in self.rows[self.listed :]}

    def find_by_text(self, lasting: bytes, content: bytes, *, is_new: bool = False) -> bytes | None:
        """Return the row of an entry whose guid can't identify it.

        Args:
            is_new: whether its key may be that of another entry, and its date is after the last fetch. Then
                it's known only by its text.
        """
        row = self.by_guid.get(lasting)
        if row is None or self.unlisted.get(row[:HALF]) == row:
            row = self.by_key.get(content[:KEY])
            if is_new and row is not None and row[KEY:HALF] != content[KEY:]:
                row = None
        return row or self.unlisted.get(content)

    def is_known_by_guid(self, guid: bytes, content: bytes) -> bool:
        """Return whether the entry known by this guid has the same link and title."""
        return guid in self.by_guid and self.by_guid[guid][:KEY] == content[:KEY]

    def has_stable_guids(self, own: Sequence[bytes], keys: Sequence[bytes]) -> bool:
        """Return whether half of the entries, or of the listed ones, have the guids of the last fetch.

        Changed titles and links are fine, unless an entry has the link and title of another one.
        """
        listed = {row[:KEY] for row in self.rows[: self.listed]}
        pairs = [
            (self.by_alias[guid][:KEY], key)
            for guid, key in zip(own, keys, strict=True)
            if guid in self.by_alias
        ]
        is_true = all(was == key or key not in listed for was, key in pairs)
        same = sum(is_true or was == key for was, key in pairs)
        return same >= FEWEST and 2 * same >= min(len(own), self.listed)
