"""Blobs: stores content once, and counts what refers to it (media.md §4.1, security.md U10).

Files are put into the stores before any document names them, and a blob's count changes in one transaction
with the record that refers to it. After a kill there may be files without a document, which the disk cleaner
deletes, and never a document without its files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from app import clock, logs
from app.errors import ConflictError, EventrError, NotFoundError, StoreError
from app.mappers.media.blobs import BlobMapper
from app.mappers.mongo.store import Session, Store
from app.models.media import sizes
from app.models.media.blob import (
    DELETING,
    ORIGINAL,
    Blob,
    BlobKind,
    Content,
    build_key,
    draw_generation,
)
from app.models.media.store import Piece
from app.ports import MediaStores
from app.runtime.pieces import read_piece

log = logs.get(__name__)
T = TypeVar("T")
Record = Callable[[Session, bytes], T]

#: Attempts to keep content whose blob others create, condemn or take over at the same moment.
ROUNDS = 16
#: All names that a generation of unknown content may have.
ALL_NAMES = frozenset({ORIGINAL, *sizes.SIZE_NAMES})
#: Bytes of a file from a remote store that are copied in memory.
_MEMORY = 1 << 20


class _ChangedError(ConflictError):
    """The blob has changed since it was read."""


class BlobGateway:
    """Keeps and releases content."""

    def __init__(self, store: Store, blobs: BlobMapper, stores: MediaStores) -> None:
        self._store, self._blobs, self._stores = store, blobs, stores

    def find(self, blob_ids: Iterable[bytes]) -> dict[bytes, Blob]:
        """Return the blobs among these that exist, by id."""
        return self._blobs.find_many(set(blob_ids))

    def keep(self, content: Content, record: Record[T]) -> T:
        """Store content unless it is stored already, and run ``record`` with one more reference to it.

        Args:
            record: stores what refers to the blob, in the same transaction; it may run several times. What it
                raises passes through, and then nothing refers to the content.

        Raises:
            MediaStoreError: too few stores accepted the files.
            NoSpaceError: the stores are full.
            StoreError: MongoDB isn't responding.
        """
        for _ in range(ROUNDS):
            seen = self._blobs.find(content.id)
            if (
                seen
                and seen.references != DELETING
                and not seen.lost
                and content.files.keys() <= seen.names.keys()
                and content.recipe <= seen.recipe
            ):
                with contextlib.suppress(_ChangedError):
                    return self._store.run_in_transaction(partial(self._use, content.id, record))
                continue
            blob = self._put_files(content, seen)
            try:
                return self._store.run_in_transaction(partial(self._place, blob, seen, record))
            except _ChangedError:
                self._drop_files(blob)  # someone else was first
            except StoreError:
                # Perhaps the transaction was committed. If not, the disk cleaner deletes the files.
                raise
            except EventrError:
                self._drop_files(blob)
                raise
        raise ConflictError

    def use(self, session: Session, blob_id: bytes) -> bool:
        """Add a reference to a stored blob, inside the transaction that stores what refers to it.

        Returns:
            False if the blob isn't there; the transaction must then not store anything that names it.
        """
        return self._blobs.use(blob_id, clock.now(), session)

    def release(self, session: Session, blob_id: bytes) -> None:
        """Remove a reference, inside the transaction that deletes what referred to the blob."""
        self.release_many(session, [blob_id])

    def release_many(self, session: Session, blob_ids: Iterable[bytes]) -> None:
        """Remove one reference for each of these ids, which may repeat; see :meth:`release`."""
        counts = Counter(blob_ids)
        refused = len(counts) - self._blobs.release(counts, clock.now(), session)
        if refused:
            # Their counts were too low: `eventr media check` counts again. Never below 0.
            log.warning("blob_release_refused", count=refused)

    def open(
        self, blob_id: bytes, name: str, first: int = 0, last: int | None = None, *, seen: Blob | None = None
    ) -> Piece:
        """Return a file of a blob, or its bytes from ``first`` to ``last`` inclusive.

        Args:
            seen: the blob, if it was just read.

        Raises:
            NotFoundError: there is no such blob or file.
            MediaStoreError: no store that has it is responding.
        """
        missing: int | None = None
        while True:
            blob, seen = seen or self._blobs.find_many([blob_id]).get(blob_id), None
            if blob is None or name not in blob.names or blob.generation == missing:
                raise NotFoundError
            try:
                return self._stores.open(build_key(blob.id, blob.generation, name), first, last, blob.copies)
            except NotFoundError:
                missing = blob.generation  # another generation may have taken over just now

    # -- steps of keeping
    def _use(self, blob_id: bytes, record: Record[T], session: Session) -> T:
        if not self._blobs.use(blob_id, clock.now(), session):
            raise _ChangedError
        return record(session, blob_id)

    def _place(self, blob: Blob, seen: Blob | None, record: Record[T], session: Session) -> T:
        now = clock.now()
        if seen is None:
            try:
                self._blobs.add(blob, now, session)
            except ConflictError as e:
                raise _ChangedError from e
        elif not self._blobs.take_over(blob, seen, now, session):
            raise _ChangedError
        return record(session, blob.id)

    def _put_files(self, content: Content, seen: Blob | None) -> Blob:
        """Put all files of content into the stores as a new generation.

        Files that the blob has in addition are copied, so that a picture that was also uploaded as a file is
        still one blob.
        """
        generation, names = draw_generation(), dict[str, int]()
        copies = set(self._stores.names)
        old = seen if seen and seen.references != DELETING else None
        try:
            for name, given, size in self._iter_files(content, old):
                copies &= set(self._stores.put(build_key(content.id, generation, name), given, size))
                names[name] = size
        except (EventrError, OSError):
            self._drop(content.id, generation, {*content.files, *(old.names if old else ())})
            raise
        blob = Blob(
            id=content.id,
            generation=generation,
            kind=BlobKind.FILE if ORIGINAL in names else content.kind,
            size=content.size,
            type=content.type,
            width=content.width,
            height=content.height,
            color=content.color,
            frames=content.frames,
            recipe=content.recipe,
            names=names,
            copies=tuple(name for name in self._stores.names if name in copies),
            missing=tuple(name for name in self._stores.names if name not in copies),
        )
        if seen is None or content.kind is not BlobKind.FILE:
            return blob
        # A file says nothing about the picture that it is as well. A drawing (SVG) would become bytes without
        # a type, and its type decides how an icon is served.
        return dataclasses.replace(
            blob,
            type=seen.type if names.keys() - {ORIGINAL} else content.type,
            width=seen.width,
            height=seen.height,
            color=seen.color,
            frames=seen.frames,
            recipe=seen.recipe,
        )

    def _iter_files(self, content: Content, old: Blob | None) -> Iterator[tuple[str, Path | bytes, int]]:
        """Yield name, bytes and size of each file of content, and of those that only the old blob has."""
        for name, given in content.files.items():
            yield name, given, len(given) if isinstance(given, bytes) else given.stat().st_size
        if old is not None:
            for name in sorted(old.names.keys() - content.files.keys()):
                with contextlib.suppress(NotFoundError), self._open_whole(old, name) as found:
                    yield name, found, old.names[name]

    @contextlib.contextmanager
    def _open_whole(self, blob: Blob, name: str) -> Iterator[Path | bytes]:
        """Yield a stored file as a path, or its bytes if it is small."""
        piece = self._stores.open(build_key(blob.id, blob.generation, name), copies=blob.copies)
        if piece.length <= _MEMORY:
            yield b"".join(read_piece(piece))
            return
        with tempfile.NamedTemporaryFile() as copy:
            for chunk in read_piece(piece):
                copy.write(chunk)
            copy.flush()
            yield Path(copy.name)

    def _drop_files(self, blob: Blob) -> None:
        self._drop(blob.id, blob.generation, blob.names)

    def _drop(self, blob_id: bytes, generation: int, names: Iterable[str]) -> None:
        """Delete files of a generation that no document names; what stays is left to the disk cleaner."""
        for name in names:
            with contextlib.suppress(EventrError):
                self._stores.delete(build_key(blob_id, generation, name))


def list_names(blob: Blob, generation: int) -> frozenset[str]:
    """Return the names of all files that a generation of a blob may have."""
    return frozenset(blob.names) if generation == blob.generation else ALL_NAMES | blob.names.keys()
