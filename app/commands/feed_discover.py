"""``eventr feed discover``: find the likely feeds of a saved page, without the network."""

from __future__ import annotations

import click

from app.cli import print_json
from app.commands.files import check_web_address, errors_as_json, read_bytes
from app.errors import ParseError
from app.feeds.discover import find_candidates
from app.feeds.html.text import extract_plain_text
from app.feeds.parse import parse
from app.models.feeds.discovery import Candidate, Source
from app.models.feeds.parsed import Format


@click.command()
@click.argument("file")
@click.option("--url", required=True, help="Address of the page.")
@click.option("--content-type", help="Content-Type header of the page; determines the charset.")
@errors_as_json
def discover(file: str, url: str, content_type: str | None) -> None:
    """Print the feeds that a saved page may lead to, the most likely first.

    FILE is the saved page; '-' reads standard input. Each result has url, title, type and source. The type
    is rss, atom, rdf, json or null. The source is site (a rule for this site), link (announced by the page),
    anchor (a link that looks like a feed) or guess (a common feed address). If the file is itself a feed,
    it's the only result.
    """
    url, body = check_web_address(url), read_bytes(file)
    found = _itself(body, url, content_type) or find_candidates(body, url, content_type)
    print_json({"url": url, "candidates": [_document(candidate) for candidate in found]})


def _itself(body: bytes, url: str, content_type: str | None) -> list[Candidate]:
    try:
        feed = parse(body, url=url, content_type=content_type)
    except ParseError:
        return []
    return [Candidate(url, extract_plain_text(feed.title), _kind(feed.format), Source.LINK)]


def _kind(format_: Format) -> str:
    return {"rss1": "rdf", "atom": "atom", "json": "json"}.get(format_.value[:4], "rss")


def _document(candidate: Candidate) -> dict[str, str | None]:
    return {
        "url": candidate.url,
        "title": candidate.title,
        "type": candidate.type,
        "source": candidate.source.value,
    }
