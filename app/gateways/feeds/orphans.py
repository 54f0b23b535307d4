"""Collection of orphan feeds: those that nobody reads and nobody needs are deleted with their entries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from app.mappers.feeds.orphans import OrphanMapper
from app.mappers.media.files import FileMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.reading.index_queue import IndexQueueMapper
from app.models.feeds.feed import OrphanCounts
from app.models.media.icon import name_owner

#: Entries that are deleted by one statement.
BATCH = 1000
#: A pull whose claim ended this long ago doesn't write anymore.
_PULLED = dt.timedelta(hours=1)


class OrphanGateway:
    """Deletes orphan feeds; each step can be repeated, and may be killed anywhere."""

    def __init__(
        self, store: Store, orphans: OrphanMapper, index_queue: IndexQueueMapper, files: FileMapper
    ) -> None:
        self._store, self._orphans, self._index_queue, self._files = store, orphans, index_queue, files

    def is_due(self, before: dt.datetime, undone: dt.datetime) -> bool:
        """Return whether :meth:`delete_orphans` has something to do now; for the times see there."""
        orphans = self._orphans
        return (
            orphans.has_new()
            or orphans.has_secrets(undone)
            or bool(orphans.find_waiting(before, 1) or orphans.find_removed(1))
        )

    def delete_orphans(
        self,
        before: dt.datetime,
        now: dt.datetime,
        *,
        undone: dt.datetime,
        limit: int,
        is_over: Callable[[], bool],
    ) -> OrphanCounts:
        """Delete feeds that have had no readers since ``before`` and that nobody needs, with their entries.

        Feeds without readers that aren't marked yet wait from ``now`` on, and so do feeds that someone needs.

        Args:
            undone: the logins of own copies without readers since then are deleted; no undo needs them.
            limit: the most feeds to mark, and to delete.
            is_over: whether to end; the next call continues.
        """
        self._orphans.forget_secrets(undone)
        entries = self._delete_entries(limit, is_over)
        self._orphans.mark_new(now, limit)
        feeds = 0
        for feed_id in self._orphans.find_waiting(before, limit):
            if is_over():
                break
            if self._remove(feed_id, before, now):
                feeds += 1
            else:
                self._orphans.postpone_deletion(feed_id, now)
        entries += self._delete_entries(limit, is_over)
        return OrphanCounts(feeds, entries, self._orphans.count())

    def _remove(self, feed_id: int, before: dt.datetime, now: dt.datetime) -> bool:
        """Delete a feed that has waited since ``before``; return False if someone needs it.

        Its address is free at once: the next subscriber gets a new feed.
        """

        def remove_feed(session: Session) -> bool:
            if self._orphans.has_references(feed_id, session):
                return False
            if not self._orphans.remove(feed_id, before, now - _PULLED, session):
                return False
            self._files.remove_owners([name_owner(feed_id)], now, session)
            return True

        # Most checks end here, without the cost of a transaction.
        return not self._orphans.has_references(feed_id) and self._store.run_in_transaction(remove_feed)

    def _delete_entries(self, limit: int, is_over: Callable[[], bool]) -> int:
        """Delete entries of deleted feeds; return how many."""
        deleted = 0
        for feed_id in self._orphans.find_removed(limit):
            while not is_over():
                count = self._orphans.delete_entries(feed_id, BATCH)
                deleted += count
                if not count:
                    # Only now, for an indexing job that read the entries before they were deleted.
                    self._index_queue.add_removals([(feed_id, None)])
                    self._orphans.forget([feed_id])
                    break
        return deleted
