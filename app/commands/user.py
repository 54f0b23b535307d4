"""``eventr user create``: an account made by whoever runs the server."""

from __future__ import annotations

import contextlib
import sys

import click

from app import embedded
from app.bootstrap import build
from app.cli import print_json
from app.config import Settings
from app.models.actor import Actor, Role


@click.group()
def user() -> None:
    """Accounts."""


@user.command()
@click.option("--name", required=True, help="Name to log in with.")
@click.option("--email", required=True, help="E-mail address.")
@click.option("--admin", is_flag=True, help="Make this account an admin.")
@click.password_option(help="Asked for when left out; '-' reads it from standard input.")
def create(name: str, email: str, password: str, admin: bool) -> None:
    """Create an account and print it as JSON; uses the running servers, or starts its own for the moment."""
    if password == "-":  # noqa: S105 — the word for standard input
        password = sys.stdin.readline().rstrip("\n")
    with (
        embedded.using(Settings.from_env()) as settings,
        contextlib.closing(build(settings)) as services,
    ):
        services.ensure_indexes()
        # Whoever may run this command on the server is its admin.
        made = services.accounts.create_user(
            Actor(0, Role.ADMIN), email, name, password, Role.ADMIN if admin else Role.USER
        )
    print_json({"id": made.id, "name": made.name, "email": made.email, "role": made.role.value})
