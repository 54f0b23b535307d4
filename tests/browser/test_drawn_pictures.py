"""The files of ``make screens``: small, and without bands in photos."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.browser import pictures


def _shoot(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _draw_page() -> Image.Image:
    page = Image.new("RGB", (600, 400), "#fcfcfa")
    draw = ImageDraw.Draw(page)
    for number in range(12):
        draw.text((20, 20 + 30 * number), "Words of a page, as most of them are", fill="#1c1c1a")
    return page


def _paste_photo(page: Image.Image) -> Image.Image:
    bands = (Image.linear_gradient("L"), Image.radial_gradient("L"), Image.linear_gradient("L").rotate(90))
    page.paste(Image.merge("RGB", bands), (300, 100))
    return page


def test_a_plain_page_is_a_small_file_with_its_own_colors(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    pictures._keep(_shoot(_draw_page()), path)
    with Image.open(path) as drawn:
        assert drawn.mode == "P"
        assert drawn.convert("RGB").getpixel((5, 5)) == (252, 252, 250)


@pytest.mark.parametrize(("limit", "mode"), [(200_000, "RGB"), (1000, "P")])
def test_a_photo_keeps_its_colors_while_the_file_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, mode: str
) -> None:
    monkeypatch.setattr(pictures, "LARGE", limit)
    path = tmp_path / "a.png"
    pictures._keep(_shoot(_paste_photo(_draw_page())), path)
    with Image.open(path) as drawn:
        assert drawn.mode == mode
