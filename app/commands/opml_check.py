"""``eventr opml check``: what an import would find in a subscription list."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from app.cli import print_json
from app.commands.files import errors_as_json, read_bytes
from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.models.imports.opml import SubscriptionList


@click.command()
@click.argument("file")
@errors_as_json
def check(file: str) -> None:
    """Read an OPML file ('-' is stdin) and print counts, subscriptions and problems as JSON.

    A file that cannot be read gives {"error", "message"} and exit code 1.
    """
    settings = Settings.from_env()
    found = opml.read(read_bytes(file), opml.Limits.of(settings), Policy(settings))
    print_json(document(found))


def document(found: SubscriptionList) -> dict[str, Any]:
    """Return the JSON document that the command prints."""
    return {
        "title": found.title,
        "feeds": len(found.feeds),
        "distinct_feed_urls": len({feed.url for feed in found.feeds}),
        "folders": len(found.folders),
        "max_folder_depth": found.max_folder_depth,
        "outlines": found.outlines,
        "repaired": found.repaired,
        "problems": [
            {"line": feed.line, "url": feed.url, "message": feed.problem}
            for feed in found.feeds
            if feed.problem
        ],
        "subscriptions": [dataclasses.asdict(feed) for feed in found.feeds],
    }
