"""``eventr opml check``: print what an import would find in a subscription list."""

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
    """Check an OPML file, and print its counts, subscriptions and problems as JSON.

    FILE is the OPML file; '-' reads standard input. For a file that can't be read, the command prints
    {"error", "message"} and exits with code 1.
    """
    settings = Settings.from_env()
    found = opml.read(read_bytes(file), opml.Limits.from_settings(settings), Policy(settings))
    print_json(build_document(found))


def build_document(subscription_list: SubscriptionList) -> dict[str, Any]:
    """Return the JSON document that the command prints."""
    return {
        "title": subscription_list.title,
        "feeds": len(subscription_list.feeds),
        "distinct_feed_urls": len({feed.url for feed in subscription_list.feeds}),
        "folders": len(subscription_list.folders),
        "max_folder_depth": subscription_list.max_folder_depth,
        "outlines": subscription_list.outlines,
        "repaired": subscription_list.repaired,
        "problems": [
            {"line": feed.line, "url": feed.url, "message": feed.problem}
            for feed in subscription_list.feeds
            if feed.problem
        ],
        "subscriptions": [dataclasses.asdict(feed) for feed in subscription_list.feeds],
    }
