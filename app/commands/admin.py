"""``eventr admin …``: commands for installations on several servers."""

from __future__ import annotations

import contextlib
import json

import click

from app import logs
from app.cli import LazyGroup
from app.commands.stores import require_stores
from app.config import Settings

ADMIN_COMMANDS: dict[str, str] = {
    "balance": "app.commands.admin_moves:balance_cells",
    "cells": "app.commands.admin_cells:list_cells",
    "drain": "app.commands.admin_moves:drain",
    "move": "app.commands.admin_moves:move",
    "moves": "app.commands.admin_moves:list_moves",
    "place": "app.commands.admin_cells:place_new_people",
    "recount": "app.commands.admin_cells:recount_numbers",
    "shard": "app.commands.admin:declare_shards",
}


@click.group("admin", cls=LazyGroup, lazy=ADMIN_COMMANDS)
def manage_servers() -> None:
    """Manage an installation on several servers."""


@click.command("shard")
@click.option("--run", "is_run", is_flag=True, help="Run the commands instead of printing them.")
def declare_shards(*, is_run: bool) -> None:
    """Print how a MongoDB cluster should spread entries over its shards, as commands for mongosh.

    With --run, Eventr runs them. The user in EVENTR_MONGODB_URI then needs the role clusterManager.
    Running them again changes nothing.
    """
    from app.mappers.mongo import sharding  # loads the driver

    settings = Settings.from_env()
    if not is_run:
        for command in sharding.build_declaration(settings.mongodb_name):
            click.echo(f"db.adminCommand({json.dumps(command)})")
        return
    from app.bootstrap import services as bootstrap  # all of Eventr

    logs.configure(settings.log_level, settings.log_format)
    with contextlib.closing(bootstrap.build(require_stores(settings))) as services:
        services.migrate()  # the cluster needs indexes that begin with the keys
        for name in sharding.declare_shards(services.store.database):
            click.echo(f"The cluster spreads {name}.")
