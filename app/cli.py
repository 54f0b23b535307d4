"""``eventr …``: the command line. Each command is in a module of its own under ``app.commands``."""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
from typing import Any

import click

from app import logs
from app.errors import EventrError
from app.runtime import gc

#: Command → module and attribute. Loaded only when called: `eventr feed parse` must not import Flask.
COMMANDS: dict[str, str] = {
    "admin": "app.commands.admin:manage_servers",
    "check": "app.commands.check:check",
    "controller": "app.commands.processes:controller",
    "doctor": "app.commands.doctor:doctor",
    "manager": "app.commands.processes:manager",
    "media": "app.commands.media:media",
    "migrate": "app.commands.migrate:migrate",
    "repl": "app.commands.repl.command:repl",
    "report": "app.commands.report:report",
    "search": "app.commands.search:search",
    "settings": "app.commands.settings:settings",
    "up": "app.commands.up:up",
    "updater": "app.commands.processes:updater",
    "user": "app.commands.user:user",
    "web": "app.commands.processes:web",
}
FEED_COMMANDS: dict[str, str] = {
    "discover": "app.commands.feed_discover:discover",
    "fetch": "app.commands.feed_fetch:fetch",
    "parse": "app.commands.feed_parse:parse",
    "sanitize": "app.commands.feed_sanitize:sanitize",
    "schedule": "app.commands.feed_schedule:schedule",
}
OPML_COMMANDS: dict[str, str] = {"check": "app.commands.opml_check:check"}


#: Errors of a write on a full disk, over a quota, or to a broken device.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def __init__(self, *args: Any, lazy: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, attribute = self._lazy[cmd_name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 — the table above is ours
        return command


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(package_name="eventr")
def cli() -> None:
    """Eventr, a social feed reader."""


@cli.group(cls=LazyGroup, lazy=FEED_COMMANDS)
def feed() -> None:
    """Inspect feeds and web pages. Every command prints JSON."""


@cli.group(cls=LazyGroup, lazy=OPML_COMMANDS)
def opml() -> None:
    """Inspect OPML files."""


def main() -> None:
    """Run the command line; our own errors become one sentence on stderr and exit code 1."""
    gc.collect_rarely()
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except click.ClickException as e:
        e.show()
        sys.exit(e.exit_code)
    except EventrError as e:
        _report(e.message)
        sys.exit(1)
    except OSError as e:
        if e.filename is not None or e.errno not in _UNWRITABLE:
            raise
        _report(f"Can't write the output: {e.strerror}.")
        # The interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    # Without standalone mode, click returns the code of ctx.exit() instead of raising.
    sys.exit(code if isinstance(code, int) else 0)


def _report(message: str) -> None:
    """Write why the command failed to stderr."""
    if logs.is_json():
        logs.get(__name__).error("command_failed", message=message)
    else:
        click.echo(f"eventr: {message}", err=True)


def print_json(document: Any) -> None:
    """Print one JSON document on one line to stdout: UTF-8 in any locale (RFC 8259)."""
    line = json.dumps(document, ensure_ascii=False)
    # Invalid UTF-8 in a file name appears as lone surrogates here, which JSON can escape.
    click.echo(line.encode("utf-8", "backslashreplace"))
