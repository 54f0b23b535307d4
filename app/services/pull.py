"""Pulling feeds: fetch all at once, claim what has news, digest, store in batches.

The updater and the workers call it. There is no actor here: whether a person may have a feed
refreshed is decided where he asks for it (``SubscriptionService.refresh``).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import functools
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from app import clock, logs
from app.config import Settings
from app.gateways.digest import Digest, Digester, crashed, record_of
from app.gateways.feeds import FeedGateway
from app.models.feed import DueFeed, Feed, FeedPoll, FetchRecord, Rest
from app.models.fetched import Fetched, FetchRequest

log = logs.get(__name__)

FLUSH_FEEDS: Final = 50
FLUSH_BYTES: Final = 4 << 20
FLUSH_SECONDS: Final = 0.2

#: At two connections per host and 30 s per fetch, eight slow feeds of one host end in two minutes.
HOST_SHARE: Final = 8

Progress = Callable[[dict[str, int]], None]
Claim = Callable[[Sequence[int], dt.datetime], list[Feed]]


class Streamer(Protocol):
    """What a pull needs of a fetcher; fulfilled by ``app.feeds.fetch.Fetcher``."""

    def stream(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        """Yield each request's end as it comes."""
        ...


@dataclasses.dataclass(slots=True)
class PullResult:
    """Counts of one pull: feeds stored, unchanged ones among them, new entries, feeds in error.

    ``skipped`` were claimed by somebody else, or not due any more.
    """

    feeds: int = 0
    unchanged: int = 0
    new: int = 0
    errors: int = 0
    skipped: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts as a JSON object."""
        return dataclasses.asdict(self)


class PullService:
    """Decides which feeds are pulled together, and pulls them."""

    def __init__(self, feeds: FeedGateway, settings: Settings, digester: Digester | None = None) -> None:
        self._feeds = feeds
        self._settings = settings
        self._digester = digester or Digester(settings)

    def due_batches(self, now: dt.datetime, limit: int) -> list[list[int]]:
        """Return the ids of at most ``limit`` due feeds in batches for one job each."""
        return batches(self._feeds.due(now, limit), self._settings.pull_batch)

    async def pull(
        self,
        feed_ids: Sequence[int],
        fetcher: Streamer,
        *,
        token: str | None = None,
        dead: Sequence[str] = (),
        only_due: bool = False,
        progress: Progress | None = None,
    ) -> PullResult:
        """Fetch feeds and store what is new. Safe to run twice and to be killed anywhere.

        Only what an answer changes is claimed, after the fetch and until it is stored. Most answers
        change nothing: claiming first doubled what a poll costs MongoDB, and all that it kept from
        happening is that a reader's refresh and the updater ask a feed at the same moment.

        What was fetched when the pull is cancelled is stored.

        Args:
            feed_ids: feeds to pull; those that somebody else is storing are skipped.
            fetcher: may be shared with other pulls of this process.
            token: names this attempt and no other one; made when left out.
            dead: tokens of attempts whose worker died; their claims are taken over.
            only_due: skip feeds that are not due any more, since another job pulled them meanwhile.
            progress: called with the counts after each batch that was stored.

        Raises:
            StoreError: the store did not answer; claims run out by themselves.
        """
        now = clock.now()
        # All calls to the store are made in threads: one that does not answer for some seconds must
        # not stop the other jobs of this process, nor its signs of life.
        looked = await asyncio.to_thread(self._feeds.look, feed_ids)
        polls = {p.id: p for p in looked if _is_free(p, now, dead) and (not only_due or _is_due(p, now))}
        claim = functools.partial(self._claim, token=token or uuid.uuid4().hex, dead=dead)
        batch = _Batch(self._feeds, self._digester, claim, progress)
        batch.result.skipped = len(feed_ids) - len(polls)
        flusher = asyncio.create_task(batch.keep_flushing())
        try:
            async for fetched in fetcher.stream([_request(p) for p in polls.values()]):
                await batch.add(polls[fetched.request.key], fetched)
                if flusher.done():
                    break  # by an error, which is this pull's own
        finally:
            batch.close()
            # Not "await flusher": a second cancellation must not reach what is being stored.
            await asyncio.wait({flusher})
            flusher.result()
        return batch.result

    def suspect(self, feed_id: int, token: str, dead: Sequence[str] = ()) -> None:
        """Note that reading a feed crashes workers; it rests until the longest back-off is over."""
        now = clock.now()
        for feed in self._claim([feed_id], now, token=token, dead=dead):
            self._feeds.store([crashed(feed, now, self._settings.error_backoff_max)], now)

    def retain(self, feed_id: int) -> int:
        """Drop a feed's oldest entries above the number that is kept; return how many went."""
        return self._feeds.retain(feed_id)

    def _claim(
        self, feed_ids: Sequence[int], now: dt.datetime, *, token: str, dead: Sequence[str]
    ) -> list[Feed]:
        return self._feeds.claim(feed_ids, token, now, self._settings.claim_seconds, dead=dead)


def batches(due: Sequence[DueFeed], size: int) -> list[list[int]]:
    """Return feeds in batches of at most ``size``, the feeds of a host beside each other.

    As long as there are batches enough, at most :data:`HOST_SHARE` feeds of one host come into each, so
    that a slow host holds back many batches a little instead of one for a quarter of an hour.
    """
    shares: list[list[int]] = []
    for _, feeds in itertools.groupby(sorted(due, key=lambda f: (f.host, f.id)), key=lambda f: f.host):
        ids = [feed.id for feed in feeds]
        shares += [ids[i : i + HOST_SHARE] for i in range(0, len(ids), HOST_SHARE)]
    # Shares of the same host are dealt out to different batches.
    count = -(-sum(map(len, shares)) // size)
    packed: list[list[int]] = [[] for _ in range(count)]
    for number, share in enumerate(shares):
        for feed_id in share:
            target = next(b for b in _from(packed, number) if len(b) < size)
            target.append(feed_id)
    return packed


def _from(packed: list[list[int]], start: int) -> Iterable[list[int]]:
    return itertools.islice(itertools.cycle(packed), start % len(packed), start % len(packed) + len(packed))


def _is_due(poll: FeedPoll, now: dt.datetime) -> bool:
    return poll.next_check_at is not None and poll.next_check_at <= now


def _is_free(poll: FeedPoll, now: dt.datetime, dead: Sequence[str]) -> bool:
    return poll.claimed_until is None or poll.claimed_until <= now or poll.claim_token in dead


def _request(poll: FeedPoll) -> FetchRequest:
    return FetchRequest(poll.url, validators=poll.validators, key=poll.id)


class _Batch:
    """Answers that wait to be stored together: 50 feeds, 4 MiB or 200 ms, whatever comes first."""

    def __init__(
        self, feeds: FeedGateway, digester: Digester, claim: Claim, progress: Progress | None
    ) -> None:
        self._feeds, self._digester, self._claim = feeds, digester, claim
        self._progress = progress
        self._rests: list[Rest] = []
        self._records: list[FetchRecord] = []
        self._waiting: list[tuple[Fetched, dt.datetime]] = []
        self._bytes = 0
        self._wake, self._room = asyncio.Event(), asyncio.Event()
        self._closed = False
        self.result = PullResult()

    async def add(self, poll: FeedPoll, fetched: Fetched) -> None:
        """Take an answer in; waits while the store is behind, so that bodies never pile up."""
        now = clock.now()
        rest = self._digester.rest(poll, fetched, now)
        if rest is not None:
            self._rests.append(rest)
            self._records.append(record_of(fetched, now))
        else:
            self._waiting.append((fetched, now))
            self._bytes += len(fetched.body or b"")
        if len(self._waiting) + len(self._rests) >= FLUSH_FEEDS or self._bytes >= FLUSH_BYTES:
            self._wake.set()
        if self._bytes >= FLUSH_BYTES:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """Let :meth:`keep_flushing` store the rest and return."""
        self._closed = True
        self._wake.set()

    async def keep_flushing(self) -> None:
        """Store when enough waits, or each 200 ms while slow hosts keep the rest of the batch waiting.

        A task of its own: when the pull is cancelled, what is being stored is stored to its end.
        """
        try:
            while self._waiting or self._rests or not self._closed:
                if not self._closed:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), FLUSH_SECONDS)
                    self._wake.clear()
                await self._flush()
        finally:
            self._room.set()  # whoever waits for room must see how this ended

    async def _flush(self) -> None:
        waiting, rests, records = self._waiting, self._rests, self._records
        self._waiting, self._rests, self._records, self._bytes = [], [], [], 0
        self._room.set()
        if rests:
            await asyncio.to_thread(self._feeds.rest, rests, clock.now())
            self.result.feeds += len(rests)
            self.result.unchanged += len(rests)
        if waiting:
            records += await self._digest(waiting)
        if records:
            await asyncio.to_thread(self._feeds.record_fetches, records)
            if self._progress:
                self._progress(self.result.to_json())

    async def _digest(self, waiting: list[tuple[Fetched, dt.datetime]]) -> list[FetchRecord]:
        """Claim the feeds, digest their answers and store that; return the lines of the fetch log."""
        ids = [fetched.request.key for fetched, _ in waiting]
        claimed = {feed.id: feed for feed in await asyncio.to_thread(self._claim, ids, clock.now())}
        self.result.skipped += len(ids) - len(claimed)
        digests = []
        for fetched, came in waiting:
            if fetched.request.key in claimed:
                # Another pull may have stored a later answer meanwhile: this one's time decides.
                digests.append(self._digester.digest(claimed[fetched.request.key], fetched, came))
                await asyncio.sleep(0)  # digesting a batch takes long enough to keep transfers waiting
        await asyncio.to_thread(self._store, digests)
        return [digest.record for digest in digests]

    def _store(self, digests: list[Digest]) -> None:
        """Store entries first, then feed states; runs in a thread."""
        results = self._feeds.store([digest.update for digest in digests], clock.now())
        for digest, stored in zip(digests, results, strict=True):
            self._count(digest, stored.new)
            if digest.moved_to:
                self._feeds.move(stored.feed_id, digest.moved_to)
            if stored.excess > 0:
                self._feeds.retain(stored.feed_id)

    def _count(self, digest: Digest, new: int) -> None:
        result, record = self.result, digest.record
        result.feeds += 1
        result.new += new
        result.errors += record.error is not None
        result.unchanged += record.error is None and not digest.update.new and not digest.update.changed
        fields: dict[str, Any] = {"error": record.error} if record.error else {}
        log.debug(
            "feed_pulled", feed_id=record.feed_id, status=record.status, ms=record.ms, new=new, **fields
        )
