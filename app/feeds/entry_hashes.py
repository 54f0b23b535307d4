"""Hashes of entries: 16 bytes per entry tell which entry it is, and whether its text has changed."""

from __future__ import annotations

import functools
import re

import xxhash

from app.feeds.urls import is_tracking
from app.models.feeds.chain import to_xml
from app.models.feeds.parsed import ParsedEntry

#: Bytes per entry, and the sizes of its parts: see :mod:`app.feeds.identity`.
ROW = 16
HALF = 8
KEY = 4
#: The part of a key that doesn't depend on the link's query and fragment. The rest is for these two.
PLACE = 2
PLAIN = "http:"
#: Parameters of sessions and against caches, which differ at each fetch. ``sid`` often means "story".
_PASSING = re.compile(
    r"(?:php|j|asp)?sess(?:ion)?_?id\w*|cf(?:id|token)|no_?cache|cache_?bust(?:er)?|rnd|rand(?:om)?|_",
    re.IGNORECASE,
)
_PATH_SESSION = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)


def hash_guid(entry: ParsedEntry) -> bytes:
    """Return the identity of an entry in 8 bytes."""
    if entry.guid:
        return _hash("g", entry.guid)
    if entry.url:
        return _hash("l", entry.url)
    when = entry.published or entry.updated
    return _hash("t", entry.title, when.isoformat() if when else "", entry.content, entry.summary)


def fold_scheme(link: str) -> str:
    """Return a link that is equal for http and https."""
    return _with_https(link)


def list_possible_hashes(guid: str, link: str) -> tuple[bytes, ...]:
    """Return the identities of an entry of which only guid and link are known; both may be empty."""
    found = [_hash("g", guid)] if guid else []
    return (*found, _hash("l", link), _hash("g", link)) if link else tuple(found)


def hash_name(url: str | None, title: str) -> bytes:
    """Return 4 bytes of link and title, which identify an entry where guids can't.

    Parameters for tracking and sessions don't count. The first :data:`PLACE` bytes are also equal for
    links that differ only in their query or fragment.
    """
    link = url or ""
    if link.startswith(PLAIN):
        link = _with_https(link)
    if "?" not in link and "#" not in link and ";" not in link:
        return _hash("k", link, title)[:KEY]
    place, rest = _split_link(link)
    name = _hash("k", place, title)
    return name[:PLACE] + _hash("q", rest)[: KEY - PLACE] if rest else name[:KEY]


def has_weak_key(url: str | None) -> bool:
    """Return whether a key has only two bytes to tell entries of one place and title apart.

    That is so where links differ in their query, as those of many forums do.
    """
    return url is not None and ("?" in url or "#" in url or ";" in url) and bool(_split_link(url)[1])


def hash_former_name(url: str, title: str) -> bytes:
    """Return the 4 bytes that earlier versions stored for link and title."""
    return _hash("k", _with_https(url), title)[:KEY]


def has_same_place(row: bytes, other: bytes) -> bool:
    """Return whether two rows differ at most in the query and fragment of the link."""
    return row[:PLACE] == other[:PLACE] and row[KEY:] == other[KEY:]


def _with_https(link: str) -> str:
    # A site that moves to https changes all its links, and with them all guids that are links.
    return f"https:{link.removeprefix(PLAIN)}" if link.startswith(PLAIN) else link


def _split_link(link: str) -> tuple[str, str]:
    """Return a link without query and fragment, and what of them may identify an entry."""
    rest, _, fragment = link.partition("#")
    place, _, query = rest.partition("?")
    if ";" in place:
        place = _PATH_SESSION.sub("", place)
    kept = ["&".join(p for p in text.split("&") if p and not _is_passing(p)) for text in (query, fragment)]
    return place, "#".join(kept).rstrip("#")


def _is_passing(pair: str) -> bool:
    name, mark, _ = pair.partition("=")
    return bool(mark) and _is_passing_name(name)


@functools.lru_cache(maxsize=512)
def _is_passing_name(name: str) -> bool:
    return is_tracking(name) or _PASSING.fullmatch(name) is not None


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
