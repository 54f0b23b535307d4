"""Feed parsing: documents of all formats become one normalized form; see :func:`parse`."""

from __future__ import annotations

from app.feeds.parse.core import Source, parse, parse_source, prepare_source
from app.feeds.parse.limits import Limits

__all__ = ["Limits", "Source", "parse", "parse_source", "prepare_source"]
