"""The lane of slow feeds: how many feeds that answered slowly before one worker fetches at once.

Their fetches may take twice as long. Without a limit, a few dead servers could hold all connections and all
pull jobs of a worker, and every other feed would be late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from app.config import Settings
from app.models.feeds.feed import FeedPoll
from app.models.feeds.hosts import parse_host

#: The part of a job's time within which its slow feeds should end.
_SHARE: Final = 0.75


class SlowLane:
    """Counts the slow feeds that this process fetches. Not thread-safe: only the event loop calls it.

    Attributes:
        room: the most slow feeds at once.
        wait: seconds until a feed without room is tried again.
    """

    def __init__(self, settings: Settings) -> None:
        self.room = max(1, settings.fetch_connections * settings.fetch_slow_percent // 100)
        self.wait = settings.fetch_slow_total_timeout
        rounds = int(settings.job_timeout * _SHARE / settings.fetch_slow_total_timeout)
        self._per_host = max(1, rounds) * settings.fetch_per_host
        self._running = 0

    def admit_polls(self, polls: Mapping[int, FeedPoll]) -> tuple[dict[int, FeedPoll], list[int]]:
        """Return the feeds that may be fetched now, and the slow ones for which there is no room.

        Call :meth:`release_polls` with the first part when they were fetched.
        """
        admitted: dict[int, FeedPoll] = {}
        late: list[int] = []
        hosts: Counter[str] = Counter()
        for feed_id, poll in polls.items():
            if poll.slow:
                host = parse_host(poll.url)
                if self._running >= self.room or hosts[host] >= self._per_host:
                    late.append(feed_id)
                    continue
                self._running += 1
                hosts[host] += 1
            admitted[feed_id] = poll
        return admitted, late

    def release_polls(self, polls: Mapping[int, FeedPoll]) -> None:
        """Make room again for as many slow feeds as there are among these."""
        self._running -= sum(poll.slow for poll in polls.values())
