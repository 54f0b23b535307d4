"""Icons of feeds: found once a week, or as soon as a feed, its address or its stated icon is new.

The feed's own icon comes first, then those that its page announces, then the usual address. Each address is a
source, so that feeds of one site share what is fetched and drawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from app import clock, logs
from app.errors import NotFoundError, StoreError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.icons import IconGateway
from app.gateways.media.sources import ICON_WINDOW, SourceGateway
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task
from app.models.media.blob import Blob, Purpose
from app.models.media.icon import ICON_KEY, LARGE, NAME, SMALL, SVG_TYPE, IconFeed
from app.models.media.source import Source, SourceState, derive_id
from app.models.media.store import Piece
from app.ports import FetchStreamer, JobPort
from app.runtime.pieces import read_piece
from app.services.access import Limiter, throttle
from app.services.media.fetching import PictureFetcher, choose_drawing_queue

log = logs.get(__name__)

#: Time between two looks for due feeds.
EVERY: Final = dt.timedelta(seconds=10)
#: Time until the next look if a page could not be read.
UNREAD_WAIT: Final = dt.timedelta(hours=6)
#: Looks of one job that run at once.
AT_ONCE: Final = 16


class IconService:
    """Finds icons; has no actor, because an icon belongs to a feed and not to its readers."""

    def __init__(
        self,
        *,
        icons: IconGateway,
        sources: SourceGateway,
        blobs: BlobGateway,
        pictures: PictureFetcher,
        jobs: JobPort,
        limiter: Limiter,
        per_hour: int,
    ) -> None:
        self._icons, self._sources, self._blobs, self._pictures = icons, sources, blobs, pictures
        self._jobs, self._limiter, self._per_hour = jobs, limiter, per_hour
        self._next: dt.datetime | None = None

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that looks for the icons of due feeds, at most every ten seconds."""
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        if not self._pictures.has_room():
            return []
        due = self._icons.find_due(now)
        return [Job(Task.MEDIA_ICONS, {"feed_ids": due}, Queue.PICTURES_SYSTEM)] if due else []

    async def find_icons(
        self, feed_ids: Sequence[int], fetcher: FetchStreamer, token: str, queue: str = Queue.PICTURES
    ) -> dict[str, int]:
        """Look for the icons of those feeds that are still due; return how many have one or will get one.

        Safe to run twice and to be killed anywhere: a feed whose look didn't end is due again after ten
        minutes.

        Args:
            queue: of this job.

        Raises:
            StoreError: the store isn't responding.
        """
        now = clock.now()
        feeds = await asyncio.to_thread(self._icons.claim, feed_ids, now)
        drawing = choose_drawing_queue(queue)
        search = _Search(
            self._icons, self._sources, self._pictures, fetcher=fetcher, token=token, drawing=drawing
        )
        limit = asyncio.Semaphore(AT_ONCE)

        async def find_icon(feed: IconFeed) -> IconFeed:
            async with limit:
                try:
                    return await search.find_icon(feed)
                except StoreError:
                    raise
                except Exception:  # one odd site must not stop the others
                    log.error("icon_search_failed", feed_id=feed.id, exc_info=True)
                    return feed._replace(next_at=now + ICON_WINDOW)

        found = await asyncio.gather(*map(find_icon, feeds))
        await asyncio.to_thread(self._icons.store_icons, found)
        return {"feeds": len(found), "icons": sum(feed.source is not None for feed in found)}

    def look_again(self, actor: Actor, feed_id: int) -> None:
        """Look for a feed's icon at once, even at addresses that were asked or failed lately.

        The caller checks that the actor reads the feed.

        Raises:
            RateLimitedError: the actor has asked for too many icons.
        """
        throttle(self._limiter, f"icons:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        if not self._icons.look_again(feed_id, clock.now()):
            return
        with contextlib.suppress(StoreError):
            self._jobs.enqueue(Job(Task.MEDIA_ICONS, {"feed_ids": [feed_id]}, Queue.PICTURES))

    def open(self, name: str, *, small: bool) -> tuple[Piece, str, bytes]:
        """Return the file of an icon, its media type and the id of its blob.

        Args:
            name: the 16 digits in its address.
            small: for screens with one pixel per unit.

        Raises:
            NotFoundError: there is no such icon.
        """
        blob = self._icons.find_icons([name]).get(name) if NAME.fullmatch(name) else None
        if blob is None:
            raise NotFoundError
        return self._blobs.open(blob.id, SMALL if small else LARGE), _get_type(blob), blob.id

    def read_icons(self, paths: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        """Return path → media type and bytes of these icons; leave out those that can't be read.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        digits = {path: path.removeprefix("/icon/").removesuffix(".png") for path in paths}
        blobs = self._icons.find_icons({name for name in digits.values() if NAME.fullmatch(name)})
        found: dict[str, tuple[str, bytes]] = {}
        for path, name in digits.items():
            if (blob := blobs.get(name)) is not None:
                with contextlib.suppress(NotFoundError, StoreError):
                    body = b"".join(read_piece(self._blobs.open(blob.id, SMALL)))
                    found[path] = (_get_type(blob), body)
        return found


class _Search:
    """One job's search. Each address is fetched once in it, however many of its feeds name it."""

    def __init__(
        self,
        icons: IconGateway,
        sources: SourceGateway,
        pictures: PictureFetcher,
        *,
        fetcher: FetchStreamer,
        token: str,
        drawing: Queue,
    ) -> None:
        self._icons, self._sources, self._pictures = icons, sources, pictures
        self._fetcher, self._token, self._drawing = fetcher, token, drawing
        self._found: dict[bytes, asyncio.Task[Source]] = {}
        self._pages: dict[str, asyncio.Task[list[str] | None]] = {}
        #: Feeds of which a page could not be read now.
        self._unread: set[str] = set()

    async def find_icon(self, feed: IconFeed) -> IconFeed:
        """Return the feed with its icon, or with the source from which it will come, and its next look."""
        now = clock.now()
        next_at = now + ICON_WINDOW
        async for address in self._list_addresses(feed):
            source = await self._get(address, feed)
            if source.state is SourceState.READY:
                return feed._replace(source=source.id, blob=source.blob, next_at=next_at)
            if source.is_waiting:
                # Until it is drawn, the feed keeps the icon that it has.
                return feed._replace(source=source.id, next_at=next_at)
            if source.state is SourceState.WANTED and source.next_at:
                # Its host has no budget left.
                return feed._replace(next_at=source.next_at)
            if source.state is SourceState.WANTED:
                return feed._replace(source=source.id, next_at=next_at)
        log.info("icon_missing", feed_id=feed.id)
        if feed.url in self._unread:
            return feed._replace(next_at=now + UNREAD_WAIT)
        return feed._replace(source=None, blob=None, next_at=next_at)

    async def _list_addresses(self, feed: IconFeed) -> AsyncIterator[str]:
        """Yield addresses of icons, best first; pages are only fetched if what came before isn't an icon."""
        seen: set[str] = set()
        page = feed.site_url or feed.url
        if feed.icon:
            seen.add(feed.icon)
            yield feed.icon
        root = _get_root(page)
        if root is None:
            return
        for url in dict.fromkeys([page, root] if feed.site_url else [root]):
            for address in await self._find_links(url, feed):
                if address not in seen:
                    seen.add(address)
                    yield address
        for address in self._icons.list_defaults(root):
            if address not in seen:
                yield address

    async def _find_links(self, url: str, feed: IconFeed) -> list[str]:
        task = self._pages.get(url)
        if task is None:
            reading = self._read_page(url, feed.url, is_first=feed.next_at is None)
            task = self._pages[url] = asyncio.create_task(reading)
        links = await task
        if links is None:
            self._unread.add(feed.url)
        return links or []

    async def _read_page(self, url: str, feed_url: str, *, is_first: bool) -> list[str] | None:
        """Return the icons that a page announces; None: it can't be read now.

        Args:
            is_first: whether nobody has looked for this feed's icon before. Discovery may then have read the
                page just now. A later look must see changes of the page.
        """
        if is_first:
            known = await asyncio.to_thread(self._icons.find_discovered, url, clock.now())
            if known is not None:
                return known
        fetched = await self._pictures.fetch_page(url, feed_url, self._fetcher)
        if fetched is None or (fetched.error is not None and not fetched.error.word.startswith("http_4")):
            return None
        if fetched.body is None:
            return []
        return await asyncio.to_thread(
            self._icons.find_links, fetched.body, fetched.url, fetched.content_type
        )

    async def _get(self, address: str, feed: IconFeed) -> Source:
        source_id = derive_id(ICON_KEY, address)
        task = self._found.get(source_id)
        if task is None:
            task = self._found[source_id] = asyncio.create_task(self._fetch(source_id, address, feed))
        return await task

    async def _fetch(self, source_id: bytes, address: str, feed: IconFeed) -> Source:
        """Return a source as it is now; fetch it first if it is new or its window is over."""
        now = clock.now()
        source = await asyncio.to_thread(self._prepare, source_id, address, feed)
        if source.next_at is not None and source.next_at > now:
            return source
        claimed = await asyncio.to_thread(self._sources.claim, [source_id], self._token, now)
        if not claimed:
            return source
        return await self._pictures.fetch(claimed[0], self._token, self._fetcher, self._drawing)

    def _prepare(self, source_id: bytes, address: str, feed: IconFeed) -> Source:
        now = clock.now()
        found = self._sources.find([source_id]).get(source_id)
        if found is not None:
            self._sources.touch([source_id], now)
            return found
        source = Source(
            id=source_id,
            url=address,
            purpose=Purpose.ICON,
            feed=feed.url,
        )
        self._sources.add([source], now)
        return source


def _get_type(blob: Blob) -> str:
    return SVG_TYPE if blob.type == SVG_TYPE else "image/png"


def _get_root(url: str) -> str | None:
    """Return the address of a site's first page; None: the address is broken."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}/"
