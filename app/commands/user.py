"""``eventr user create``: create an account on the server's command line."""

from __future__ import annotations

import contextlib

import click

from app import embedded
from app.bootstrap.services import build
from app.cli import print_json
from app.commands.files import get_standard_input
from app.config import Settings
from app.errors import InvalidError
from app.models.accounts.actor import Actor, Role


@click.group()
def user() -> None:
    """Manage accounts."""


@user.command()
@click.option("--name", required=True, help="User name for logging in.")
@click.option("--email", required=True, help="Email address.")
@click.option("--admin", is_flag=True, help="Make this account an admin.")
@click.option(
    "--password", help="Password; '-' reads it from standard input. If omitted, you're asked for it."
)
def create(name: str, email: str, password: str | None, admin: bool) -> None:
    """Create an account and print it as JSON. Starts the embedded databases if they aren't running."""
    if password is None:
        password = _asked()
    elif password == "-":  # noqa: S105 — means standard input
        password = _piped()
    with (
        embedded.use_servers(Settings.from_env()) as settings,
        contextlib.closing(build(settings)) as services,
    ):
        services.migrate()
        # Anyone who may run this command on the server is its admin.
        made = services.accounts.create_user(
            Actor(0, Role.ADMIN), email, name, password, Role.ADMIN if admin else Role.USER
        )
    print_json({"id": made.id, "name": made.name, "email": made.email, "role": made.role.value})


def _asked() -> str:
    if not get_standard_input().isatty():
        raise InvalidError("Can't ask for the password without a terminal. Pipe it in with --password -.")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


def _piped() -> str:
    # Read bytes: in a locale without UTF-8, the text would differ from a browser's.
    line = get_standard_input().buffer.readline()
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as e:
        raise InvalidError("The password on standard input isn't valid UTF-8.") from e
