"""Retention: deletes the oldest entries of a feed above the number and the size to keep."""

from __future__ import annotations

from typing import Final

from app import logs
from app.errors import CellError
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.operations.outbox import OutboxMapper
from app.models.feeds.feed import Position

_log = logs.get(__name__)

#: Percent of the size to keep that remain when a feed exceeds it: measuring reads all of its entries, so the
#: next measurement must be far away.
_REMAINS: Final = 80


class RetentionGateway:
    """Deletes the oldest entries of feeds.

    Args:
        outbox: knows entries whose stars in cells aren't counted yet.
        keep: entries to keep per feed.
        keep_bytes: size of the entries to keep per feed, as stored.
    """

    def __init__(
        self, feeds: FeedMapper, entries: EntryMapper, outbox: OutboxMapper, *, keep: int, keep_bytes: int
    ) -> None:
        self._feeds, self._entries, self._outbox = feeds, entries, outbox
        self._keep, self._keep_bytes = keep, keep_bytes

    def apply_retention(self, feed_id: int) -> int:
        """Delete a feed's oldest entries above the number or size to keep; return how many were deleted.

        The feed's first number is raised before the deletion, so leftovers of a crash don't count. Starred
        entries stay, but no longer count as unread. The newest entry always stays.
        """
        position = self._feeds.raise_first_seq(feed_id, self._keep)
        if position is None:
            return 0
        first_seq = position.first_seq
        if position.stored_bytes is None or position.stored_bytes > self._keep_bytes:
            first_seq = self._fit_bytes(position)
        return delete_unkept(self._entries, self._outbox, feed_id, first_seq)

    def _fit_bytes(self, position: Position) -> int:
        """Measure a feed's entries, and raise its first number if they are too big; return that number."""
        sizes = list(self._entries.find_sizes(position.feed_id, position.first_seq))
        total, first_seq = sum(size for _, size in sizes), position.first_seq
        if total > self._keep_bytes:
            total = 0
            for seq, size in sizes:
                if total and total + size > self._keep_bytes * _REMAINS // 100:
                    break
                first_seq, total = seq, total + size
        self._feeds.set_stored_bytes(position, first_seq, total)
        return first_seq


def delete_unkept(entries: EntryMapper, outbox: OutboxMapper, feed_id: int, seq: int) -> int:
    """Delete a feed's entries below a number that nobody keeps; return how many.

    People in cells may have starred an entry that doesn't count their stars yet: such entries stay until the
    outboxes are settled. While a cell isn't responding, nothing is deleted. The next run continues.
    """
    try:
        unsettled = outbox.find_unsettled_entries(feed_id)
    except CellError:
        _log.warning("retention_waits", feed_id=feed_id)
        return 0
    return entries.delete_below(feed_id, seq, sorted(unsettled))
