"""Pictures for tests, honest and hostile ones."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image

#: What must never come out of a drawing, whatever went in.
SECRETS = (b"<script", b"<?php", b"GPSGPSGPS", b"SerialNo", b"PK\x03\x04", b"Exif", b"http://ns.adobe.com")


def save(picture: Image.Image, kind: str, **more: Any) -> bytes:
    """Return a picture as a file of a format."""
    target = io.BytesIO()
    picture.save(target, kind, **more)
    return target.getvalue()


def paint(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Return a picture with a gradient from black to red, and from black to green downwards."""
    across = Image.linear_gradient("L").rotate(90).resize((width, height))
    down = Image.linear_gradient("L").resize((width, height))
    return Image.merge("RGB", (across, down, Image.new("L", (width, height), 40))).convert(mode)


def read(data: bytes) -> Image.Image:
    """Return the picture in a file, decoded."""
    picture = Image.open(io.BytesIO(data))
    picture.load()
    return picture


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_bomb(width: int, height: int, extra: bytes = b"") -> bytes:
    """Return a small PNG of any size, all black."""
    pack = zlib.compressobj(9)
    row = bytes(1 + width // 8 + 1)
    body = b"".join(pack.compress(row) for _ in range(height)) + pack.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def gif_of_frames(count: int, width: int = 1, height: int = 1) -> bytes:
    """Return a GIF with many frames of one pixel on a screen of this size."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes([0, 0, 0, 255, 255, 255])
    control = b"!\xf9\x04\x04\x05\x00\x00\x00"
    frame = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return head + (control + frame) * count + b";"


def webp_header(width: int, height: int) -> bytes:
    """Return an extended WebP that claims a canvas and has nothing on it."""
    canvas = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + b"\x02\x00\x00\x00" + canvas
    return b"RIFF" + struct.pack("<I", len(body)) + body
