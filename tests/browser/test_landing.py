"""The landing page as browsers show it: one picture for each screen and scheme, and nothing moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Site

Visit = Callable[..., Page]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 720, 1024, 1440])
def test_one_picture_is_loaded_and_has_its_place(site: Site, visit: Visit, width: int, scheme: str) -> None:
    page = visit(size=(width, 900), scheme=scheme)
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url) if "/product" in request.url else None)
    page.goto("/", wait_until="networkidle")
    name = f"product-{'phone-' if width < 600 else ''}{scheme}"
    assert [url.rpartition("/")[2].partition(".")[0] for url in seen] == [name]
    image = page.locator("picture img")
    shown = image.evaluate("(img) => [img.naturalWidth / img.naturalHeight, img.width / img.height]")
    assert shown[0] == pytest.approx(shown[1], rel=0.02)
    # The first sight says what it is and shows the product.
    box = image.bounding_box()
    assert box is not None
    assert box["y"] < 620
    moved = page.evaluate(
        "() => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().length))"
        ".observe({ type: 'layout-shift', buffered: true })"
        " || requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
    )
    assert moved == 0
