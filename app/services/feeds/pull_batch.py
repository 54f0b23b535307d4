"""Batches of a pull's answers: digested and stored together, while other feeds are being fetched."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from app import clock, logs
from app.errors import StoreError
from app.gateways.feeds.digest import Digest, Digester, make_fetch_record
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.retention import RetentionGateway
from app.models.feeds.feed import UNSET, Feed, FeedPoll, FetchRecord, StoreResult, UnchangedPoll
from app.models.feeds.fetched import Fetched, Validators

log = logs.get(__name__)

FLUSH_FEEDS: Final = 50
#: Polls without news are small: most of their cost is per statement.
FLUSH_RESTS: Final = 100
FLUSH_BYTES: Final = 2 << 20
FLUSH_SECONDS: Final = 1.0

Progress = Callable[[dict[str, int]], None]


class SecrecyPort(Protocol):
    """Closes or opens the shares of feeds that are, or were, secret."""

    def mark_feed(self, feed_id: int) -> None:
        """Remember that a feed's shares are to be checked."""

    def update_shares(self, feed_id: int) -> None:
        """Close or open the shares of a feed."""


Announce = Callable[[Mapping[int, int]], None]
Claim = Callable[[Sequence[int], dt.datetime], list[Feed]]
Answer = tuple[Feed, Fetched, dt.datetime]


@dataclasses.dataclass(slots=True)
class PullResult:
    """Counts of one pull: feeds stored, unchanged ones among them, new entries, feeds in error.

    ``skipped`` feeds were claimed by another pull, or are not due anymore. ``put_off`` feeds wait for their
    host's budget. ``not_modified`` counts 304 answers; ``words`` counts errors by their code.
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
        """All counts except ``words``."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "words"}

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object, with ``words`` if there were errors."""
        return {**self.counts, "words": dict(self.words)} if self.words else self.counts


class PullBatch:
    """Collects answers until they are stored together.

    A batch is stored after 50 feeds with news, 100 without, 2 MiB or a second, whichever comes first.
    """

    def __init__(
        self,
        *,
        feeds: FeedGateway,
        retention: RetentionGateway,
        digester: Digester,
        claim: Claim,
        progress: Progress | None,
        announce: Announce | None,
        secrecy: SecrecyPort | None = None,
        thumbs: Announce | None = None,
        notify: Announce | None = None,
        reopen: Announce | None = None,
    ) -> None:
        self._feeds, self._retention = feeds, retention
        self._digester, self._claim = digester, claim
        self._progress, self._announce, self._notify = progress, announce, notify
        self._reopen = reopen
        self._secrecy, self._thumbs = secrecy, thumbs
        self._luck = digester.make_batch_rng()
        self._rests: list[tuple[FetchRecord, dt.timedelta]] = []
        self._waiting: list[tuple[Fetched, dt.datetime]] = []
        self._bytes = 0
        self._wake, self._room = asyncio.Event(), asyncio.Event()
        self._closed = False
        #: Feeds that stated a new address often enough to try it: id, address, new address.
        self.announced: list[tuple[int, str, str]] = []
        #: Feeds with another spelling of their address to try: id, address, other spelling.
        self.respelled: list[tuple[int, str, str]] = []
        #: Feeds whose full answer had new entries: id, address, validators of the answer before.
        self.doubted: list[tuple[int, str, Validators]] = []
        self.result = PullResult()

    async def add(self, poll: FeedPoll, fetched: Fetched) -> None:
        """Accept an answer; wait while the store is behind, so that bodies never pile up."""
        now = clock.now()
        rest = self._digester.calculate_rest(poll, fetched, now, self._luck)
        if rest is not None:
            self._rests.append((make_fetch_record(fetched, now), rest))
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
        """Store whenever a batch is full, and each second while slow hosts delay the rest.

        Runs as a task of its own, so that canceling the pull doesn't interrupt storing.
        """
        try:
            while self._waiting or self._rests or not self._closed:
                if not self._closed:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), FLUSH_SECONDS)
                    self._wake.clear()
                await self._flush()
        finally:
            self._room.set()  # wakes add() if it waits for room

    async def _flush(self) -> None:
        waiting, rests = self._waiting, self._rests
        self._waiting, self._rests, self._bytes = [], [], 0
        self._room.set()
        # Switching to a thread costs more than a statement, so do it as rarely as possible.
        if rests:
            await asyncio.to_thread(self._store_rests, rests)
        if waiting:
            await self._digest(waiting)
        if self._progress and (rests or waiting):
            self._progress(self.result.counts)

    def _store_rests(self, rests: list[tuple[FetchRecord, dt.timedelta]]) -> None:
        """Record polls without news; runs in a thread. The rest starts now, up to a second late."""
        now = clock.now()
        self._feeds.record_unchanged([UnchangedPoll(fetch, now + rest) for fetch, rest in rests], now)
        result = self.result
        result.feeds += len(rests)
        result.unchanged += len(rests)
        result.not_modified += sum(fetch.status == 304 for fetch, _ in rests)

    async def _digest(self, waiting: list[tuple[Fetched, dt.datetime]]) -> None:
        """Claim the feeds, digest their answers and store the results."""
        ids = [fetched.request.key for fetched, _ in waiting]
        claimed = {feed.id: feed for feed in await asyncio.to_thread(self._claim, ids, clock.now())}
        self.result.skipped += len(ids) - len(claimed)
        answers: list[Answer] = []
        digests = []
        for fetched, came in waiting:
            if fetched.request.key in claimed:
                # Another pull may have stored a later answer, so the digest gets the time of this one.
                answers.append((claimed[fetched.request.key], fetched, came))
                digests.append(self._digester.digest_fetch(*answers[-1]))
                await asyncio.sleep(0)  # let transfers go on: digesting a batch takes long
        await asyncio.to_thread(self._store, answers, digests)

    def _store(self, answers: list[Answer], digests: list[Digest]) -> None:
        """Store entries first, then feed states with the log; runs in a thread."""
        self._mark_secrecy(answers, digests)
        try:
            results = self._feeds.store_updates([digest.update for digest in digests], clock.now())
        except Exception as error:  # noqa: BLE001 — one bad answer must not fail the others
            return self._store_apart(answers, digests, error)
        for (feed, fetched, _), digest, stored in zip(answers, digests, results, strict=True):
            self._count(digest, stored.new)
            if stored.new and is_doubted(feed, fetched):
                self.doubted.append((feed.id, feed.url, feed.validators))
            if digest.announced_url:
                self.announced.append((feed.id, feed.url, digest.announced_url))
            if feed.other_url:
                self._respell(feed, feed.other_url, digest)
            if digest.moved_to:
                self._feeds.move(stored.feed_id, digest.moved_to)
            if self._secrecy and _may_change_secrecy(feed, digest):
                self._secrecy.update_shares(stored.feed_id)
            if stored.excess > 0 or stored.too_big:
                self._retention.apply_retention(stored.feed_id)
        self._tell_readers({stored.feed_id: stored.new for stored in results if stored.new})
        changed = {
            d.update.feed_id: clock.to_millis(d.update.fetched_at) for d in digests if d.update.changed
        }
        if self._reopen and changed:
            self._reopen(changed)
        self._request_thumbs(digests, results)

    def _tell_readers(self, new: dict[int, int]) -> None:
        """Tell open pages of new entries, and notify the readers who asked for it."""
        if self._announce:
            self._announce(new)
        if self._notify and new:
            self._notify(new)

    def _request_thumbs(self, digests: list[Digest], results: Sequence[StoreResult]) -> None:
        """Let the pictures of new entries be fetched ahead."""
        if self._thumbs:
            pairs = zip(digests, results, strict=True)
            self._thumbs({r.feed_id: r.new for d, r in pairs if r.new and has_pictures(d)})

    def _mark_secrecy(self, answers: list[Answer], digests: list[Digest]) -> None:
        """Mark feeds whose shares :meth:`_store` may have to close, in case that this process dies."""
        for (feed, _, _), digest in zip(answers, digests, strict=True):
            if self._secrecy and _may_change_secrecy(feed, digest):
                self._secrecy.mark_feed(feed.id)

    def _respell(self, feed: Feed, other: str, digest: Digest) -> None:
        """Have another spelling tried if the stored one failed just now, or if the other one is https."""
        if digest.record.error or self._digester.is_upgrade(feed.url, other):
            self.respelled.append((feed.id, feed.url, other))
        else:
            self._feeds.settle_spelling(feed.id, other, clock.now(), accepted=False)

    def _store_apart(self, answers: list[Answer], digests: list[Digest], error: Exception) -> None:
        """Store each answer alone; a second refusal becomes an error of the feed."""
        if isinstance(error, StoreError) or (len(digests) == 1 and digests[0].record.error == "unreadable"):
            raise error  # the store is down, or refuses even our small error record
        if len(digests) == 1:
            return self._store(answers, [self._digester.make_unreadable(*answers[0], error)])
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


def is_doubted(feed: Feed, fetched: Fetched) -> bool:
    """Return whether a feed that has validators was fetched without them, and answered in full."""
    return has_condition(feed.validators) and not has_condition(fetched.request.validators)


def has_pictures(digest: Digest) -> bool:
    """Return whether a new entry has a picture for lists."""
    return any(entry.image for entry in digest.update.new)


def has_condition(validators: Validators) -> bool:
    """Return whether a request with these validators may be answered by 304."""
    return bool(validators.etag or validators.last_modified)


def _may_change_secrecy(feed: Feed, digest: Digest) -> bool:
    unlisted = digest.update.fields.unlisted
    return bool(digest.moved_to) or (unlisted is not UNSET and unlisted != feed.unlisted)
