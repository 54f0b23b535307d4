"""MongoDB access for reading: entries, streams, read marks, tags and search."""

from __future__ import annotations
