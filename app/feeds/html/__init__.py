"""HTML from feeds: sanitizing, links, media and plain text."""

from __future__ import annotations
