"""The full text of an entry: the article on its page, for feeds that publish only the beginning."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Final

#: The page has no more text than the feed.
NOTHING_MORE: Final = "nothing_more"
#: There is no article on the page.
UNREADABLE: Final = "unreadable"
#: Fewest words of an article: a note about cookies or a login has fewer.
MIN_WORDS: Final = 60


@dataclasses.dataclass(frozen=True, slots=True)
class FullText:
    """The text of an entry's page, the same for all readers.

    Attributes:
        at: when it was fetched.
        html: sanitized HTML; empty after a failure, and for a person's saved page, whose entry has the text.
        raw: as published, if sanitizing changed it (:mod:`app.gateways.feeds.entry_bodies`).
        cleaned_by: version of the sanitizer.
        error: the word of a failure, a key of :data:`app.errors.FEED_MESSAGES`.
        title: of saved pages, the page's own, which may differ from the one that the person gave.
    """

    at: dt.datetime
    html: str = ""
    raw: bytes = b""
    cleaned_by: int = 0
    error: str | None = None
    title: str = ""


#: Failures of pages that are fetched ahead, without a person who waits: for a person, they are tried again.
ROBOTS, NO_STORE = "robots", "no_store"
_ONLY_AHEAD: Final = frozenset({ROBOTS, NO_STORE})
#: A page with fewer words, as a multiple of the feed's, gains little.
GAIN: Final = 1.2


def is_only_ahead(error: str | None) -> bool:
    """Return whether a failure concerns only fetches without a person who waits."""
    return error in _ONLY_AHEAD


def is_worthwhile(words: int, feed_words: int) -> bool:
    """Return whether a page with so many words says more than its feed."""
    return words >= MIN_WORDS and words > feed_words
