"""``eventr report``: print or send the hourly report now."""

from __future__ import annotations

import contextlib

import click

from app import logs
from app.commands.stores import require_stores
from app.config import Settings


@click.command()
@click.option("--now", is_flag=True, help="Send the report to EVENTR_REPORT_URLS.")
@click.option("--dry-run", is_flag=True, help="Only print the report (the default).")
def report(now: bool, dry_run: bool) -> None:
    """Report on the current hour: feeds, jobs, errors, wait times, queues and memory."""
    if now and dry_run:
        raise click.UsageError("Use --now or --dry-run, not both.")
    from app.bootstrap import services as bootstrap  # imports all of Eventr

    settings = Settings.from_env()
    logs.configure(settings.log_level, settings.log_format)
    with contextlib.closing(bootstrap.build(require_stores(settings))) as services:
        if now:
            done = services.report.send_now()
            click.echo(f"Sent to {done['sent']} of {done['sent'] + done['refused']} addresses.")
        else:
            text = services.report.compose_current()
            click.echo(f"{text.title}\n\n{text.body}")
