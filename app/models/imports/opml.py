"""A subscription list as OPML holds it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Outline:
    """One subscription.

    Attributes:
        url: the feed's address as written; ``problem`` says why it cannot be subscribed to.
        folders: names of the folders around it, outermost first.
        line: where it stands in the file, from 1; 0 when it was not read from one.
    """

    url: str
    title: str = ""
    site_url: str | None = None
    folders: tuple[str, ...] = ()
    line: int = 0
    problem: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SubscriptionList:
    """An OPML document.

    Attributes:
        title: of the list.
        feeds: all subscriptions in their order, doubles included.
        folders: paths of all folders in their order, empty ones included.
        outlines: number of all outlines, whatever they are.
        repaired: sentence about what was wrong with the file and could be mended, else None.
    """

    title: str
    feeds: tuple[Outline, ...]
    folders: tuple[tuple[str, ...], ...]
    outlines: int
    repaired: str | None = None

    @property
    def max_folder_depth(self) -> int:
        """Return how deep the deepest subscription lies."""
        return max((len(feed.folders) for feed in self.feeds), default=0)
