"""Entries that are known by their link alone: another entry may be behind the same link tomorrow.

Pages like ``/latest.html`` show one entry after the other. Then title, text and date are all new. But a news
site does the same to an article that it writes on. There, other entries are young too and stay as they are.

``seen`` keeps such links in rows of their own (:data:`app.feeds.known_entries.SHARED`), so that they identify
no entry anymore. Their entries are known by link and title then.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from urllib.parse import urlsplit

from app.feeds.entry_hashes import HALF, KEY, hash_lasting
from app.feeds.known_entries import SHARED, KnownEntries
from app.feeds.moved_entries import get_ages, is_pinned, is_young
from app.models.feeds.parsed import ParsedEntry


class LinkedEntries:
    """Chooses between a link and what is behind it.

    Attributes:
        shared_links: the identities of links that identify no entry; complete after the last call.
    """

    def __init__(
        self,
        entries: Sequence[ParsedEntry],
        own: Sequence[bytes],
        contents: Sequence[bytes],
        known: KnownEntries,
        since: dt.datetime | None,
    ) -> None:
        self._entries, self._own, self._contents = entries, own, contents
        self._known, self._since = known, since
        self.shared_links: list[bytes] = []

    @functools.cached_property
    def _ages(self) -> list[dt.timedelta | None]:
        return get_ages(self._entries, self._since)

    def find_identity(self, at: int, identity: bytes) -> bytes:
        """Return the identity of the entry at a place, whose row isn't the same as at the last fetch.

        Args:
            identity: the identity that the entry has otherwise.
        """
        entry, content, known = self._entries[at], self._contents[at], self._known
        before = known.by_guid.get(identity)
        if (
            not known.is_known_by_guid(identity, content)
            and (lasting := hash_lasting(entry)) in known.by_guid
        ):
            # It shared its guid at the last fetch, or its link.
            if before and is_named_by_link(entry):
                self.shared_links.append(identity)
            return lasting
        if not before or not may_be_other(entry, content + identity, before):
            return identity
        other = self._find_other(at, before)
        if other is None:
            return identity
        self.shared_links.append(identity)
        return other

    def _find_other(self, at: int, before: bytes) -> bytes | None:
        """Return the identity of an entry that is behind the link of another one; None: it is the same."""
        is_shared = before[:HALF] == SHARED
        if is_young(self._ages[at]):
            return None if not is_shared and self._has_young_neighbor(at) else hash_lasting(self._entries[at])
        if not is_shared:
            return None
        # The newest one behind this link was edited: no other entry has its row.
        present = {*self._own, *map(hash_lasting, self._entries)}
        listed = (row[HALF:] for row in self._known.rows[: self._known.listed])
        left = [identity for identity in listed if identity not in present]
        return left[0] if len(left) == 1 else hash_lasting(self._entries[at])

    def _has_young_neighbor(self, at: int) -> bool:
        """Return whether another entry of the same site is young and has kept its link and title."""
        host = _get_host(self._entries[at].url)
        return any(
            other != at
            and age is not None
            and not is_pinned(age)
            and self._known.is_known_by_guid(self._own[other], self._contents[other])
            and _get_host(self._entries[other].url) == host
            for other, age in enumerate(self._ages)
        )


def may_be_other(entry: ParsedEntry, row: bytes, before: bytes) -> bool:
    """Return whether an entry known by its link alone has another title and another text.

    ``row`` and ``before`` are its rows of this fetch and the last one.
    """
    if row[:KEY] == before[:KEY] or row[KEY:HALF] == before[KEY:HALF]:
        return False
    return is_named_by_link(entry)


def is_named_by_link(entry: ParsedEntry) -> bool:
    """Return whether an entry has no identity but its link."""
    return bool(entry.url) and (not entry.guid or entry.guid == entry.url)


def _get_host(url: str | None) -> str:
    try:
        return urlsplit(url or "").netloc
    except ValueError:
        return ""
