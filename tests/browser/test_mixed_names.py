"""Names with letters of both directions: where they don't fit, they are cut where they end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import WIDE, Site
from tests.browser.test_list_looks import publish
from tests.support.reader import add_user, rss

Visit = Callable[..., Page]
LATIN_FIRST = "BBC News بہار و خزاں اردو کی خبریں اور تبصرے آج کا"
ARABIC_FIRST = "أخبار العالم from all over the world, and in many more words than one line has"
SHORT = "BBC عربي"
#: By letter whether it is to be seen inside the box: in its first line, between its sides.
_SEEN = """(box) => {
  const text = document.createTreeWalker(box, NodeFilter.SHOW_TEXT).nextNode();
  const own = box.getBoundingClientRect();
  return [...text.data].map((letter, at) => {
    const range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    const { left, right, top, bottom } = range.getBoundingClientRect();
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    return letter === " " || (x > own.left && x < own.right && y > own.top && y < own.bottom);
  });
}"""


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


def seen(box: Locator) -> str:
    """Return the part of a name that is to be seen, which has to be its beginning."""
    name, shown = box.inner_text(), box.evaluate(_SEEN)
    end = shown.index(False) if False in shown else len(name)
    while end and name[end - 1] == " ":
        end -= 1
    assert not any(on for on, letter in zip(shown[end:], name[end:], strict=True) if letter != " "), name
    return name[:end]


def has_ellipsis(box: Locator) -> bool:
    """Return whether lines follow the one that is to be seen, which then ends with an ellipsis."""
    return bool(box.evaluate("(e) => e.scrollHeight > e.clientHeight * 1.5"))


@pytest.mark.parametrize("language", ["en", "ar"])
@pytest.mark.parametrize("name", [LATIN_FIRST, ARABIC_FIRST])
def test_a_name_of_both_directions_is_cut_at_its_end(
    site: Site, visit: Visit, ann: Actor, name: str, language: str
) -> None:
    feed_id = publish(site, ann, rss(name, [("Entry", "Text of it")]))
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", language=language, size=WIDE)
    boxes = [page.locator(f'#tree a[data-feed="{feed_id}"] > span')]
    page.keyboard.press("Control+k")
    expect(page.locator("#jump li").first).to_be_visible()
    page.evaluate("document.getElementById('jump').style.inlineSize = '320px'")
    page.locator("#jump input").fill(name[:12])
    boxes.append(page.locator("#jump li > span").first)
    for box in boxes:
        assert name.startswith(seen(box)), seen(box)
        assert 8 <= len(seen(box)) < len(name)
        assert has_ellipsis(box)
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 700})
    row = page.locator("#rows .row .src")
    assert 8 <= len(seen(row)) < len(name)
    assert has_ellipsis(row)
    page.goto(f"/read/feed/{feed_id}")
    head = page.locator(".pane-list h1")
    assert 8 <= len(seen(head)) < len(name)
    assert has_ellipsis(head)


@pytest.mark.parametrize("language", ["en", "ar"])
def test_a_short_name_of_both_directions_stands_where_others_do(
    site: Site, visit: Visit, ann: Actor, language: str
) -> None:
    publish(site, ann, rss(SHORT, [("Entry", "Text of it")]))
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", language=language)
    box = page.locator("#tree a[data-feed] > span")
    assert seen(box) == SHORT
    assert not has_ellipsis(box)
    gap = box.evaluate("""(e) => {
      const range = document.createRange();
      range.selectNodeContents(e);
      const [own, text] = [e.getBoundingClientRect(), range.getBoundingClientRect()];
      return document.dir === "rtl" ? own.right - text.right : text.left - own.left;
    }""")
    assert abs(gap) < 1
