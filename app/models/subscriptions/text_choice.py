"""Which text of an entry its reader gets: the feed's, or always the full text of its page."""

from __future__ import annotations

from collections.abc import Mapping

from app.models.reading.entry import Entry
from app.models.subscriptions.subscription import Subscription


def is_always_full(entry: Entry, subscriptions: Mapping[int, Subscription]) -> bool:
    """Return whether a reader wants the full text of an entry, by their subscription to its feed.

    Of a share, the reader's own subscription to the feed of the shared entry decides.

    Args:
        subscriptions: the reader's, by feed.
    """
    mine = subscriptions.get(entry.source_id)
    return mine is not None and mine.full_text
