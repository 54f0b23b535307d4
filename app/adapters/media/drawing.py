"""Draws pictures with Pillow; nothing else imports it, and only a worker's process does.

Whatever a file contains, pixels are all that leaves here: pictures are decoded and drawn anew, so that
neither metadata nor anything hidden behind the picture gets out.
"""

from __future__ import annotations

import contextlib
import io
import struct
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    IcoImagePlugin,
    Image,
    ImageCms,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from app.errors import PictureError
from app.models.media.blob import Purpose
from app.models.media.drawn import DrawingLimits, Drawn
from app.models.media.sizes import SIZES, PictureSize, compute_crop, compute_scale, compute_size
from app.models.media.sniff import SNIFF_BYTES, sniff

#: Formats by purpose: Pillow knows 43, and rare ones are where the holes were (security.md V30).
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")
_ICON_FORMATS = (*_FORMATS, "ICO", "BMP")
#: Imported by name, so that Pillow never loads the decoders of the other formats.
_PLUGINS = (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    IcoImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    WebPImagePlugin,
)
#: Bytes of one text of a PNG, and of all its texts, after decompression.
_TEXT_CHUNK, _TEXT_TOTAL = 256 << 10, 1 << 20
#: Bytes of a color profile; larger ones are ignored.
_PROFILE_MAX = 1 << 20
#: Of the drawn WebP: quality 78 with method 2 takes half the time of method 4 for 1 % more bytes.
_QUALITY, _METHOD = 78, 2
#: The sizes that move if the original does.
_MOVING = ("w640", "w1280")
#: Orientation of the file, in the words of EXIF → what turns it upright.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = (5, 6, 7, 8)
#: Modes that can be scaled as they are; pictures in other modes are converted first.
_SCALABLE = ("L", "RGB", "RGBA", "CMYK")
#: What decoders raise for damaged files, beside errors of their own.
_DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    AssertionError,
    LookupError,
    EOFError,
    ArithmeticError,
    struct.error,
    RuntimeError,
    zlib.error,
)


class _TooSlowError(Exception):
    """An animation takes more time than it may."""


class PillowDrawer:
    """Implements :class:`app.ports.PictureDrawer`; not for several threads at once."""

    def __init__(self, limits: DrawingLimits) -> None:
        self._limits = limits

    def draw(self, source: Path | bytes, purpose: Purpose) -> Drawn:
        """Draw a picture in all sizes of a purpose; see :class:`app.ports.PictureDrawer`."""
        with _open(source) as file:
            head = file.read(SNIFF_BYTES)
            file.seek(0)
            if not (sniff(head) or "").startswith("image/"):
                raise PictureError("not_a_picture")
            with self._decode(file, purpose) as picture:
                return self._draw(picture, purpose)

    @contextlib.contextmanager
    def _decode(self, file: BinaryIO, purpose: Purpose) -> Iterator[ImageFile.ImageFile]:
        """Open a picture of an allowed format whose header keeps the limits; nothing is decoded yet."""
        # Twice this value is an error, and up to it a mere warning. So half of our limit makes it strict.
        Image.MAX_IMAGE_PIXELS = self._limits.pixels // 2
        PngImagePlugin.MAX_TEXT_CHUNK, PngImagePlugin.MAX_TEXT_MEMORY = _TEXT_CHUNK, _TEXT_TOTAL
        formats = _ICON_FORMATS if purpose is Purpose.ICON else _FORMATS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damaged metadata, which is dropped, and of the half limit
            try:
                with Image.open(file, formats=formats) as picture:
                    self._check_header(picture)
                    yield picture
            except UnidentifiedImageError as e:
                raise PictureError("not_a_picture") from e
            except (Image.DecompressionBombError, MemoryError) as e:
                raise PictureError("too_many_pixels") from e
            except _DAMAGED as e:
                raise PictureError("broken_picture") from e

    def _check_header(self, picture: Image.Image) -> None:
        width, height = picture.size
        if not (0 < width <= self._limits.side and 0 < height <= self._limits.side):
            raise PictureError("too_many_pixels")
        if width * height > self._limits.pixels:
            raise PictureError("too_many_pixels")

    def _draw(self, picture: ImageFile.ImageFile, purpose: Purpose) -> Drawn:
        sizes = SIZES[purpose]
        if isinstance(picture, IcoImagePlugin.IcoImageFile):
            _choose_icon(picture, max(size.width for size in sizes))
        frames = self._count_frames(picture) if purpose is Purpose.PICTURE else 1
        upright = _get_upright_size(picture)
        whole = _load(picture, sizes)
        kind = "PNG" if purpose is Purpose.ICON else "WEBP"
        files = _draw_sizes(whole, upright, sizes, kind)
        if frames > 1:
            target = compute_size(upright, next(size for size in sizes if size.name == _MOVING[0]))
            moving = self._animate(picture, target, frames)
            files |= dict.fromkeys(_MOVING, moving) if moving else {}
            frames = frames if moving else 1
        return Drawn(
            files=files,
            type=f"image/{kind.lower()}",
            width=upright[0],
            height=upright[1],
            color=_compute_color(whole),
            frames=frames,
        )

    def _count_frames(self, picture: ImageFile.ImageFile) -> int:
        """Return the number of frames; 1 if all together have more pixels than an animation may."""
        limit = self._limits.animation_pixels // (picture.width * picture.height)
        if isinstance(picture, GifImagePlugin.GifImageFile):
            # The library would read all of them, however many there are.
            frames = count_gif_frames(picture, limit)
        else:
            frames = int(getattr(picture, "n_frames", 1))
        return frames if frames <= limit else 1

    def _animate(self, picture: ImageFile.ImageFile, size: tuple[int, int], frames: int) -> bytes | None:
        """Return a moving WebP; None if that takes too long, or if a later frame is damaged."""
        try:
            # 0 repeats without end.
            loop = int(picture.info.get("loop", 1)) & 0xFFFF
            film = _Film(picture, size, frames, self._limits.animation_seconds)
            return _encode(film, "WEBP", save_all=True, duration=film.durations, loop=loop)
        except (_TooSlowError, Image.DecompressionBombError, MemoryError, *_DAMAGED):
            return None


class _Film(Image.Image):
    """The frames of an animation, each decoded and scaled when the encoder asks for it."""

    def __init__(
        self, source: ImageFile.ImageFile, size: tuple[int, int], frames: int, seconds: float
    ) -> None:
        super().__init__()
        self._source, self._target, self._at = source, size, -1
        self._deadline = time.thread_time() + seconds
        self.n_frames = frames
        #: Milliseconds for which each frame shows; the encoder reads them as it goes.
        self.durations: list[int] = []
        self.seek(0)

    def tell(self) -> int:
        return max(self._at, 0)

    def seek(self, frame: int) -> None:
        if frame <= self._at:
            return  # at the end, the encoder goes back to the first one, which nobody needs
        if time.thread_time() > self._deadline:
            raise _TooSlowError
        self._source.seek(frame)
        self._source.load()
        shown = _turn_upright(_simplify(self._source), self._source)
        shown = shown.resize(self._target, Image.Resampling.BILINEAR, reducing_gap=2.0)
        self._at, self._mode, self._size, self.im = frame, shown.mode, shown.size, shown.im
        # Browsers, too, slow down animations that claim to have no delay.
        self.durations.append(max(int(self._source.info.get("duration", 100)), 20))


def count_gif_frames(picture: GifImagePlugin.GifImageFile, limit: int) -> int:
    """Return the number of a GIF's frames without decoding them; more than ``limit`` are not counted."""
    file = cast(BinaryIO, picture.fp)
    place = file.tell()
    try:
        file.seek(0)
        return _count_descriptors(file, limit)
    finally:
        file.seek(place)


def _count_descriptors(file: BinaryIO, limit: int) -> int:
    flags = file.read(13)[10]
    file.seek(_get_table_size(flags), io.SEEK_CUR)
    count = 0
    while count <= limit and (mark := file.read(1)):
        if mark == b",":
            count += 1
            if len(frame := file.read(9)) < 9:
                break
            file.seek(_get_table_size(frame[8]) + 1, io.SEEK_CUR)
        elif mark == b"!":
            file.seek(1, io.SEEK_CUR)
        else:
            break  # the end, or rubbish
        while size := file.read(1).rjust(1, b"\0")[0]:
            file.seek(size, io.SEEK_CUR)
    return count


def _get_table_size(flags: int) -> int:
    """Return the bytes of a color table, which the flags before it announce."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


@contextlib.contextmanager
def _open(source: Path | bytes) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    else:
        with open(source, "rb") as file:
            yield file


def _choose_icon(picture: IcoImagePlugin.IcoImageFile, wanted: int) -> None:
    """Choose the smallest picture of an icon that is large enough, else the largest."""
    found = sorted(picture.info.get("sizes", ()))
    if found:
        picture.size = next((size for size in found if min(size) >= wanted), found[-1])


def _get_orientation(picture: Image.Image) -> int:
    """Return the orientation by EXIF, 1 if it says nothing sensible."""
    with contextlib.suppress(*_DAMAGED):
        return int(picture.getexif().get(0x0112, 1))
    return 1


def _get_upright_size(picture: Image.Image) -> tuple[int, int]:
    width, height = picture.size
    return (height, width) if _get_orientation(picture) in _SIDEWAYS else (width, height)


def _load(picture: ImageFile.ImageFile, sizes: Sequence[PictureSize]) -> Image.Image:
    """Return the first frame as RGB or RGBA, upright and in sRGB, as large as the largest size demands."""
    scale = compute_scale(_get_upright_size(picture), sizes)
    target = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    # A JPEG can be decoded at a half, a quarter or an eighth of its size, in as much less time and memory.
    picture.draft("RGB", target)
    picture.load()
    profile = picture.info.get("icc_profile")
    is_plain = picture.mode in _SCALABLE and "transparency" not in picture.info
    shown = picture if is_plain else _simplify(picture)
    if target != shown.size:
        shown = shown.resize(target, Image.Resampling.LANCZOS, reducing_gap=2.0)
    shown = _turn_upright(_simplify(_convert_to_srgb(shown, profile)), picture)
    if shown is picture:
        shown = picture.copy()  # an animation goes on from here
    # Encoders write down what they find here.
    shown.info = {}
    return shown


def _simplify(picture: Image.Image) -> Image.Image:
    """Return the picture as RGB, or as RGBA if a part of it is transparent."""
    shown = picture
    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        # 16 bits a pixel; a plain conversion would cut off at 255.
        shown = picture.convert("I").point(lambda value: value / 256).convert("L")
    if shown.mode not in ("RGB", "RGBA"):
        shown = shown.convert("RGBA" if shown.has_transparency_data else "RGB")
    elif shown.mode == "RGB" and shown.has_transparency_data:
        shown = shown.convert("RGBA")
    if shown.mode == "RGBA" and shown.getchannel("A").getextrema() == (255, 255):
        shown = shown.convert("RGB")
    return shown


def _convert_to_srgb(picture: Image.Image, profile: bytes | None) -> Image.Image:
    """Apply a color profile; a damaged one, or one for another kind of picture, is ignored."""
    if not profile or len(profile) > _PROFILE_MAX or picture.mode not in _SCALABLE:
        return picture
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if "sRGB" in (source.profile.profile_description or ""):
            return picture
        mode = "RGBA" if picture.mode == "RGBA" else "RGB"
        target = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(picture, source, target, outputMode=mode) or picture
    except (ImageCms.PyCMSError, *_DAMAGED):
        return picture


def _turn_upright(picture: Image.Image, source: Image.Image) -> Image.Image:
    turn = _TURNS.get(_get_orientation(source))
    return picture if turn is None else picture.transpose(turn)


def _draw_sizes(
    whole: Image.Image, original: tuple[int, int], sizes: Sequence[PictureSize], kind: str
) -> dict[str, bytes]:
    """Return the file of each size; of a small picture, several sizes are the same file."""
    drawn: dict[tuple[object, ...], bytes] = {}
    files = {}
    for size in sizes:
        target, box = compute_size(original, size), compute_crop(whole.size, size)
        if (target, box) not in drawn:
            shown = whole
            if target != whole.size or box != (0, 0, *whole.size):
                shown = whole.resize(target, Image.Resampling.LANCZOS, box=box, reducing_gap=2.0)
            drawn[target, box] = _encode(shown, kind)
        files[size.name] = drawn[target, box]
    return files


def _encode(picture: Image.Image, kind: str, **more: Any) -> bytes:
    target = io.BytesIO()
    if kind == "PNG":
        picture.save(target, kind, optimize=True)
    else:
        picture.save(target, kind, quality=_QUALITY, method=_METHOD, **more)
    return target.getvalue()


def _compute_color(picture: Image.Image) -> str:
    """Return the mean color of the parts that aren't transparent."""
    color = cast(tuple[int, ...], picture.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0)))
    return "#{:02x}{:02x}{:02x}".format(*color[:3])
