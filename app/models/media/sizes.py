"""The sizes in which a picture is drawn, all at once, so that it never has to be read again."""

from __future__ import annotations

from collections.abc import Iterable
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

#: Where a crop of a tall picture is taken from, as a fraction of what is cut off: heads and titles are above.
TALL_CENTER = 0.25


def compute_crop(picture: tuple[int, int], size: PictureSize) -> tuple[int, int, int, int]:
    """Return the part of a picture that a size shows: left, upper, right and lower edge, in pixels."""
    width, height = picture
    if not size.cropped or size.height is None:
        return 0, 0, width, height
    if width * size.height > height * size.width:
        kept = max(1, round(height * size.width / size.height))
        left = (width - kept) // 2
        return left, 0, left + kept, height
    kept = max(1, round(width * size.height / size.width))
    upper = round((height - kept) * TALL_CENTER)
    return 0, upper, width, upper + kept


def compute_size(picture: tuple[int, int], size: PictureSize) -> tuple[int, int]:
    """Return width and height of a drawn picture; it is never larger than the original."""
    left, upper, right, lower = compute_crop(picture, size)
    width, height = right - left, lower - upper
    scale = min(1.0, size.width / width, 1.0 if size.height is None else size.height / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def compute_scale(picture: tuple[int, int], sizes: Iterable[PictureSize]) -> float:
    """Return the scale, at most 1, at which a picture still has enough pixels for all of these sizes."""
    scale = 0.0
    for size in sizes:
        left, upper, right, lower = compute_crop(picture, size)
        width, height = compute_size(picture, size)
        scale = max(scale, width / (right - left), height / (lower - upper))
    return min(scale, 1.0)
