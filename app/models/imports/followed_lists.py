"""OPML lists on the web that a user follows: their new feeds are added, and removals are asked. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection

#: Time between two checks, and the longest after failures.
EVERY, LONGEST = dt.timedelta(hours=12), dt.timedelta(hours=48)
#: Time until the first retry; each further one takes twice as long.
RETRY = dt.timedelta(hours=1)
#: Most feeds that a user is asked about, and addresses that were in a list once and are remembered.
GONE_MAX, PAST_MAX = 10_000, 20_000
#: The error of a document that isn't a list of feeds. All others are errors of fetches.
NO_LIST = "no_list"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FollowedList:
    """A list that a user follows.

    Attributes:
        name: of the folder for its feeds; empty until the first check.
        etag, last_modified: of the last answer.
        seen: keys of the addresses in the list, as of the last check.
        gone: keys of addresses that are no longer in it, until the user has answered.
        past: keys of addresses that were in it before, the latest last. They aren't new when they return.
        failures: checks that failed in a row. error: of the last one.
        checked_at: the last check that succeeded.
    """

    id: int
    user_id: int
    url: str
    name: str = ""
    etag: str | None = None
    last_modified: str | None = None
    seen: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    past: tuple[str, ...] = ()
    failures: int = 0
    error: str = ""
    checked_at: dt.datetime | None = None
    next_check_at: dt.datetime

    def find_new(self, keys: Collection[str]) -> frozenset[str]:
        """Return the keys that were never in the list before."""
        return frozenset(keys) - self.seen - frozenset(self.past)

    def find_gone(self, keys: Collection[str]) -> frozenset[str]:
        """Return the keys that the user may have to be asked about when the list has these keys."""
        return (self.gone | self.seen) - frozenset(keys)

    def note_success(
        self, keys: Collection[str] | None, now: dt.datetime, mine: Collection[str] | None = None
    ) -> FollowedList:
        """Return the list after a check.

        Args:
            keys: those that are in it now; None: it hasn't changed.
            mine: keys of feeds that the user has, of those that :meth:`find_gone` returns; None: of all.
        """
        found = dataclasses.replace(self, failures=0, error="", checked_at=now, next_check_at=now + EVERY)
        if keys is None:
            return found
        now_there, gone = frozenset(keys), self.find_gone(keys)
        asked = sorted(gone if mine is None else gone & frozenset(mine))[:GONE_MAX]
        left = self.seen - now_there
        past = [key for key in self.past if key not in left and key not in now_there] + sorted(left)
        return dataclasses.replace(found, seen=now_there, gone=frozenset(asked), past=tuple(past[-PAST_MAX:]))

    def note_failure(self, error: str, now: dt.datetime, wait: dt.timedelta | None = None) -> FollowedList:
        """Return the list after a check that failed; ``wait``: what the server asked for."""
        failures = self.failures + 1
        pause = max(min(RETRY * 2 ** min(failures - 1, 10), LONGEST), wait or dt.timedelta(0))
        return dataclasses.replace(self, failures=failures, error=error, next_check_at=now + pause)


@dataclasses.dataclass(frozen=True, slots=True)
class ListView:
    """A list as its user sees it, with the removed feeds that they still have: ids and titles."""

    of: FollowedList
    gone: tuple[tuple[int, str], ...] = ()
