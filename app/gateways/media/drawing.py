"""Draws pictures and keeps them as blobs: each body once, wherever it comes from."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from app.errors import ConflictError, PictureError, PicturesUnsupportedError
from app.gateways.media.blobs import BlobGateway, Record
from app.mappers.mongo.store import Session, Store
from app.models.media.blob import Blob, BlobKind, Content, Purpose
from app.models.media.drawn import RECIPE, Drawn
from app.models.media.sizes import SIZES
from app.models.media.sniff import SNIFF_BYTES, UNKNOWN_TYPE, sniff
from app.ports import PictureDrawer

T = TypeVar("T")


class _GoneError(ConflictError):
    """The blob is being deleted."""


class Body(NamedTuple):
    """A file as it came: its id as a blob, its bytes, its media type by its content."""

    path: Path
    blob_id: bytes
    size: int
    type: str


class DrawingGateway:
    """Draws what isn't drawn yet; only for workers.

    Args:
        find_drawer: returns the drawer, which takes memory once it was used.
    """

    def __init__(self, store: Store, blobs: BlobGateway, find_drawer: Callable[[], PictureDrawer]) -> None:
        self._store, self._blobs, self._find_drawer = store, blobs, find_drawer

    def keep(self, body: Body, purpose: Purpose, record: Record[T]) -> T:
        """Draw a picture for a purpose, store it, and run ``record`` with one more reference to it.

        A picture that was drawn for this purpose before isn't drawn again, wherever it came from.

        Args:
            record: as for :meth:`BlobGateway.keep`.

        Raises:
            PictureError: it isn't a picture, is damaged, or exceeds a limit.
            PicturesUnsupportedError: the package that draws isn't installed.
            MediaStoreError: too few stores accepted the files.
            NoSpaceError: the stores are full.
            StoreError: MongoDB isn't responding.
        """
        blob = self._blobs.find([body.blob_id]).get(body.blob_id)
        if self._is_drawn(blob, purpose):
            try:
                return self._store.run_in_transaction(partial(self._use, body.blob_id, record))
            except _GoneError:
                pass  # deleted just now; so it's drawn like a new one
        try:
            drawer = self._find_drawer()
        except ImportError as e:
            raise PicturesUnsupportedError from e
        drawn = drawer.draw(body.path, purpose)
        if blob is not None and blob.recipe < RECIPE:
            drawn = dataclasses.replace(
                drawn, files=self._draw_others(drawer, body, purpose, blob) | dict(drawn.files)
            )
        return self._blobs.keep(_build_content(body, drawn), record)

    def _draw_others(
        self, drawer: PictureDrawer, body: Body, purpose: Purpose, blob: Blob
    ) -> dict[str, bytes]:
        """Draw the other purposes of a blob with an older recipe as well: the blob has only one."""
        files: dict[str, bytes] = {}
        for other, sizes in SIZES.items():
            if other is not purpose and {size.name for size in sizes} <= blob.names.keys():
                with contextlib.suppress(PictureError):
                    files |= drawer.draw(body.path, other).files
        return files

    def _is_drawn(self, blob: Blob | None, purpose: Purpose) -> bool:
        names = {size.name for size in SIZES[purpose]}
        return blob is not None and blob.recipe >= RECIPE and not blob.lost and names <= blob.names.keys()

    def _use(self, blob_id: bytes, record: Record[T], session: Session) -> T:
        if not self._blobs.use(session, blob_id):
            raise _GoneError
        return record(session, blob_id)


def read_body(path: Path) -> Body:
    """Return what a file is, without decoding it.

    Raises:
        FileNotFoundError: there is no such file.
    """
    with path.open("rb") as file:
        head = file.read(SNIFF_BYTES)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
        size = file.tell()
    return Body(path, digest, size, sniff(head) or UNKNOWN_TYPE)


def _build_content(body: Body, drawn: Drawn) -> Content:
    return Content(
        id=body.blob_id,
        kind=BlobKind.PICTURE,
        size=body.size,
        type=body.type,
        width=drawn.width,
        height=drawn.height,
        color=drawn.color,
        frames=drawn.frames,
        recipe=drawn.recipe,
        files=drawn.files,
    )
