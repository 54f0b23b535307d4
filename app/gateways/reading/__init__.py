"""Storage operations of reading: entries, streams, read marks, tags, search."""

from __future__ import annotations
