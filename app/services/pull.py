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
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from app import clock, logs
from app.config import Settings
from app.errors import StoreError
from app.gateways.digest import Digest, Digester, crashed, record_of
from app.gateways.feeds import FeedGateway
from app.models.feed import DueFeed, Feed, FeedPoll, FetchRecord, Rest
from app.models.fetched import Fetched, FetchRequest
from app.ports import EventPort, HostBudget
from app.services.courtesy import Courtesy, asks_for_rest

log = logs.get(__name__)

FLUSH_FEEDS: Final = 50
#: Polls without news are small and cost most by the statement.
FLUSH_RESTS: Final = 100
FLUSH_BYTES: Final = 2 << 20
FLUSH_SECONDS: Final = 1.0

#: At two connections per host and 30 s per fetch, six slow feeds of one host end in a minute and a half.
HOST_SHARE: Final = 6

Progress = Callable[[dict[str, int]], None]
Announce = Callable[[Mapping[int, int]], None]
Claim = Callable[[Sequence[int], dt.datetime], list[Feed]]
Answer = tuple[Feed, Fetched, dt.datetime]


class Streamer(Protocol):
    """What a pull needs of a fetcher; fulfilled by ``app.feeds.fetch.Fetcher``."""

    def stream(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        """Yield each request's end as it comes."""
        ...


@dataclasses.dataclass(slots=True)
class PullResult:
    """Counts of one pull: feeds stored, unchanged ones among them, new entries, feeds in error.

    ``skipped`` were claimed by somebody else, or not due any more; ``put_off`` wait for their host's
    budget; ``not_modified`` are the answers 304; ``words`` tells the errors by their words.
    """

    feeds: int = 0
    unchanged: int = 0
    new: int = 0
    errors: int = 0
    skipped: int = 0
    put_off: int = 0
    not_modified: int = 0
    words: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def counts(self) -> dict[str, int]:
        """All but the words."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "words"}

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object, with ``words`` if there were errors."""
        return {**self.counts, "words": dict(self.words)} if self.words else self.counts


class PullService:
    """Decides which feeds are pulled together, and pulls them."""

    def __init__(
        self,
        feeds: FeedGateway,
        settings: Settings,
        digester: Digester | None = None,
        *,
        budget: HostBudget | None = None,
        events: EventPort | None = None,
    ) -> None:
        self._feeds = feeds
        self._announce = events.new if events else None
        self._settings = settings
        self._courtesy = Courtesy(feeds, budget) if budget else None
        self._digester = digester or Digester(settings)

    def due(self, now: dt.datetime, limit: int) -> list[DueFeed]:
        """Return at most ``limit`` feeds that should be pulled, the longest due first."""
        return self._feeds.due(now, limit)

    def count_due(self, now: dt.datetime, most: int) -> int:
        """Return how many feeds should be pulled, counted up to ``most``."""
        return self._feeds.count_due(now, most)

    def batches(self, feeds: Sequence[DueFeed]) -> list[list[int]]:
        """Return the ids of these feeds in batches for one job each."""
        return batches(feeds, self._settings.pull_batch)

    def put_off(self, later: Mapping[int, float], now: dt.datetime) -> None:
        """Let feeds be due so many seconds from now."""
        rests = [Rest(feed_id, now + dt.timedelta(seconds=wait)) for feed_id, wait in later.items()]
        self._feeds.put_off(rests, now)

    async def pull(
        self,
        feed_ids: Sequence[int],
        fetcher: Streamer,
        *,
        token: str | None = None,
        dead: Sequence[str] = (),
        only_due: bool = False,
        urgent: bool | None = None,
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
            urgent: a person waits, so that hosts' budgets may be overdrawn; None: unless ``only_due``.
            progress: called with the counts after each batch that was stored.

        Raises:
            StoreError: the store did not answer; claims run out by themselves.
        """
        # All calls to the store are made in threads: one that does not answer for some seconds must
        # not stop the other jobs of this process, nor its signs of life.
        polls, put_off = await asyncio.to_thread(self._look, feed_ids, dead, only_due, urgent)
        claim = functools.partial(self._claim, token=token or uuid.uuid4().hex, dead=dead)
        batch = _Batch(self._feeds, self._digester, claim, progress, self._announce)
        batch.result.put_off = put_off
        batch.result.skipped = len(feed_ids) - len(polls) - put_off
        courtesy = self._courtesy
        flusher = asyncio.create_task(batch.keep_flushing())
        try:
            async for fetched in fetcher.stream([_request(p) for p in polls.values()]):
                await batch.add(polls[fetched.request.key], fetched)
                if courtesy and asks_for_rest(fetched):
                    await asyncio.to_thread(courtesy.heed, fetched)
                if flusher.done():
                    break  # by an error, which is this pull's own
        finally:
            batch.close()
            # Not "await flusher": a second cancellation must not reach what is being stored.
            await asyncio.wait({flusher})
            flusher.result()
        return batch.result

    def _look(
        self, feed_ids: Sequence[int], dead: Sequence[str], only_due: bool, urgent: bool | None
    ) -> tuple[dict[int, FeedPoll], int]:
        """Return the feeds that may be asked now, by id, and how many wait for their hosts."""
        now_ms = clock.now().timestamp() * 1000
        free = [p for p in self._feeds.look(feed_ids) if _is_free(p, now_ms, dead)]
        polls = {p.id: p for p in free if not only_due or _is_due(p, now_ms)}
        urgent = not only_due if urgent is None else urgent
        admitted = self._courtesy.admit(polls, urgent=urgent) if self._courtesy else polls
        return admitted, len(polls) - len(admitted)

    def suspect(self, feed_id: int, token: str, dead: Sequence[str] = ()) -> None:
        """Note that reading a feed crashes workers; it rests until the longest back-off is over."""
        now = clock.now()
        for feed in self._claim([feed_id], now, token=token, dead=dead):
            self._feeds.store([crashed(feed, now, self._settings.error_backoff_max)], now)

    def is_given_up(self, feed_id: int) -> bool:
        """Return whether a feed rests because reading it crashed workers."""
        feed = self._feeds.get(feed_id)
        return feed.error == "crashed" and feed.next_check_at is not None and feed.next_check_at > clock.now()

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


def _is_due(poll: FeedPoll, now_ms: float) -> bool:
    return poll.due_ms is not None and poll.due_ms <= now_ms


def _is_free(poll: FeedPoll, now_ms: float, dead: Sequence[str]) -> bool:
    return poll.claimed_ms <= now_ms or poll.claim_token in dead


def _request(poll: FeedPoll) -> FetchRequest:
    return FetchRequest(poll.url, validators=poll.validators, key=poll.id)


class _Batch:
    """Answers that wait to be stored together.

    50 feeds with something to digest, 100 without, 2 MiB or a second, whatever comes first.
    """

    def __init__(
        self,
        feeds: FeedGateway,
        digester: Digester,
        claim: Claim,
        progress: Progress | None,
        announce: Announce | None,
    ) -> None:
        self._feeds, self._digester, self._claim = feeds, digester, claim
        self._progress, self._announce = progress, announce
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
        full = len(self._waiting) >= FLUSH_FEEDS or len(self._rests) >= FLUSH_RESTS
        if full or self._bytes >= FLUSH_BYTES:
            self._wake.set()
        if self._bytes >= FLUSH_BYTES:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """Let :meth:`keep_flushing` store the rest and return."""
        self._closed = True
        self._wake.set()

    async def keep_flushing(self) -> None:
        """Store when enough waits, or each second while slow hosts keep the rest of the batch waiting.

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
        # Each trip to a thread and back costs more than its statement, so there are as few as can be.
        if rests:
            await asyncio.to_thread(self._store_rests, rests, records)
        if waiting:
            await self._digest(waiting)
        if self._progress and (rests or waiting):
            self._progress(self.result.counts)

    def _store_rests(self, rests: list[Rest], records: list[FetchRecord]) -> None:
        """Store what brought nothing; runs in a thread."""
        self._feeds.rest(rests, clock.now())
        self._feeds.record_fetches(records)
        result = self.result
        result.feeds += len(rests)
        result.unchanged += len(rests)
        result.not_modified += sum(record.status == 304 for record in records)

    async def _digest(self, waiting: list[tuple[Fetched, dt.datetime]]) -> None:
        """Claim the feeds, digest their answers and store that."""
        ids = [fetched.request.key for fetched, _ in waiting]
        claimed = {feed.id: feed for feed in await asyncio.to_thread(self._claim, ids, clock.now())}
        self.result.skipped += len(ids) - len(claimed)
        answers: list[Answer] = []
        digests = []
        for fetched, came in waiting:
            if fetched.request.key in claimed:
                # Another pull may have stored a later answer meanwhile: this one's time decides.
                answers.append((claimed[fetched.request.key], fetched, came))
                digests.append(self._digester.digest(*answers[-1]))
                await asyncio.sleep(0)  # digesting a batch takes long enough to keep transfers waiting
        await asyncio.to_thread(self._store, answers, digests)

    def _store(self, answers: list[Answer], digests: list[Digest]) -> None:
        """Store entries first, then feed states, then the log; runs in a thread."""
        try:
            results = self._feeds.store([digest.update for digest in digests], clock.now())
        except Exception as error:  # noqa: BLE001 — one holds what the store refuses; the others must not pay
            return self._store_apart(answers, digests, error)
        for digest, stored in zip(digests, results, strict=True):
            self._count(digest, stored.new)
            if digest.moved_to:
                self._feeds.move(stored.feed_id, digest.moved_to)
            if stored.excess > 0:
                self._feeds.retain(stored.feed_id)
        self._feeds.record_fetches([digest.record for digest in digests])
        if self._announce:
            self._announce({stored.feed_id: stored.new for stored in results if stored.new})

    def _store_apart(self, answers: list[Answer], digests: list[Digest], error: Exception) -> None:
        """Store each answer alone; one that is refused again becomes an error of its feed."""
        if isinstance(error, StoreError) or (len(digests) == 1 and digests[0].record.error):
            raise error  # the store is away, or it refuses even an error, which is small and ours
        if len(digests) == 1:
            return self._store(answers, [self._digester.unreadable(*answers[0], error)])
        for answer, digest in zip(answers, digests, strict=True):
            self._store([answer], [digest])

    def _count(self, digest: Digest, new: int) -> None:
        result, record = self.result, digest.record
        result.feeds += 1
        result.new += new
        result.not_modified += record.status == 304
        if record.error:
            result.errors += 1
            result.words[record.error] += 1
        result.unchanged += record.error is None and not digest.update.new and not digest.update.changed
        fields: dict[str, Any] = {"error": record.error} if record.error else {}
        log.debug(
            "feed_pulled", feed_id=record.feed_id, status=record.status, ms=record.ms, new=new, **fields
        )
