"""Entries that a user read recently, by the time of reading."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from app.mappers.reading.entry_keys import EntryKeyMapper, to_millis
from app.mappers.reading.recent_reads import RecentReadMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import EntryKey
from app.models.reading.recent import RecentRead

#: Most entries of one request that count as read one by one; more are a mass mark.
BATCH = 20
#: Records that wait for the store at most; further ones are lost.
WAITING = 100
_MS = dt.timedelta(milliseconds=1)


class RecentReadGateway:
    """Records what users read, and lists it.

    Args:
        limit: entries per user; a further one replaces the oldest.
    """

    def __init__(
        self,
        reads: RecentReadMapper,
        keys: EntryKeyMapper,
        subscriptions: SubscriptionMapper,
        *,
        limit: int,
    ) -> None:
        self._reads, self._keys, self._subscriptions = reads, keys, subscriptions
        self._limit = limit
        # A mark waits for the disk meanwhile: so the record costs the reader no time.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="recent-reads")
        self._room = threading.BoundedSemaphore(WAITING)

    def record(self, user_id: int, entry_ids: Sequence[int], now: dt.datetime) -> None:
        """Record entries that were read one after the other, the last one ``now``; ignore mass marks."""
        if not 0 < len(entry_ids) <= BATCH:
            return
        latest_first = [RecentRead(i, now - n * _MS) for n, i in enumerate(reversed(entry_ids))]
        if self._room.acquire(blocking=False):
            self._pool.submit(self._reads.add, user_id, latest_first, self._limit).add_done_callback(
                self._end
            )

    def _end(self, _: Future[None]) -> None:
        # A record that the store refused is lost: reading goes on without it.
        self._room.release()

    def find_visible_keys(self, user_id: int) -> list[EntryKey]:
        """Return the keys of the recently read entries, the latest first, with the time of reading as ``at``.

        Entries that are gone, and those of feeds that the user has left, are left out.
        """
        reads = self._reads.list_latest(user_id)
        if not reads:
            return []
        mine = self._subscriptions.find_feed_ids(user_id)
        keys = {key.id: key for key in self._keys.find_by_ids([read.entry_id for read in reads], mine)}
        return [keys[r.entry_id]._replace(at=to_millis(r.at)) for r in reads if r.entry_id in keys]
