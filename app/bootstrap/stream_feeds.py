"""Builds the service of feeds of lists."""

from __future__ import annotations

from app.bootstrap.accounts import AccountServices
from app.bootstrap.reading import ReadingServices
from app.runtime.lazy import lazy
from app.services.sharing.stream_feeds import StreamFeedService


class StreamFeedServices(AccountServices, ReadingServices):
    """The service of feeds of lists."""

    @lazy
    def stream_feeds(self) -> StreamFeedService:
        """Secret addresses of lists, and the feeds behind them."""
        return StreamFeedService(
            tokens=self.tokens,
            reading=self.reading,
            entries=self.gateways.entries,
            secrecy=self.gateways.secrecy,
            stream_feeds=self.gateways.stream_feeds,
            rows=self.settings.stream_feed_rows,
        )
