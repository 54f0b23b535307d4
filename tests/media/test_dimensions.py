from __future__ import annotations

import io

import pytest
from PIL import Image

from app.models.media.dimensions import is_almost_square, measure_picture


def draw(form: str, width: int, height: int, **options: object) -> bytes:
    body = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(body, form, **options)
    return body.getvalue()


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
@pytest.mark.parametrize("size", [(64, 64), (300, 17), (1, 999)])
def test_the_header_tells_the_size(form: str, size: tuple[int, int]) -> None:
    assert measure_picture(draw(form, *size)) == size


def test_a_jpeg_with_much_before_its_frame_is_measured() -> None:
    exif = Image.Exif()
    exif[0x010E] = "x" * 60_000
    assert measure_picture(draw("JPEG", 40, 30, exif=exif, progressive=True)) == (40, 30)


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_a_header_that_is_cut_tells_nothing(form: str) -> None:
    whole = draw(form, 64, 48)
    for end in range(0, 24):
        assert measure_picture(whole[:end]) in (None, (64, 48))


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xd8", b"\xff\xd8" + b"\xff\xe0\0\0" * 100, b"RIFFxxxxWEBPVP8L", b"BM" * 30]
)
def test_anything_else_is_no_picture_of_known_size(body: bytes) -> None:
    assert measure_picture(body) is None


@pytest.mark.parametrize(
    ("size", "fits"), [((64, 64), True), ((60, 40), True), ((144, 40), False), ((20, 90), False)]
)
def test_a_wide_logo_is_no_icon(size: tuple[int, int], fits: bool) -> None:
    assert is_almost_square(draw("PNG", *size)) is fits
