"""Entries that came back under another guid or link: after a move to https, to another site, or alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from app.feeds.entry_hashes import (
    HALF,
    KEY,
    PLACE,
    PLAIN,
    has_same_place,
    has_weak_key,
    hash_content,
    hash_lasting,
    hash_with_http,
)
from app.feeds.known_entries import FEWEST, KnownEntries, has_enough_known
from app.models.feeds.parsed import ParsedEntry

#: Fewer texts than this can't show that links changed, unless dates prove the entries older.
_FEWEST_YOUNG = 5
#: Entries that were older at the last fetch may be pinned.
_PINNED = dt.timedelta(days=14)


def find_former_guids(
    entries: Sequence[ParsedEntry],
    own: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    *,
    since: dt.datetime | None,
    site: str | None,
) -> Sequence[bytes]:
    """Return the guids; those of entries that were known under another guid are replaced by that one.

    Args:
        entries: the entries that are listed now.
        own, contents: their guids and contents, as hashes.
        known: the entries from before.
        since: the time of the last fetch; None if unknown.
        site: the address of the feed's site, which is not the link of an entry.
    """
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
        return _find_reissued(entries, then, contents, known, since=since, site=site)
    keys = [content[:KEY] for content in contents]
    # The rules for changed guids would merge entries with the same key: see :func:`are_apart`.
    if has_enough_known(sum(key in known.by_key for key in keys), len(keys)) or len(set(keys)) < len(keys):
        return then
    return _before_move(entries, then, contents, known, since)


def _find_reissued(
    entries: Sequence[ParsedEntry],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    *,
    since: dt.datetime | None,
    site: str | None,
) -> Sequence[bytes]:
    """Return the guids; single entries that came back under another guid or link get their former guid.

    Their former guid must have left the document at once, and no other entry may be like them.
    """
    gone = known.by_alias.keys() - set(then)
    places = {known.by_alias[guid][:PLACE] for guid in gone}
    unknown = [at for at, guid in enumerate(then) if guid not in known.by_alias]
    if not any(contents[at][:PLACE] in places for at in unknown):
        return then  # nothing that left has the place and title of one that came
    found = _find_counted(entries, then, contents, known, since)
    keys = Counter(content[:KEY] for content in contents)
    links = Counter(entry.url for entry in entries)
    ages = get_ages(entries, since)
    # A feed with pinned entries and the comic of the day has known guids, too, and a new comic each day.
    kept = [at for at, guid in enumerate(then) if guid in known.by_alias and not is_pinned(ages[at])]
    has_others = len(kept) >= FEWEST
    for at in unknown:
        entry, content = entries[at], contents[at]
        if at in found or keys[content[:KEY]] > 1 or hash_lasting(entry) in known.by_guid:
            continue
        was = known.guids_by_key.get(content[:KEY]) or known.guids_of_gone.get(content)
        if was not in gone:
            continue
        is_permalink = entry.url is not None and links[entry.url] == 1 and not _is_home(entry.url, site)
        has_same_text = known.by_alias[was][KEY:HALF] == content[KEY:]
        is_repeated = has_same_text and _has_text(entry) and not is_young(ages[at])
        has_key = has_others and not has_weak_key(entry.url)
        if is_repeated or (is_permalink and (has_same_text or has_key)):
            found[at] = was
    return _replaced(then, found)


def _find_counted(
    entries: Sequence[ParsedEntry],
    then: Sequence[bytes],
    contents: Sequence[bytes],
    known: KnownEntries,
    since: dt.datetime | None,
) -> dict[int, bytes]:
    """Return the index of each entry that differs from a known one only in its link's query → its guid.

    Many links carry a counter, or the number of a session.
    """
    listed, places = set(then), [content[:PLACE] + content[KEY:] for content in contents]
    counts, ages = Counter(places), get_ages(entries, since)
    found: dict[int, bytes] = {}
    for at, (entry, guid, place) in enumerate(zip(entries, then, places, strict=True)):
        was = known.guids_by_place.get(place)
        if was is None or was in listed or guid in known.by_alias or counts[place] > 1:
            continue
        has_other_query = known.by_alias[was][:KEY] != contents[at][:KEY]
        if has_other_query and _has_text(entry) and not is_young(ages[at]):
            found[at] = was
    return found


def _replaced(then: Sequence[bytes], found: dict[int, bytes]) -> Sequence[bytes]:
    counts = Counter(found.values())
    return [found[at] if at in found and counts[found[at]] == 1 else guid for at, guid in enumerate(then)]


def _has_text(entry: ParsedEntry) -> bool:
    return bool(entry.title or entry.content or entry.summary)


def is_after(entry: ParsedEntry, since: dt.datetime | None) -> bool:
    """Return whether an entry is dated after the last fetch; False if either time is unknown."""
    date = entry.published or entry.updated
    return since is not None and date is not None and date > since


def is_young(age: dt.timedelta | None) -> bool:
    """Return whether an entry is dated after the last fetch."""
    return age is not None and age.days < 0


def is_pinned(age: dt.timedelta | None) -> bool:
    """Return whether an entry is so old that it tells nothing of how a feed treats its newest ones."""
    return age is not None and age > _PINNED


def _is_home(url: str, site: str | None) -> bool:
    """Return whether a link leads to the front page of a site, as those of daily columns do."""
    if site and url.rstrip("/") == site.rstrip("/"):
        return True
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.path in ("", "/") and not parts.query


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
    counted = _find_counted(entries, then, contents, known, since)
    told: dict[int, bytes] = {}
    for at, (entry, content) in enumerate(zip(entries, contents, strict=True)):
        guids = [known.by_body[body] for body in _bodies(entry, content) if body in known.by_body]
        if guids and guids[0] not in listed and known.by_alias[guids[0]][:KEY] != content[:KEY]:
            told[at] = guids[0]
    telling = _telling(entries, since) if told else {}
    old = [at for at in told if telling.get(at)]
    found = {at: guid for at, guid in told.items() if at in telling} | counted
    fewest = FEWEST if len({*old, *counted}) >= FEWEST else _FEWEST_YOUNG
    if len(found) < fewest or 3 * len(found) < 2 * len(then):
        return then
    return _replaced(then, found)


def _telling(entries: Sequence[ParsedEntry], since: dt.datetime | None) -> dict[int, bool]:
    """Return the index of each entry that its text can identify → whether its date proves it old.

    Such a date is at least a day before the last fetch: many dates name only the day, or appear hours
    late. One date shared by all entries is the document's. An entry without an old date also needs a title
    of its own. A title alone needs an old date: "Berlin" is the title of each day's weather. An entry dated
    after the last fetch is new.
    """
    texts = Counter((entry.content, entry.summary) for entry in entries)
    titles = Counter(entry.title for entry in entries)
    found: dict[int, bool] = {}
    for at, (entry, age) in enumerate(zip(entries, get_ages(entries, since), strict=True)):
        text = entry.content, entry.summary
        is_old = age is not None and age.days >= 1
        has_title = bool(entry.title) and titles[entry.title] == 1
        if any(text):
            is_alone = texts[text] == 1 and (is_old or has_title)
        else:
            is_alone = is_old and has_title
        if is_alone and (age is None or age.days >= 0):
            found[at] = is_old
    return found


def get_ages(entries: Sequence[ParsedEntry], since: dt.datetime | None) -> list[dt.timedelta | None]:
    """Return how old each entry was at the last fetch, by its date; None if its date tells nothing."""
    dates = [entry.published or entry.updated for entry in entries]
    if since is None or (len(entries) > 1 and len(set(dates)) == 1):
        return [None] * len(entries)  # one date for all is the document's
    return [since - date if date else None for date in dates]


def _bodies(entry: ParsedEntry, content: bytes) -> list[bytes]:
    """Return the bodies that a row may have for this entry: as it is, and before a move to https."""
    bodies = [content[KEY:]]
    if entry.url and not entry.url.startswith(PLAIN):
        bodies.append(hash_content(entry._replace(url=PLAIN))[KEY:])
    return bodies


def find_guid_alone(then: Sequence[bytes], contents: Sequence[bytes], known: KnownEntries) -> Sequence[bytes]:
    """Return the guids; the one entry with the same text as the single known entry gets its guid.

    Its link may differ in its query.
    """
    ((was, row),) = known.by_guid.items()
    alike = [has_same_place(row, content + row[HALF:]) for content in contents]
    if was in then or sum(alike) != 1:
        return then
    return [was if same else guid for guid, same in zip(then, alike, strict=True)]


def are_apart(then: Sequence[bytes], contents: Sequence[bytes], known: KnownEntries) -> bool:
    """Return whether a feed that moved to https can be treated as one that changed its guids once.

    Only then are the old guids kept beside the new ones, in case a document is short once. But the rules
    for changed guids would merge entries with the same key.
    """
    keys = [content[:KEY] for content in contents]
    return len(set(keys)) == len(keys) and known.has_stable_guids(then, keys)
