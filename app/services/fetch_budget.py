"""The budget of fetched bytes, per user and for the whole system. A day ends at midnight UTC.

Users pay for what they alone cause: their discoveries in full, and their share of feeds with few readers.
Feeds with many readers cost nobody. A feed rests until midnight when all of its readers have spent their
budgets.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Final

from app import clock
from app.config import Settings
from app.errors import RateLimitedError
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedPoll
from app.models.feeds.fetched import Fetched, FetchRequest
from app.ports import ByteLedger, FetchStreamer

#: Feeds with more readers cost nobody: each share would be small, and finding the readers takes long.
FEW: Final = 10

FindReaders = Callable[[Collection[int]], Mapping[int, Collection[int]]]


class FetchBudget:
    """Decides what may be fetched today, and counts what was.

    Args:
        find_readers: returns the user ids of the readers of feeds.
    """

    def __init__(self, ledger: ByteLedger, find_readers: FindReaders, settings: Settings) -> None:
        self._ledger, self._find_readers = ledger, find_readers
        self._per_user, self._per_day = settings.fetch_bytes_per_user, settings.fetch_bytes_per_day

    @property
    def _is_limited(self) -> bool:
        return bool(self._per_user or self._per_day)

    def is_spent(self, now: dt.datetime) -> bool:
        """Return whether the whole system has spent the day's budget."""
        return bool(self._per_day) and self._ledger.get_spent(now.date()).total >= self._per_day

    def require_budget(self, actor: Actor) -> None:
        """Check that a user may still cause fetches today.

        Raises:
            RateLimitedError: the user's budget or the system's is spent; the message says when it is renewed.
        """
        if not self._is_limited:
            return
        now = clock.now()
        spent, seconds = self._ledger.get_spent(now.date()), get_seconds_left(now)
        minutes = -(-seconds // 60)
        if self._per_day and spent.total >= self._per_day:
            raise RateLimitedError(
                "This server has fetched as much as it may today. It continues in %(minutes)s minutes. "
                "Nothing is lost.",
                retry_after=seconds,
                minutes=minutes,
            )
        if actor.user_id in spent.over:
            raise RateLimitedError(
                "Eventr has fetched as much for you as it may today. It continues in %(minutes)s minutes. "
                "Nothing is lost.",
                retry_after=seconds,
                minutes=minutes,
            )

    def find_refused(self, polls: Mapping[int, FeedPoll], now: dt.datetime) -> Collection[int]:
        """Return the feeds that may not be fetched before midnight."""
        if not self._is_limited:
            return ()
        spent = self._ledger.get_spent(now.date())
        if self._per_day and spent.total >= self._per_day:
            return list(polls)
        if not spent.over:
            return ()
        readers = self._find_readers(_get_few(polls))
        return [feed_id for feed_id, users in readers.items() if users and spent.over.issuperset(users)]

    def charge_feeds(self, polls: Mapping[int, FeedPoll], fetched: Mapping[int, int]) -> None:
        """Count the bytes that were fetched of feeds (feed → bytes)."""
        if not self._is_limited or not (total := sum(fetched.values())):
            return
        users: defaultdict[int, int] = defaultdict(int)
        if self._per_user:
            some = {feed_id: polls[feed_id] for feed_id, size in fetched.items() if size}
            few = _get_few(some)
            for feed_id, readers in (self._find_readers(few) if few else {}).items():
                for user_id in readers:
                    users[user_id] += -(-fetched[feed_id] // len(readers))
        self._ledger.add(clock.now().date(), total, users)

    def charge_pictures(self, size: int) -> None:
        """Count the bytes of a picture or icon, for which no single user pays."""
        if self._per_day and size:
            self._ledger.add(clock.now().date(), size, {})

    def charge_user(self, user_id: int, size: int) -> None:
        """Count the bytes that only one user has caused."""
        if self._is_limited and size:
            self._ledger.add(clock.now().date(), size, {user_id: size})

    def set_payer(self, search: int, actor: Actor) -> None:
        """Remember that a user has started a search, and pays for it."""
        if self._is_limited:
            self._ledger.set_payer(search, actor.user_id)

    def charge_search(self, search: int, size: int) -> None:
        """Count the bytes of a search for the user who started it."""
        if self._is_limited and size:
            payer = self._ledger.find_payer(search)
            self._ledger.add(clock.now().date(), size, {payer: size} if payer else {})


class CountingFetcher:
    """A :class:`FetchStreamer` that counts the bytes it receives, by the key of the request."""

    def __init__(self, fetcher: FetchStreamer) -> None:
        self._fetcher = fetcher
        self._received: Counter[int] = Counter()

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        """Fetch addresses, and yield each result as it arrives."""
        async for fetched in self._fetcher.stream_fetches(requests):
            self._received[fetched.request.key] += fetched.wire_bytes
            yield fetched

    def take_received(self) -> dict[int, int]:
        """Return key → bytes received since the last call."""
        taken, self._received = dict(self._received), Counter()
        return taken


def get_seconds_left(now: dt.datetime) -> int:
    """Return the seconds until budgets are renewed, at midnight UTC; at least 1."""
    midnight = dt.datetime.combine(now.date() + dt.timedelta(days=1), dt.time(), clock.UTC)
    return max(1, int((midnight - now).total_seconds()))


def _get_few(polls: Mapping[int, FeedPoll]) -> list[int]:
    return [feed_id for feed_id, poll in polls.items() if 0 < poll.readers <= FEW]
