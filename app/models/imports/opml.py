"""Subscription lists in OPML form."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

#: The program that lists feeds outside of all folders in a folder, and the folder's name.
MINIFLUX, MINIFLUX_ROOT = "Miniflux", "All"
#: Characters of a feed's description that are read; a longer one is cut.
ABOUT_MAX = 200


class AddressFault(NamedTuple):
    """Why an address can never be fetched: word and detail of a :class:`app.errors.FetchError`."""

    word: str
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Outline:
    """One subscription.

    Attributes:
        url: the feed's address as written; ``problem`` says why it can't be subscribed to.
        folders: names of the folders around it, outermost first.
        line: its line in the file, from 1; 0 if it didn't come from a file.
        about: its description, plain text of at most :data:`ABOUT_MAX` characters; empty: none.
    """

    url: str
    title: str = ""
    site_url: str | None = None
    folders: tuple[str, ...] = ()
    line: int = 0
    problem: str | None = None
    about: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SubscriptionList:
    """An OPML document.

    Attributes:
        title: of the list.
        feeds: all subscriptions in their order, duplicates included.
        folders: paths of all folders in their order, empty ones included.
        outlines: the number of all outlines of any kind.
        repaired: sentence about the fault in the file that was repaired, else None.
    """

    title: str
    feeds: tuple[Outline, ...]
    folders: tuple[tuple[str, ...], ...]
    outlines: int
    repaired: str | None = None

    @property
    def max_folder_depth(self) -> int:
        """The folder depth of the deepest subscription."""
        return max((len(feed.folders) for feed in self.feeds), default=0)
