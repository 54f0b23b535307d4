"""Hashes of entries: 16 bytes per entry tell which entry it is, and whether its text has changed."""

from __future__ import annotations

import xxhash

from app.models.feeds.chain import to_xml
from app.models.feeds.parsed import ParsedEntry

#: Bytes per entry, and the sizes of its parts: see :mod:`app.feeds.identity`.
ROW = 16
HALF = 8
KEY = 4
PLAIN = "http:"


def hash_guid(entry: ParsedEntry) -> bytes:
    """Return the identity of an entry in 8 bytes."""
    if entry.guid:
        return _hash("g", entry.guid)
    if entry.url:
        return _hash("l", entry.url)
    when = entry.published or entry.updated
    return _hash("t", entry.title, when.isoformat() if when else "", entry.content, entry.summary)


def hash_name(url: str | None, title: str) -> bytes:
    """Return 4 bytes of link and title, which identify an entry where guids can't."""
    link = url or ""
    # A site that moves to https changes all its links, and with them all guids that are links.
    if link.startswith(PLAIN):
        link = f"https:{link.removeprefix(PLAIN)}"
    return _hash("k", link, title)[:KEY]


def hash_content(entry: ParsedEntry) -> bytes:
    """Return 8 bytes: 4 of link and title, 4 of everything that is shown.

    Dates don't count: many feeds stamp every entry with the time of the fetch.
    """
    files = "\0".join([file.url for file in entry.enclosures]) if entry.enclosures else ""
    parts = ["c", entry.title, entry.content, entry.summary, entry.author, entry.image or "", files]
    if entry.chain is not None:
        parts.append(to_xml(entry.chain))
    if entry.url and entry.url.startswith(PLAIN):  # the key ignores the scheme
        parts.append(PLAIN)
    body = _hash(*parts)
    return hash_name(entry.url, entry.title) + body[:KEY]


def hash_lasting(entry: ParsedEntry) -> bytes:
    """Return an identity that doesn't depend on the guid."""
    if entry.url or entry.title:
        return _hash("k", entry.url or "", entry.title)
    return _hash("b", entry.content, entry.summary)


def hash_with_http(entry: ParsedEntry) -> bytes | None:
    """Return the guid that an entry with an https link had when its link was http."""
    link = entry.guid or entry.url or ""
    return _hash("g" if entry.guid else "l", PLAIN + link[6:]) if link.startswith("https:") else None


def _hash(*parts: str) -> bytes:
    return xxhash.xxh3_64_digest("\x1f".join(parts).encode("utf-8", "surrogatepass"))
