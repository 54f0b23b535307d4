"""``python -m tests.browser.icons``: draw the application's icons from ``static/img/icon.svg``.

A test draws them again, so none can differ from the logo.
"""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import CHROMIUM_ARGS

FOLDER = Path(__file__).resolve().parents[2] / "static/img"
#: File → pixels, and what is drawn: the tile with round corners, or the whole square.
TILE, SQUARE = "tile", "square"
ICONS: dict[str, tuple[int, str]] = {
    "icon-192.png": (192, TILE),
    "icon-512.png": (512, TILE),
    "icon-maskable.png": (512, SQUARE),
    # iOS rounds the corners itself, and shows transparent ones in black.
    "apple-touch-icon.png": (180, SQUARE),
}
#: Shortcuts of the application: file → symbol of the sprite.
SHORTCUTS = {"shortcut-read.png": "book", "shortcut-add.png": "plus", "shortcut-search.png": "search"}
FAVICON_SIZES = (16, 32, 48)
#: Systems cut a square into any shape; the drawing stays in the circle of 40 % around its center.
_SAFE = "translate(16 16) scale(.86) translate(-16 -16)"


def draw_all(browser: Browser) -> dict[str, bytes]:
    """Return all files by name."""
    files = {name: _shrink(_draw(browser, size, _read_icon(kind))) for name, (size, kind) in ICONS.items()}
    for name, symbol in SHORTCUTS.items():
        files[name] = _shrink(_draw(browser, 96, _build_shortcut(symbol)))
    sizes = [Image.open(io.BytesIO(_draw(browser, size, _read_icon(TILE)))) for size in FAVICON_SIZES]
    out = io.BytesIO()
    sizes[-1].save(
        out,
        "ICO",
        sizes=[(size, size) for size in FAVICON_SIZES],
        append_images=sizes[:-1],
        bitmap_format="png",
    )
    return {**files, "favicon.ico": out.getvalue()}


def _read_icon(kind: str) -> str:
    source = (FOLDER / "icon.svg").read_text("utf-8")
    if kind == TILE:
        return source
    square = re.sub(r' rx="7"', "", source)
    return re.sub(r"(<g .*</g><circle[^>]*>)", rf'<g transform="{_SAFE}">\1</g>', square)


def _build_shortcut(symbol: str) -> str:
    sprite = (FOLDER / "sprite.svg").read_text("utf-8")
    found = re.search(rf'<symbol id="{symbol}" viewBox="0 0 24 24">(.*)</symbol>', sprite)
    assert found is not None
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
        '<circle cx="12" cy="12" r="12" fill="#0b57b7"/>'
        '<g transform="translate(5.4 5.4) scale(.55)" fill="none" stroke="#fff" stroke-width="2.2"'
        f' stroke-linecap="round" stroke-linejoin="round" color="#fff">{found[1]}</g></svg>'
    )


def _draw(browser: Browser, size: int, source: str) -> bytes:
    page = browser.new_page(viewport={"width": size, "height": size})
    source = source.replace("<svg ", f'<svg width="{size}" height="{size}" style="display:block" ', 1)
    page.set_content(f'<body style="margin:0">{source}</body>')
    shot = page.screenshot(omit_background=True)
    page.close()
    return shot


def _shrink(shot: bytes) -> bytes:
    out = io.BytesIO()
    Image.open(io.BytesIO(shot)).convert("RGBA").quantize(64, method=Image.Quantize.FASTOCTREE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def main() -> None:
    """Write all files."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_find_chromium(), args=CHROMIUM_ARGS)
        for name, content in draw_all(browser).items():
            (FOLDER / name).write_bytes(content)
        browser.close()


def _find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


if __name__ == "__main__":
    main()
