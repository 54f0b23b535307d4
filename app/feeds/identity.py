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

Single entries may be issued again, too. Where the former guid leaves the document as a new one comes, equal
links and titles are the same entry, and so are equal texts whose links differ only in their queries.

A document that is shorter than the last one is often complete again soon. The rows of entries that left it
follow at the end of ``seen`` behind a row of zeros, so that they aren't new then.

A single entry can't show that guids change: "Comic of the day" is another entry tomorrow. Where only one
entry is known, an entry with identical content is the same entry, and the feed never becomes ``volatile``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

from app.feeds.entry_hashes import (
    HALF,
    KEY,
    PLACE,
    has_same_place,
    has_weak_key,
    hash_content,
    hash_guid,
    hash_lasting,
    hash_with_http,
)
from app.feeds.known_entries import (
    AWAY,
    FEWEST,
    KnownEntries,
    append_counted,
    has_enough_known,
    join_rows,
    renew_names,
)
from app.feeds.linked_entries import LinkedEntries, may_be_other
from app.feeds.moved_entries import are_apart, find_former_guids, find_guid_alone, is_after
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
    entries = parsed.entries
    own = [hash_guid(entry) for entry in entries]
    contents = [hash_content(entry) for entry in entries]
    known = KnownEntries(renew_names(seen, entries, contents), guids)
    then = find_former_guids(entries, own, contents, known, since=since, site=parsed.site_url)
    if len(known.by_guid) == 1:
        then = find_guid_alone(then, contents, known)
    elif volatile:
        return _diff_volatile(entries, own, then, contents, known, since=since)
    identities = _identities(entries, then, contents, known)
    if _guids_changed(identities, contents, known) or (then != own and are_apart(then, contents, known)):
        return _diff_volatile(entries, own, then, contents, known, since=since)
    return _diff_steady(entries, own, identities, contents, known, since=since)


def _diff_steady(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    identities: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    *,
    since: dt.datetime | None,
) -> Diff:
    """Compare a feed whose guids hold. ``identities`` are the guids, or what replaces shared ones."""
    found, others = _Findings(), LinkedEntries(entries, own, contents, known, since)
    for at, (entry, guid, identity, content) in enumerate(
        zip(entries, own, identities, contents, strict=True)
    ):
        before = known.by_guid.get(identity)
        row = content + identity
        if row != before:
            identity = others.find_identity(at, identity)
            before, row = known.by_guid.get(identity), content + identity
        if identity in found.rows:
            continue
        if before and identity != guid and has_same_place(row, before):
            row = before  # the store has one of its links, and the next fetch brings another one
        found.rows[identity] = row
        if row != before:
            found.add(entry, identity, before)
    found.leave_counters(known)
    rows = found.rows
    seen = join_rows(list(rows.values()), known.rows, shared_links=others.shared_links)
    return found.get_diff(seen, is_aligned=list(rows) == own)


class _Findings:
    """The rows of a document, by identity, and its new and changed entries."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._new: list[tuple[bytes, ParsedEntry]] = []
        self._changed: list[tuple[bytes, ParsedEntry]] = []
        #: The former rows of entries of which only the link's query has changed.
        self._counted: dict[bytes, bytes] = {}
        #: The new keys of two of them, if they stay as they are.
        self._sight: tuple[bytes, ...] = ()

    def add(self, entry: ParsedEntry, identity: bytes, before: bytes | None) -> None:
        """Add an entry whose row isn't the same as ``before``, at the last fetch; None: it is new."""
        if before is None:
            self._new.append((identity, entry))
            return
        self._changed.append((identity, entry))
        if has_same_place(self.rows[identity], before):
            self._counted[identity] = before

    def leave_counters(self, known: KnownEntries) -> None:
        """Leave entries as they are whose links have changed in the query alone, if most have.

        Their links carry a counter: without this, each fetch rewrites all of them. But where one link of
        many changes, its publisher has corrected it. And links that are the same as at the last fetch carry
        none: their publisher has added something to all of them, once.
        """
        if len(self._counted) < FEWEST or 2 * len(self._counted) < min(known.listed, len(self.rows)):
            return
        keys = [self.rows[identity][:KEY] for identity in self._counted]
        if not known.counted.isdisjoint(keys):
            return
        self._sight = tuple(keys[:FEWEST])
        self._changed = [pair for pair in self._changed if pair[0] not in self._counted]
        self.rows |= self._counted

    def get_diff(
        self, seen: bytes, *, volatile: bool = False, is_aligned: bool = False, guids: bytes = b""
    ) -> Diff:
        """Return the diff, with what is to be stored."""
        if self._sight:
            # The next fetch must see these links again, even if their bytes stay the same.
            seen, is_aligned = append_counted(seen, self._sight, is_split=not volatile), False
        hashes = {id(entry): identity for identity, entry in (*self._new, *self._changed)}
        new, changed = (tuple(entry for _, entry in pairs) for pairs in (self._new, self._changed))
        return Diff(new, changed, seen, volatile, is_aligned, guids, hashes)


def _diff_volatile(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    *,
    since: dt.datetime | None,
) -> Diff:
    """Compare a feed whose guids change at each fetch, or changed once.

    ``own`` holds the current guids; ``then`` is the same, except for the guids that
    :func:`app.feeds.moved_entries.find_former_guids` replaced.
    """
    keys = [content[:KEY] for content in contents]
    steady, counts, owners = known.has_stable_guids(then, keys), Counter(keys), Counter(own)
    predecessors = _predecessors(entries, own, then, contents, known, steady=steady, since=since)
    found = _Findings()
    last: dict[bytes, bytes] = {}
    for entry, guid, before, content in zip(entries, own, predecessors, contents, strict=True):
        # A guid that may change tomorrow can't identify one of several entries with the same key.
        # Nor can a guid that several entries share.
        is_own = steady and counts[content[:KEY]] == 1 and owners[guid] == 1
        identity = before[HALF:] if before else guid if is_own else hash_lasting(entry)
        if identity in found.rows:
            continue
        row = content + identity
        if before and guid not in known.by_alias and _has_passing_link(row, before, known):
            row = before
        found.rows[identity] = row
        if row != before:
            found.add(entry, identity, before)
        last[identity] = guid
    found.leave_counters(known)
    is_plain = steady and list(last) == list(own)
    listed = list(found.rows.values())
    rows = {identity: (row, last[identity]) for identity, row in found.rows.items()}
    _carry_over(rows, known)
    if is_plain and all(row[HALF:] == guid for row, guid in rows.values()):
        return found.get_diff(join_rows(listed, known.rows[: known.listed]), is_aligned=True)
    seen, guids = b"".join(row for row, _ in rows.values()), [guid for _, guid in rows.values()]
    guids.insert(len(listed), AWAY)
    return found.get_diff(seen, volatile=True, guids=b"".join(guids))


def _has_passing_link(row: bytes, before: bytes, known: KnownEntries) -> bool:
    """Return whether only the link of an entry has changed, and will again.

    That is so for a counter in its query, or if the link differed at the last fetch, too. In the second case,
    a link that is the same at the next fetch is stored then: a site has moved for the second time.
    """
    if row[KEY:] != before[KEY:]:
        return False
    return row[:PLACE] == before[:PLACE] or known.last_guids[before] != before[HALF:]


def _predecessors(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    *,
    steady: bool,
    since: dt.datetime | None,
) -> list[bytes | None]:
    """Return for each entry its row of the last fetch, found by guid where guids hold, else by its text."""
    taken = {known.by_alias[guid] for guid in then if guid in known.by_alias} if steady else set()
    shared = _shared(then, contents) if len(set(then)) < len(then) else set()
    shared |= known.ambiguous
    found: list[bytes | None] = []
    for entry, mine, guid, content in zip(entries, own, then, contents, strict=True):
        before = known.by_alias.get(guid) if steady else None
        if before and mine == guid and guid in shared and before[:KEY] != content[:KEY]:
            before = None  # the guid is that of another entry, too
        if before is None:
            is_new = is_after(entry, since) and has_weak_key(entry.url)
            before = known.find_by_text(hash_lasting(entry), content, is_new=is_new)
            before = None if before in taken else before
        found.append(before)
    return found


def _carry_over(rows: dict[bytes, tuple[bytes, bytes]], known: KnownEntries) -> None:
    """Keep the rows of entries that this document lacks, so that they are not new when they come back."""
    limit = max(_CARRIED * len(rows), len(known.aliases))
    for row, guid in known.aliases:
        if len(rows) < limit:
            rows.setdefault(row[HALF:], (row, guid))


def diff_partial(
    rows: Sequence[bytes | None],
    unseen: Sequence[ParsedEntry],
    seen: bytes,
    *,
    since: dt.datetime | None = None,
) -> Diff | None:
    """Compare a feed of which only some entries were parsed; the last diff was aligned.

    Args:
        rows: for each entry, in feed order, its row in ``seen``, or None for a parsed entry.
            Enough rows must be known (:func:`has_enough_known`).
        unseen: the parsed entries, in the same order.
        seen, since: as for :func:`diff_feed`.

    Returns:
        The result of :func:`diff_feed` for all entries. None if entries share guids, come back under other
        guids, or the feed moves to https; then the caller must parse all entries.
    """
    known, entries = KnownEntries(seen), iter(unseen)
    found = _Findings()
    places: list[bytes] = []
    for row in rows:
        if row is not None:
            found.rows[row[HALF:]] = row
            continue
        entry = next(entries)
        identity, content = hash_guid(entry), hash_content(entry)
        row, before = content + identity, known.by_guid.get(identity)
        if before is None:
            if hash_with_http(entry) in known.by_guid:
                return None
            places.append(content[:PLACE])
        elif row != before:
            if may_be_other(entry, row, before) and is_after(entry, since):
                return None
            before = renew_names(before, [entry], [content])
        found.rows[identity] = row
        if row != before:
            found.add(entry, identity, before)
    if len(found.rows) != len(rows):
        return None
    # A new entry may be one that left the document under another guid.
    if places and any(row[:PLACE] in places and row[HALF:] not in found.rows for row in known.rows):
        return None
    found.leave_counters(known)
    return found.get_diff(join_rows(list(found.rows.values()), known.rows), is_aligned=True)


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
