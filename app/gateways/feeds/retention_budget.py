"""The entry budget: deletes old entries of unopened feeds while the installation has more than it may keep.

The feeds are walked in steps. The first step deletes entries older than a year in feeds that nobody has
opened for 90 days. Later steps delete newer entries, and then go on to feeds that were opened more recently.
Feeds that were opened within the last week lose nothing. Starred, tagged and shared entries stay, and so do
the newest of each feed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Final, NamedTuple

from app.gateways.feeds.retention import delete_unkept
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.retention_budget import BudgetPosition, FeedRange, RetentionBudgetMapper
from app.mappers.operations.outbox import OutboxMapper

#: Days since anyone opened a feed, and the age of its entries that are deleted, in days; in this order.
STEPS: Final = tuple((unopened, age) for unopened in (90, 30, 7) for age in (365, 180, 90, 30))
#: Entries that each feed keeps, whatever their age.
LEAST: Final = 20
#: Feeds that are read at once.
BATCH: Final = 500
#: Part of the budget that is freed beyond it, so that the next entries don't start a new walk.
_SPARE: Final = 0.01
#: Time until a new walk, after one that freed too little.
REST: Final = dt.timedelta(hours=6)


class BudgetOutcome(NamedTuple):
    """What a run did: entries deleted, feeds shortened; whether nothing more may be deleted."""

    deleted: int = 0
    feeds: int = 0
    is_exhausted: bool = False


class RetentionBudgetGateway:
    """Deletes entries beyond the budget; each step can be repeated, and may be killed anywhere.

    Args:
        outbox: knows entries whose stars in cells aren't counted yet.
        budget: entries that the installation keeps; 0: any number.
    """

    def __init__(
        self, rows: RetentionBudgetMapper, entries: EntryMapper, outbox: OutboxMapper, *, budget: int
    ) -> None:
        self._rows, self._entries, self._outbox, self._budget = rows, entries, outbox, budget

    def is_over(self, now: dt.datetime) -> bool:
        """Return whether there are more entries than the budget allows, and something may be deleted."""
        if not self._budget or self._rows.count_entries() <= self._budget:
            return False
        rests_until = self._rows.get_position().rests_until
        return rests_until is None or rests_until <= now

    def trim_entries(self, now: dt.datetime, is_stopping: Callable[[], bool]) -> BudgetOutcome:
        """Delete entries until the budget is met, all steps are done, or ``is_stopping`` returns true."""
        excess = self._rows.count_entries() - int(self._budget * (1 - _SPARE))
        if not self.is_over(now):
            return BudgetOutcome()
        step, after, _ = self._rows.get_position()
        deleted = feeds = 0
        while step < len(STEPS) and deleted < excess and not is_stopping():
            unopened, age = (now - dt.timedelta(days=days) for days in STEPS[step])
            found = self._rows.find_unopened(after, unopened, LEAST, BATCH)
            for feed in found:
                if deleted >= excess or is_stopping():
                    break
                count = self._shorten(feed, age)
                deleted, feeds, after = deleted + count, feeds + bool(count), feed.feed_id
            else:
                if len(found) < BATCH:
                    step, after = step + 1, 0
            self._rows.set_position(BudgetPosition(step, after))
        is_exhausted = step >= len(STEPS)
        if is_exhausted or deleted >= excess:
            # The next walk begins with the oldest entries again.
            self._rows.set_position(BudgetPosition(rests_until=now + REST if is_exhausted else None))
        return BudgetOutcome(deleted, feeds, is_exhausted and deleted < excess)

    def _shorten(self, feed: FeedRange, before: dt.datetime) -> int:
        """Delete a feed's entries that arrived before a time; return how many."""
        seq = self._entries.find_last_seq(feed.feed_id, before)
        first_seq = min(seq + 1, feed.last_seq - LEAST + 1)
        if first_seq <= feed.first_seq:
            return 0
        # The number is raised first, so leftovers of a crash don't count.
        self._rows.raise_first_seq(feed.feed_id, first_seq)
        return delete_unkept(self._entries, self._outbox, feed.feed_id, first_seq)
