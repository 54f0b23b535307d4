"""Retention: deletes the oldest entries of a feed above the number to keep."""

from __future__ import annotations

from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper


class RetentionGateway:
    """Deletes the oldest entries of feeds.

    Args:
        keep: entries to keep per feed.
    """

    def __init__(self, feeds: FeedMapper, entries: EntryMapper, *, keep: int) -> None:
        self._feeds, self._entries = feeds, entries
        self._keep = keep

    def apply_retention(self, feed_id: int) -> int:
        """Delete a feed's oldest entries above the number to keep; return how many were deleted.

        The feed's first number is raised before the deletion, so leftovers of a crash don't count. Starred
        entries stay, but no longer count as unread.
        """
        return self._entries.delete_below(feed_id, self._feeds.raise_first_seq(feed_id, self._keep))
