"""``eventr user create``: an account made by whoever runs the server."""

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
    """Accounts."""


@user.command()
@click.option("--name", required=True, help="Name to log in with.")
@click.option("--email", required=True, help="E-mail address.")
@click.option("--admin", is_flag=True, help="Make this account an admin.")
@click.option("--password", help="Asked for when left out; '-' reads it from standard input.")
def create(name: str, email: str, password: str | None, admin: bool) -> None:
    """Create an account and print it as JSON; uses the running servers, or starts its own for the moment."""
    if password is None:
        password = _asked()
    elif password == "-":  # noqa: S105 — the word for standard input
        password = _piped()
    with (
        embedded.use_servers(Settings.from_env()) as settings,
        contextlib.closing(build(settings)) as services,
    ):
        services.ensure_indexes()
        # Whoever may run this command on the server is its admin.
        made = services.accounts.create_user(
            Actor(0, Role.ADMIN), email, name, password, Role.ADMIN if admin else Role.USER
        )
    print_json({"id": made.id, "name": made.name, "email": made.email, "role": made.role.value})


def _asked() -> str:
    if not get_standard_input().isatty():
        raise InvalidError("There is no terminal to ask for the password: pipe it in, with --password -.")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


def _piped() -> str:
    # As bytes: in a locale without UTF-8 the text would be another one than that of a browser.
    line = get_standard_input().buffer.readline()
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as e:
        raise InvalidError("The password on standard input is not UTF-8.") from e
