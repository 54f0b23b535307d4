"""Drawings: inline SVG is a picture of its own, without anything that runs or loads."""

from __future__ import annotations

import base64
import re

import pytest

from app.feeds.html import drawings
from app.feeds.html.sanitize import sanitize as clean
from tests.feeds.test_sanitize import find_live_parts

BASE = "https://site.example/p"


def draw(markup: str) -> tuple[str, str, str]:
    """Return the drawing, its text and its other attributes, as shown."""
    result = clean(f"<p>a</p>{markup}<p>b</p>", BASE)
    assert clean(result, BASE) == result
    found = re.fullmatch(r'<p>a</p><img [^>]*src="([^"]*)" alt="([^"]*)"([^>]*)><p>b</p>', result)
    assert found, result
    assert find_live_parts(found[1]) == []
    return base64.b64decode(found[1].removeprefix(drawings.PREFIX)).decode(), found[2], found[3].strip()


@pytest.mark.parametrize(
    ("inside", "drawn"),
    [
        ("<rect x=1 y=2 width=9 height=8 fill=red />",
         '<rect fill="red" height="8" width="9" x="1" y="2"></rect>'),
        ("<g style='stroke:#000; fill : none !important; behavior:url(x)'><path d='M0 0L9 9'/></g>",
         '<g fill="none" stroke="#000"><path d="M0 0L9 9"></path></g>'),
        ("<text x=5>a &lt; <tspan>b</tspan></text>", '<text x="5">a &lt; <tspan>b</tspan></text>'),
        ("<a href='javascript:x'><circle r=4 /></a>", '<circle r="4"></circle>'),
        ("<foreignObject x=2 y=2 width=4 height=4><div>Label</div></foreignObject><line/>",
         '<text dominant-baseline="middle" text-anchor="middle" x="4" y="4">Label</text><line></line>'),
        ("<defs><path id=p d='M1 1'/></defs><use xlink:href='#p' x=1 /><use href='#q'/>",
         '<defs><path d="M1 1" id="p"></path></defs><use href="#p" x="1"></use>'),
        ("<lineargradient id=g xlink:href='#h'/><rect fill='url(#g)' stroke='url(http://e.org/)'/>",
         '<linearGradient href="#h" id="g"></linearGradient><rect fill="url(#g)"></rect>'),
        ("<style>@import 'x'; .a{fill:red}@media print{.a{fill:blue}}</style><path class=a />",
         '<style>.a{fill:red}</style><path class="a"></path>'),
        ("<style>.a{fill:url(//e.org/x)}</style><path/>", "<path></path>"),
        ("<image href='data:image/png;base64,AA'/><image href='http://e.org/x.png'/>",
         '<image href="data:image/png;base64,AA"></image>'),
    ],
)  # fmt: skip
def test_a_drawing_keeps_its_shapes(inside: str, drawn: str) -> None:
    drawing, _, size = draw(f"<svg width=80px height=60 onload=x>{inside}</svg>")
    start = '<svg xmlns="http://www.w3.org/2000/svg" height="60" viewBox="0 0 80 60" width="80px">'
    assert drawing == f"{start}{drawn}</svg>"
    assert size == 'width="80" height="60"'


@pytest.mark.parametrize(
    ("given", "inside", "label"),
    [
        ("aria-label='Sales &amp; costs'", "<path/>", "Sales &amp; costs"),
        ("", "<title>Sales\n in 2024</title><desc>no</desc><path/>", "Sales in 2024"),
        ("", "<desc>Sales</desc><path/>", "Sales"),
        ("width=9 height=9", "<title>Done</title><path/>", "Done"),
        ("", "<path/>", ""),
    ],
)
def test_a_drawing_says_what_it_shows(given: str, inside: str, label: str) -> None:
    assert draw(f"<svg viewbox='0 0 99 99' {given}>{inside}</svg>")[1] == label


@pytest.mark.parametrize(
    "markup",
    [
        "<svg aria-hidden=true width=99 height=99><path/></svg>",
        "<svg viewBox='0 0 24 24'><path/></svg>",
        "<svg width=1em height=1em><path/></svg>",
        "<svg style='display: none'><title>Icons</title><symbol id=a><path/></symbol></svg>",
        "<svg width=0 height=0><title>Icons</title><path/></svg>",
        "<svg><symbol id=a><path/></symbol></svg>",
        "<svg><use href='#icon'/></svg>",
        "<svg><script>alert(1)</script></svg>",
        "<svg><g></g></svg>",
    ],
)
def test_icons_and_invisible_drawings_leave_nothing(markup: str) -> None:
    assert clean(f"<p>a</p>{markup}<p>b</p>", BASE) == "<p>a</p><p>b</p>"


def test_a_drawing_that_is_too_large_becomes_a_link_to_its_page() -> None:
    path = "M0 0" + "L1 1" * (drawings.MAX_DRAWING // 4)
    result = clean(f"<svg viewBox='0 0 99 99'><title>A &lt; map</title><path d='{path}'/></svg>", BASE)
    assert re.sub("<a [^>]* href", "<a href", result) == f'<a href="{BASE}">A &lt; map</a>'


@pytest.mark.parametrize(
    "drawing",
    [
        "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script><path/></svg>",
        '<svg xmlns="http://www.w3.org/2000/svg"><path></path></svg><script>x</script>',
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><path></path></svg>',
        '<svg xmlns="http://www.w3.org/2000/svg"><path></path><image href="http://10.0.0.1/"></image></svg>',
        "<!DOCTYPE svg [<!ENTITY a 'b'>]><svg xmlns=\"http://www.w3.org/2000/svg\"><path></path></svg>",
    ],
)
def test_H05_only_drawings_written_here_pass_as_data(drawing: str) -> None:
    data = base64.b64encode(drawing.encode()).decode()
    assert clean(f"<img src='{drawings.PREFIX}{data}' alt=t>", BASE) == "t"
    assert "data:" not in clean(f"<a href='{drawings.PREFIX}{data}'>t</a>", BASE)


def test_X02_drawings_within_drawings_do_not_multiply() -> None:
    nested = "<defs><g id=a0><path/></g>" + "".join(
        f"<g id=a{n + 1}>{f'<use href=#a{n} />' * 10}</g>" for n in range(9)
    )
    drawing, *_ = draw(f"<svg viewBox='0 0 99 99'>{nested}</defs><use href='#a9'/><path/></svg>")
    assert drawing.count("<use ") == 1
    many = "<defs><g id=a>" + "<path/>" * 3000 + "</g></defs>" + "<use href='#a'/>" * 3000 + "<path/>"
    assert "<use " not in draw(f"<svg viewBox='0 0 99 99'>{many}</svg>")[0]


@pytest.mark.parametrize(
    "unit", ["<svg>", "<svg><g>", "<g id=a>", "<path/>", "<svg><path/></svg>", "<style>@{"]
)
def test_X08_drawings_take_linear_time(unit: str) -> None:
    markup = unit * ((1 << 18) // len(unit))
    for whole in (markup, f"<svg>{markup}</svg>"):
        assert len(clean(whole, BASE)) < 16 * len(whole)
