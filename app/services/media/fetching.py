"""Fetching pictures: within the hosts' budgets, with a Referer, and each body only once.

No user pays for it, and nobody's cookies or headers go out: a picture is fetched once for all its readers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import io
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import urlsplit

from app import clock, logs
from app.config import Settings
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.sources import SourceGateway, is_harmless_svg
from app.models.feeds.fetched import Fetched, FetchRequest, Target, Validators
from app.models.feeds.hosts import PICTURE_PREFIX, parse_host
from app.models.jobs.jobs import USER_QUEUES, Job, Queue, Task
from app.models.media.blob import Blob, BlobKind, Content, Purpose
from app.models.media.dimensions import is_almost_square
from app.models.media.drawn import RECIPE
from app.models.media.icon import SVG_TYPE
from app.models.media.sizes import SIZES
from app.models.media.sniff import ICON_TYPES, PICTURE_TYPES, SNIFF_BYTES, sniff
from app.models.media.source import Source
from app.ports import FetchStreamer, HostBudget, JobPort, PictureBodies
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace

log = logs.get(__name__)

#: Seconds that a fetch waits for its host's budget; otherwise a later job fetches the picture.
PATIENCE: Final = 5.0
#: Seconds to pause a host that answers 429 without Retry-After.
PAUSE: Final = 60
#: Answers of hotlink guards, after which the picture is requested once more without Referer.
_GUARDED = frozenset({"http_403", "http_404"})


class PictureFetcher:
    """Fetches sources, and hands their bodies on to be drawn.

    All methods raise:
        StoreError: MongoDB, Redis or the disk isn't responding; the claim expires.
    """

    def __init__(
        self,
        sources: SourceGateway,
        blobs: BlobGateway,
        bodies: PictureBodies,
        jobs: JobPort,
        *,
        budget: HostBudget,
        fetch_budget: FetchBudget,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._sources, self._blobs, self._bodies, self._jobs = sources, blobs, bodies, jobs
        self._budget, self._fetch_budget, self._free_space = budget, fetch_budget, free_space
        self._own = _get_origin(settings.own_origin)

    def has_room(self) -> bool:
        """Return whether pictures may be fetched: there is disk space, and the day's bytes aren't spent."""
        return self._free_space.find_shortage() is None and not self._fetch_budget.is_spent(clock.now())

    async def fetch(
        self, source: Source, token: str, fetcher: FetchStreamer, drawing: Queue = Queue.MEDIA
    ) -> Source:
        """Fetch a claimed source; return it as it is stored afterwards, without a claim.

        Its body waits to be drawn, unless the store has it already.

        Args:
            drawing: queue of the job that draws it; see :func:`choose_drawing_queue`.
        """
        if _get_origin(source.url) == self._own:
            return await asyncio.to_thread(self._fail, source, token, "refused")
        host = parse_host(source.url)
        wait = await asyncio.to_thread(self._find_wait, host)
        if wait > PATIENCE:
            return await asyncio.to_thread(self._sources.postpone, source, token, clock.now(), wait)
        if wait:
            await asyncio.sleep(wait)
        fetched = await _fetch_one(fetcher, build_request(source))
        if fetched.error is not None and fetched.error.word in _GUARDED and source.page:
            fetched = await _fetch_one(fetcher, build_request(dataclasses.replace(source, page=None)))
        return await asyncio.to_thread(self._take, source, token, fetched, drawing)

    async def fetch_page(self, url: str, feed_url: str, fetcher: FetchStreamer) -> Fetched | None:
        """Fetch a page that may announce icons; None: its host has no budget left.

        Args:
            feed_url: the feed that names the page; private addresses are refused, except on the feed's host.
        """
        wait = await asyncio.to_thread(self._find_page_wait, parse_host(url))
        if wait > PATIENCE:
            return None
        if wait:
            await asyncio.sleep(wait)
        return await _fetch_one(fetcher, FetchRequest(url, target=Target.PAGE, referred_by=feed_url))

    # -- budgets

    def _find_page_wait(self, host: str) -> float:
        return max(*self._budget.find_pauses([host]), *self._budget.take_tokens([host]))

    def _find_wait(self, host: str) -> float:
        """Return the seconds until the host's budget and pauses permit a request."""
        name = PICTURE_PREFIX + host
        return max(*self._budget.find_pauses([host]), *self._budget.take_tokens([name]))

    def _pause(self, host: str, url: str, seconds: int | None) -> None:
        for name in (host, PICTURE_PREFIX + host):
            self._budget.pause_host(name, PAUSE if seconds is None else seconds, url)

    # -- results

    def _take(self, source: Source, token: str, fetched: Fetched, drawing: Queue) -> Source:
        self._fetch_budget.charge_pictures(fetched.wire_bytes)
        if fetched.status == 429 or fetched.retry_after is not None:
            self._pause(parse_host(source.url), source.url, fetched.retry_after)
        if fetched.error is not None:
            return self._fail(source, token, fetched.error.word, fetched.retry_after or 0)
        if fetched.body is None:
            return self._sources.record_unchanged(source, token, clock.now())
        known = fetched.validators
        source = dataclasses.replace(source, etag=known.etag, modified=known.last_modified)
        return self._take_body(source, token, fetched.body, drawing)

    def _fail(self, source: Source, token: str, word: str, wait: float = 0) -> Source:
        log.info("picture_failed", error=word, purpose=source.purpose)
        return self._sources.record_failure(source, token, word, clock.now(), wait)

    def _take_body(self, source: Source, token: str, body: bytes, drawing: Queue) -> Source:
        is_icon = source.purpose is Purpose.ICON
        blob_id = hashlib.sha256(body).digest()
        if sniff(body[:SNIFF_BYTES]) not in (ICON_TYPES if is_icon else PICTURE_TYPES):
            if is_icon and is_harmless_svg(body):
                return self._keep_drawing(source, token, blob_id, body)
            return self._fail(source, token, "not_a_picture")
        if is_icon and not is_almost_square(body):
            return self._fail(source, token, "not_square")
        known = self._blobs.find([blob_id]).get(blob_id)
        if known and _has_files(known, source.purpose):
            finished = self._sources.finish_known(source, token, blob_id, clock.now())
            if finished is not None:
                return finished
        self._bodies.put(source.id.hex(), io.BytesIO(body))
        source = dataclasses.replace(source, home=self._bodies.home)
        waiting = self._sources.record_fetched(source, token, clock.now())
        self._jobs.enqueue(build_drawing_job(source.id, drawing))
        return waiting

    def _keep_drawing(self, source: Source, token: str, blob_id: bytes, body: bytes) -> Source:
        """Keep an icon's drawing as it is: a renderer for SVG would read local files and use all memory."""
        content = Content(
            id=blob_id,
            kind=BlobKind.PICTURE,
            size=len(body),
            type=SVG_TYPE,
            files={size.name: body for size in SIZES[Purpose.ICON]},
        )
        now = clock.now()
        return self._blobs.keep(
            content, lambda session, kept: self._sources.finish(session, source.id, token, kept, now)
        )


def choose_drawing_queue(queue: str) -> Queue:
    """Return the queue that draws what a job of ``queue`` has fetched: behind people's unless one waits."""
    return Queue.MEDIA if queue in USER_QUEUES else Queue.MEDIA_SYSTEM


def build_drawing_job(source_id: bytes, queue: Queue = Queue.MEDIA) -> Job:
    """Return the job that draws a source's body."""
    return Job(Task.DRAW, {"source": source_id.hex()}, queue)


def build_request(source: Source) -> FetchRequest:
    """Return the request of a source: its page's origin as Referer, and private addresses refused.

    Validators are only sent for a picture that is there.
    """
    is_icon = source.purpose is Purpose.ICON
    has_blob = source.blob is not None
    origin = _get_origin(source.page) if source.page else ""
    # A login in the page's address is nobody else's business, and other letters can't be sent.
    has_referer = origin.isascii() and "@" not in origin
    return FetchRequest(
        source.url,
        target=Target.ICON if is_icon else Target.PICTURE,
        validators=Validators(source.etag, source.modified) if has_blob else Validators(),
        headers=(("Referer", f"{origin}/"),) if origin and has_referer else (),
        # Without a feed there is no host whose private pictures may be fetched.
        referred_by=source.feed or "https://example.org/",
    )


async def _fetch_one(fetcher: FetchStreamer, request: FetchRequest) -> Fetched:
    stream: Any = fetcher.stream_fetches([request])
    async with aclosing(stream):
        async for fetched in stream:
            return fetched  # type: ignore[no-any-return]
    raise AssertionError("a stream yields a result for each request")


def _has_files(blob: Blob, purpose: Purpose) -> bool:
    is_current = blob.references >= 0 and blob.recipe >= RECIPE
    return is_current and all(size.name in blob.names for size in SIZES[purpose])


def _get_origin(url: str | None) -> str:
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"
