"""OPML files: reading and writing."""

from __future__ import annotations
