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
are matched by their text, if most of a document matches at once (:func:`_before_move`).

A single entry can't show that guids change: "Comic of the day" is another entry tomorrow. Where only one
entry is known, an entry with identical content is the same entry, and the feed never becomes ``volatile``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import xxhash

from app.models.feeds.chain import to_xml
from app.models.feeds.parsed import ParsedEntry, ParsedFeed

ROW = 16
_HALF = 8
_KEY = 4
_PLAIN = "http:"
#: Separates, in ``Diff.guids``, the listed entries' guids from those of entries that left the document.
_AWAY = bytes(_HALF)
#: Rows kept of a volatile feed, as a multiple of its listed entries.
_CARRIED = 2
#: Fewer known links and titles than this can't show that guids change at each fetch.
_FEWEST = 2
#: Fewer texts than this can't show that links changed, unless dates prove the entries older.
_FEWEST_YOUNG = 5


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
    if link.startswith(_PLAIN):
        link = f"https:{link.removeprefix(_PLAIN)}"
    return _hash("k", link, title)[:_KEY]


def hash_content(entry: ParsedEntry) -> bytes:
    """Return 8 bytes: 4 of link and title, 4 of everything that is shown.

    Dates don't count: many feeds stamp every entry with the time of the fetch.
    """
    files = "\0".join([file.url for file in entry.enclosures]) if entry.enclosures else ""
    parts = ["c", entry.title, entry.content, entry.summary, entry.author, entry.image or "", files]
    if entry.chain is not None:
        parts.append(to_xml(entry.chain))
    if entry.url and entry.url.startswith(_PLAIN):  # the key ignores the scheme
        parts.append(_PLAIN)
    body = _hash(*parts)
    return hash_name(entry.url, entry.title) + body[:_KEY]


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
    known, entries = _Known(seen, guids), parsed.entries
    own = [hash_guid(entry) for entry in entries]
    contents = [hash_content(entry) for entry in entries]
    then = _before(entries, own, contents, known, since)
    if len(known.by_guid) == 1:
        then = _before_alone(then, contents, known)
    elif volatile:
        return _diff_volatile(entries, own, then, contents, known)
    identities = _identities(entries, then, contents, known)
    if _guids_changed(identities, contents, known) or (then != own and _are_apart(then, contents, known)):
        return _diff_volatile(entries, own, then, contents, known)
    new: list[ParsedEntry] = []
    changed: list[ParsedEntry] = []
    hashes: dict[int, bytes] = {}
    rows: dict[bytes, bytes] = {}
    for entry, identity, content in zip(entries, identities, contents, strict=True):
        if not known.is_known_by_guid(identity, content) and (lasting := _lasting(entry)) in known.by_guid:
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
    known: _Known,
) -> Diff:
    """Compare a feed whose guids change at each fetch, or changed once.

    ``own`` holds the current guids; ``then`` is the same, except for the guids that :func:`_before` replaced.
    """
    keys = [content[:_KEY] for content in contents]
    steady, counts = known.has_stable_guids(then, keys), Counter(keys)
    predecessors = _predecessors(entries, then, contents, known, steady=steady)
    new: list[ParsedEntry] = []
    changed: list[ParsedEntry] = []
    hashes: dict[int, bytes] = {}
    rows: dict[bytes, tuple[bytes, bytes]] = {}
    for entry, guid, before, content in zip(entries, own, predecessors, contents, strict=True):
        # A guid that may change tomorrow can't identify one of several entries with the same key.
        is_own = steady and counts[content[:_KEY]] == 1
        identity = before[_HALF:] if before else guid if is_own else _lasting(entry)
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
    if is_plain and all(row[_HALF:] == guid for row, guid in rows.values()):
        seen = b"".join(rows[guid][0] for guid in own)
        return Diff(tuple(new), tuple(changed), seen, is_aligned=True, _hashes=hashes)
    seen, last = b"".join(row for row, _ in rows.values()), [guid for _, guid in rows.values()]
    guids = b"".join([*last[:listed], _AWAY, *last[listed:]])
    return Diff(tuple(new), tuple(changed), seen, volatile=True, guids=guids, _hashes=hashes)


def _predecessors(
    entries: Sequence[ParsedEntry],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: _Known,
    *,
    steady: bool,
) -> list[bytes | None]:
    """Return for each entry its row of the last fetch, found by guid where guids hold, else by its text."""
    taken = {known.by_alias[guid] for guid in then if guid in known.by_alias} if steady else set()
    found: list[bytes | None] = []
    for entry, guid, content in zip(entries, then, contents, strict=True):
        before = known.by_alias.get(guid) if steady else None
        if before is None:
            before = known.find_by_text(_lasting(entry), content)
            before = None if before in taken else before
        found.append(before)
    return found


def _carry_over(rows: dict[bytes, tuple[bytes, bytes]], known: _Known) -> None:
    """Keep the rows of entries that this document lacks, so that they are not new when they come back."""
    limit = max(_CARRIED * len(rows), len(known.aliases))
    for row, guid in known.aliases:
        if len(rows) < limit:
            rows.setdefault(row[_HALF:], (row, guid))


def has_enough_known(known: int, total: int) -> bool:
    """Return whether enough entries (more than a tenth) are known to prove that the guids didn't change."""
    return 10 * known > total


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
    known = {row[_HALF:]: row for row in _rows(seen)}
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
            if before is None and _with_http(entry) in known:
                return None
            if row != before:
                (changed if before else new).append(entry)
                hashes[id(entry)] = identity
        found[row[_HALF:]] = row
    if len(found) != len(rows):
        return None
    return Diff(tuple(new), tuple(changed), b"".join(found.values()), is_aligned=True, _hashes=hashes)


def _rows(seen: bytes) -> list[bytes]:
    return [seen[at : at + ROW] for at in range(0, len(seen) - ROW + 1, ROW)]


class _Known:
    """The rows of the last fetch, by identity, by key and by the feed's own guid (``guids``)."""

    def __init__(self, seen: bytes, guids: bytes = b"") -> None:
        self._rows = _rows(seen)
        self.by_guid = {row[_HALF:]: row for row in self._rows}
        last = [guids[at : at + _HALF] for at in range(0, len(guids), _HALF)]
        self._listed = last.index(_AWAY) if _AWAY in last else len(self._rows)
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
        counts = Counter(row[:_KEY] for row in rows)
        return {row[:_KEY]: row for row in rows if counts[row[:_KEY]] == 1}

    @functools.cached_property
    def by_body(self) -> dict[bytes, bytes]:
        """The guids by everything shown but the link; a body that several entries share identifies none.

        An entry that came back under another link has a row among the listed entries and one among the
        unlisted entries. The listed row counts.
        """
        bodies = [row[_KEY:_HALF] for row, _ in self.aliases]
        listed, away = Counter(bodies[: self._listed]), Counter(bodies[self._listed :])
        return {
            body: guid
            for body, (row, guid) in reversed(list(zip(bodies, self.aliases, strict=True)))
            if (listed[body] or away[body]) == 1 and self.by_alias[guid] == row
        }

    @functools.cached_property
    def unlisted(self) -> dict[bytes, bytes]:
        """The rows of entries that left the document, by content."""
        return {row[:_HALF]: row for row in self._rows[self._listed :]}

    def find_by_text(self, lasting: bytes, content: bytes) -> bytes | None:
        """Return the row of an entry whose guid can't identify it."""
        row = self.by_guid.get(lasting)
        if row is None or self.unlisted.get(row[:_HALF]) == row:
            row = self.by_key.get(content[:_KEY])
        return row or self.unlisted.get(content)

    def is_known_by_guid(self, guid: bytes, content: bytes) -> bool:
        """Return whether the entry known by this guid has the same link and title."""
        return guid in self.by_guid and self.by_guid[guid][:_KEY] == content[:_KEY]

    def has_stable_guids(self, own: Sequence[bytes], keys: Sequence[bytes]) -> bool:
        """Return whether half of the entries, or of the listed ones, have the guids of the last fetch.

        Changed titles and links are fine, unless an entry has the link and title of another one.
        """
        listed = {row[:_KEY] for row in self._rows[: self._listed]}
        pairs = [
            (self.by_alias[guid][:_KEY], key)
            for guid, key in zip(own, keys, strict=True)
            if guid in self.by_alias
        ]
        is_true = all(was == key or key not in listed for was, key in pairs)
        same = sum(is_true or was == key for was, key in pairs)
        return same >= _FEWEST and 2 * same >= min(len(own), self._listed)


def _before(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    contents: Sequence[bytes],
    known: _Known,
    since: dt.datetime | None,
) -> Sequence[bytes]:
    """Return the guids; a guid that is a link changed to https is replaced by its http predecessor."""
    before, listed = known.by_alias, set(own)
    unknown = listed.difference(before)
    if not before or not unknown:
        return own
    then = [
        was if guid in unknown and (was := _with_http(entry)) in before and was not in listed else guid
        for entry, guid in zip(entries, own, strict=True)
    ]
    if has_enough_known(len(listed) - len(unknown), len(own)) or has_enough_known(
        sum(g in before for g in then), len(own)
    ):
        return then
    keys = [content[:_KEY] for content in contents]
    # The rules for changed guids would merge entries with the same key: see :func:`_are_apart`.
    if has_enough_known(sum(key in known.by_key for key in keys), len(keys)) or len(set(keys)) < len(keys):
        return then
    return _before_move(entries, then, contents, known, since)


def _before_move(
    entries: Sequence[ParsedEntry],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: _Known,
    since: dt.datetime | None,
) -> Sequence[bytes]:
    """Return the guids; entries that repeat a known entry's text under another link get that entry's guid.

    Weather reports and daily columns repeat their texts. But where two thirds of a document repeat at once,
    in texts that all differ, they are the entries from before.
    """
    listed = set(then)
    found: dict[int, bytes] = {}
    for at, (entry, content) in enumerate(zip(entries, contents, strict=True)):
        guids = [known.by_body[body] for body in _bodies(entry, content) if body in known.by_body]
        if guids and guids[0] not in listed and known.by_alias[guids[0]][:_KEY] != content[:_KEY]:
            found[at] = guids[0]
    telling = _telling(entries, since) if found else {}
    found = {at: guid for at, guid in found.items() if at in telling}
    fewest = _FEWEST if sum(telling[at] for at in found) >= _FEWEST else _FEWEST_YOUNG
    if len(found) < fewest or 3 * len(found) < 2 * len(then):
        return then
    return [found.get(at, guid) for at, guid in enumerate(then)]


def _telling(entries: Sequence[ParsedEntry], since: dt.datetime | None) -> dict[int, bool]:
    """Return the index of each entry that its text can identify → whether its date proves it old.

    Such a date is at least a day before the last fetch: many dates name only the day, or appear hours
    late. One date shared by all entries is the document's. An entry without an old date also needs a title
    of its own. An entry dated after the last fetch is new.
    """
    texts = Counter((entry.content, entry.summary) for entry in entries)
    titles = Counter(entry.title for entry in entries)
    dates = [entry.published or entry.updated for entry in entries]
    is_stamped = len(set(dates)) == 1
    found: dict[int, bool] = {}
    for at, (entry, date) in enumerate(zip(entries, dates, strict=True)):
        text, age = (entry.content, entry.summary), None
        if since and date and not is_stamped:
            age = since - date
        is_old = age is not None and age.days >= 1
        is_alone = any(text) and texts[text] == 1 and (is_old or (entry.title and titles[entry.title] == 1))
        if is_alone and (age is None or age.days >= 0):
            found[at] = is_old
    return found


def _bodies(entry: ParsedEntry, content: bytes) -> list[bytes]:
    """Return the bodies that a row may have for this entry: as it is, and before a move to https."""
    bodies = [content[_KEY:]]
    if entry.url and not entry.url.startswith(_PLAIN):
        bodies.append(hash_content(entry._replace(url=_PLAIN))[_KEY:])
    return bodies


def _before_alone(then: Sequence[bytes], contents: Sequence[bytes], known: _Known) -> Sequence[bytes]:
    """Return the guids; the one entry with the same content as the single known entry gets its guid."""
    ((was, row),) = known.by_guid.items()
    content = row[:_HALF]
    if was in then or contents.count(content) != 1:
        return then
    return [was if at == content else guid for guid, at in zip(then, contents, strict=True)]


def _are_apart(then: Sequence[bytes], contents: Sequence[bytes], known: _Known) -> bool:
    """Return whether a feed that moved to https can be treated as one that changed its guids once.

    Only then are the old guids kept beside the new ones, in case a document is short once. But the rules
    for changed guids would merge entries with the same key.
    """
    keys = [content[:_KEY] for content in contents]
    return len(set(keys)) == len(keys) and known.has_stable_guids(then, keys)


def _with_http(entry: ParsedEntry) -> bytes | None:
    """Return the guid that an entry with an https link had when its link was http."""
    link = entry.guid or entry.url or ""
    return _hash("g" if entry.guid else "l", _PLAIN + link[6:]) if link.startswith("https:") else None


def _identities(
    entries: Sequence[ParsedEntry], own: Sequence[bytes], contents: Sequence[bytes], known: _Known
) -> list[bytes]:
    """Return each entry's identity; a guid that several different entries share doesn't identify them.

    Only the entry already known by a shared guid keeps it: that entry had the guid first.
    """
    shared = _shared(own, contents) if len(set(own)) < len(own) else ()
    triples = zip(entries, own, contents, strict=True)
    return [
        _lasting(entry) if guid in shared and not known.is_known_by_guid(guid, content) else guid
        for entry, guid, content in triples
    ]


def _shared(own: Sequence[bytes], contents: Sequence[bytes]) -> set[bytes]:
    """Return the guids that several different entries share."""
    different = {(guid, content[:_KEY]) for guid, content in zip(own, contents, strict=True)}
    return {guid for guid, n in Counter(guid for guid, _ in different).items() if n > 1}


def _lasting(entry: ParsedEntry) -> bytes:
    """Return an identity that doesn't depend on the guid."""
    if entry.url or entry.title:
        return _hash("k", entry.url or "", entry.title)
    return _hash("b", entry.content, entry.summary)


def _guids_changed(identities: Sequence[bytes], contents: Sequence[bytes], known: _Known) -> bool:
    """Return whether the same entries came back under other guids.

    At least two thirds of the entries must be known by a key of their own and at most a tenth by guid.
    Otherwise a feed whose entries all look alike ("Photo", no link) would lose its new entries.
    """
    if not known.by_guid:
        return False
    if has_enough_known(sum(identity in known.by_guid for identity in identities), len(identities)):
        return False
    keys = [content[:_KEY] for content in contents] if known.by_key else []
    counts = Counter(keys)
    by_key = sum(counts[key] == 1 and key in known.by_key for key in keys)
    return by_key >= _FEWEST and 3 * by_key >= 2 * len(keys)


def _hash(*parts: str) -> bytes:
    return xxhash.xxh3_64_digest("\x1f".join(parts).encode("utf-8", "surrogatepass"))
