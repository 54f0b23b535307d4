"""The media type of a file, from its first bytes: neither its name nor what a server says about it counts."""

from __future__ import annotations

#: Bytes that :func:`sniff` needs to see.
SNIFF_BYTES = 64
#: For files of which nothing is known; browsers download them.
UNKNOWN_TYPE = "application/octet-stream"

#: Types that Eventr draws. Decoders of rarer formats have had holes (security.md V30).
PICTURE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/avif"})
#: Types that Eventr draws for icons.
ICON_TYPES = PICTURE_TYPES | {"image/vnd.microsoft.icon", "image/bmp"}

#: Offset, bytes at that offset, type. The first match counts.
_MARKS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"\x00\x00\x01\x00", "image/vnd.microsoft.icon"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"8BPS", "image/vnd.adobe.photoshop"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "application/ogg"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)
#: Brands of ISO media files, and what they are.
_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
}
_RIFF_KINDS = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
#: Sizes of the header that follows the file header of a BMP; "BM" alone begins many texts.
_BMP_HEADERS = frozenset({12, 40, 52, 56, 64, 108, 124})


def sniff(head: bytes) -> str | None:
    """Return the media type of a file that begins with these bytes; None if it is unknown.

    Markup has no type here: HTML and SVG run scripts, so they are never anything but a download.
    """
    for offset, mark, kind in _MARKS:
        if head.startswith(mark, offset):
            return kind
    if head[:4] == b"RIFF":
        return _RIFF_KINDS.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _sniff_iso_media(head)
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "image/bmp"
    return None


def _sniff_iso_media(head: bytes) -> str:
    """Return the type by the main brand, or for a general one by the compatible brands."""
    end = min(int.from_bytes(head[:4], "big"), SNIFF_BYTES, len(head))
    brands = [head[8:12], *(head[n : n + 4] for n in range(16, end - 3, 4))]
    if brands[0] in (b"mif1", b"msf1") and (b"avif" in brands or b"avis" in brands):
        return "image/avif"
    return _BRANDS.get(brands[0], "video/mp4")
