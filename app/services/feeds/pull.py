"""Pulls of feeds: fetch many at once, claim those with news, digest them, store in batches.

The updater and the workers call it. There is no actor here: ``SubscriptionService.refresh`` decides whether a
person may refresh a feed.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import itertools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from app import clock, logs
from app.config import Settings
from app.errors import FetchError, StoreError
from app.gateways.feeds.digest import Digester, make_crash_update
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.fetch_secrets import FetchSecrets
from app.gateways.feeds.fetching import fetch_feeds
from app.gateways.feeds.retention import RetentionGateway
from app.models.feeds.feed import DueFeed, Feed, FeedPoll, NextCheck
from app.models.feeds.fetch_options import FetchOptions
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from app.models.feeds.hosts import is_same_site
from app.ports import EventPort, FetchStreamer, HostBudget
from app.services.feeds.host_limits import HostLimits, has_backoff_request
from app.services.feeds.pull_batch import (
    Announce,
    Progress,
    PullBatch,
    PullResult,
    SecrecyPort,
    has_condition,
)
from app.services.feeds.slow_lane import SlowLane
from app.services.fetch_budget import CountingFetcher, FetchBudget, get_seconds_left
from app.services.free_space import FreeSpace

log = logs.get(__name__)

#: At two connections per host and 30 s per fetch, six slow feeds of one host take 90 seconds.
HOST_SHARE: Final = 6
_DAY_MS: Final = 86_400_000
#: Spreads feeds over the time between two full fetches (a prime near 2³² divided by the golden ratio).
_SPREAD: Final = 2_654_435_761

_NO_OPTIONS = FetchOptions()
#: Seconds until a feed that this server has no disk space for is tried again.
SHORTAGE_WAIT: Final = 60.0


class PullService:
    """Groups due feeds into batches, and pulls feeds."""

    def __init__(
        self,
        feeds: FeedGateway,
        retention: RetentionGateway,
        settings: Settings,
        digester: Digester | None = None,
        *,
        budget: HostBudget | None = None,
        events: EventPort | None = None,
        secrecy: SecrecyPort | None = None,
        free_space: FreeSpace | None = None,
        fetch_budget: FetchBudget | None = None,
        thumbs: Announce | None = None,
        notify: Announce | None = None,
        reopen: Announce | None = None,
        secrets: FetchSecrets | None = None,
    ) -> None:
        self._secrets = secrets or FetchSecrets("")
        self._feeds, self._retention = feeds, retention
        self._announce = events.notify_new_entries if events else None
        self._notify, self._reopen = notify, reopen
        self._secrecy, self._thumbs = secrecy, thumbs
        self._free_space, self._fetch_budget = free_space, fetch_budget
        self._settings = settings
        self._full_ms = int(settings.fetch_full_days * _DAY_MS)
        self._courtesy = HostLimits(feeds, budget) if budget else None
        self._lane = SlowLane(settings)
        self._digester = digester or Digester(settings)

    def find_due(self, now: dt.datetime, limit: int) -> list[DueFeed]:
        """Return at most ``limit`` feeds that are due, longest overdue first.

        While a disk is almost full, or the day's bytes are spent, no feed is. All stay due, so pulls go on
        after that.
        """
        if self._has_shortage() or (self._fetch_budget and self._fetch_budget.is_spent(now)):
            return []
        return self._feeds.find_due(now, limit)

    def count_due(self, now: dt.datetime, limit: int) -> int:
        """Return how many feeds are due, counted up to ``limit``."""
        return self._feeds.count_due(now, limit)

    def correct_late_times(self, now: dt.datetime) -> None:
        """Make feeds due no later than their longest interval from now, in case the clock was set back."""
        settings = self._settings
        intervals = settings.poll_max, settings.poll_push, settings.poll_unread, settings.error_backoff_max
        if count := self._feeds.correct_late_times(now, max(intervals), settings.claim_seconds):
            log.warning("clock_set_back", count=count)

    def make_batches(self, feeds: Sequence[DueFeed]) -> list[list[int]]:
        """Return the ids of these feeds in batches, one batch per job.

        Slow feeds have batches of their own: a job ends with its slowest feed.
        """
        size = self._settings.pull_batch
        slow = [feed for feed in feeds if feed.slow]
        if not slow:
            return make_batches(feeds, size)
        others = [feed for feed in feeds if not feed.slow]
        return make_batches(others, size) + make_batches(slow, min(size, self._lane.room))

    def postpone_checks(self, delays: Mapping[int, float], now: dt.datetime) -> None:
        """Make feeds due the given number of seconds from now."""
        rests = [NextCheck(feed_id, now + dt.timedelta(seconds=wait)) for feed_id, wait in delays.items()]
        self._feeds.postpone_checks(rests, now)

    async def pull(
        self,
        feed_ids: Sequence[int],
        fetcher: FetchStreamer,
        *,
        token: str | None = None,
        dead_tokens: Sequence[str] = (),
        is_held: Callable[[], bool] | None = None,
        only_due: bool = False,
        urgent: bool | None = None,
        progress: Progress | None = None,
    ) -> PullResult:
        """Fetch feeds and store the new entries. Safe to run twice and to be killed anywhere.

        Only feeds whose answer changes something are claimed, after the fetch and until they are stored. Most
        answers change nothing, and claiming before the fetch doubled the MongoDB cost of a poll. The price: a
        user's refresh and the updater may fetch the same feed at the same moment.

        If the pull is canceled, answers that have arrived are still stored.

        Args:
            feed_ids: feeds to pull; feeds that another pull is storing are skipped.
            fetcher: may be shared with other pulls of this process.
            token: unique name of this attempt; generated if None.
            dead_tokens: tokens of attempts whose worker died; their claims are taken over.
            is_held: whether this attempt is still its worker's; see :meth:`FeedGateway.claim`.
            only_due: skip feeds that are not due anymore, because another job pulled them meanwhile.
            urgent: a person waits, so hosts' budgets may be overdrawn; None: the opposite of ``only_due``.
            progress: called with the counts after each stored batch.

        Raises:
            StoreError: the store did not answer; claims expire on their own.
        """
        # All store calls run in threads: a slow answer must not stop the process's other jobs or heartbeat.
        polls, put_off = await asyncio.to_thread(self._look, feed_ids, dead_tokens, only_due, urgent)
        polls, late = self._lane.admit_polls(polls)
        claim = functools.partial(
            self._claim, token=token or uuid.uuid4().hex, dead_tokens=dead_tokens, is_held=is_held
        )
        batch = PullBatch(
            feeds=self._feeds,
            retention=self._retention,
            digester=self._digester,
            claim=claim,
            progress=progress,
            announce=self._announce,
            notify=self._notify,
            reopen=self._reopen,
            secrecy=self._secrecy,
            thumbs=self._thumbs,
        )
        batch.result.put_off = put_off + len(late)
        batch.result.skipped = len(feed_ids) - len(polls) - batch.result.put_off
        courtesy = self._courtesy
        flusher = asyncio.create_task(batch.keep_flushing())
        # All bytes of this pull count, also those of the tests below.
        counted = CountingFetcher(fetcher)
        try:
            if late:
                waits = dict.fromkeys(late, self._lane.wait)
                await asyncio.to_thread(self.postpone_checks, waits, clock.now())
            now_ms = int(clock.now().timestamp() * 1000)
            readable = []
            for poll in polls.values():
                if poll.sealed is None or self._secrets.is_readable(poll.sealed, poll.private_to):
                    readable.append(poll)
                else:
                    await batch.add(poll, _fail_unreadable(poll))
            requests = [self._build_request(p, now_ms) for p in readable]
            async for fetched in fetch_feeds(counted, requests):
                await batch.add(polls[fetched.request.key], fetched)
                if courtesy and has_backoff_request(fetched):
                    await asyncio.to_thread(courtesy.record_backoff, polls[fetched.request.key], fetched)
                if flusher.done():
                    break  # only after an error, which result() raises below
        finally:
            self._lane.release_polls(polls)
            batch.close()
            # Not "await flusher": a second cancellation must not interrupt the storing.
            await asyncio.wait({flusher, asyncio.create_task(self._charge(polls, counted))})
            flusher.result()
        try:
            await self._test_validators(batch.doubted, polls, counted)
            await self._follow_moves(batch.announced, polls, counted)
            taken = await self._try_spellings(batch.respelled, counted)
        finally:
            await asyncio.wait({asyncio.create_task(self._charge(polls, counted))})
        if taken:
            # The tried address is already stored, so this pull's own repetition has none left to try.
            await self.pull(taken, fetcher, dead_tokens=dead_tokens, is_held=is_held, urgent=urgent)
        return batch.result

    def _build_request(self, poll: FeedPoll, now_ms: int) -> FetchRequest:
        request = build_request(poll, now_ms, self._full_ms)
        options = self._open_options(poll)
        request.headers = options.build_headers()
        if options.time_limit:
            request.within = options.time_limit
            request.slow = True  # the longer limits apply, up to this one
        return request

    def _build_headers(self, poll: FeedPoll) -> tuple[tuple[str, str], ...]:
        """Return the headers with which a reader has their own copy of a feed fetched."""
        return self._open_options(poll).build_headers()

    def _open_options(self, poll: FeedPoll) -> FetchOptions:
        if poll.sealed is None:
            return _NO_OPTIONS
        return self._secrets.open(poll.sealed, poll.private_to)

    async def _charge(self, polls: Mapping[int, FeedPoll], counted: CountingFetcher) -> None:
        """Charge the bytes received since the last call. A failure costs nothing but the count."""
        received = counted.take_received()
        if self._fetch_budget and any(received.values()):
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._fetch_budget.charge_feeds, polls, received)

    async def _test_validators(
        self,
        doubted: Sequence[tuple[int, str, Validators]],
        polls: Mapping[int, FeedPoll],
        fetcher: FetchStreamer,
    ) -> None:
        """Fetch feeds that had new entries with their old validators, to which 304 is now a wrong answer."""
        if not doubted:
            return
        requests = [
            FetchRequest(
                url,
                validators=old._replace(body_hash=None),
                key=feed_id,
                headers=self._build_headers(polls[feed_id]),
            )
            for feed_id, url, old in doubted
        ]
        async for fetched in fetcher.stream_fetches(requests):
            if fetched.error is None:
                is_wrong = fetched.status == 304
                await asyncio.to_thread(
                    self._feeds.record_validator_test,
                    fetched.request.key,
                    fetched.request.url,
                    clock.now() if is_wrong else None,
                )

    async def _try_spellings(
        self, respelled: Sequence[tuple[int, str, str]], fetcher: FetchStreamer
    ) -> list[int]:
        """Fetch other spellings of addresses; return the feeds whose address was replaced by one."""
        if not respelled:
            return []
        old = {feed_id: url for feed_id, url, _ in respelled}
        taken = []
        requests = [FetchRequest(other, key=feed_id) for feed_id, _, other in respelled]
        async for fetched in fetcher.stream_fetches(requests):
            feed_id = fetched.request.key
            is_better = self._digester.is_better_spelling(old[feed_id], fetched)
            await asyncio.to_thread(
                self._feeds.settle_spelling, feed_id, fetched.request.url, clock.now(), accepted=is_better
            )
            taken += [feed_id] if is_better else []
        return taken

    async def _follow_moves(
        self,
        announced: Sequence[tuple[int, str, str]],
        polls: Mapping[int, FeedPoll],
        fetcher: FetchStreamer,
    ) -> None:
        """Move feeds to the addresses that they stated, if there is a feed."""
        if not announced:
            return
        old = {feed_id: url for feed_id, url, _ in announced}
        requests = [
            FetchRequest(
                new,
                key=feed_id,
                referred_by=url,
                headers=self._build_headers(polls[feed_id]) if is_same_site(url, new) else (),
            )
            for feed_id, url, new in announced
        ]
        async for fetched in fetcher.stream_fetches(requests):
            feed_id = fetched.request.key
            if self._digester.is_move(old[feed_id], fetched):
                url = fetched.permanent_url or fetched.request.url
                await asyncio.to_thread(self._move, feed_id, url)

    def _move(self, feed_id: int, url: str) -> None:
        if self._secrecy:
            self._secrecy.mark_feed(feed_id)
        moved = self._feeds.move(feed_id, url)
        if self._secrecy:
            self._secrecy.update_shares(moved)

    def _look(
        self, feed_ids: Sequence[int], dead_tokens: Sequence[str], only_due: bool, urgent: bool | None
    ) -> tuple[dict[int, FeedPoll], int]:
        """Return the feeds that may be fetched now, by id, and how many wait for their host's budget, until
        the time that their own server asked for, or for disk space.
        """
        now = clock.now()
        if self._has_shortage():
            # The updater may be on another server, which still has space.
            self.postpone_checks(dict.fromkeys(feed_ids, SHORTAGE_WAIT), now)
            return {}, len(feed_ids)
        now_ms = now.timestamp() * 1000
        free = [p for p in self._feeds.find_polls(feed_ids) if _is_free(p, now_ms, dead_tokens)]
        polls = {p.id: p for p in free if not only_due or _is_due(p, now_ms)}
        urgent = not only_due if urgent is None else urgent
        rested = self._leave_unpaid(self._leave_resting(polls, now), now)
        admitted = self._courtesy.admit_polls(rested, urgent=urgent) if self._courtesy else rested
        return admitted, len(polls) - len(admitted)

    def _has_shortage(self) -> bool:
        return self._free_space is not None and self._free_space.find_shortage() is not None

    def _leave_resting(self, polls: dict[int, FeedPoll], now: dt.datetime) -> dict[int, FeedPoll]:
        """Return the feeds without a Retry-After in the future, and postpone the others until then.

        It also holds for pulls that a user or an app requested.
        """
        now_ms = now.timestamp() * 1000
        until = {i: (p.retry_ms - now_ms) / 1000 for i, p in polls.items() if p.retry_ms > now_ms}
        if not until:
            return polls
        self.postpone_checks(until, now)
        return {i: poll for i, poll in polls.items() if i not in until}

    def _leave_unpaid(self, polls: dict[int, FeedPoll], now: dt.datetime) -> dict[int, FeedPoll]:
        """Return the feeds for which there is a budget of bytes, and postpone the others until midnight."""
        refused = self._fetch_budget.find_refused(polls, now) if self._fetch_budget and polls else ()
        if not refused:
            return polls
        self.postpone_checks(dict.fromkeys(refused, get_seconds_left(now)), now)
        log.info("bytes_spent", feeds=len(refused))
        return {i: poll for i, poll in polls.items() if i not in refused}

    def mark_suspect(
        self,
        feed_id: int,
        token: str,
        dead_tokens: Sequence[str] = (),
        is_held: Callable[[], bool] | None = None,
    ) -> None:
        """Record that reading a feed crashes workers; the feed rests for the longest back-off."""
        now = clock.now()
        for feed in self._claim([feed_id], now, token=token, dead_tokens=dead_tokens, is_held=is_held):
            self._feeds.store_updates([make_crash_update(feed, now, self._settings.error_backoff_max)], now)

    def is_suspended(self, feed_id: int) -> bool:
        """Return whether a feed is suspended because reading it crashed workers."""
        feed = self._feeds.get(feed_id)
        return feed.error == "crashed" and feed.next_check_at is not None and feed.next_check_at > clock.now()

    def apply_retention(self, feed_id: int) -> int:
        """Delete a feed's oldest entries above the number to keep; return how many were deleted."""
        return self._retention.apply_retention(feed_id)

    def _claim(
        self,
        feed_ids: Sequence[int],
        now: dt.datetime,
        *,
        token: str,
        dead_tokens: Sequence[str],
        is_held: Callable[[], bool] | None,
    ) -> list[Feed]:
        seconds = self._settings.claim_seconds
        return self._feeds.claim(feed_ids, token, now, seconds, dead_tokens=dead_tokens, is_held=is_held)


def make_batches(due: Sequence[DueFeed], size: int) -> list[list[int]]:
    """Return feeds in batches of at most ``size``, feeds of the same host together.

    While there are enough batches, each gets at most :data:`HOST_SHARE` feeds of one host. A slow host then
    delays many batches a little instead of one batch for a quarter of an hour.
    """
    shares: list[list[int]] = []
    for _, feeds in itertools.groupby(sorted(due, key=lambda f: (f.host, f.id)), key=lambda f: f.host):
        ids = [feed.id for feed in feeds]
        shares += [ids[i : i + HOST_SHARE] for i in range(0, len(ids), HOST_SHARE)]
    # Distribute the shares of one host over different batches.
    count = -(-sum(map(len, shares)) // size)
    packed: list[list[int]] = [[] for _ in range(count)]
    for number, share in enumerate(shares):
        places = iter(_from(packed, number))
        target = next(places)
        for feed_id in share:
            while len(target) >= size:
                target = next(places)
            target.append(feed_id)
    return packed


def _from(packed: list[list[int]], start: int) -> Iterable[list[int]]:
    return itertools.islice(itertools.cycle(packed), start % len(packed), start % len(packed) + len(packed))


def _is_due(poll: FeedPoll, now_ms: float) -> bool:
    return poll.due_ms is not None and poll.due_ms <= now_ms


def _is_free(poll: FeedPoll, now_ms: float, dead_tokens: Sequence[str]) -> bool:
    return poll.claimed_ms <= now_ms or poll.claim_token in dead_tokens


def build_request(poll: FeedPoll, now_ms: int, full_ms: int) -> FetchRequest:
    """Return the request of a poll, without validators if they are distrusted or should be tested again.

    Args:
        full_ms: milliseconds between two full fetches. Their times follow from the feed's id and its last
            check, so nothing has to be stored, and feeds take turns.
    """
    known = poll.validators
    if has_condition(known) and (poll.distrusted_ms or _is_full_due(poll, now_ms, full_ms)):
        # An equal body is still found by its hash.
        known = Validators(body_hash=known.body_hash)
    return FetchRequest(poll.url, validators=known, key=poll.id, slow=poll.slow)


def _is_full_due(poll: FeedPoll, now_ms: int, full_ms: int) -> bool:
    shift = poll.id * _SPREAD % full_ms
    return (now_ms + shift) // full_ms > (poll.checked_ms + shift) // full_ms


def _fail_unreadable(poll: FeedPoll) -> Fetched:
    """Return the failure of a fetch that isn't made: without its login, a site may send something else."""
    error = FetchError("login_unreadable", "the key has changed")
    return Fetched(FetchRequest(poll.url, key=poll.id), 0, poll.url, validators=poll.validators, error=error)
