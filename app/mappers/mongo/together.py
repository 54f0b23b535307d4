"""Reading several short lists in one command, into the identity map.

A command costs MongoDB and the driver 0.2 ms each, however little it reads, and every page needs half a dozen
lists that are usually empty.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from app.mappers.mongo.cells import get_epoch
from app.mappers.mongo.shared_cache import SharedCache, View
from app.mappers.mongo.store import Doc, Part, run_parts
from app.models.cache import CacheKind
from app.runtime import identity_map

_ABSENT: Any = object()
_PLACE = "_part"
#: Stands for a list that isn't in the cache: no place has this epoch.
_NOTHING: tuple[int, list[Doc]] = (-1, [])
#: Seconds after which a person's lists are read again in any case.
LIST_SECONDS = 60


class Kept(NamedTuple):
    """How long documents outlast the request: :attr:`ListRead.kept`.

    Attributes:
        kind: of the documents.
        user_id: whose they are.
        pipeline: reads all of this kind and person; None: the query itself does.
        is_fit: whether to keep these documents.
    """

    kind: CacheKind
    user_id: int
    pipeline: list[Doc] | None = None
    is_fit: Callable[[list[Doc]], bool] = lambda docs: True


class ListRead(NamedTuple):
    """A query whose result the identity map keeps under (``kind``, ``key``); ``parse`` makes that value.

    ``parse`` chooses from all documents that :attr:`Kept.pipeline` reads.
    """

    part: Part
    kind: str
    key: Hashable
    parse: Callable[[list[Doc]], Any]
    kept: Kept | None = None


def read_together(reads: Sequence[ListRead], cache: SharedCache | None = None) -> None:
    """Read what the identity map lacks with one command; outside a request or job, do nothing.

    Args:
        cache: holds what earlier requests have read.
    """
    missing = [read for read in reads if not _is_kept(read)] if identity_map.is_active() else []
    if len(missing) < 2:
        return
    if cache is not None:
        _read_through(cache, missing)
    else:
        _read(missing)


def _read_through(cache: SharedCache, reads: Sequence[ListRead]) -> None:
    """Take from the cache what earlier requests have read, and keep the rest for later ones."""
    missing: list[tuple[ListRead, View | None]] = []
    for read in reads:
        name, kept = read.part.collection.name, read.kept
        view = cache.get_view(name) if kept else None
        found = cache.get_values(view, kept.kind, [kept.user_id]) if view and kept else {}
        epoch, docs = found.get(kept.user_id, _NOTHING) if kept else _NOTHING
        if epoch == get_epoch(read.part.collection):
            value = read.parse(docs)
            identity_map.keep_values(name, identity_map.get_version(name), read.kind, {read.key: value})
        else:
            missing.append((_widen(read) if view else read, view))
    if not missing:
        return
    for (read, view), docs in zip(missing, _read([read for read, _ in missing]), strict=True):
        if view and (kept := read.kept) and kept.is_fit(docs):
            # For this place only: after a move, a process may have read the old cell for a moment.
            value = get_epoch(read.part.collection), docs
            cache.keep(view, kept.kind, {kept.user_id: value}, LIST_SECONDS)


def _widen(read: ListRead) -> ListRead:
    if read.kept is None or read.kept.pipeline is None:
        return read
    return read._replace(part=read.part._replace(pipeline=read.kept.pipeline))


def _read(missing: Sequence[ListRead]) -> list[list[Doc]]:
    """Read lists into the identity map; return their documents."""
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
    return found


def _is_kept(read: ListRead) -> bool:
    return identity_map.get_value(read.part.collection.name, read.kind, read.key, _ABSENT) is not _ABSENT
