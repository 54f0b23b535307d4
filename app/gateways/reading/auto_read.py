"""Which entries of a user are due to be marked as read, because some days have passed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.auto_read import AutoReadMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.auto_read import DueReads

#: Subscriptions that are read at once to find the next users.
BATCH = 1000


class AutoReadGateway:
    """Finds the entries that are due, and remembers which have had their turn."""

    def __init__(
        self, auto_read: AutoReadMapper, subscriptions: SubscriptionMapper, entries: EntryMapper
    ) -> None:
        self._auto_read, self._subscriptions, self._entries = auto_read, subscriptions, entries

    def iter_users(self, after: int) -> Iterator[int]:
        """Yield the users with such subscriptions after this one (0: all), by ascending id."""
        while found := self._auto_read.find_users(after, BATCH):
            yield from found
            after = found[-1]

    def find_due(self, user_id: int, now: dt.datetime) -> DueReads:
        """Return the entries that are due and haven't had their turn."""
        last_seqs, done = {}, {}
        for one in self._auto_read.find_by_user(user_id):
            border = one.find_border(now)
            seq = self._entries.find_last_seq(one.feed_id, border) if border else 0
            if seq > one.done:
                last_seqs[one.feed_id], done[one.feed_id] = seq, one.done
        mine = self._subscriptions.find_by_user(user_id, list(last_seqs)) if last_seqs else []
        return DueReads(last_seqs, {s.feed_id: s.state.find_seqs(1, done[s.feed_id]) for s in mine})

    def set_done(self, user_id: int, last_seqs: Mapping[int, int]) -> None:
        """Remember that entries up to these numbers have had their turn, by feed."""
        if last_seqs:
            self._auto_read.set_done(user_id, last_seqs)
