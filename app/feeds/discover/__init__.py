"""Feed discovery: from a typed address to the feeds behind it."""

from __future__ import annotations

from app.feeds.discover.core import Discoverer
from app.feeds.discover.page import find_candidates

__all__ = ["Discoverer", "find_candidates"]
