"""``eventr repl``: control a running queue manager."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from app.cli import print_json
from app.commands.files import get_standard_input
from app.commands.repl import link, tables
from app.commands.repl.execute import run_all
from app.commands.repl.link import ManagerClient
from app.config import Settings


@click.command()
@click.option(
    "-c", "--command", "commands", multiple=True, help="Run this command and exit; can be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print replies as JSON, one document per line.")
@click.option("--manager", "pid", type=int, help="Process ID of the manager, if several run on this machine.")
@click.option("--list", "list_them", is_flag=True, help="List the managers that run on this machine.")
@click.option("--connect", "address", help="HOST:PORT of the manager, as set with EVENTR_REPL_LISTEN.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token for --connect; default: EVENTR_HOME/repl_token.",
)
def repl(
    *,
    commands: tuple[str, ...],
    as_json: bool,
    pid: int | None,
    list_them: bool,
    address: str | None,
    token_file: Path | None,
) -> None:
    """Control a running queue manager: from a terminal, with -c, or with commands from a pipe."""
    settings = Settings.from_env()
    if list_them:
        _list(settings, as_json)
        return
    dial = (
        link.make_remote_dial(settings, address, token_file)
        if address
        else link.make_local_dial(settings, pid)
    )
    manager = ManagerClient(dial)
    try:
        if commands:
            run_all(manager, commands, as_json)
        elif get_standard_input().isatty() and sys.stdout.isatty():
            from app.commands.repl.shell import (
                Shell,  # imported late: it loads prompt_toolkit, which scripts don't need
            )

            Shell(manager, settings.home).run()
        else:
            run_all(manager, get_standard_input(), as_json)
    except BrokenPipeError:
        # The reader of `eventr repl -c tail | head` has gone; the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        manager.close()


def _list(settings: Settings, as_json: bool) -> None:
    rows = link.list_managers(settings)
    if as_json:
        print_json(rows)
    else:
        click.echo(tables.format_managers(rows))
