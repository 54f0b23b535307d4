"""Which entries of a feed the entries of an archive are.

Guids settle it where the archive has them. Links don't always: some readers strip tracking parameters from
them or escape them in their own way, and some feeds give all their entries one link, or none. So an entry
that shares its link is also told by its title and time.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import html
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from app.feeds.entry_hashes import fold_scheme, list_possible_hashes
from app.feeds.urls import hash_page
from app.mappers.feeds.entries import EntryLink
from app.models.imports.archives import MarkRow, Repeats, SavedEntry
from app.models.names import to_one_line

T = TypeVar("T")

#: Times that differ by at most this are the same: some readers cut or round them.
SAME_TIME: Final = dt.timedelta(minutes=1)
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
        self._match_links(lambda link: fold_scheme(link) if link else None, Repeats.LINK)
        self._match_links(_name_part, Repeats.PAGE)
        self._match_pages()
        self._match_titles()
        return list(self._found.values())

    def _take(self, link: EntryLink | None, entry: SavedEntry) -> None:
        if link is not None and link.id not in self._found:
            self._found[link.id] = link, entry
            self._done.add(id(entry))

    def _iter_left(self) -> Iterator[SavedEntry]:
        return (entry for entry in self._entries if id(entry) not in self._done)

    def _match_links(self, name: Callable[[str], Hashable], repeats: Repeats) -> None:
        """Match entries with the same link; where several share it, by title and time, then by title.

        Args:
            name: returns what is equal for equal links; None for none.
            repeats: which of :class:`Repeats` such a name is.
        """
        for links, entries in self._group_by_link(name):
            self._match_shared(links, entries)
            if len(links) == len(entries) == 1 and repeats not in entries[0].repeats:
                is_sure = repeats is Repeats.LINK
                self._take(links[0] if _is_same(links[0], entries[0], is_sure=is_sure) else None, entries[0])

    def _match_pages(self) -> None:
        """Match entries whose links differ in a fragment that one of them lacks."""
        for links, entries in self._group_by_link(_name_page):
            self._match_shared(links, [entry for entry in entries if not _get_fragment(entry.link)])
            plain = [link for link in links if not _get_fragment(link.url)]
            self._match_shared(plain, [entry for entry in entries if _get_fragment(entry.link)])

    def _group_by_link(
        self, name: Callable[[str], Hashable]
    ) -> Iterator[tuple[list[EntryLink], list[SavedEntry]]]:
        """Yield entries of the feed and those left of the archive whose links have the same name."""
        wanted = _group((name(entry.link), entry) for entry in self._iter_left())
        wanted.pop(None, None)
        if wanted:
            there = _group((name(link.url), link) for link in self._links)
            yield from ((there[key], entries) for key, entries in wanted.items() if key in there)

    def _match_shared(self, links: Sequence[EntryLink], entries: Sequence[SavedEntry]) -> None:
        """Match entries of one link by title and time; by a title that occurs once if no times contradict."""
        there = _group((_name_dated(link), link) for link in self._iter_free(links))
        for entry in entries:
            name = _name_dated(entry)
            if name is not None and (same := there.get(name)):
                self._take(same.pop(0), entry)
        titles = _find_single((fold_title(link.title), link) for link in links)
        sought = Counter(fold_title(entry.title) for entry in entries)
        for entry in entries:
            link = titles.get(title := fold_title(entry.title))
            is_single = sought[title] == 1 and Repeats.TITLE not in entry.repeats
            if id(entry) not in self._done and link is not None and is_single:
                self._take(None if _is_same_time(link, entry) is False else link, entry)

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
        sought_dated = Counter(map(_name_dated, self._entries))
        for entry in left:
            title, dated_name, link = fold_title(entry.title), _name_dated(entry), None
            is_single_dated = sought_dated[dated_name] == 1 and Repeats.DATED not in entry.repeats
            if dated_name is not None and is_single_dated:
                link = dated.get(dated_name)
            is_single = titles[title] == sought[title] == 1 and Repeats.TITLE not in entry.repeats
            if link is None and is_single:
                link = bare.get(title)
                if link is not None and _is_same_time(link, entry) is False:
                    link = None
            self._take(link, entry)


def mark_repeats(rows: Iterable[MarkRow]) -> Iterator[MarkRow]:
    """Yield the rows of a whole archive, with what other rows of their feed have as well.

    Args:
        rows: those of one feed stand together.
    """
    for _, some in itertools.groupby(rows, key=lambda row: row.feed):
        feed_rows = list(some)
        names = [_list_names(row.entry) for row in feed_rows]
        counts = Counter(itertools.chain.from_iterable(names))
        for row, named in zip(feed_rows, names, strict=True):
            repeats = Repeats.NONE
            for flag, name in named:
                if name is not None and counts[flag, name] > 1:
                    repeats |= flag
            entry = dataclasses.replace(row.entry, repeats=repeats) if repeats else row.entry
            yield dataclasses.replace(row, entry=entry)


def _list_names(entry: SavedEntry) -> list[tuple[Repeats, Hashable]]:
    return [
        (Repeats.TITLE, fold_title(entry.title)),
        (Repeats.DATED, _name_dated(entry)),
        (Repeats.LINK, fold_scheme(entry.link) if entry.link else None),
        (Repeats.PAGE, _name_part(entry.link)),
    ]


def fold_title(title: str) -> str:
    """Return the words of a title in lower case; readers differ in what markup and signs they leave in it."""
    plain = _ELEMENT.sub(" ", html.unescape(html.unescape(title)))
    return " ".join(_WORD.findall(plain.casefold())) or to_one_line(plain)


def _name_page(link: str) -> int | None:
    """Return the address key of a link, in which some readers leave spaces."""
    return hash_page(link.replace(" ", "%20"))


def _get_fragment(link: str) -> str:
    return link.partition("#")[2]


def _name_part(link: str) -> Hashable:
    """Return the address key of a link with its fragment; None if it has no key."""
    key = _name_page(link)
    return None if key is None else (key, _get_fragment(link))


def _is_same(link: EntryLink, entry: SavedEntry, *, is_sure: bool) -> bool:
    """Tell whether two entries with a link of their own are one: its title or its time may have changed.

    Args:
        is_sure: the links are the very same, so that a title may have changed where a time is unknown.
    """
    title, is_same_time = fold_title(entry.title), _is_same_time(link, entry)
    return bool(title and title == fold_title(link.title)) or (
        is_same_time is not False if is_sure else is_same_time is True
    )


def _is_same_time(link: EntryLink, entry: SavedEntry) -> bool | None:
    """Return None if one of the times is unknown."""
    if link.published is None or entry.at is None:
        return None
    return abs(link.published - entry.at) <= SAME_TIME


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
