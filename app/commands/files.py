"""What the engine's tools share: the files and addresses they are given, and how they tell an error."""

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

#: More than any file these tools are made for.
MAX_BYTES = 64 << 20


def get_standard_input() -> TextIO:
    """Return stdin.

    Raises:
        InvalidError: it is closed, which makes it None (``eventr … <&-``).
    """
    if sys.stdin is None:
        raise InvalidError("Standard input is closed.")
    return sys.stdin


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file, or of stdin for ``-``.

    Raises:
        InvalidError: it cannot be read.
        TooLargeError: longer than 64 MiB.
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
    """Return the address that relative ones are resolved against; "" stands for none.

    Raises:
        InvalidError: it is no absolute http or https address.
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
    """Print an error: ``fields`` and ``{"error", "message"}`` to stdout, the sentence to stderr.

    ``file`` among the fields is named to people too, where the sentence does not begin with it.
    """
    print_json({**fields, "error": error.word, "message": error.message})
    name = str(fields.get("file", ""))
    where = "" if error.message.startswith(name) else f"{name}: "
    click.echo(f"eventr: {where}{error.message}", err=True)


def errors_as_json(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command :func:`tell` an error of ours and end with exit code 1."""

    @functools.wraps(command)
    def run_command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except EventrError as e:
            print_error(e)
            sys.exit(1)

    return run_command
