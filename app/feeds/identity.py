"""Entry identity: which entries of a feed are new or changed, from the hashes of its last fetch. Pure.

``seen`` holds 16 bytes per listed entry, in feed order::

    key (4)    xxh3 of link (http and https are equal) and title
    body (4)   xxh3 of everything a reader sees
    guid (8)   the identity under which the entry was stored

An entry is known by its guid (else by its link, else by title, date and content). Some feeds give their
entries new guids at each fetch: most of their keys are known, but hardly any guid is. Such a feed becomes
``volatile``. From then on the key is the identity; entries stored under an older guid keep that guid.

Usually a publisher changed all guids once. So a volatile feed also keeps the guids of its last fetch.
Where those guids come back, guids identify entries again and new entries are stored under their guids.
Once all known entries have their own guid, the feed stops being volatile. Entries that left the
document stay known for a while, at the end of ``seen``. The store knows them only under their old guid,
so their whole content must match. Link and title alone may belong to the next of a series.

Where links change too, at each fetch or because a site moves, no guid and no key is known. Then entries
are matched by their text, if most of a document matches at once (:mod:`app.feeds.moved_entries`).

A single entry can't show that guids change: "Comic of the day" is another entry tomorrow. Where only one
entry is known, an entry with identical content is the same entry, and the feed never becomes ``volatile``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

from app.feeds.entry_hashes import HALF, KEY, hash_content, hash_guid, hash_lasting, hash_with_http
from app.feeds.known_entries import AWAY, FEWEST, KnownEntries, has_enough_known, split_rows
from app.feeds.moved_entries import are_apart, find_former_guids, find_guid_alone
from app.models.feeds.parsed import ParsedEntry, ParsedFeed

#: Rows kept of a volatile feed, as a multiple of its listed entries.
_CARRIED = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Diff:
    """The changes that a fetch brought.

    Attributes:
        new, changed: entries in feed order, each identity once.
        seen: to be stored with the feed and passed to the next :func:`diff_feed`.
        volatile: whether the feed changes its guids; to be stored and passed to the next :func:`diff_feed`.
        is_aligned: whether each entry has its row in ``seen``, at its position and under its own guid.
        guids: of a volatile feed, the last guid (8 bytes) of each row of ``seen``, with a mark before the
            entries that left the document; to be stored as well.
    """

    new: tuple[ParsedEntry, ...]
    changed: tuple[ParsedEntry, ...]
    seen: bytes
    volatile: bool = False
    is_aligned: bool = False
    guids: bytes = b""
    _hashes: Mapping[int, bytes] = dataclasses.field(default_factory=dict, repr=False)

    def get_hash(self, entry: ParsedEntry) -> bytes:
        """Return the 8 bytes under which a new or changed entry is stored.

        This isn't always :func:`hash_guid`: shared and changing guids identify nothing.
        """
        return self._hashes[id(entry)]


def diff_feed(
    parsed: ParsedFeed,
    seen: bytes,
    *,
    volatile: bool = False,
    guids: bytes = b"",
    since: dt.datetime | None = None,
) -> Diff:
    """Compare a parsed feed with the hashes of the last fetch.

    Args:
        parsed: the feed as it is now.
        seen: ``Diff.seen`` of the last fetch; empty at the first fetch.
        volatile, guids: ``Diff.volatile`` and ``Diff.guids`` of the last fetch.
        since: the time of the last fetch; None if unknown: then no date proves that an entry is older.
    """
    if not parsed.entries:  # a publisher's glitch: the entries will be back
        return Diff((), (), seen, volatile, guids=guids)
    known, entries = KnownEntries(seen, guids), parsed.entries
    own = [hash_guid(entry) for entry in entries]
    contents = [hash_content(entry) for entry in entries]
    then = find_former_guids(entries, own, contents, known, since)
    if len(known.by_guid) == 1:
        then = find_guid_alone(then, contents, known)
    elif volatile:
        return _diff_volatile(entries, own, then, contents, known)
    identities = _identities(entries, then, contents, known)
    if _guids_changed(identities, contents, known) or (then != own and are_apart(then, contents, known)):
        return _diff_volatile(entries, own, then, contents, known)
    new: list[ParsedEntry] = []
    changed: list[ParsedEntry] = []
    hashes: dict[int, bytes] = {}
    rows: dict[bytes, bytes] = {}
    for entry, identity, content in zip(entries, identities, contents, strict=True):
        if (
            not known.is_known_by_guid(identity, content)
            and (lasting := hash_lasting(entry)) in known.by_guid
        ):
            identity = lasting  # it shared its guid at the last fetch
        if identity in rows:
            continue
        before = known.by_guid.get(identity)
        rows[identity] = row = content + identity
        if row != before:
            (changed if before else new).append(entry)
            hashes[id(entry)] = identity
    return Diff(
        tuple(new), tuple(changed), b"".join(rows.values()), is_aligned=list(rows) == own, _hashes=hashes
    )


def _diff_volatile(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
) -> Diff:
    """Compare a feed whose guids change at each fetch, or changed once.

    ``own`` holds the current guids; ``then`` is the same, except for the guids that
    :func:`app.feeds.moved_entries.find_former_guids` replaced.
    """
    keys = [content[:KEY] for content in contents]
    steady, counts = known.has_stable_guids(then, keys), Counter(keys)
    predecessors = _predecessors(entries, then, contents, known, steady=steady)
    new: list[ParsedEntry] = []
    changed: list[ParsedEntry] = []
    hashes: dict[int, bytes] = {}
    rows: dict[bytes, tuple[bytes, bytes]] = {}
    for entry, guid, before, content in zip(entries, own, predecessors, contents, strict=True):
        # A guid that may change tomorrow can't identify one of several entries with the same key.
        is_own = steady and counts[content[:KEY]] == 1
        identity = before[HALF:] if before else guid if is_own else hash_lasting(entry)
        if identity in rows:
            continue
        row = content + identity
        rows[identity] = row, guid
        if row != before:
            (changed if before else new).append(entry)
            hashes[id(entry)] = identity
    is_plain = steady and list(rows) == list(own)
    listed = len(rows)
    _carry_over(rows, known)
    if is_plain and all(row[HALF:] == guid for row, guid in rows.values()):
        seen = b"".join(rows[guid][0] for guid in own)
        return Diff(tuple(new), tuple(changed), seen, is_aligned=True, _hashes=hashes)
    seen, last = b"".join(row for row, _ in rows.values()), [guid for _, guid in rows.values()]
    guids = b"".join([*last[:listed], AWAY, *last[listed:]])
    return Diff(tuple(new), tuple(changed), seen, volatile=True, guids=guids, _hashes=hashes)


def _predecessors(
    entries: Sequence[ParsedEntry],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    *,
    steady: bool,
) -> list[bytes | None]:
    """Return for each entry its row of the last fetch, found by guid where guids hold, else by its text."""
    taken = {known.by_alias[guid] for guid in then if guid in known.by_alias} if steady else set()
    found: list[bytes | None] = []
    for entry, guid, content in zip(entries, then, contents, strict=True):
        before = known.by_alias.get(guid) if steady else None
        if before is None:
            before = known.find_by_text(hash_lasting(entry), content)
            before = None if before in taken else before
        found.append(before)
    return found


def _carry_over(rows: dict[bytes, tuple[bytes, bytes]], known: KnownEntries) -> None:
    """Keep the rows of entries that this document lacks, so that they are not new when they come back."""
    limit = max(_CARRIED * len(rows), len(known.aliases))
    for row, guid in known.aliases:
        if len(rows) < limit:
            rows.setdefault(row[HALF:], (row, guid))


def diff_partial(rows: Sequence[bytes | None], unseen: Sequence[ParsedEntry], seen: bytes) -> Diff | None:
    """Compare a feed of which only some entries were parsed; the last diff was aligned.

    Args:
        rows: for each entry, in feed order, its row in ``seen``, or None for a parsed entry.
            Enough rows must be known (:func:`has_enough_known`).
        unseen: the parsed entries, in the same order.
        seen: as for :func:`diff_feed`.

    Returns:
        The result of :func:`diff_feed` for all entries. None if entries share guids or the feed moves to
        https; then the caller must parse all entries.
    """
    known = {row[HALF:]: row for row in split_rows(seen)}
    entries = iter(unseen)
    new: list[ParsedEntry] = []
    changed: list[ParsedEntry] = []
    hashes: dict[int, bytes] = {}
    found: dict[bytes, bytes] = {}
    for row in rows:
        if row is None:
            entry = next(entries)
            identity = hash_guid(entry)
            row, before = hash_content(entry) + identity, known.get(identity)
            if before is None and hash_with_http(entry) in known:
                return None
            if row != before:
                (changed if before else new).append(entry)
                hashes[id(entry)] = identity
        found[row[HALF:]] = row
    if len(found) != len(rows):
        return None
    return Diff(tuple(new), tuple(changed), b"".join(found.values()), is_aligned=True, _hashes=hashes)


def _identities(
    entries: Sequence[ParsedEntry], own: Sequence[bytes], contents: Sequence[bytes], known: KnownEntries
) -> list[bytes]:
    """Return each entry's identity; a guid that several different entries share doesn't identify them.

    Only the entry already known by a shared guid keeps it: that entry had the guid first.
    """
    shared = _shared(own, contents) if len(set(own)) < len(own) else ()
    triples = zip(entries, own, contents, strict=True)
    return [
        hash_lasting(entry) if guid in shared and not known.is_known_by_guid(guid, content) else guid
        for entry, guid, content in triples
    ]


def _shared(own: Sequence[bytes], contents: Sequence[bytes]) -> set[bytes]:
    """Return the guids that several different entries share."""
    different = {(guid, content[:KEY]) for guid, content in zip(own, contents, strict=True)}
    return {guid for guid, n in Counter(guid for guid, _ in different).items() if n > 1}


def _guids_changed(identities: Sequence[bytes], contents: Sequence[bytes], known: KnownEntries) -> bool:
    """Return whether the same entries came back under other guids.

    At least two thirds of the entries must be known by a key of their own and at most a tenth by guid.
    Otherwise a feed whose entries all look alike ("Photo", no link) would lose its new entries.
    """
    if not known.by_guid:
        return False
    if has_enough_known(sum(identity in known.by_guid for identity in identities), len(identities)):
        return False
    keys = [content[:KEY] for content in contents] if known.by_key else []
    counts = Counter(keys)
    by_key = sum(counts[key] == 1 and key in known.by_key for key in keys)
    return by_key >= FEWEST and 3 * by_key >= 2 * len(keys)
