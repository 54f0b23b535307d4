"""Icons of feeds: which feeds need one, what their pages announce, and which they have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from app.feeds import urls
from app.feeds.discover.icons import list_default_icons
from app.feeds.discover.page import Page
from app.gateways.media.blobs import BlobGateway
from app.mappers.feeds.discoveries import DiscoveryMapper
from app.mappers.media.icons import IconMapper
from app.mappers.media.sources import SourceMapper
from app.models.media.blob import Blob
from app.models.media.icon import ICON_KEY, IconFeed
from app.models.media.source import derive_id

#: Time for one look; after it, another worker may look.
LOOK = dt.timedelta(minutes=10)
#: Feeds of one job.
BATCH = 50


class IconGateway:
    """Finds icons on pages, and stores which icon a feed has."""

    def __init__(
        self, icons: IconMapper, sources: SourceMapper, blobs: BlobGateway, discoveries: DiscoveryMapper
    ) -> None:
        self._icons, self._sources, self._blobs, self._discoveries = icons, sources, blobs, discoveries

    def find_due(self, now: dt.datetime) -> list[int]:
        """Return some feeds whose icon should be looked for, the longest waiting first."""
        return self._icons.find_due(now, BATCH)

    def claim(self, feed_ids: Sequence[int], now: dt.datetime) -> list[IconFeed]:
        """Return those feeds whose icon should be looked for now, and that nobody else looks for."""
        return self._icons.claim(feed_ids, now, now + LOOK)

    def store_icons(self, feeds: Sequence[IconFeed]) -> None:
        """Store the sources, icons and next looks of feeds."""
        self._icons.set_icons(feeds)
        # A drawing that ended before the feed named its source has not reached the feed.
        sources = self._sources.find({feed.source for feed in feeds if feed.source})
        late = [
            feed._replace(blob=source.blob)
            for feed in feeds
            if feed.source and (source := sources.get(feed.source)) and source.blob not in (None, feed.blob)
        ]
        self._icons.set_icons(late)

    def look_again(self, feed_id: int, now: dt.datetime) -> bool:
        """Let a feed's icon be looked for at once, even at addresses that were asked or failed lately.

        Returns:
            Whether the feed is one of the web.
        """
        feed = self._icons.make_due(feed_id, now)
        if feed is None:
            return False
        usual = list_default_icons(feed.site_url or feed.url)
        ids = {derive_id(ICON_KEY, address) for address in (feed.icon, *usual) if address}
        self._sources.expire(ids | {feed.source} if feed.source else ids, now)
        return True

    def find_icons(self, digits: Collection[str]) -> dict[str, Blob]:
        """Return icons by the hexadecimal digits that their ids begin with; leave out others."""
        ids = self._icons.find_blobs(sorted(digits))
        blobs = self._blobs.find(ids.values())
        return {name: blobs[blob_id] for name, blob_id in ids.items() if blob_id in blobs}

    def find_discovered(self, page: str, now: dt.datetime) -> list[str] | None:
        """Return the icons of a page that discovery has read lately, best first; None: it hasn't."""
        return self._discoveries.find_icons(urls.hash_url(page), now)

    def find_links(self, body: bytes, url: str, content_type: str | None) -> list[str]:
        """Return the addresses of the icons that a page announces, best first."""
        return Page(body, url, content_type).find_icons()

    def list_defaults(self, url: str) -> list[str]:
        """Return where a site may have an icon that no page announces."""
        return list_default_icons(url)
