"""Back-off of push hosts and users, so that addresses that never answer (tarpits) don't delay other people's
pushes.

A worker sends few messages at a time. While neither the host nor the user has answered before, only one
message at a time may wait for them. After each timeout both rest for a while.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
from collections.abc import Hashable

#: Hosts and users to remember, most recent first; the others count as unknown.
KNOWN_MAX = 10_000
_DOUBLINGS = 24


@dataclasses.dataclass(slots=True)
class _Record:
    """A host or user; ``until``: the end of its rest; ``proved``: the last message was answered."""

    silences: int = 0
    until: dt.datetime | None = None
    proved: bool = False
    busy: int = 0


class PushBackoff:
    """Remembers which hosts and users answer, for one process; not thread-safe.

    Args:
        pause: rest after the first timeout; doubles with each further one.
        max_pause: the longest rest.
        turn: the longest time that one message takes, and so the wait for messages behind it.
    """

    def __init__(self, pause: dt.timedelta, max_pause: dt.timedelta, turn: dt.timedelta) -> None:
        self._pause, self._most, self._turn = pause, max_pause, turn
        self._records: collections.OrderedDict[Hashable, _Record] = collections.OrderedDict()

    def acquire(self, host: str, user_id: int, now: dt.datetime) -> dt.timedelta:
        """Return how long to postpone a message; zero: send it, and then call :meth:`release`.

        A host whose last message was answered has no such limit, for any user.
        """
        records = self._record(host), self._record(user_id)
        if not records[0].proved:
            wait = max(self._left(record, now) for record in records)
            if wait:
                return wait
        for record in records:
            record.busy += 1
        return dt.timedelta()

    def release(self, host: str, user_id: int, now: dt.datetime, *, unanswered: bool | None) -> None:
        """Record the result of a message; ``unanswered`` None: unknown."""
        for key, record in ((host, self._record(host)), (user_id, self._record(user_id))):
            record.busy = max(0, record.busy - 1)
            if unanswered is None:
                continue
            record.proved = not unanswered
            if unanswered:
                pause = self._pause * (1 << min(record.silences, _DOUBLINGS))
                record.silences, record.until = record.silences + 1, now + min(pause, self._most)
            else:
                # A user's count only falls by one: otherwise every second address of theirs could be a
                # tarpit.
                record.silences = max(0, record.silences - 1) if key == user_id else 0
                record.until = None

    def _left(self, record: _Record, now: dt.datetime) -> dt.timedelta:
        if record.until is not None and record.until > now:
            return record.until - now
        return self._turn if record.busy else dt.timedelta()

    def _record(self, key: Hashable) -> _Record:
        found = self._records.setdefault(key, _Record())
        self._records.move_to_end(key)
        while len(self._records) > KNOWN_MAX:
            self._records.popitem(last=False)
        return found
