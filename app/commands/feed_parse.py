"""``eventr feed parse``: what the feed engine reads out of a saved feed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import click

from app.cli import print_json
from app.config import Settings
from app.errors import EventrError, InvalidError
from app.feeds.parse import Limits
from app.feeds.parse import parse as parse_feed
from app.feeds.sanitize import sanitize
from app.models.parsed import Enclosure, ParsedEntry, ParsedFeed


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--url", default="", help="Address it came from; relative addresses are resolved against it.")
@click.option("--content-type", help="Content-Type header it came with; its charset counts.")
@click.option("--raw", is_flag=True, help="Leave content and summary as published, not sanitised.")
def parse(files: tuple[str, ...], url: str, content_type: str | None, raw: bool) -> None:
    """Parse saved feeds ('-' is stdin): one JSON document per file and line.

    What is no feed gives {"error", "message"} and exit code 1.
    """
    limits = Limits.of(Settings.from_env())
    failed = False
    for name in files:
        document: dict[str, Any] = {"file": name} if len(files) > 1 else {}
        try:
            body = _read(name)
            feed = parse_feed(body, url=url, content_type=content_type, limits=limits)
            if not url and (own := feed.self_url or feed.site_url):
                feed = parse_feed(body, url=own, content_type=content_type, limits=limits)
            document |= feed_document(feed, raw=raw)
        except EventrError as e:
            failed = True
            document |= {"error": e.word, "message": e.message}
        print_json(document)
    if failed:
        sys.exit(1)


def feed_document(feed: ParsedFeed, *, raw: bool = False) -> dict[str, Any]:
    """Return a feed as the JSON document that ``eventr feed parse`` prints."""
    return {
        "format": feed.format.value,
        "title": feed.title,
        "site_url": feed.site_url,
        "description": feed.description,
        "language": feed.language,
        "hub": feed.hub,
        "ttl_minutes": feed.ttl_minutes,
        "icon": feed.icon,
        "entries": [_entry(entry, raw) for entry in feed.entries],
    }


def _entry(entry: ParsedEntry, raw: bool) -> dict[str, Any]:
    return {
        "guid": entry.guid,
        "url": entry.url,
        "title": entry.title,
        "author": entry.author,
        "published": _stamp(entry.published),
        "updated": _stamp(entry.updated),
        "content": entry.content if raw else sanitize(entry.content, entry.base_url),
        "summary": entry.summary if raw else sanitize(entry.summary, entry.base_url),
        "categories": list(entry.categories),
        "enclosures": [_enclosure(file) for file in entry.enclosures],
        "image": entry.image,
    }


def _enclosure(file: Enclosure) -> dict[str, Any]:
    return dataclasses.asdict(file)


def _stamp(when: dt.datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC, with a fraction only where there is one."""
    return when.isoformat().replace("+00:00", "Z") if when else None


def _read(name: str) -> bytes:
    """Return the bytes of a file or of stdin.

    Raises:
        InvalidError: it cannot be read.
    """
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as e:
        raise InvalidError(f"{name} cannot be read: {e.strerror}.") from e
