"""``eventr admin cells|place|recount``: the cells that hold people's data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from app import embedded, logs
from app.bootstrap.services import Services, build
from app.cli import print_json
from app.config import Settings
from app.models.accounts.actor import Actor, Role

#: Anyone who may run these commands on the server is its admin.
_ADMIN = Actor(0, Role.ADMIN)


@click.command("cells")
@click.option("--empty", metavar="CELL", help="Use this cell's database although all its data is lost.")
def list_cells(empty: str | None) -> None:
    """List the cells with their people and their shares of new people."""
    with _open_services() as services:
        if empty is not None:
            services.cell_upkeep.accept_empty(_ADMIN, empty)
        print_json({"cells": [row._asdict() for row in services.cell_upkeep.list_cells(_ADMIN)]})


@click.command("place")
@click.argument("shares", nargs=-1, required=True, metavar="CELL=SHARE…")
def place_new_people(shares: tuple[str, ...]) -> None:
    """Set where new people are placed, such as home=1 c1=3: three of four people go to c1."""
    weights: dict[str, int] = {}
    for share in shares:
        cell, _, number = share.partition("=")
        if not (number.isascii() and number.isdigit()):
            raise click.UsageError(f"Give a number, as in {cell}=1.")
        weights[cell] = int(number)
    with _open_services() as services:
        services.cell_upkeep.place_new_people(_ADMIN, weights)
        print_json({"cells": [row._asdict() for row in services.cell_upkeep.list_cells(_ADMIN)]})


@click.command("recount")
def recount_numbers() -> None:
    """Count the readers of all feeds and the people who keep entries again, in all cells."""
    with _open_services() as services:
        print_json(services.cell_upkeep.recount(_ADMIN)._asdict())


@contextlib.contextmanager
def _open_services() -> Iterator[Services]:
    given = Settings.from_env()
    logs.configure(given.log_level, given.log_format)
    with embedded.use_servers(given) as settings, contextlib.closing(build(settings)) as services:
        yield services
