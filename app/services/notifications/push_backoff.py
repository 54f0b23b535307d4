"""Whose messages wait, so that addresses which never answer hold up nobody else's (tarpits).

A worker sends few messages at a time. So an address costs it one place, for as long as one message may
take, while nothing speaks for its host and for who registered it; after each silence both are left alone.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
from collections.abc import Hashable

#: Hosts and people that are remembered, the latest; the others count as unknown.
KNOWN_MAX = 10_000
_DOUBLINGS = 24


@dataclasses.dataclass(slots=True)
class _Record:
    """What is known of a host or a person; ``until``: left alone so long. ``proved``: it answered last."""

    silences: int = 0
    until: dt.datetime | None = None
    proved: bool = False
    busy: int = 0


class PushBackoff:
    """One process's memory of who answers; not for several threads at once.

    Args:
        pause: how long who was silent is left alone; doubles with each further silence, up to ``most``.
        turn: how long one message takes at most, and so who comes meanwhile waits.
    """

    def __init__(self, pause: dt.timedelta, max_pause: dt.timedelta, turn: dt.timedelta) -> None:
        self._pause, self._most, self._turn = pause, max_pause, turn
        self._records: collections.OrderedDict[Hashable, _Record] = collections.OrderedDict()

    def acquire(self, host: str, user_id: int, now: dt.datetime) -> dt.timedelta:
        """Return how long a message is to be put off; nothing: it may go, and :meth:`leave` must follow.

        A host that answers is asked for whoever comes, and as often.
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
        """Note how a message ended; ``silent`` None: nothing was learnt."""
        for key, record in ((host, self._record(host)), (user_id, self._record(user_id))):
            record.busy = max(0, record.busy - 1)
            if unanswered is None:
                continue
            record.proved = not unanswered
            if unanswered:
                pause = self._pause * (1 << min(record.silences, _DOUBLINGS))
                record.silences, record.until = record.silences + 1, now + min(pause, self._most)
            else:
                # By one alone, of a person: else every second address of his could be a tarpit.
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
