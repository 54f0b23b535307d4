"""Reading the files that the engine's tools are given, and telling an error as JSON."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from app.cli import print_json
from app.errors import EventrError, InvalidError, TooLargeError

P = ParamSpec("P")

#: More than any file these tools are made for.
MAX_BYTES = 64 << 20


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file, or of stdin for ``-``.

    Raises:
        InvalidError: it cannot be read.
        TooLargeError: longer than 64 MiB.
    """
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if name == "-" else _read(Path(name))
    except OSError as e:
        raise InvalidError(f"{name} cannot be read: {e.strerror}.") from e
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"{name} is larger than {MAX_BYTES >> 20} MiB.")
    return data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def errors_as_json(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command print ``{"error", "message"}`` and end with exit code 1 on an error of ours."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except EventrError as e:
            print_json({"error": e.word, "message": e.message})
            sys.exit(1)

    return wrapper
