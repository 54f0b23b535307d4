"""HTML from feeds: sanitising, links, media and plain text."""

from __future__ import annotations
