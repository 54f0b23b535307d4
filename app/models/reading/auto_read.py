"""Marking entries as read some days after they arrived."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import NamedTuple


class AutoRead(NamedTuple):
    """A subscription whose entries are marked as read after some days.

    Attributes:
        subscription_id: microseconds since the epoch, of when the user subscribed.
        done: numbers of entries up to this one have had their turn.
    """

    feed_id: int
    subscription_id: int
    days: int
    done: int

    def find_border(self, now: dt.datetime) -> dt.datetime | None:
        """Return the time before which entries arrived that are due; None: no entry is due yet.

        For a new subscription the days begin when the user subscribes: entries that Eventr had before are
        as new to the user as others.
        """
        border = now - dt.timedelta(days=self.days)
        return border if self.subscription_id < border.timestamp() * 1_000_000 else None


class DueReads(NamedTuple):
    """The entries of a user that are due.

    Attributes:
        last_seqs: the number of the last one, by feed.
        spared: numbers that had their turn and are unread again, by feed: they stay unread.
    """

    last_seqs: Mapping[int, int]
    spared: Mapping[int, Collection[int]]
