"""``eventr admin move|moves|balance|drain``: move people between cells."""

from __future__ import annotations

import click

from app.cli import print_json
from app.commands.open_services import open_services
from app.models.accounts.actor import Actor, Role

#: Anyone who may run these commands on the server is its admin.
_ADMIN = Actor(0, Role.ADMIN)


@click.command()
@click.argument("name")
@click.argument("cell", required=False)
@click.option("--cancel", is_flag=True, help="Cancel the move of this person instead.")
def move(name: str, cell: str | None, cancel: bool) -> None:
    """Move the person NAME to CELL: the workers do it within seconds, and the person can read meanwhile."""
    if cancel == bool(cell):
        raise click.UsageError("Give either a CELL or --cancel.")
    with open_services() as services:
        if cell:
            started = services.moves.start(_ADMIN, name, cell)
            print_json({"name": name, "cell": cell, "started": started})
        else:
            services.moves.cancel(_ADMIN, name)
            print_json({"name": name, "cancelled": True})


@click.command("moves")
def list_moves() -> None:
    """List the moves in progress, at most 100, oldest first, with failed attempts and the last error."""
    with open_services() as services:
        rows = [row._asdict() for row in services.moves.list_moves(_ADMIN)]
    for row in rows:
        for name in ("since", "due"):
            row[name] = row[name] and row[name].isoformat()
    print_json({"moves": rows})


@click.command("balance")
@click.option("--limit", default=10_000, show_default=True, help="Most people whose move begins now.")
def balance_cells(limit: int) -> None:
    """Move people so that all cells hold people by their weights (see eventr admin place)."""
    with open_services() as services:
        print_json({"started": services.moves.start_balancing(_ADMIN, limit)})


@click.command()
@click.argument("cell")
@click.option("--limit", default=10_000, show_default=True, help="Most people whose move begins now.")
def drain(cell: str, limit: int) -> None:
    """Move everyone out of CELL, and place nobody new there. Repeat it until it starts no move."""
    with open_services() as services:
        print_json({"cell": cell, "started": services.moves.drain(_ADMIN, cell, limit)})
