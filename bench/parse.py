"""CPU time of parsing a feed, compared with feedparser, over set T."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import feedparser

from app.feeds.parse import parse
from bench.harness import Bench, benchmark, timing_set

URL = "http://example.org/feed.xml"


def bodies() -> list[bytes]:
    """Return the XML documents of set T."""
    return [row.read() for row in timing_set() if row.kind != "json"]


def ours(body: bytes) -> Any:
    """Parse like the refresh pipeline."""
    return parse(body, url=URL)


def theirs(body: bytes) -> Any:
    """Parse with feedparser in its cheapest configuration, which is also our fallback."""
    return feedparser.parse(body, response_headers={}, sanitize_html=False, resolve_relative_uris=False)


def ms_per_feed(read: Callable[[bytes], Any], documents: list[bytes]) -> float:
    """Return the mean CPU milliseconds of one pass over the documents."""
    gc.collect()
    gc.freeze()  # keeps leftovers of the set-up out of garbage collection during parsing
    start = time.process_time()
    for body in documents:
        read(body)
    return (time.process_time() - start) * 1000 / len(documents)


@benchmark("parse")
def parsing(bench: Bench) -> None:
    """Publish ms per feed of both parsers and their ratio, measured side by side."""
    documents = bodies()[:: 10 if bench.quick else 1]
    ms_per_feed(ours, documents)
    mine, other = [], []
    for _ in range(bench.repeats):
        mine.append(ms_per_feed(ours, documents))
        other.append(ms_per_feed(theirs, documents))
    bench.figure("parse.ms_per_feed", mine, "ms", at_most=1.6)
    bench.figure("parse.feedparser_ms", other, "ms")
    bench.figure("parse.vs_feedparser", [b / a for a, b in zip(mine, other, strict=True)], "×", at_least=10)
