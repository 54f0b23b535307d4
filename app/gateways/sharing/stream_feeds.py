"""Feeds of a person's lists, as Atom and JSON Feed, with the pictures where this server shows them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection

from app.feeds.websub import stream_feed
from app.models.media.signing import PictureSigner
from app.models.reading.anchors import scope_anchors
from app.models.reading.stream import EntryRow
from app.models.sharing.pages import FeedFormat
from app.models.sharing.stream_feeds import StreamDocument, StreamFeed


class StreamFeedGateway:
    """Renders feeds of lists.

    Args:
        origin: this server's own address, without a trailing slash.
    """

    def __init__(self, origin: str, pictures: PictureSigner) -> None:
        self._origin, self._pictures = origin, pictures

    def render(self, feed: StreamFeed, form: FeedFormat, etags: Collection[str]) -> StreamDocument:
        """Return the document, without a body if ``etags`` contains its tag.

        Args:
            feed: its addresses are paths of this server.
        """
        shown = dataclasses.replace(
            feed,
            url=self._origin + feed.url,
            home=self._origin + feed.home,
            rows=tuple(self._sign(row) for row in feed.rows),
        )
        write = stream_feed.render_atom if form is FeedFormat.ATOM else stream_feed.render_json_feed
        body = write(shown, self._origin)
        tag = hashlib.sha256(body).hexdigest()[:32]
        return StreamDocument(form, tag, None if tag in etags else body)

    def _sign(self, row: EntryRow) -> EntryRow:
        """Return a row whose pictures come from this server."""
        files = self._pictures.sign_files(row.enclosures, row.url)
        return dataclasses.replace(
            row,
            html=self._pictures.sign_html(scope_anchors(row.html, row.id), row.url) if row.html else row.html,
            image=self._pictures.sign_url(row.image, row.url),
            enclosures=tuple(files),
        )
