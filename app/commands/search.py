"""``eventr search``: rebuild the search index from the entries."""

from __future__ import annotations

import contextlib

import click

from app import clock, logs
from app.commands.stores import require_stores
from app.config import Settings


@click.group()
def search() -> None:
    """Manage the search index."""


@search.command()
def rebuild() -> None:
    """Rebuild the search index in the background. Searches use the old index until it's done."""
    from app.bootstrap import services as bootstrap  # imports all of Eventr

    settings = Settings.from_env()
    logs.configure(settings.log_level, settings.log_format)
    with contextlib.closing(bootstrap.build(require_stores(settings))) as services:
        services.migrate()
        click.echo(f"{services.indexing.rebuild(clock.now())} feeds queued for reindexing.")
