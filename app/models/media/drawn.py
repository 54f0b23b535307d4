"""A picture as it was drawn: new files of all sizes, and what is known about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: Version of the code that draws. Raise it when pictures would look different: older ones can be drawn again.
RECIPE = 1

#: Attempts that crash a worker, or take too long, after which a picture is given up.
MAX_ATTEMPTS = 2
#: Seconds after which a body that nobody has drawn is deleted.
BODY_SECONDS = 86400.0
#: Shortest and longest pause, seconds, before a job tries a store again.
_PAUSES = (1.0, 300.0)


def compute_pause(waited: float) -> float:
    """Return the seconds until a job that has waited for a store tries again; its wait doubles each time."""
    least, most = _PAUSES
    return min(max(waited, least), most)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrawingLimits:
    """Limits of the pictures that are drawn; they apply to the header, before anything is decoded.

    Attributes:
        pixels: of one picture or frame.
        side: width or height, pixels.
        animation_pixels: of all frames of an animation together. Of a longer one, the first frame is drawn.
        animation_seconds: CPU time for an animation. If it takes longer, the first frame is drawn.
    """

    pixels: int
    side: int
    animation_pixels: int
    animation_seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A drawn picture.

    Attributes:
        files: size name → the bytes of a file. Nothing of the original's metadata is in them.
        type: media type of these files.
        width, height: of the original after its orientation is applied, pixels.
        color: mean color, as ``#rrggbb``.
        frames: frames of the drawn animation, 1: it doesn't move.
        recipe: version of the code that drew it.
    """

    files: Mapping[str, bytes]
    type: str
    width: int
    height: int
    color: str
    frames: int = 1
    recipe: int = RECIPE
