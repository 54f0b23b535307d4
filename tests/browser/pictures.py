"""``make screens``: a picture of every screen, wide and light, and of a phone in the dark, for docs/screens.

``python -m tests.browser.pictures NAME …`` draws some of them.

Pictures of entries come from their own sites in life; here each is replaced by a drawn one, as nothing is
fetched from outside.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import shutil
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from playwright.sync_api import BrowserContext, Route, sync_playwright

from app import clock, embedded
from app.bootstrap import services as bootstrap
from app.config import Settings
from tests.browser.conftest import log_in, serve
from tests.browser.screens import SCREENS
from tests.support import demo

FOLDER = Path(__file__).resolve().parents[2] / "docs/screens"
LOOKS: dict[str, dict[str, Any]] = {
    "": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "-phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "dark",
        "has_touch": True,
        "is_mobile": True,
    },
}
#: A picture of a page needs no more: a third of the bytes.
COLOURS = 200


def main(names: Sequence[str] = ()) -> None:
    """Draw all of them anew, or those of these names."""
    FOLDER.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eventr-screens-")))
        running = stack.enter_context(embedded.start_servers(Settings(home=home)))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        stack.callback(browser.close)
        stack.enter_context(clock.set_source(lambda: demo.NOW))
        for suffix, look in LOOKS.items():
            settings = dataclasses.replace(
                running.settings,
                home=home,
                mongodb_name=f"screens{suffix.replace('-', '_')}",
                secret_key="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
                session_idle=10**9,
                session_max=10**9,
            )
            services = stack.enter_context(contextlib.closing(bootstrap.build(settings)))
            services.migrate()
            filled = demo.fill(services)
            site = stack.enter_context(serve(services))
            contexts = [browser.new_context(base_url=site.url, **look) for _ in range(2)]
            _draw(contexts, filled, suffix, names)


def _draw(contexts: list[BrowserContext], filled: demo.Demo, suffix: str, names: Sequence[str]) -> None:
    pages = []
    for context in contexts:
        context.route("**/*", _answer)
        pages.append(context.new_page())
    stranger, known = pages
    log_in(known, "ann")
    for screen in SCREENS:
        if names and screen.name not in names:
            continue
        page = stranger if screen.stranger else known
        screen.show(page, filled)
        page.wait_for_load_state("networkidle")
        _keep(page.screenshot(animations="disabled", caret="hide"), FOLDER / f"{screen.name}{suffix}.png")


def _keep(shot: bytes, path: Path) -> None:
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def _answer(route: Route) -> None:
    if route.request.url.startswith("http://127.0.0.1"):
        route.continue_()
    elif route.request.resource_type == "image":
        route.fulfill(body=_drawing(route.request.url), content_type="image/png")
    else:
        route.abort()


def _drawing(url: str) -> bytes:
    """Return hills under a sky, others for each address."""
    seed = zlib.crc32(url.encode())
    image = Image.new("RGB", (960, 540), (205 + seed % 30, 222, 236))
    draw = ImageDraw.Draw(image)
    sun = 160 + seed % 600
    draw.ellipse((sun, 90, sun + 90, 180), fill=(250, 226, 170))
    for layer in range(3):
        top = 260 + 80 * layer + (seed >> layer) % 50
        points = [(x, top + (seed >> (x // 160 + layer)) % 70) for x in range(0, 1121, 160)]
        shade = 150 - 40 * layer
        draw.polygon([(0, 540), *points, (960, 540)], fill=(shade - 30, shade + 10, shade - (seed % 40)))
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
