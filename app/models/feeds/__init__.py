"""Data types and pure rules of feeds: documents, polling, discovery, fetched entries and WebSub."""

from __future__ import annotations
