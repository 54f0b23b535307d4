"""``eventr search``: what the search knows can be made anew from the entries."""

from __future__ import annotations

import contextlib

import click

from app import clock, logs
from app.commands.stores import require_stores
from app.config import Settings


@click.group()
def search() -> None:
    """The index of the search."""


@search.command()
def rebuild() -> None:
    """Let the workers index all entries anew, beside the pulls; meanwhile the old index is searched."""
    from app.bootstrap import services as bootstrap  # all of Eventr

    settings = Settings.from_env()
    logs.configure(settings.log_level, settings.log_format)
    with contextlib.closing(bootstrap.build(require_stores(settings))) as services:
        services.ensure_indexes()
        click.echo(f"{services.indexing.rebuild(clock.now())} feeds will be indexed anew.")
