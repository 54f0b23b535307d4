"""The sizes in which a picture is drawn, all at once, so that it never has to be read again."""

from __future__ import annotations

from typing import NamedTuple

from app.models.media.blob import Purpose


class PictureSize(NamedTuple):
    """A size of drawn pictures, in pixels; pictures are never enlarged.

    Attributes:
        name: as in addresses and in :attr:`Blob.names`.
        width: largest width.
        height: largest height, None: as the picture's shape demands.
        cropped: whether the picture is cut to the shape of this size; otherwise it fits into it.
    """

    name: str
    width: int
    height: int | None
    cropped: bool = False


ICON_SIZES = (PictureSize("i32", 32, 32), PictureSize("i64", 64, 64))
AVATAR_SIZES = tuple(PictureSize(f"a{n}", n, n, cropped=True) for n in (48, 96, 192))
THUMB_SIZES = (
    PictureSize("t208", 208, 144, cropped=True),
    PictureSize("t416", 416, 288, cropped=True),
)
TEXT_SIZES = (PictureSize("w640", 640, None), PictureSize("w1280", 1280, None))

#: Purpose of a picture → the sizes that are drawn of it.
SIZES: dict[Purpose, tuple[PictureSize, ...]] = {
    Purpose.ICON: ICON_SIZES,
    Purpose.AVATAR: AVATAR_SIZES,
    Purpose.PICTURE: (*THUMB_SIZES, *TEXT_SIZES),
}
#: Names of all sizes; addresses with another name are refused.
SIZE_NAMES = frozenset(size.name for sizes in SIZES.values() for size in sizes)
