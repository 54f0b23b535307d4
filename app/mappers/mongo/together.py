"""Reading several short lists in one command, into the identity map.

A command costs MongoDB and the driver 0.2 ms each, however little it reads, and every page needs half a dozen
lists that are usually empty.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from app.mappers.mongo.store import Doc, Part, run_parts
from app.runtime import identity_map

_ABSENT: Any = object()
_PLACE = "_part"


class ListRead(NamedTuple):
    """A query whose result the identity map keeps under (``kind``, ``key``); ``parse`` makes that value."""

    part: Part
    kind: str
    key: Hashable
    parse: Callable[[list[Doc]], Any]


def read_together(reads: Sequence[ListRead]) -> None:
    """Read what the identity map lacks with one command; outside a request or job, do nothing."""
    missing = [read for read in reads if not _is_kept(read)] if identity_map.is_active() else []
    if len(missing) < 2:
        return
    versions = [identity_map.get_version(read.part.collection.name) for read in missing]
    parts = [
        read.part._replace(pipeline=[*read.part.pipeline, {"$set": {_PLACE: place}}])
        for place, read in enumerate(missing)
    ]
    found: list[list[Doc]] = [[] for _ in missing]
    for doc in run_parts(parts):
        found[doc.pop(_PLACE)].append(doc)
    for read, version, docs in zip(missing, versions, found, strict=True):
        identity_map.keep_values(read.part.collection.name, version, read.kind, {read.key: read.parse(docs)})


def _is_kept(read: ListRead) -> bool:
    return identity_map.get_value(read.part.collection.name, read.kind, read.key, _ABSENT) is not _ABSENT
