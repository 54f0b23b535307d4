"""Pictures of other sites: what a page shows of them, and fetching those that nobody has fetched yet.

A page never waits for a picture. It shows a box, and one job fetches all that are new.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import itertools
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from app import clock, logs
from app.config import Settings
from app.errors import ConflictError, ForbiddenError, NotFoundError, StoreError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.sources import SourceGateway, get_day, may_fetch
from app.models.jobs.jobs import Job, Queue, Task
from app.models.media.addresses import MediaKeys
from app.models.media.blob import Blob, Purpose
from app.models.media.rewriting import PICTURES_MAX, list_pictures
from app.models.media.shown import PictureState, ShownPicture
from app.models.media.signing import PictureSigner
from app.models.media.sizes import SIZES
from app.models.media.source import Source, SourceState
from app.models.media.store import Piece
from app.models.reading.entry import Entry
from app.ports import FetchStreamer, JobPort
from app.services.access import Limiter, throttle
from app.services.media.fetching import PictureFetcher, build_drawing_job, choose_drawing_queue

log = logs.get(__name__)

#: Most pictures of one job: as many as one entry shows.
BATCH: Final = PICTURES_MAX
#: Seconds after which a job begins no further picture; the next job fetches the rest.
BEGIN_SECONDS: Final = 90.0
#: Time between two looks for pictures that were postponed, or whose job was lost.
EVERY: Final = dt.timedelta(seconds=10)
#: New pictures of one user are counted in steps, because each step is a request to Redis.
STEP: Final = 10
#: Pictures of one job that are fetched at once.
AT_ONCE: Final = 16
_NAMES = frozenset(size.name for size in SIZES[Purpose.PICTURE])
#: The size that programs get.
PROGRAM_SIZE: Final = "w1280"


class WantedPicture(NamedTuple):
    """A picture on a page: its address, the page of its entry, the feed that named it, and the entry."""

    url: str
    page: str | None = None
    feed: str | None = None
    entry: int | None = None


def list_wanted(entry: Entry, feed: str | None) -> list[WantedPicture]:
    """Return the pictures of an entry: those in its text and those attached to it."""
    urls = [*list_pictures(entry.content or entry.summary), *(file.url for file in entry.pictures)]
    root = entry.of.entry_id if entry.of else entry.id
    return [WantedPicture(url, entry.url, feed, root) for url in urls]


class PictureService:
    """Has no actor: a picture has no readers, only addresses that nobody can guess."""

    def __init__(
        self,
        *,
        sources: SourceGateway,
        blobs: BlobGateway,
        pictures: PictureFetcher,
        jobs: JobPort,
        limiter: Limiter,
        keys: MediaKeys,
        settings: Settings,
    ) -> None:
        self._sources, self._blobs, self._pictures = sources, blobs, pictures
        self._jobs, self._limiter, self._keys = jobs, limiter, keys
        self._per_hour, self._per_hour_programs = (
            settings.pictures_per_hour,
            settings.pictures_per_hour_programs,
        )
        self._patience = settings.picture_patience
        self._is_proxy = settings.is_picture_proxy
        self._next: dt.datetime | None = None
        # Programs that wait for pictures must leave threads for people.
        self._waiting = threading.Semaphore(max(1, settings.web_threads // 4))

    def prepare(
        self, wanted: Collection[WantedPicture], user_id: int | None, queue: Queue = Queue.PICTURES
    ) -> dict[str, ShownPicture]:
        """Return address → what to show, and let jobs fetch the pictures that are new.

        Reads sources and blobs once. Without Redis, new pictures stay pending until the page is shown again.

        Args:
            user_id: the person who opened the page; None: a stranger. Strangers cause no fetches.
            queue: of the jobs.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        if not wanted:
            return {}
        now = clock.now()
        ids = {one.url: self._keys.derive_id(one.url) for one in wanted}
        known = self._sources.find(ids.values())
        blobs = self._blobs.find({source.blob for source in known.values() if source.blob})
        new = list({one.url: one for one in wanted if ids[one.url] not in known}.values())
        # The rest waits until the page is shown again.
        new = new[: self._count_allowed(user_id, len(new))] if user_id is not None else []
        if new:
            self._sources.add([_create_source(ids[one.url], one) for one in new], now)
        due = [source.id for source in known.values() if _is_due(source)] if user_id is not None else []
        self._enqueue([*due, *(ids[one.url] for one in new)], queue)
        day = get_day(now)
        self._sources.touch([s.id for s in known.values() if s.used is None or s.used < day], now)
        return {url: _show(i, known.get(i), blobs) for url, i in ids.items()}

    def find_known(self, urls: Collection[str]) -> dict[str, ShownPicture]:
        """Return address → what is known of pictures that come from their sites; fetches none.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        ids = {url: self._keys.derive_id(url) for url in urls}
        states = self.find_states(list(ids.values()))
        return {url: states[i] for url, i in ids.items() if i in states}

    def find_states(self, ids: Sequence[bytes]) -> dict[bytes, ShownPicture]:
        """Return what to show now of pictures that were pending, by the ids of their sources.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        known = self._sources.find(ids[:PICTURES_MAX])
        blobs = self._blobs.find({source.blob for source in known.values() if source.blob})
        return {i: _show(i, source, blobs) for i, source in known.items()}

    def open(self, source_id: bytes, size: str) -> tuple[Piece, bytes] | None:
        """Return a picture's file in a size, and the id of its blob; None: it is pending.

        Raises:
            NotFoundError: there is no such picture or size, or it can't be fetched.
        """
        source = self._sources.find([source_id]).get(source_id) if size in _NAMES else None
        if source is None or source.purpose is not Purpose.PICTURE:
            raise NotFoundError
        if source.blob is None:
            if source.state is SourceState.FAILED:
                raise NotFoundError
            return None
        return self._blobs.open(source.blob, size), source.blob

    def open_signed(self, signature: str, data: str, network: str) -> tuple[Piece, bytes] | None:
        """Return a picture for a program, and the id of its blob; None: it isn't there yet.

        The first request lets a job fetch the picture and waits for it, unless too many others wait.

        Args:
            network: from which the request came; programs have no session here.

        Raises:
            ForbiddenError: the address isn't signed by this server, or may not be fetched (V01).
            NotFoundError: the picture can't be fetched.
            RateLimitedError: too many new pictures for this address, or for all programs.
        """
        named = self._keys.verify(signature, data)
        if named is None or not may_fetch(named.url):
            raise ForbiddenError
        source_id = self._keys.derive_id(named.url)
        if source_id not in self._sources.find([source_id]):
            # Anyone who writes a feed gets signatures for any number of pictures.
            throttle(self._limiter, f"signed:{network}", limit=self._per_hour, window=clock.HOUR)
            throttle(self._limiter, "signed", limit=self._per_hour_programs, window=clock.HOUR)
            self._sources.add([_create_source(source_id, WantedPicture(named.url, named.page))], clock.now())
        found = self._open_or_retry(source_id)
        if found is None and self._waiting.acquire(blocking=False):
            try:
                self._await(source_id)
            finally:
                self._waiting.release()
            found = self._open_or_retry(source_id)
        elif found is None:
            self._enqueue([source_id], Queue.PICTURES)
        if found is not None:
            self._sources.touch([source_id], clock.now())
        return found

    def _open_or_retry(self, source_id: bytes) -> tuple[Piece, bytes] | None:
        """Return as :meth:`open` does; a picture that failed is pending again once its wait is over."""
        try:
            return self.open(source_id, PROGRAM_SIZE)
        except NotFoundError:
            source = self._sources.find([source_id]).get(source_id)
            if source is None or source.state is not SourceState.FAILED or not _is_due(source):
                raise
            return None

    def create_signer(self, origin: str) -> PictureSigner:
        """Return what makes the addresses of pictures for programs; ``origin``: this server's own address."""
        return PictureSigner(origin, self._keys if self._is_proxy else None)

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return jobs for pictures that were postponed or whose job was lost; at most every ten seconds.

        Jobs that are still queued aren't queued twice, and a claim lets only one of them have a picture.
        """
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        waiting = [build_drawing_job(i, Queue.MEDIA_SYSTEM) for i in self._sources.find_waiting(now)]
        due = self._sources.find_due(now)
        if not due or not self._pictures.has_room():
            return waiting
        return [*waiting, *build_fetch_jobs(due, Queue.PICTURES_SYSTEM)]

    async def fetch_many(
        self, ids: Sequence[bytes], fetcher: FetchStreamer, token: str, queue: str = Queue.PICTURES
    ) -> dict[str, int]:
        """Fetch those pictures that are due; return how many were fetched.

        Safe to run twice and to be killed anywhere: a claim expires. Slow sites don't use up the job's time:
        what it hasn't begun after :data:`BEGIN_SECONDS` is due again at once.

        Args:
            queue: of this job; pictures that nobody waits for are drawn after the others, too.

        Raises:
            StoreError: a store isn't responding.
        """
        if not await asyncio.to_thread(self._pictures.has_room):
            return {"fetched": 0}
        claimed = await asyncio.to_thread(self._sources.claim, ids, token, clock.now())
        limit, end = asyncio.Semaphore(AT_ONCE), time.monotonic() + BEGIN_SECONDS
        left: list[bytes] = []
        drawing = choose_drawing_queue(queue)
        failed: list[StoreError] = []

        async def fetch(source: Source) -> None:
            async with limit:
                if time.monotonic() >= end:
                    left.append(source.id)
                    return
                try:
                    await self._pictures.fetch(source, token, fetcher, drawing)
                except StoreError as e:
                    failed.append(e)
                except ConflictError:
                    pass  # the claim has expired, and another job has the picture
                except Exception:  # one odd picture must not stop the others
                    log.error("picture_fetch_failed", source=source.id.hex(), exc_info=True)
                    await asyncio.to_thread(
                        self._sources.record_failure, source, token, "unexpected", clock.now()
                    )

        await asyncio.gather(*map(fetch, claimed))
        if left:
            await asyncio.to_thread(self._sources.release_claims, left, token)
        if failed:
            raise failed[0]
        return {"fetched": len(claimed) - len(left)}

    # -- jobs

    def _count_allowed(self, user_id: int, count: int) -> int:
        """Return how many of these new fetches a user may cause now, and count them."""
        limit, steps = max(1, self._per_hour // STEP), -(-count // STEP)
        key = f"pictures:{user_id}"
        passed = itertools.takewhile(
            lambda _: not self._limiter.count_try(key, limit, clock.HOUR), range(steps)
        )
        return min(count, STEP * sum(1 for _ in passed))

    def _enqueue(self, ids: Sequence[bytes], queue: Queue) -> None:
        with contextlib.suppress(StoreError):
            self._jobs.enqueue_many(build_fetch_jobs(ids, queue))

    def _await(self, source_id: bytes) -> None:
        """Wait until a picture is fetched and drawn, or for as long as programs wait."""
        ends = time.monotonic() + self._patience
        try:
            ticket = self._jobs.enqueue(build_fetch_jobs([source_id], Queue.PICTURES)[0])
            next(iter(self._jobs.await_many([ticket], self._patience)), None)
            source = self._sources.find([source_id]).get(source_id)
            left = ends - time.monotonic()
            if source is not None and source.is_waiting and left > 0:
                # It joins the job that is queued or running.
                ticket = self._jobs.enqueue(build_drawing_job(source_id))
                next(iter(self._jobs.await_many([ticket], left)), None)
        except StoreError as e:
            log.info("picture_not_awaited", error=e.word)


def build_fetch_jobs(ids: Sequence[bytes], queue: Queue) -> list[Job]:
    """Return the jobs that fetch pictures, each at most :data:`BATCH`."""
    # In one order: the same page shown again is the same jobs.
    found = [i.hex() for i in sorted(ids)]
    starts = range(0, len(found), BATCH)
    return [Job(Task.MEDIA_FETCH, {"ids": found[n : n + BATCH]}, queue) for n in starts]


def _create_source(source_id: bytes, wanted: WantedPicture) -> Source:
    return Source(
        id=source_id,
        url=wanted.url,
        purpose=Purpose.PICTURE,
        page=wanted.page,
        feed=wanted.feed,
        entry=wanted.entry,
    )


def _is_due(source: Source) -> bool:
    """Return whether a source may be fetched: it never was, or its window or wait is over."""
    return source.next_at is None or source.next_at <= clock.now()


def _show(source_id: bytes, source: Source | None, blobs: Mapping[bytes, Blob]) -> ShownPicture:
    blob = blobs.get(source.blob) if source and source.blob else None
    if blob is not None:
        return ShownPicture(
            source=source_id,
            state=PictureState.READY,
            width=blob.width,
            height=blob.height,
            color=blob.color,
            names=frozenset(blob.names),
        )
    if source is not None and source.state is SourceState.FAILED:
        return ShownPicture(source=source_id, state=PictureState.FAILED, error=source.error)
    return ShownPicture(source=source_id, state=PictureState.PENDING)
