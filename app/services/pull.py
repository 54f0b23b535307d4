"""Pulling feeds: claim, fetch all at once, digest, store in batches. The updater and the workers call it.

There is no actor here: whether a person may have a feed refreshed is decided where he asks for it
(``SubscriptionService.refresh``); this service runs on behalf of the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from app import clock, logs
from app.config import Settings
from app.gateways.digest import Digest, Digester, crashed
from app.gateways.feeds import FeedGateway
from app.models.feed import DueFeed, Feed, StoreResult
from app.models.fetched import Fetched, FetchRequest

log = logs.get(__name__)

FLUSH_FEEDS: Final = 50
FLUSH_ENTRIES: Final = 500
FLUSH_SECONDS: Final = 0.2

#: At two connections per host and 30 s per fetch, eight slow feeds of one host end in two minutes.
HOST_SHARE: Final = 8

Progress = Callable[[dict[str, int]], None]


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

        What was fetched when the pull is cancelled is stored; the claims of the rest are given back.

        Args:
            feed_ids: feeds to pull; those that somebody else is pulling are skipped.
            fetcher: may be shared with other pulls of this process.
            token: names this attempt and no other one; made when left out.
            dead: tokens of attempts whose worker died; their claims are taken over.
            only_due: skip feeds that are not due any more, since another job pulled them meanwhile.
            progress: called with the counts after each batch that was stored.

        Raises:
            StoreError: the store did not answer; claims run out by themselves.
        """
        token = token or uuid.uuid4().hex
        now = clock.now()
        # All calls to the store are made in threads: one that does not answer for some seconds must
        # not stop the other jobs of this process, nor its signs of life.
        claimed = {f.id: f for f in await asyncio.to_thread(self._claim, feed_ids, token, now, dead)}
        pulled = {i: f for i, f in claimed.items() if not only_due or _is_due(f, now)}
        batch = _Batch(self._feeds, PullResult(skipped=len(feed_ids) - len(pulled)), progress)
        flusher = asyncio.create_task(batch.keep_flushing())
        try:
            async for fetched in fetcher.stream([_request(f) for f in pulled.values()]):
                batch.add(self._digester.digest(pulled[fetched.request.key], fetched, clock.now()))
                if flusher.done():
                    break  # by an error, which is this pull's own
        finally:
            batch.close()
            # Not "await flusher": a second cancellation must not reach what is being stored.
            await asyncio.wait({flusher})
            flusher.result()
            rest = claimed.keys() - batch.done
            if rest:
                await asyncio.to_thread(self._feeds.release, token, sorted(rest))
        return batch.result

    def suspect(self, feed_id: int, token: str, dead: Sequence[str] = ()) -> None:
        """Note that reading a feed crashes workers; it rests until the longest back-off is over."""
        now = clock.now()
        for feed in self._claim([feed_id], token, now, dead):
            self._feeds.store([crashed(feed, now, self._settings.error_backoff_max)], now)

    def retain(self, feed_id: int) -> int:
        """Drop a feed's oldest entries above the number that is kept; return how many went."""
        return self._feeds.retain(feed_id)

    def _claim(
        self, feed_ids: Sequence[int], token: str, now: dt.datetime, dead: Sequence[str]
    ) -> list[Feed]:
        return self._feeds.claim(feed_ids, token, now, self._settings.claim_seconds, dead=dead)


def batches(due: Sequence[DueFeed], size: int) -> list[list[int]]:
    """Return feeds in batches of at most ``size``, the feeds of a host beside each other.

    At most :data:`HOST_SHARE` feeds of one host come into a batch, so that a slow host holds back
    many batches a little instead of one for a quarter of an hour.
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


def _is_due(feed: Feed, now: dt.datetime) -> bool:
    return feed.next_check_at is not None and feed.next_check_at <= now


def _request(feed: Feed) -> FetchRequest:
    return FetchRequest(feed.url, validators=feed.validators, key=feed.id)


class _Batch:
    """Digests that wait to be stored together: 50 feeds, 500 entries or 200 ms, whatever comes first."""

    def __init__(self, feeds: FeedGateway, result: PullResult, progress: Progress | None) -> None:
        self._feeds = feeds
        self._progress = progress
        self._waiting: list[Digest] = []
        self._entries = 0
        self._wake = asyncio.Event()
        self._closed = False
        self.result = result
        self.done: set[int] = set()

    def add(self, digest: Digest) -> None:
        self._waiting.append(digest)
        self._entries += len(digest.update.new) + len(digest.update.changed)
        if len(self._waiting) >= FLUSH_FEEDS or self._entries >= FLUSH_ENTRIES:
            self._wake.set()

    def close(self) -> None:
        """Let :meth:`keep_flushing` store the rest and return."""
        self._closed = True
        self._wake.set()

    async def keep_flushing(self) -> None:
        """Store when enough waits, or each 200 ms while slow hosts keep the rest of the batch waiting.

        A task of its own: when the pull is cancelled, what is being stored is stored to its end.
        """
        while self._waiting or not self._closed:
            if not self._closed:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), FLUSH_SECONDS)
                self._wake.clear()
            waiting, self._waiting, self._entries = self._waiting, [], 0
            if waiting:
                await self._flush(waiting)

    async def _flush(self, waiting: list[Digest]) -> None:
        stored = await asyncio.to_thread(self._store, waiting)
        for digest in waiting:
            self._count(digest, stored[digest.update.feed_id].new)
        if self._progress:
            self._progress(self.result.to_json())

    def _store(self, waiting: list[Digest]) -> dict[int, StoreResult]:
        """Store entries first, then feed states, then the log of fetches; runs in a thread."""
        stored = {r.feed_id: r for r in self._feeds.store([d.update for d in waiting], clock.now())}
        self.done |= stored.keys()
        self._feeds.record_fetches([d.record for d in waiting])
        for digest in waiting:
            self._move(digest)
            if stored[digest.update.feed_id].excess > 0:
                self._feeds.retain(digest.update.feed_id)
        return stored

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

    def _move(self, digest: Digest) -> None:
        if digest.moved_to:
            self._feeds.move(digest.update.feed_id, digest.moved_to)
