"""What is not asked again is found all the same when it changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import axe
from tests.browser.axe import RULES, Contrast

_PAGE = """<!doctype html><html lang="en"><title>A page</title>
<body style="background: #fff; color: #222"><main><h1>A page</h1>
<p id="text">Some words</p><p style="color: #aaa" hidden id="pale">Pale</p>
<button style="color: #aaa; background: #fff; font-size: 16px" disabled>Off</button>
<label style="color: #bbb"><input disabled> Off too</label>
<div id="below" style="position: absolute; inset: 0; z-index: -1"></div>
</main>"""


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    page.set_content(_PAGE)
    page.evaluate(axe.AXE)
    yield page
    context.close()


@pytest.mark.parametrize(
    "change",
    [
        "document.getElementById('text').style.color = '#aaa'",
        "document.getElementById('text').style.webkitTextFillColor = '#aaa'",
        "document.getElementById('pale').hidden = false",
        "document.getElementById('text').style.opacity = 0.4",
        "document.querySelector('main').style.background = '#333'",
        "document.getElementById('below').style.background = '#333'",
        "document.querySelector('button').disabled = false",
        "document.querySelector('input').disabled = false",
    ],
)
def test_colours_that_change_are_asked_of_again(page: Page, change: str) -> None:
    contrast = Contrast()
    assert list(contrast.faults(page)) == []
    page.evaluate("() => { window.ask = axe.run; axe.run = () => { throw Error('asked again'); }; }")
    assert list(contrast.faults(page)) == []
    page.evaluate("() => { axe.run = window.ask; }")
    page.evaluate(f"() => {{ {change}; }}")
    assert [fault.split()[0] for fault in contrast.faults(page)] == [axe.CONTRAST]
    assert [fault.split()[0] for fault in contrast.faults(page)] == [axe.CONTRAST], "what failed is not known"


@pytest.mark.parametrize(
    ("style", "inner", "is_asked"),
    [
        ("", "Words", False),
        ("color: #767676", "Words", False),  # 4.54
        ("color: #777", "Words", True),  # 4.48
        ("color: #fff; background: #767676", "Words", False),
        ("color: #fff; background: #777", "Words", True),
        ("color: #777; font-size: 30px", "Words", True),  # large: axe knows
        ("color: rgba(0, 0, 0, 0.9)", "Words", True),
        ("opacity: 0.9", "<b>Words</b>", True),
        ("filter: brightness(0.9)", "Words", True),
        ("mix-blend-mode: multiply", "Words", True),
        ("text-shadow: 0 0 1px red", "Words", True),
        ("-webkit-text-stroke: 1px red", "Words", True),
        ("-webkit-text-fill-color: #aaa", "Words", True),
        ("background: rgba(0, 0, 0, 0.1)", "Words", True),
        ("background: linear-gradient(#fff, #eee)", "Words", True),
        ("background-clip: text", "Words", True),
        ("position: relative", "Words<i style='position: absolute; inset: 0; background: #fff'></i>", True),
        ("position: relative", "Words<svg style='position: absolute; inset: 0; width: 100%'></svg>", True),
        ("position: absolute; left: -99px; width: 50px", "Words", True),
    ],
)
def test_axe_is_asked_of_all_but_plain_legible_colours(
    page: Page, style: str, inner: str, is_asked: bool
) -> None:
    page.evaluate(
        """([style, html]) => {
          document.querySelector("main").innerHTML = `<h1>A</h1><div style="${style}">${html}</div>`;
          window.asked = false;
          window.ask = axe.run;
          axe.run = (...given) => { window.asked = true; return window.ask(...given); };
        }""",
        [style, inner],
    )
    list(Contrast().faults(page))
    assert page.evaluate("window.asked") is is_asked


def test_a_text_that_axe_leaves_out_hides_no_other_of_its_colours(page: Page) -> None:
    """Axe says nothing of a single character."""
    html = "<h1>A page</h1><p style='color: #aaa'>×</p><p style='color: #aaa'>Pale words</p>"
    page.evaluate("(html) => { document.querySelector('main').innerHTML = html; }", html)
    assert [fault.split()[0] for fault in Contrast().faults(page)] == [axe.CONTRAST]


@pytest.mark.parametrize(
    ("style", "found"),
    [
        ("width: 30px; height: 30px", []),
        ("width: 10px; height: 10px; margin: 0 20px", []),
        ("width: 10px; height: 40px; margin: 0", ["target-size"]),
        ("width: 40px; height: 10px; display: block; margin: 2px", ["target-size"]),
        ("width: 40px; height: 40px; margin: 0 -15px", ["target-size"]),
    ],
)
def test_targets_that_are_too_small_are_found(page: Page, style: str, found: list[str]) -> None:
    button = f'<button style="border: 0; padding: 0; {style}" aria-label="Do"></button>'
    page.evaluate("(html) => { document.querySelector('main').innerHTML = html; }", "<h1>A</h1>" + button * 3)
    assert [fault.split()[0] for fault in axe.faults(page, RULES)] == found


_ALONE = """(options) => axe.run(options).then((found) => found.violations.map((each) => each.id))"""
_SMALL = "position: absolute; border: 0; padding: 0; width: {}px; height: 10px; left: {}px; top: {}px"


@pytest.mark.parametrize(
    ("second", "is_found"),
    [
        ((10, 20, 30), True),  # the circle of the other small one
        ((10, 26, 30), False),
        ((10, 16, 44), True),
        ((10, 18, 46), False),
        ((40, 15, 30), True),  # the middles are further apart, and the other one is in the circle
        ((40, 40, 30), False),
        ((200, 12, 40), True),  # wide, but small all the same
        ((200, 12, 50), False),
    ],
)
def test_axe_is_asked_of_small_targets_that_are_close(
    page: Page, second: tuple[int, int, int], is_found: bool
) -> None:
    styles = (_SMALL.format(10, 0, 30), _SMALL.format(*second))
    buttons = "".join(f'<button style="{style}" aria-label="Do"></button>' for style in styles)
    page.evaluate("(html) => { document.querySelector('main').innerHTML = html; }", f"<h1>A</h1>{buttons}")
    options = {"runOnly": ["target-size"]}
    found = [fault.split()[0] for fault in axe.faults(page, options)]
    assert found == page.evaluate(_ALONE, options)
    assert bool(found) is is_found


@pytest.mark.parametrize(
    ("html", "is_found"),
    [
        ("{}", True),
        ("<a>No link</a>{}", True),
        ("<button disabled>Off</button>{}", True),
        ("<a href='/' hidden>Hidden</a>{}", True),
        ("<a href='/' tabindex='-1'>Left out</a>{}", True),
        ("<a href='/'>Link</a>{}", False),
        ("<b tabindex='0'>Part</b>{}", False),
    ],
)
@pytest.mark.parametrize("style", ["overflow: auto", "overflow-y: scroll", "overflow: hidden"])
def test_axe_is_asked_of_what_scrolls_and_takes_no_focus(
    page: Page, html: str, is_found: bool, style: str
) -> None:
    rolled = html.format("<p style='margin-top: 400px'>Low</p>")
    page.evaluate(
        "(html) => { document.getElementById('text').outerHTML = html; }",
        f"<div style='height: 50px; {style}'>{rolled}</div>",
    )
    options = {"runOnly": ["scrollable-region-focusable"]}
    found = [fault.split()[0] for fault in axe.faults(page, options)]
    assert found == page.evaluate(_ALONE, options)
    assert bool(found) is (is_found and "hidden" not in style)


_PLAIN = "color: #446; text-decoration: none"


@pytest.mark.parametrize(
    ("html", "is_found"),
    [
        (f'Words <a href="/" style="{_PLAIN}">a link</a> and words', True),
        (f'Words <a href="/" style="{_PLAIN}; display: inline-flex">a link</a> and words', None),
        (f'Words <em><a href="/" style="{_PLAIN}">a link</a></em>', None),
        (f'Words <span role="link" tabindex="0" style="{_PLAIN}">a link</span> and words', None),
        ('Words <a href="/">a link</a>', False),
        (f'<a href="/" style="{_PLAIN}">a link</a> <a href="/" style="{_PLAIN}">another</a>', False),
        (f'Words <a href="/" style="{_PLAIN}; display: block">a link</a>', False),
    ],
)
def test_axe_is_asked_of_links_wherever_it_would_find_one(
    page: Page, html: str, is_found: bool | None
) -> None:
    """None: up to axe."""
    page.evaluate("(html) => { document.getElementById('text').innerHTML = html; }", html)
    options = {"runOnly": [axe.LINKS]}
    found = [fault.split()[0] for fault in axe.faults(page, options)]
    assert found == page.evaluate(_ALONE, options)
    assert is_found in (bool(found), None)


@pytest.mark.parametrize(
    "change",
    [
        "document.getElementById('pale').hidden = false",
        "document.getElementById('text').style.visibility = 'hidden'",
        "document.getElementById('text').textContent += '.'",
        "document.querySelector('input').setAttribute('aria-label', 'Off')",
        "document.styleSheets[0].insertRule('#text { clip-path: inset(50%); }')",
        "document.styleSheets[0].insertRule('#text { position: absolute; left: -9999px; }')",
        "document.styleSheets[0].insertRule('#text { display: inline; }')",
    ],
)
def test_a_document_that_shows_something_else_is_another(page: Page, change: str) -> None:
    page.evaluate("() => { document.head.append(document.createElement('style')); }")
    before = axe.shown(page)
    assert axe.shown(page) == before
    page.evaluate(f"() => {{ {change}; }}")
    assert axe.shown(page) != before
