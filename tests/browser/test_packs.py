"""Choosing feeds of a topic, and how boxes to tick look in each theme."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Site
from tests.support.reader import add_user

Visit = Callable[..., Page]
#: What is drawn of a box, and what is behind it.
_LOOK = """(box) => {
  const own = getComputedStyle(box);
  let behind = box.parentElement;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  return [own.borderTopColor, own.backgroundColor, getComputedStyle(behind).backgroundColor, own.appearance];
}"""


def test_the_name_of_a_feed_leads_to_its_site_and_the_rest_of_the_row_ticks_it(
    site: Site, visit: Visit
) -> None:
    ann = add_user(site.services)
    site.services.subscriptions.subscribe(ann, "https://www.nasa.gov/feed/")
    page = visit(login="ann")
    page.context.route("https://**", lambda route: route.fulfill(body="A site"))
    page.goto("/packs/science")
    button = page.locator(".start .primary")
    total = page.get_by_role("checkbox", name=re.compile(".")).count() - 1
    expect(button).to_have_text(f"Subscribe to {total} feeds")
    box = page.get_by_role("checkbox", name="Quanta Magazine", exact=True)
    expect(box).to_have_accessible_description(re.compile("Mathematics"))
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Quanta Magazine").click()
    assert opened.value.url == "https://www.quantamagazine.org/"
    assert opened.value.evaluate("window.opener") is None
    expect(box).to_be_checked()
    page.get_by_text("Mathematics, physics").click()
    expect(box).not_to_be_checked()
    expect(button).to_have_text(f"Subscribe to {total - 1} feeds")
    expect(page.get_by_role("checkbox", name="NASA", exact=True)).to_have_count(0)
    whole = page.locator("[data-whole]")
    expect(whole).to_have_js_property("indeterminate", True)
    whole.check()
    expect(button).to_have_text(f"Subscribe to {total} feeds")


@pytest.mark.parametrize("theme", ["", "light", "sepia", "dark", "black"])
def test_an_empty_box_looks_enabled_in_each_theme(site: Site, visit: Visit, theme: str) -> None:
    """Contrast of its border to what is inside and around: at least 3 (WCAG 1.4.11)."""
    add_user(site.services)
    page = visit(login="ann")
    for path, scheme in itertools.product(("/packs/science", "/settings/sharing"), ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.goto(path)
        page.evaluate("(theme) => theme && (document.documentElement.dataset.theme = theme)", theme)
        boxes = page.locator("main input:is([type=checkbox], [type=radio]):not([role])")
        box = boxes.locator("visible=true").last
        box.check()
        before = box.bounding_box()
        # Of a group of radio buttons, none is chosen then.
        boxes.evaluate_all("(boxes) => boxes.forEach((box) => { box.checked = false; })")
        border, inside, behind, drawn = box.evaluate(_LOOK)
        assert drawn == "none"
        assert min(_contrast(border, inside), _contrast(border, behind)) >= 3, (path, border, inside, behind)
        assert box.bounding_box() == before
        _disable(box)
        faint, fill, _, _ = box.evaluate(_LOOK)
        assert _contrast(faint, fill) < 2, "disabled"


def _disable(box: Locator) -> None:
    box.evaluate("(box) => { box.disabled = true; }")


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two opaque colours, from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
