"""``eventr migrate``: upgrade the database to the schema of this program."""

from __future__ import annotations

import contextlib

import click

from app import embedded, logs
from app.config import Settings


@click.command()
def migrate() -> None:
    """Upgrade the database to this version of Eventr.

    Starts the embedded databases if they aren't running. 'eventr web' and 'eventr up' do the same upgrade
    when they start. If it is interrupted, the next run continues.
    """
    from app.bootstrap import services as bootstrap  # all of Eventr

    given = Settings.from_env()
    logs.configure(given.log_level, given.log_format)
    with (
        embedded.use_servers(given) as settings,
        contextlib.closing(bootstrap.build(settings)) as services,
    ):
        done = services.migrate()
    if done.before == done.after:
        click.echo(f"The database is already up to date (schema version {done.after}).")
    elif done.before is None:
        click.echo(f"Set up a new database with schema version {done.after}.")
    else:
        click.echo(f"Upgraded the database from schema version {done.before} to {done.after}.")
