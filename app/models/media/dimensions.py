"""Width and height of a picture from its header, without decoding it. Pure."""

from __future__ import annotations

import struct

#: JPEG markers of a frame, which states the size.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Most segments of a JPEG that are passed over.
_SEGMENTS = 64


def measure_picture(body: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels as the header states them; None if the format isn't known.

    The header of a picture may lie; only drawing tells.
    """
    try:
        if body.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack_from(">II", body, 16)
        elif body.startswith((b"GIF87a", b"GIF89a")):
            width, height = struct.unpack_from("<HH", body, 6)
        elif body.startswith(b"\xff\xd8"):
            return _measure_jpeg(body)
        elif body.startswith(b"RIFF") and body[12:16] == b"VP8X":
            width, height = (int.from_bytes(body[n : n + 3], "little") + 1 for n in (24, 27))
        elif body.startswith(b"RIFF") and body[12:16] == b"VP8 ":
            width, height = (n & 0x3FFF for n in struct.unpack_from("<HH", body, 26))
        else:
            return None
    except struct.error:
        return None
    return width, height


def _measure_jpeg(body: bytes) -> tuple[int, int] | None:
    place = 2
    for _ in range(_SEGMENTS):
        mark, kind, length = struct.unpack_from(">BBH", body, place)
        if mark != 0xFF:
            return None
        if kind in _FRAMES:
            height, width = struct.unpack_from(">HH", body, place + 5)
            return width, height
        place += 2 + length
    return None


def is_almost_square(body: bytes) -> bool:
    """Return whether one side of a picture is at most one and a half times as long as the other."""
    size = measure_picture(body)
    return size is None or max(size) * 2 <= min(size) * 3
