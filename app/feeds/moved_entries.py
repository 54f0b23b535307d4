"""Entries that came back under another guid or link: after a move to https, to another site, or alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence

from app.feeds.entry_hashes import HALF, KEY, PLAIN, hash_content, hash_with_http
from app.feeds.known_entries import FEWEST, KnownEntries, has_enough_known
from app.models.feeds.parsed import ParsedEntry

#: Fewer texts than this can't show that links changed, unless dates prove the entries older.
_FEWEST_YOUNG = 5


def find_former_guids(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    since: dt.datetime | None,
) -> Sequence[bytes]:
    """Return the guids; a guid that is a link changed to https is replaced by its http predecessor."""
    before, listed = known.by_alias, set(own)
    unknown = listed.difference(before)
    if not before or not unknown:
        return own
    then = [
        was if guid in unknown and (was := hash_with_http(entry)) in before and was not in listed else guid
        for entry, guid in zip(entries, own, strict=True)
    ]
    if has_enough_known(len(listed) - len(unknown), len(own)) or has_enough_known(
        sum(g in before for g in then), len(own)
    ):
        return then
    keys = [content[:KEY] for content in contents]
    # The rules for changed guids would merge entries with the same key: see :func:`are_apart`.
    if has_enough_known(sum(key in known.by_key for key in keys), len(keys)) or len(set(keys)) < len(keys):
        return then
    return _before_move(entries, then, contents, known, since)


def _before_move(
    entries: Sequence[ParsedEntry],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
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
        if guids and guids[0] not in listed and known.by_alias[guids[0]][:KEY] != content[:KEY]:
            found[at] = guids[0]
    telling = _telling(entries, since) if found else {}
    found = {at: guid for at, guid in found.items() if at in telling}
    fewest = FEWEST if sum(telling[at] for at in found) >= FEWEST else _FEWEST_YOUNG
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
    bodies = [content[KEY:]]
    if entry.url and not entry.url.startswith(PLAIN):
        bodies.append(hash_content(entry._replace(url=PLAIN))[KEY:])
    return bodies


def find_guid_alone(then: Sequence[bytes], contents: Sequence[bytes], known: KnownEntries) -> Sequence[bytes]:
    """Return the guids; the one entry with the same content as the single known entry gets its guid."""
    ((was, row),) = known.by_guid.items()
    content = row[:HALF]
    if was in then or contents.count(content) != 1:
        return then
    return [was if at == content else guid for guid, at in zip(then, contents, strict=True)]


def are_apart(then: Sequence[bytes], contents: Sequence[bytes], known: KnownEntries) -> bool:
    """Return whether a feed that moved to https can be treated as one that changed its guids once.

    Only then are the old guids kept beside the new ones, in case a document is short once. But the rules
    for changed guids would merge entries with the same key.
    """
    keys = [content[:KEY] for content in contents]
    return len(set(keys)) == len(keys) and known.has_stable_guids(then, keys)
