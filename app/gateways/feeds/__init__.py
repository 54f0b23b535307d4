"""Storage operations of feeds: their documents, polling, discovery, entries as fetched and WebSub."""

from __future__ import annotations
