"""Which entries of a feed the entries of an archive are.

Guids settle it where the archive has them. Links don't always: some readers strip tracking parameters from
them or escape them in their own way, and some feeds give all their entries one link, or none. So an entry
that shares its link is also told by its title and time.
"""

from __future__ import annotations

import datetime as dt
import html
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from app.feeds.entry_hashes import fold_scheme, list_possible_hashes
from app.feeds.urls import hash_page
from app.mappers.feeds.entries import EntryLink
from app.models.imports.archives import SavedEntry
from app.models.names import to_one_line

T = TypeVar("T")

_ELEMENT = re.compile(r"</?[A-Za-z][^<>]*>")
_WORD = re.compile(r"\w+")


def match_entries(
    links: Sequence[EntryLink], entries: Sequence[SavedEntry]
) -> list[tuple[EntryLink, SavedEntry]]:
    """Return the entries that a feed has, each with the feed's entry; no two have the same.

    Args:
        links: entries of the feed, in its order.
        entries: of one feed in an archive.
    """
    return _Match(links, entries).find()


class _Match:
    def __init__(self, links: Sequence[EntryLink], entries: Sequence[SavedEntry]) -> None:
        self._links, self._entries = links, entries
        self._found = dict[int, tuple[EntryLink, SavedEntry]]()
        self._done = set[int]()

    def find(self) -> list[tuple[EntryLink, SavedEntry]]:
        by_guid = {link.guid_hash: link for link in self._links}
        for entry in self._entries:
            hashes = list_possible_hashes(entry.guid, entry.link)
            self._take(next((by_guid[one] for one in hashes if one in by_guid), None), entry)
        self._match_links(fold_scheme)
        self._match_links(_name_page)
        self._match_titles()
        return list(self._found.values())

    def _take(self, link: EntryLink | None, entry: SavedEntry) -> None:
        if link is not None and link.id not in self._found:
            self._found[link.id] = link, entry
            self._done.add(id(entry))

    def _iter_left(self) -> Iterator[SavedEntry]:
        return (entry for entry in self._entries if id(entry) not in self._done)

    def _match_links(self, name: Callable[[str], Hashable]) -> None:
        """Match entries with the same link; where several share it, by title and time, then by title."""
        wanted = _group((name(entry.link), entry) for entry in self._iter_left() if entry.link)
        wanted.pop(None, None)
        if not wanted:
            return
        there = _group((name(link.url), link) for link in self._links if link.url)
        for key, entries in wanted.items():
            links = there.get(key, [])
            self._match_shared(links, entries)
            if len(links) == len(entries) == 1:
                self._take(links[0], entries[0])  # its title was changed

    def _match_shared(self, links: Sequence[EntryLink], entries: Sequence[SavedEntry]) -> None:
        """Match entries of one link by title and time; by title alone if it occurs once or has no time."""
        there = _group((_name_dated(link), link) for link in self._iter_free(links))
        for entry in entries:
            name = _name_dated(entry)
            if name is not None and (same := there.get(name)):
                self._take(same.pop(0), entry)
        titles = _group((fold_title(link.title), link) for link in links)
        sought = Counter(fold_title(entry.title) for entry in entries)
        for entry in entries:
            if id(entry) in self._done:
                continue
            same = titles.get(fold_title(entry.title), [])
            if not len(same) == sought[fold_title(entry.title)] == 1:
                same = [link for link in same if link.published is None or entry.at is None]
            self._take(next(self._iter_free(same), None), entry)

    def _iter_free(self, links: Iterable[EntryLink]) -> Iterator[EntryLink]:
        return (link for link in links if link.id not in self._found)

    def _match_titles(self) -> None:
        """Match entries whose links differ: by title and time, and those without a link by their titles.

        Only what occurs once counts: many feeds have a title every day, and some stamp all entries alike.
        """
        left = list(self._iter_left())
        if not left:
            return
        titles = Counter(fold_title(link.title) for link in self._links)
        free = [link for link in self._iter_free(self._links) if fold_title(link.title)]
        dated = _find_single((_name_dated(link), link) for link in free)
        bare = _find_single((fold_title(link.title), link) for link in free if not link.url)
        sought = Counter(fold_title(entry.title) for entry in self._entries)
        for entry in left:
            title = fold_title(entry.title)
            dated_name = _name_dated(entry)
            link = dated.get(dated_name) if dated_name is not None else None
            if link is None and titles[title] == sought[title] == 1:
                link = bare.get(title)
            self._take(link, entry)


def fold_title(title: str) -> str:
    """Return the words of a title in lower case; readers differ in what markup and signs they leave in it."""
    plain = _ELEMENT.sub(" ", html.unescape(html.unescape(title)))
    return " ".join(_WORD.findall(plain.casefold())) or to_one_line(plain)


def _name_page(link: str) -> int | None:
    """Return the address key of a link, in which some readers leave spaces."""
    return hash_page(link.replace(" ", "%20"))


def _get_time(one: EntryLink | SavedEntry) -> dt.datetime | None:
    return one.at if isinstance(one, SavedEntry) else one.published


def _to_second(at: dt.datetime | None) -> int | None:
    return None if at is None else int(at.timestamp())


def _name_dated(one: EntryLink | SavedEntry) -> Hashable:
    """Return title and time; None if it lacks one of them."""
    title, second = fold_title(one.title), _to_second(_get_time(one))
    return None if not title or second is None else (title, second)


def _group(pairs: Iterable[tuple[Hashable, T]]) -> dict[Hashable, list[T]]:
    found = defaultdict[Hashable, list[T]](list)
    for name, one in pairs:
        found[name].append(one)
    return found


def _find_single(pairs: Iterable[tuple[Hashable, T]]) -> Mapping[Hashable, T]:
    """Return what occurs under a name once; nothing is named None."""
    return {name: all_[0] for name, all_ in _group(pairs).items() if len(all_) == 1 and name is not None}
