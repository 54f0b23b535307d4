"""Lists found on a page that isn't a feed, and how they are stored."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, Self

#: Entries of a list that a preview shows, and characters of one title.
SHOWN, TITLE = 5, 140


@dataclasses.dataclass(frozen=True, slots=True)
class ListedEntry:
    """An entry of a list; ``published`` is None if the list states no date."""

    title: str
    url: str
    published: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PageList:
    """A repeated part of a page that can be a feed.

    Attributes:
        url: the address of the feed: the page's, with the recipe.
        item: the selector of its entries.
        count: the number of its entries now. entries: the first ones.
    """

    url: str
    item: str
    count: int
    entries: tuple[ListedEntry, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the list with JSON values only."""
        entries = [[e.title, e.url, e.published and e.published.isoformat()] for e in self.entries]
        return {"url": self.url, "item": self.item, "count": self.count, "entries": entries}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the list that :meth:`to_json` wrote."""
        entries = tuple(
            ListedEntry(title, url, dt.datetime.fromisoformat(at) if at else None)
            for title, url, at in data["entries"]
        )
        return cls(data["url"], data["item"], data["count"], entries)


@dataclasses.dataclass(frozen=True, slots=True)
class FoundLists:
    """The result of reading a page.

    Attributes:
        title: of the page.
        lists: the likeliest first; those of a recipe that was tried: one.
        error: an error word of ``app.errors.FEED_MESSAGES``; None: the page was read.
        outline: what the page shows, for pointing at it, see :mod:`app.feeds.pages.outline`; it isn't read
            back with the lists.
    """

    title: str = ""
    lists: tuple[PageList, ...] = ()
    error: str | None = None
    outline: list[Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StoredPage:
    """A page to read as stored; ``result`` is None until it is read.

    Attributes:
        address: of the page; with a recipe, only what this recipe reads is wanted.
        is_stored: False if nobody has requested it lately.
    """

    key: int
    address: str
    result: FoundLists | None
    is_stored: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class PageView:
    """The lists of a page as their requester sees them; ``wait``: the page isn't read yet."""

    key: int
    address: str
    wait: bool = False
    title: str = ""
    lists: tuple[PageList, ...] = ()
    error: str | None = None
    message: str | None = None
