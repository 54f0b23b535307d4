"""``eventr media``: clean, check and measure the stored pictures and files."""

from __future__ import annotations

import click

from app.cli import print_json
from app.commands.open_services import open_services


@click.group()
def media() -> None:
    """Manage stored pictures and files. Every command prints JSON."""


@media.command()
@click.option("--disk", is_flag=True, help="Look for files that the database doesn't know, in all stores.")
@click.option("--apply", is_flag=True, help="With --disk: delete these files and mend what lacks files.")
def clean(disk: bool, apply: bool) -> None:
    """Delete what nothing needs anymore, as the background job does.

    With --disk, compare the stores with the database instead. Without --apply, that only counts.
    """
    if apply and not disk:
        raise click.UsageError("--apply needs --disk.")
    with open_services() as services:
        cleaning = services.media_cleaning
        done = cleaning.walk_stores(apply=apply) if disk else cleaning.run(seconds=float("inf"))
    print_json(done._asdict())


@media.command()
def check() -> None:
    """Count all references and each user's storage again, and correct wrong numbers."""
    with open_services() as services:
        done = services.media_cleaning.recount()
    print_json(done._asdict())


@media.command()
def stats() -> None:
    """Print how much is stored."""
    with open_services() as services:
        found = services.media_cleaning.measure()
    print_json(
        {
            "pictures": {"count": found.pictures, "bytes": found.picture_bytes},
            "files": {"count": found.files, "bytes": found.file_bytes},
            "cache_limit": found.cache_limit,
            "oldest_use": found.oldest_use.date().isoformat() if found.oldest_use else None,
            "states": found.states,
            "disk": found.disk._asdict() if found.disk else None,
            "disk_checked": found.disk_at.isoformat() if found.disk_at else None,
        }
    )
