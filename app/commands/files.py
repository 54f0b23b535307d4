"""Shared code of the engine's tools: reading files and addresses, and printing errors."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TextIO
from urllib.parse import urlsplit

import click

from app.cli import print_json
from app.errors import EventrError, InvalidError, TooLargeError

P = ParamSpec("P")

#: Largest input, far above the files that these tools are made for.
MAX_BYTES = 64 << 20


def get_standard_input() -> TextIO:
    """Return standard input.

    Raises:
        InvalidError: it is closed (``eventr … <&-``), which makes ``sys.stdin`` None.
    """
    if sys.stdin is None:
        raise InvalidError("Standard input is closed.")
    return sys.stdin


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``.

    Raises:
        InvalidError: the file can't be read.
        TooLargeError: the file is larger than 64 MiB.
    """
    try:
        data = get_standard_input().buffer.read(MAX_BYTES + 1) if name == "-" else _read(Path(name))
    except OSError as e:
        raise InvalidError(f"{name} can't be read: {e.strerror}.") from e
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"{name} is larger than {MAX_BYTES >> 20} MiB.")
    return data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def check_web_address(url: str) -> str:
    """Return the base address for relative addresses; "" means none.

    Raises:
        InvalidError: it isn't an absolute http or https address.
    """
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not url or (fits and url.isprintable() and " " not in url):
        return url
    raise InvalidError(f"--url {url} isn't an absolute HTTP or HTTPS address.")


def print_error(error: EventrError, **fields: Any) -> None:
    """Print an error: ``fields`` and ``{"error", "message"}`` to stdout, the message to stderr.

    A field ``file`` also appears on stderr, unless the message begins with it.
    """
    print_json({**fields, "error": error.word, "message": error.message})
    name = str(fields.get("file", ""))
    where = "" if error.message.startswith(name) else f"{name}: "
    click.echo(f"eventr: {where}{error.message}", err=True)


def errors_as_json(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command print our errors with :func:`print_error` and exit with code 1."""

    @functools.wraps(command)
    def run_command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except EventrError as e:
            print_error(e)
            sys.exit(1)

    return run_command
