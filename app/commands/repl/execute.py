"""Run commands on a manager and print their results, for scripts and for the terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

import click

from app.commands.repl import tables
from app.commands.repl.link import ManagerClient
from app.errors import EventrError, InvalidError

TAIL = "tail"


def run_all(manager: ManagerClient, lines: Iterable[str], as_json: bool) -> None:
    """Run commands one after the other and print their results; stop at the first error.

    Raises:
        EventrError: the manager's error, or why the manager can't be reached.
    """
    for line in lines:
        run(manager, split_words(line), as_json)


def run(manager: ManagerClient, command: list[str], as_json: bool) -> None:
    """Run one command and print its result; ``tail`` prints until Ctrl-C."""
    if command[:1] == [TAIL]:
        for event in manager.follow_events(command):
            click.echo(_json(event) if as_json else tables.format_event(event))
    elif command:
        result = manager.run_command(command)
        click.echo(_json(result) if as_json else tables.format_result(command[0], result))


def split_words(line: str) -> list[str]:
    """Split a line as a shell would; empty for an empty line or a comment.

    Raises:
        InvalidError: a quotation mark isn't closed.
    """
    try:
        return [word for word in shlex.split(line, comments=True) if word]
    except ValueError as e:
        raise InvalidError("A quotation mark isn't closed.") from e


def _json(document: Any) -> str:
    # ASCII only, because data from Redis may contain terminal control characters.
    return json.dumps(document)


def print_error(error: EventrError) -> None:
    """Print an error as the command line does."""
    click.echo(f"eventr: {error.message}", err=True)
