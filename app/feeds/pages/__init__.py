"""Feeds of pages that aren't feeds: selectors, entries on a page, and guesses of its lists."""

from __future__ import annotations
