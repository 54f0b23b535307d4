"""The plan of an import: outlines with folders, duplicates and errors; pure functions."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.errors import InvalidError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.feeds.urls import hash_url
from app.models.imports.imports import Import, ImportFolder, ImportItem, ItemState
from app.models.imports.opml import AddressFault, Outline, SubscriptionList
from app.models.names import to_one_line
from app.models.sharing import own_addresses

NAME_MAX, TITLE_MAX, URL_MAX = 128, 512, 2048
#: Returns feed ids by address key, for those of the given keys that the user subscribes to.
Have = Callable[[list[str]], Mapping[str, int]]
_NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def plan_import(
    subscription_list: SubscriptionList, find_subscribed: Have, policy: Policy, own_host: str = ""
) -> tuple[Import, list[ImportItem]]:
    """Return an import (still without name, owner and time) and its outlines, folder by folder.

    Args:
        own_host: this server's host: people on it are followed, not fetched.
    """
    folders = _Folders(subscription_list)
    items = _Planner(folders, policy, own_host).plan_items(subscription_list.feeds, find_subscribed)
    used = {place for item in items for place in item.folders}
    new = Import(
        id=0,
        user_id=0,
        name="",
        created=_NEVER,
        title=to_one_line(subscription_list.title, TITLE_MAX),
        folders=tuple(folders.rows),
        empty=tuple(_unused(folders.rows, used)),
        note=subscription_list.repaired,
        counts=count_states(items),
    )
    return new, items


class _Planner:
    def __init__(self, folders: _Folders, policy: Policy, own_host: str) -> None:
        self._folders = folders
        self._policy = policy
        self._own = own_host

    def plan_items(self, feeds: Sequence[Outline], have: Have) -> list[ImportItem]:
        ordered = sorted(feeds, key=lambda feed: self._folders.find_index(feed.folders))
        addresses = [self._address(feed.url) for feed in ordered]
        ordered = [dataclasses.replace(f, url=url) for f, (url, _) in zip(ordered, addresses, strict=True)]
        # Don't parse texts that are too long to be an address.
        keys = [hash_url(feed.url) if len(feed.url) <= URL_MAX else feed.url for feed in ordered]
        first: dict[str, int] = {}
        places: dict[str, dict[int, None]] = {}
        for index, (key, feed) in enumerate(zip(keys, ordered, strict=True)):
            first.setdefault(key, index)
            if (place := self._folders.find_index(feed.folders)) >= 0:
                places.setdefault(key, {})[place] = None
        mine = have(list(first))
        return [
            _item(index, feed, tuple(places.get(key, ())), addresses[index][1], mine.get(key))
            if first[key] == index
            else _double(index, feed, self._folders.find_index(feed.folders))
            for index, (key, feed) in enumerate(zip(keys, ordered, strict=True))
        ]

    def _address(self, text: str) -> tuple[str, AddressFault | None]:
        """Return the address that an outline names, and why it can never be subscribed to."""
        if len(text) > URL_MAX:
            return text, AddressFault("invalid_url", f"longer than {URL_MAX} characters")
        url, fault = opml.resolve_address(text, self._policy)
        try:
            return url, None if own_addresses.parse_handle(url, (self._own,)) else fault
        except InvalidError:
            return url, AddressFault("invalid_url", "is this server's own address")


def _item(
    index: int, feed: Outline, places: tuple[int, ...], fault: AddressFault | None, mine: int | None
) -> ImportItem:
    title, url = to_one_line(feed.title, TITLE_MAX), feed.url[:URL_MAX]
    if fault:
        failed = ItemState.FAILED
        return ImportItem(index, url, title, places, feed.line, failed, fault.word, None, fault.detail)
    state = ItemState.ALREADY if mine else ItemState.WAITING
    return ImportItem(index, url, title, places, feed.line, state, None, mine)


def _double(index: int, feed: Outline, place: int) -> ImportItem:
    places = (place,) if place >= 0 else ()
    return ImportItem(
        index, feed.url[:URL_MAX], to_one_line(feed.title, TITLE_MAX), places, feed.line, ItemState.DOUBLE
    )


class _Folders:
    """The folders of a file as one list, parents first."""

    def __init__(self, subscription_list: SubscriptionList) -> None:
        self.rows: list[ImportFolder] = []
        self._rows: dict[ImportFolder, int] = {}
        self._places: dict[tuple[str, ...], int] = {(): -1}
        for path in subscription_list.folders:
            self.find_index(path)

    def find_index(self, path: tuple[str, ...]) -> int:
        """Return the index of a folder, -1 for none; folders with equal cleaned names are the same."""
        if path not in self._places:
            above = self.find_index(path[:-1])
            row = ImportFolder(to_one_line(path[-1], NAME_MAX) or "…", above if above >= 0 else None)
            if row not in self._rows:
                self._rows[row] = len(self.rows)
                self.rows.append(row)
            self._places[path] = self._rows[row]
        return self._places[path]


def _unused(rows: Sequence[ImportFolder], used: set[int]) -> list[int]:
    """Return the folders that contain no feed, not even in a subfolder."""
    busy = set(used)
    for place in range(len(rows) - 1, -1, -1):
        parent = rows[place].parent
        if place in busy and parent is not None:
            busy.add(parent)
    return [place for place in range(len(rows)) if place not in busy]


def count_states(items: Iterable[ImportItem]) -> dict[str, int]:
    """Return state → number of outlines."""
    return dict(Counter(item.state.value for item in items))
