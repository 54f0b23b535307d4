"""``eventr feed parse``: print the content of a saved feed as the feed engine parses it."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import click

from app.cli import print_json
from app.commands.files import check_web_address, errors_as_json, print_error, read_bytes
from app.config import Settings
from app.errors import EventrError, ParseError
from app.feeds.html.sanitize import sanitize
from app.feeds.parse import Limits
from app.feeds.parse import parse as parse_feed
from app.models.feeds.parsed import Enclosure, ParsedEntry, ParsedFeed


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--url", default="", help="Address of the feed; relative links are resolved against it.")
@click.option("--content-type", help="Content-Type header of the feed; determines the charset.")
@click.option("--raw", is_flag=True, help="Print content and summary as published, without sanitizing them.")
@errors_as_json
def parse(files: tuple[str, ...], url: str, content_type: str | None, raw: bool) -> None:
    """Parse saved feeds, and print one JSON document per line for each file.

    FILE is a saved feed; '-' reads standard input. For a file that isn't a feed, the command prints
    {"error", "message"} and exits with code 1.
    """
    limits, url = Limits.from_settings(Settings.from_env()), check_web_address(url)
    failed = False
    for name in files:
        which = {"file": name} if len(files) > 1 else {}
        try:
            feed = _feed(read_bytes(name), url, content_type, limits)
        except EventrError as e:
            failed = True
            print_error(e, **which)
        else:
            print_json(which | build_feed_document(feed, raw=raw))
    if failed:
        sys.exit(1)


def _feed(body: bytes, url: str, content_type: str | None, limits: Limits) -> ParsedFeed:
    try:
        feed = parse_feed(body, url=url, content_type=content_type, limits=limits)
        if not url and (own := feed.self_url or feed.site_url):
            feed = parse_feed(body, url=own, content_type=content_type, limits=limits)
    except ParseError as e:
        raise _in_one_word(e) from e
    return feed


def _in_one_word(error: ParseError) -> ParseError:
    """Return the error in the form that scripts test for: a page or an empty file isn't a feed either."""
    if error.word == "too_large" and error.detail:
        # Even a short file can be nested too deep, so name the exceeded limit.
        what = error.detail.removeprefix("libxml2: ").partition(", use XML_PARSE_HUGE")[0]
        error.message = f"This file exceeds a limit of this server: {what}."
    if error.word not in ("html_page", "empty"):
        return error
    plain = ParseError("not_a_feed", error.detail)
    plain.message = "This file is empty." if error.word == "empty" else error.message
    return plain


def build_feed_document(feed: ParsedFeed, *, raw: bool = False) -> dict[str, Any]:
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
        "unlisted": feed.unlisted,
        "new_url": feed.new_url,
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
        "comments": entry.replies._asdict() if entry.replies else None,
    }


def _enclosure(file: Enclosure) -> dict[str, Any]:
    role = {"role": file.role} if file.role else {}
    return {"url": file.url, "type": file.type, "length": file.length} | role


def _stamp(when: dt.datetime | None) -> str | None:
    """Return a time in RFC 3339 format, in UTC, with a fraction only if it has one."""
    return when.isoformat().replace("+00:00", "Z") if when else None
