"""Entries whose text has changed become unread again, for readers who want that."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from app.gateways.reading.read_marks import ReadMarkGateway
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.arrivals import ArrivalMapper
from app.mappers.reading.reopening import ReopenMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper

#: Readers that are found at once.
BATCH = 500
#: Most changed entries of a feed that become unread together: one that changes more has a new look.
ENTRIES_MAX = 50


class ReopenGateway:
    """Finds changed entries and their readers, and marks them as unread."""

    def __init__(
        self,
        subscriptions: ReopenMapper,
        states: SubscriptionMapper,
        arrivals: ArrivalMapper,
        feeds: FeedMapper,
        read_marks: ReadMarkGateway,
    ) -> None:
        self._subscriptions, self._states, self._arrivals = subscriptions, states, arrivals
        self._feeds, self._read_marks = feeds, read_marks

    def filter_wanted(self, feed_ids: Sequence[int]) -> list[int]:
        """Return the feeds among these for which anyone wants this, in order."""
        wanted = self._subscriptions.find_wanted(feed_ids) if feed_ids else set()
        return [feed_id for feed_id in feed_ids if feed_id in wanted]

    def find_changed(self, feed_id: int, since: dt.datetime) -> list[int]:
        """Return the numbers of entries that changed since a time; none if there are too many."""
        found = self._arrivals.find_revised([feed_id], since, ENTRIES_MAX + 1)
        return [key.seq for key in found] if len(found) <= ENTRIES_MAX else []

    def iter_readers(self, feed_id: int, after: int) -> Iterator[int]:
        """Yield the readers of a feed who want this, after this one (0: all), by ascending id."""
        while found := self._subscriptions.find_readers(feed_id, after, BATCH):
            yield from found
            after = found[-1]

    def mark_unread(self, user_id: int, feed_id: int, seqs: Sequence[int], *, synced: bool) -> int:
        """Mark entries as unread, except those that a rule hides; return how many that changed.

        Args:
            synced: record the marks for apps that sync.
        """
        cards = self._feeds.find_cards([feed_id])
        mine = self._states.find(user_id, feed_id)
        shown = [seq for seq in seqs if not mine.hidden.has_seq(seq)] if mine else []
        if feed_id not in cards or not shown:
            return 0
        deltas = self._read_marks.mark(user_id, {feed_id: shown}, cards, read=False, synced=synced)
        return deltas.get(feed_id, 0)
