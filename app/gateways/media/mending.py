"""Copies files to the stores that lacked them when they were stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app import logs
from app.errors import MediaStoreError, NoSpaceError, NotFoundError
from app.mappers.media.mending import MendingMapper, WantingBlob
from app.models.media.blob import build_key
from app.ports import MediaStores

log = logs.get(__name__)

#: Blobs that are read at once.
_BATCH = 100
#: Refusals after which a run leaves a store to the next run.
_REFUSALS = 3


class MendingGateway:
    """Every step can be repeated, may be killed anywhere, and may run beside itself."""

    def __init__(self, mapper: MendingMapper, stores: MediaStores) -> None:
        self._mapper, self._stores = mapper, stores
        #: Store → where to continue, so that blobs that can't be copied don't block the others.
        self._after: dict[str, bytes] = {}

    def is_due(self) -> bool:
        """Return whether a store lacks blobs."""
        return bool(self._mapper.list_lacking())

    def copy_missing(self, is_over: Callable[[], bool]) -> int:
        """Copy what stores lack, as far as they respond; return the number of blobs that were copied.

        Args:
            is_over: whether to end; the next call continues.

        Raises:
            StoreError: MongoDB isn't responding.
        """
        lacking = self._mapper.list_lacking()
        if gone := [name for name in lacking if name not in self._stores.names]:
            self._mapper.forget_stores(gone)
        return sum(self._fill(name, is_over) for name in lacking if name not in gone)

    def _fill(self, store: str, is_over: Callable[[], bool]) -> int:
        copied, refusals, missing = 0, 0, 0
        for blob in self._list_wanting(store):
            if is_over() or refusals >= _REFUSALS:
                break
            self._after[store] = blob.id
            try:
                self._copy(blob, store)
            except (MediaStoreError, NoSpaceError):
                refusals += 1
            except NotFoundError:
                missing += 1  # the comparison of stores with the database marks it as lost
            else:
                copied += 1
        if missing:
            log.warning("media_files_missing", store=store, blobs=missing)
        return copied

    def _list_wanting(self, store: str) -> Iterator[WantingBlob]:
        """Yield all blobs that a store lacks, beginning after the last one that was tried."""
        start = self._after.get(store, b"")
        for after, until in ((start, None), (b"", start)):
            position = after
            while batch := self._mapper.find_wanting(store, (position, until), _BATCH):
                yield from batch
                position = batch[-1].id

    def _copy(self, blob: WantingBlob, store: str) -> None:
        for name in blob.names:
            self._stores.copy(build_key(blob.id, blob.generation, name), store)
        # If the blob was deleted meanwhile, the disk cleaner finds these files.
        self._mapper.record_copy(blob, store)
