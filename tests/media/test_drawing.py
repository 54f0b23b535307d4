"""Drawing of pictures: what comes out of honest, damaged and hostile files (security.md U06–U08, V30)."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import zlib
from typing import Any

import pytest
from PIL import Image, ImageCms, JpegImagePlugin, PngImagePlugin

from app.adapters.media.drawing import PillowDrawer
from app.errors import PICTURE_MESSAGES, PictureError
from app.models.media.blob import Purpose
from app.models.media.drawn import DrawingLimits, Drawn
from app.models.media.sizes import SIZES, compute_crop, compute_size
from tests.media import pictures
from tests.support import corpus

LIMITS = DrawingLimits(pixels=33_177_600, side=12_000, animation_pixels=200_000_000, animation_seconds=5.0)
ALLOWED = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")
ROWS = [row for row in corpus.rows("image") if row.path.startswith("images/")]


def draw(source: bytes, purpose: Purpose = Purpose.PICTURE, **limits: Any) -> Drawn:
    return PillowDrawer(dataclasses.replace(LIMITS, **limits)).draw(source, purpose)


def refuse(source: bytes, purpose: Purpose = Purpose.PICTURE, **limits: Any) -> str:
    with pytest.raises(PictureError) as caught:
        draw(source, purpose, **limits)
    return caught.value.word


def check_harmless(drawn: Drawn) -> None:
    for name, data in drawn.files.items():
        assert not [secret for secret in pictures.SECRETS if secret in data], name
        shown = pictures.read(data)
        assert not {"exif", "icc_profile", "xmp", "comment"} & shown.info.keys(), (name, shown.info.keys())
        assert not shown.getexif()


def list_good() -> list[corpus.Row]:
    def is_drawable(row: corpus.Row) -> bool:
        found = row.data["reference"]
        return row.path.startswith("images/ok/") and found["format"] in ALLOWED and found["decodes"]

    return [row for row in ROWS if is_drawable(row)]


@pytest.mark.parametrize("row", list_good(), ids=str)
def test_every_good_picture_of_the_corpus_is_drawn(row: corpus.Row) -> None:
    found, drawn = row.data["reference"], draw(row.read())
    assert drawn.files.keys() == {size.name for size in SIZES[Purpose.PICTURE]}
    assert {drawn.width, drawn.height} == {found["width"], found["height"]}
    check_harmless(drawn)
    for size in SIZES[Purpose.PICTURE]:
        shown = pictures.read(drawn.files[size.name])
        assert shown.format == "WEBP"
        moves = drawn.frames > 1 and size.name == "w1280"  # then it's the file of w640
        expected = SIZES[Purpose.PICTURE][2] if moves else size
        assert shown.size == compute_size((drawn.width, drawn.height), expected)
    assert len(drawn.color) == 7


def test_most_of_the_corpus_is_good() -> None:
    assert len(list_good()) > 65


@pytest.mark.parametrize("purpose", [Purpose.PICTURE, Purpose.ICON], ids=str)
@pytest.mark.parametrize("row", [r for r in ROWS if "/ok/" not in r.path], ids=str)
def test_damaged_and_hostile_pictures_are_drawn_or_refused(row: corpus.Row, purpose: Purpose) -> None:
    word = ""
    try:
        check_harmless(draw(row.read(), purpose))
    except PictureError as e:
        word = e.word
    assert word in ("", *PICTURE_MESSAGES)


@pytest.mark.parametrize("row", [r for r in ROWS if r.path.endswith(".ico") and "/ok/" in r.path], ids=str)
def test_icons_are_drawn_as_png(row: corpus.Row) -> None:
    if row.data["reference"]["format"] not in ("ICO", "PNG", "BMP"):
        return
    drawn = draw(row.read(), Purpose.ICON)
    assert drawn.files.keys() == {"i32", "i64"}
    assert drawn.type == "image/png"
    check_harmless(drawn)
    shown = {name: pictures.read(data) for name, data in drawn.files.items()}
    assert all(max(picture.size) <= int(name[1:]) for name, picture in shown.items())
    assert refuse(row.read()) in PICTURE_MESSAGES  # for any other purpose it's no picture


def write_all_formats() -> list[tuple[str, bytes]]:
    Image.init()
    found = []
    for kind in sorted(Image.SAVE):
        for mode in ("RGB", "L", "1", "P"):
            try:
                found.append((kind, pictures.save(pictures.paint(16, 16, mode), kind)))
            except Exception:  # noqa: BLE001 — it can't write this mode, or at all
                continue
            break
    return found


def test_U06_only_five_formats_are_ever_drawn() -> None:
    """The name of a file doesn't matter: the drawer never learns it."""
    found = write_all_formats()
    assert len(found) > 15
    for kind, data in found:
        if kind in (*ALLOWED, "MPO"):  # the first picture of an MPO is a JPEG
            draw(data)
        else:
            assert refuse(data) == "not_a_picture", kind


def test_V30_decoders_of_other_formats_are_not_even_loaded() -> None:
    code = (
        "import sys, io\n"
        "from app.adapters.media.drawing import PillowDrawer\n"
        "from app.models.media.drawn import DrawingLimits\n"
        "from app.models.media.blob import Purpose\n"
        "from app.errors import PictureError\n"
        "limits = DrawingLimits(pixels=10**6, side=999, animation_pixels=1, animation_seconds=1)\n"
        "drawer = PillowDrawer(limits)\n"
        "for data in (b'8BPS' + bytes(100), b'II*\\0' + bytes(100), b'\\x89PNG\\r\\n\\x1a\\n' + bytes(99)):\n"
        "    try: drawer.draw(data, Purpose.ICON)\n"
        "    except PictureError: pass\n"
        "print(sorted(m for m in sys.modules if m.startswith('PIL.') and m.endswith('ImagePlugin')))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    plugins = {name.removeprefix("PIL.").removesuffix("ImagePlugin") for name in eval(shown)}
    assert plugins <= {"Avif", "Bmp", "Gif", "Ico", "Jpeg", "Mpo", "Png", "Ppm", "Tiff", "WebP", "Dib"}


def test_only_workers_that_draw_load_the_library() -> None:
    code = (
        "import sys, app.application, app.bootstrap.services, workers.main\n"
        "from workers import registry\n"
        "registry.load_tasks()\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'PIL'])\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


# -- limits
def test_U07_a_small_file_with_a_hundred_megapixels_is_refused_by_its_header() -> None:
    bomb = pictures.png_bomb(10_000, 10_000)
    assert len(bomb) < 30_000
    assert refuse(bomb) == "too_many_pixels"


@pytest.mark.parametrize(("width", "height"), [(12_001, 1), (1, 12_001), (6000, 5530)])
def test_pixels_and_sides_are_limited(width: int, height: int) -> None:
    assert refuse(pictures.png_bomb(width, height)) == "too_many_pixels"


def test_the_limits_themselves_are_allowed() -> None:
    assert draw(pictures.png_bomb(100, 100), side=100, pixels=10_000).width == 100
    assert refuse(pictures.png_bomb(100, 101), pixels=10_000) == "too_many_pixels"


def test_a_canvas_is_refused_before_the_decoder_allocates_it() -> None:
    assert refuse(pictures.webp_header(16_383, 16_383)) == "too_many_pixels"


def test_a_gif_whose_later_frames_are_larger_than_its_screen_stands_still() -> None:
    row = next(r for r in ROWS if r.path.endswith("decompression_bomb_extents.gif"))
    assert draw(row.read()).frames == 1


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt"])
def test_packed_texts_of_a_png_are_limited(kind: bytes) -> None:
    packed = zlib.compress(bytes(50 << 20))
    text = b"a\0\0" + packed if kind == b"zTXt" else b"a\0\1\0\0\0" + packed
    word = refuse(pictures.png_bomb(8, 8, pictures.chunk(kind, text)))
    assert word == "broken_picture"


def test_a_picture_is_not_decoded_larger_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JPEG of 24 megapixels is decoded at a quarter of its width or less for an avatar."""
    seen: list[tuple[int, int]] = []
    load = JpegImagePlugin.JpegImageFile.load

    def watch(self: Any) -> Any:
        seen.append(self.size)
        return load(self)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "load", watch)
    drawn = draw(pictures.save(pictures.paint(3000, 2000), "JPEG"), Purpose.AVATAR)
    assert (drawn.width, drawn.height) == (3000, 2000)
    assert max(width for width, _ in seen) <= 750


# -- what is left out
def build_dirty() -> list[tuple[str, bytes]]:
    exif = Image.Exif()
    exif[0x010E], exif[0x8825], exif[0xA431] = "<script>alert(1)</script>", {29: "GPSGPSGPS"}, "SerialNo 17"
    picture, info = pictures.paint(64, 48), PngImagePlugin.PngInfo()
    info.add_text("Comment", "<?php system($_GET[0]);")
    info.add_itxt("XML:com.adobe.xmp", "<x:xmpmeta xmlns='http://ns.adobe.com/x'>GPSGPSGPS</x:xmpmeta>")
    xmp, tail = (
        b"<x xmlns='http://ns.adobe.com/xap/1.0/'>GPSGPSGPS</x>",
        b"<script>x</script><?php ?>PK\x03\x04",
    )
    # An icon that needs neither scaling nor conversion.
    icon, profile = pictures.paint(32, 32), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    frames = [pictures.paint(64, 48).rotate(90 * n) for n in range(3)]
    return [
        ("jpeg", pictures.save(picture, "JPEG", exif=exif, comment="<?php", xmp=xmp) + tail),
        ("png with a profile", pictures.save(icon, "PNG", pnginfo=info, icc_profile=profile)),
        ("png", pictures.save(picture, "PNG", pnginfo=info, exif=exif) + b"<html><script>" + tail),
        ("webp", pictures.save(picture, "WEBP", exif=exif, xmp=xmp) + tail),
        ("avif", pictures.save(picture, "AVIF", exif=exif, xmp=xmp)),
        ("gif", pictures.save(picture, "GIF", comment="<script>GPSGPSGPS") + tail),
        (
            "moving gif",
            pictures.save(frames[0], "GIF", save_all=True, append_images=frames[1:], comment="<?php"),
        ),
        (
            "moving webp",
            pictures.save(frames[0], "WEBP", save_all=True, append_images=frames[1:], exif=exif, xmp=xmp),
        ),
        ("gifar", pictures.save(picture, "GIF") + b"PK\x03\x04META-INF"),
        (
            "jpeg with code",
            b"\xff\xd8\xff\xfe\x00\x1e/*<script>alert(1)</script>*/" + pictures.save(picture, "JPEG")[2:],
        ),
    ]


@pytest.mark.parametrize("purpose", [Purpose.PICTURE, Purpose.AVATAR, Purpose.ICON], ids=str)
@pytest.mark.parametrize(("name", "data"), build_dirty(), ids=[name for name, _ in build_dirty()])
def test_U08_nothing_but_pixels_comes_out(name: str, data: bytes, purpose: Purpose) -> None:
    assert any(secret in data for secret in pictures.SECRETS)
    try:
        drawn = draw(data, purpose)
    except PictureError:
        assert name == "jpeg with code"
        return
    check_harmless(drawn)


# -- how it looks
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(60, 40), (1600, 1000)])
def test_pictures_are_turned_upright(orientation: int, size: tuple[int, int]) -> None:
    """A picture whose upper left corner is red and whose right side is green, turned in all ways."""
    upright = Image.new("RGB", size, "blue")
    upright.paste("red", (0, 0, size[0] // 2, size[1] // 2))
    upright.paste("lime", (size[0] // 2, 0, *size))
    back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    turned = upright.transpose(back[orientation]) if orientation in back else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    drawn = draw(pictures.save(turned, "JPEG", exif=exif, quality=95))
    assert (drawn.width, drawn.height) == size
    shown = pictures.read(drawn.files["w640"]).convert("RGB")
    width, height = shown.size
    corners = [shown.getpixel((x, y)) for x, y in ((5, 5), (width - 6, 5), (5, height - 6))]
    strongest = [max(range(3), key=lambda n: color[n]) for color in corners]  # type: ignore[index]
    assert strongest == [0, 1, 2]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((2400, 1600), {"t208": (208, 144), "t416": (416, 288), "w640": (640, 427), "w1280": (1280, 853)}),
        ((900, 3600), {"t208": (208, 144), "t416": (416, 288), "w640": (640, 2560), "w1280": (900, 3600)}),
        ((6000, 200), {"t208": (208, 144), "t416": (289, 200), "w640": (640, 21), "w1280": (1280, 43)}),
        ((100, 50), {"t208": (72, 50), "t416": (72, 50), "w640": (100, 50), "w1280": (100, 50)}),
        ((1, 1), {"t208": (1, 1), "t416": (1, 1), "w640": (1, 1), "w1280": (1, 1)}),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_sizes_are_cut_or_fitted_and_never_enlarged(
    kind: str, size: tuple[int, int], expected: dict[str, tuple[int, int]]
) -> None:
    drawn = draw(pictures.save(pictures.paint(*size), kind))
    assert {name: pictures.read(data).size for name, data in drawn.files.items()} == expected


def test_a_small_picture_is_encoded_once_for_several_sizes() -> None:
    drawn = draw(pictures.save(pictures.paint(300, 200), "PNG"))
    assert drawn.files["w640"] is drawn.files["w1280"]


def test_a_tall_picture_is_cut_above_its_middle() -> None:
    box = compute_crop((900, 3600), SIZES[Purpose.PICTURE][0])
    assert (box[0], box[2]) == (0, 900)
    assert box[1] + (3600 - box[3]) == 3600 - (box[3] - box[1])
    assert box[1] < (3600 - box[3]) / 2


def test_avatars_are_squares() -> None:
    drawn = draw(pictures.save(pictures.paint(400, 300), "JPEG"), Purpose.AVATAR)
    sizes = {name: pictures.read(data).size for name, data in drawn.files.items()}
    assert sizes == {"a48": (48, 48), "a96": (96, 96), "a192": (192, 192)}


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16"])
def test_colors_survive_whatever_the_mode(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    if mode == "PA":
        mode, source = "P", pictures.paint(40, 40, "RGBA")
        source.putalpha(Image.new("L", (40, 40), 128))
        data = pictures.save(source.quantize(64), "PNG")
    elif mode == "I;16":
        data = pictures.save(Image.new("I;16", (40, 40), 40_000), kind)
    else:
        data = pictures.save(Image.new("RGB", (40, 40), (200, 200, 200)).convert(mode), kind)
    drawn = draw(data)
    assert pictures.read(drawn.files["w640"]).mode in ("RGB", "RGBA")
    if mode in ("L", "LA", "RGB", "RGBA", "CMYK"):
        assert all(abs(int(drawn.color[n : n + 2], 16) - 200) < 6 for n in (1, 3, 5))
    if mode == "I;16":
        assert abs(int(drawn.color[1:3], 16) - 156) < 4


def test_transparency_stays_and_does_not_count_for_the_color() -> None:
    source = Image.new("RGBA", (80, 80), (0, 0, 0, 0))
    source.paste((250, 10, 10, 255), (0, 0, 40, 80))
    drawn = draw(pictures.save(source, "PNG"))
    shown = pictures.read(drawn.files["w640"])
    assert shown.mode == "RGBA"
    assert shown.getpixel((70, 40))[3] == 0  # type: ignore[index]
    assert drawn.color.startswith(("#f", "#e"))


def test_an_opaque_alpha_channel_is_dropped() -> None:
    drawn = draw(pictures.save(Image.new("RGBA", (20, 20), (9, 9, 9, 255)), "PNG"))
    assert pictures.read(drawn.files["w640"]).mode == "RGB"


def test_other_color_spaces_become_srgb() -> None:
    """A profile that swaps red and green must have its effect, and must not be handed on."""
    profile = build_swapping_profile()
    drawn = draw(pictures.save(Image.new("RGB", (30, 30), (220, 20, 20)), "PNG", icc_profile=profile))
    assert int(drawn.color[3:5], 16) > int(drawn.color[1:3], 16)
    check_harmless(drawn)


def build_swapping_profile() -> bytes:
    """Return sRGB with the places of its red and green primaries exchanged."""
    data = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = data.replace(b"rXYZ", b"xXYZ").replace(b"gXYZ", b"rXYZ").replace(b"xXYZ", b"gXYZ")
    return swapped.replace("sRGB".encode("utf-16-be"), "zRGB".encode("utf-16-be")).replace(
        b"sRGB built", b"zRGB built"
    )


@pytest.mark.parametrize("profile", [b"rubbish", b"\0" * 200, bytes(2 << 20)])
def test_a_damaged_color_profile_is_ignored(profile: bytes) -> None:
    assert draw(pictures.save(pictures.paint(30, 30), "JPEG", icc_profile=profile)).width == 30


# -- animations
def build_animation(kind: str, frames: int = 4, size: tuple[int, int] = (64, 48)) -> bytes:
    shown = [Image.new("RGB", size, (60 * n % 256, 20, 255 - 50 * n % 256)) for n in range(frames)]
    return pictures.save(
        shown[0], kind, save_all=True, append_images=shown[1:], duration=[100, 200] * (frames // 2)
    )


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "AVIF"])
def test_animations_move_in_the_text_and_stand_still_in_lists(kind: str) -> None:
    drawn = draw(build_animation(kind))
    assert drawn.frames == 4
    shown = Image.open(io.BytesIO(drawn.files["w640"]))
    assert getattr(shown, "n_frames", 1) == 4
    assert drawn.files["w1280"] is drawn.files["w640"]
    assert getattr(Image.open(io.BytesIO(drawn.files["t416"])), "n_frames", 1) == 1
    durations = []
    for frame in range(4):
        shown.seek(frame)
        shown.load()
        durations.append(shown.info["duration"])
    assert durations == [100, 200, 100, 200]


def test_a_large_animation_is_scaled_down() -> None:
    drawn = draw(build_animation("GIF", 2, (1000, 500)))
    assert Image.open(io.BytesIO(drawn.files["w640"])).size == (640, 320)


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (build_animation("GIF"), {"animation_pixels": 64 * 48 * 3}),
        (build_animation("WEBP"), {"animation_pixels": 64 * 48 * 3}),
        (build_animation("GIF"), {"animation_seconds": 0.0}),
        (pictures.gif_of_frames(10_000, 1000, 1000), {}),
    ],
    ids=["pixels of a gif", "pixels of a webp", "seconds", "ten thousand frames"],
)
def test_an_animation_beyond_the_limits_stands_still(data: bytes, limits: dict[str, float]) -> None:
    drawn = draw(data, **limits)
    assert drawn.frames == 1
    assert getattr(Image.open(io.BytesIO(drawn.files["w640"])), "n_frames", 1) == 1


def test_an_animation_within_the_limit_moves() -> None:
    assert draw(build_animation("GIF"), animation_pixels=64 * 48 * 4).frames == 4


def spoil(data: bytes, start: float) -> bytes:
    """Return a file whose picture data is rubbish from this share of the file on."""
    begin = max(data.index(b"mdat") + 4, int(len(data) * start))
    return data[:begin] + b"\xff" * (len(data) - begin)


def test_a_damaged_avif_is_a_damaged_picture() -> None:
    """Its decoder raises errors of another kind."""
    assert refuse(spoil(pictures.save(pictures.paint(64, 48), "AVIF"), 0)) == "broken_picture"
    drawn = draw(spoil(build_animation("AVIF", 8, (128, 96)), 0.9))
    assert drawn.frames == 1


def test_an_animation_that_breaks_off_stands_still() -> None:
    whole = build_animation("GIF")
    assert draw(whole[: len(whole) * 3 // 4]).frames in (1, 2, 3)


def test_files_are_drawn_from_a_path(tmp_path: Any) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(pictures.save(pictures.paint(10, 10), "PNG"))
    assert PillowDrawer(LIMITS).draw(path, Purpose.ICON).width == 10
