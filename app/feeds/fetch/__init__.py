"""Fetching: pycurl under our own redirects, resolver, limits and address rules. See :class:`Fetcher`."""

from __future__ import annotations

from app.feeds.fetch.fetcher import Fetcher
from app.feeds.fetch.resolver import Lookup
from app.feeds.fetch.slot import Connector

__all__ = ["Connector", "Fetcher", "Lookup"]
