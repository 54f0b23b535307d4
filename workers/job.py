"""A job as a worker holds it: read from what TAKE returned, without trusting any of it.

Whoever can write to Redis can write a job. So only JSON is read (never a pickle), only so much of it is
unpacked, and only names of the registry are run: everything else becomes a ``problem``, and the job ends
dead with that as its reason (J01, J06).
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Sequence
from typing import Any

from workers import registry

#: Longest job data, unpacked: the arguments (64 KiB at most) and what RQ puts around them.
DATA_MAX = 80 << 10


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimedJob:
    """One attempt of a job.

    Attributes:
        attempt: counts TAKEs of this run of the job, from 1.
        since: stamp of the run, ms.
        task, args: what to run; empty when ``problem`` says why it cannot be.
        failures, crashes: of earlier attempts.
        parents: tokens of dead attempts that this job continues: a batch's, or its own of a run before.
        problem: error word and sentence of a job that cannot be read.
    """

    id: str
    queue: str
    attempt: int
    since: int
    task: str = ""
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    failures: int = 0
    crashes: int = 0
    parents: tuple[str, ...] = ()
    problem: tuple[str, str] | None = None

    @property
    def token(self) -> str:
        """Names this attempt and no other one, ever: for claims and other leases."""
        return self.build_token(self.attempt)

    def build_token(self, attempt: int) -> str:
        return f"{self.id}-{self.since}-{attempt}"


def parse_job(row: Sequence[Any]) -> ClaimedJob:
    """Read one row of TAKE: id, queue, attempt, since, data, failures, crashes, parents."""
    ident, queue, since, failures, crashes, parents = (
        row[i].decode("utf-8", "replace") for i in (0, 1, 3, 5, 6, 7)
    )
    taken = ClaimedJob(
        id=ident,
        queue=queue,
        attempt=int(row[2]),
        since=_number(since),
        failures=_number(failures),
        crashes=_number(crashes),
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
        text = data  # RQ takes uncompressed data too
    if len(text) > DATA_MAX:
        raise ValueError("too long")
    return text


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
