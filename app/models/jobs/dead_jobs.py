"""The dead set in Redis: parse the fields of a job's hash that describe a dead task. Pure.

The data may be anything: Redis isn't trusted (J01).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

#: Fields of a job's hash, in the order in which :func:`parse_dead_job` reads them.
FIELDS: Final = (
    *("status", "data", "origin", "home", "error", "failures", "crashes", "history"),
    "description",
)
#: Longest job data, unpacked, that workers read.
_DATA_MAX = 80 << 10


def parse_dead_job(job_id: str, ended: float, row: Sequence[bytes | None]) -> dict[str, Any] | None:
    """Return a dead task from the values of :data:`FIELDS`, None if it isn't dead (anymore).

    Returns:
        ``id``, ``task``, ``queue``, ``args``, ``error``, ``failures``, ``crashes``, ``ended`` (ISO) and
        ``history``, a list of ``{attempt, at, worker, error, where}``.
    """
    status, data, origin, home, error, failures, crashes, history, description = row
    if status != b"failed":
        return None
    text = [(part or b"").decode("utf-8", "replace") for part in (home or origin, error, description)]
    return {
        "id": job_id,
        "task": text[2],
        "queue": text[0],
        "args": parse_args(data or b""),
        "error": text[1],
        "failures": int(failures or 0),
        "crashes": int(crashes or 0),
        "ended": dt.datetime.fromtimestamp(ended, dt.UTC).isoformat(),
        "history": list(parse_history(history or b"")),
    }


def parse_args(data: bytes) -> dict[str, Any]:
    """Read a job's untrusted arguments; unreadable ones are left out."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, _DATA_MAX)
    except zlib.error:
        text = data[:_DATA_MAX]
    try:
        _, _, _, found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_history(history: bytes) -> Iterator[dict[str, Any]]:
    """Yield the failed attempts of a job's ``history``."""
    for line in history.splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)
