"""A claimed job: parses what TAKE returned, without trusting any of it.

Anyone who can write to Redis can write a job. So only JSON is read (never a pickle), only a limited amount
is unpacked, and only registered tasks run. Everything else becomes a ``problem``, and the job becomes dead
with that reason (J01, J06).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import zlib
from collections.abc import Sequence
from typing import Any

from workers import registry

#: Longest job data in bytes, unpacked: the arguments (64 KiB at most) and RQ's envelope.
DATA_MAX = 80 << 10


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimedJob:
    """One attempt of a job.

    Attributes:
        attempt: Number of this run's TAKEs, from 1.
        since: Stamp of the run, ms.
        task, args: The task to run; empty if ``problem`` says why it can't run.
        failures, crashes: Counts of earlier attempts.
        timeouts: Those of the failures that took too long.
        parents: Tokens of dead attempts that this job continues: of a batch, or of its own earlier run.
        problem: Error code and message of a job that can't be parsed.
    """

    id: str
    queue: str
    attempt: int
    since: int
    task: str = ""
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    failures: int = 0
    crashes: int = 0
    timeouts: int = 0
    parents: tuple[str, ...] = ()
    problem: tuple[str, str] | None = None

    @property
    def token(self) -> str:
        """Identifies this attempt uniquely for all time, for claims and other leases."""
        return self.build_token(self.attempt)

    def compute_age(self, now: dt.datetime) -> float:
        """Return the seconds since this run was queued."""
        return max(0.0, now.timestamp() - self.since / 1000)

    @property
    def harm(self) -> int:
        """How many earlier attempts ended with the worker or took too long; other failures are a store's."""
        return self.crashes + self.timeouts

    def build_token(self, attempt: int) -> str:
        return f"{self.id}-{self.since}-{attempt}"


def parse_job(row: Sequence[Any]) -> ClaimedJob:
    """Parse one row of TAKE: id, queue, attempt, since, data, failures, crashes, parents, timeouts."""
    ident, queue, since, failures, crashes, parents, timeouts = (
        row[i].decode("utf-8", "replace") for i in (0, 1, 3, 5, 6, 7, 8)
    )
    taken = ClaimedJob(
        id=ident,
        queue=queue,
        attempt=int(row[2]),
        since=_number(since),
        failures=_number(failures),
        crashes=_number(crashes),
        timeouts=_number(timeouts),
        parents=tuple(parents.split()),
    )
    try:
        name, args = _call(row[4])
    except ValueError as e:
        return dataclasses.replace(taken, problem=("bad_job", f"Can't read this job: {e}."))
    if registry.find_task(name) is None:
        problem = ("unknown_task", "This job's task doesn't exist.")
        return dataclasses.replace(taken, task=name, problem=problem)
    return dataclasses.replace(taken, task=name, args=args)


def _call(data: bytes) -> tuple[str, dict[str, Any]]:
    try:
        document = json.loads(_unpack(data).decode())
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    if not isinstance(document, list) or len(document) != 4:
        raise ValueError("not a call")
    name, instance, positional, args = document
    if not isinstance(name, str) or not isinstance(args, dict):
        raise ValueError("not a call")
    if (instance is not None or positional) and registry.find_task(name) is not None:
        raise ValueError("tasks accept only named arguments")
    return name, args


def _unpack(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, DATA_MAX + 1)
    except zlib.error:
        text = data  # RQ also accepts uncompressed data
    if len(text) > DATA_MAX:
        raise ValueError("too long")
    return text


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
