"""Retention: how many entries of a feed are kept, and how the oldest ones go."""

from __future__ import annotations

from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper


class RetentionGateway:
    """Deletes the oldest entries of feeds.

    Args:
        keep: entries that are kept of each feed.
    """

    def __init__(self, feeds: FeedMapper, entries: EntryMapper, *, keep: int) -> None:
        self._feeds, self._entries = feeds, entries
        self._keep = keep

    def apply_retention(self, feed_id: int) -> int:
        """Delete a feed's oldest entries beyond the number that is kept, and return how many were deleted.

        The feed's first number is raised before anything is deleted, so a crash in between leaves nothing
        that counts. Starred entries stay, but no longer count as unread.
        """
        return self._entries.delete_below(feed_id, self._feeds.raise_first_seq(feed_id, self._keep))
