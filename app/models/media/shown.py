"""A picture of another site as a page shows it."""

from __future__ import annotations

import dataclasses
import enum

from app.models.media.addresses import encode_bytes


class PictureState(enum.StrEnum):
    """What a page shows: the picture, a box until it is there, or why it isn't."""

    READY = "ready"
    PENDING = "pending"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShownPicture:
    """A picture of another site.

    Attributes:
        source: id of its source.
        width, height: of the picture in pixels, if it is ready.
        color: its mean color, as ``#rrggbb``.
        names: the sizes that are stored.
        error: why it failed.
    """

    source: bytes
    state: PictureState
    width: int | None = None
    height: int | None = None
    color: str | None = None
    names: frozenset[str] = frozenset()
    error: str | None = None

    def build_path(self, size: str) -> str:
        """Return the address of the picture in a size."""
        return f"/i/{encode_bytes(self.source)}/{size}.webp"
