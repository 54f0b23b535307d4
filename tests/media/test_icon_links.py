from __future__ import annotations

import pytest

from app.feeds.discover.icons import SVG_MAX, is_harmless_svg
from app.feeds.discover.page import Page

PAGE = "https://site.example/blog/"


def find(*links: str) -> list[str]:
    body = f"<html><head>{''.join(links)}</head><body>Text</body></html>".encode()
    return [url.removeprefix("https://site.example/") for url in Page(body, PAGE).find_icons()]


def test_icons_are_tried_in_the_order_of_their_fitness() -> None:
    found = find(
        '<link rel="icon" href="/unsized.ico">',
        '<link rel="icon" href="/dark.png" sizes="64x64" media="(prefers-color-scheme: dark)">',
        '<link rel="icon" href="/16.png" sizes="16x16">',
        '<link rel="icon" href="/drawing.svg" type="image/svg+xml" sizes="any">',
        '<link rel="apple-touch-icon" href="/touch.png" sizes="180x180">',
        '<link rel="icon" href="/192.png" sizes="192x192">',
        '<link rel="shortcut icon" href="/48.png" sizes="16x16 48x48">',
        '<link rel="mask-icon" href="/mask.svg" color="#000">',
    )
    assert found == ["48.png", "192.png", "touch.png", "drawing.svg", "unsized.ico", "16.png"]


def test_a_dark_icon_is_better_than_none() -> None:
    assert find('<link rel="icon" href="/dark.png" media="(prefers-color-scheme: dark)">') == ["dark.png"]
    assert find('<link rel="mask-icon" href="/mask.svg">') == []
    assert find('<link rel="icon" href="data:image/png;base64,AAAA">') == []
    assert find('<link rel="icon" href="javascript:alert(1)">') == []


def test_addresses_are_those_of_the_page() -> None:
    assert find('<link rel="icon" href="favicon.png">') == ["blog/favicon.png"]
    assert find('<base href="https://site.example/x/"><link rel="icon" href="i.png">') == ["x/i.png"]


def test_a_page_of_icons_is_tried_at_few_of_them() -> None:
    links = [f'<link rel="icon" href="/{n}.png" sizes="{32 + n}x{32 + n}">' for n in range(500)]
    assert len(find(*links)) == 6


SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 8 8">'
    "{}</svg>"
)


@pytest.mark.parametrize(
    "inner",
    [
        '<circle cx="4" cy="4" r="4" fill="#f00"/>',
        '<defs><linearGradient id="g"/></defs><rect width="8" height="8" fill="url(#g)"/>',
        '<path id="p" d="M0 0h8"/><use href="#p"/><use xlink:href="#p"/>',
        "<style>.a{fill:#123}@media (prefers-color-scheme:dark){.a{fill:#fff}}</style><path class='a'/>",
    ],
)
def test_a_plain_drawing_is_kept(inner: str) -> None:
    assert is_harmless_svg(SVG.format(inner).encode())


@pytest.mark.parametrize(
    "inner",
    [
        "<script>alert(1)</script>",
        '<path onload="alert(1)"/>',
        "<foreignObject><p>x</p></foreignObject>",
        '<image href="https://tracker.example/x.png"/>',
        '<image href="data:image/png;base64,AAAA"/>',
        '<use href="https://other.example/x.svg#a"/>',
        r"<style>@\69mport 'https://other.example/x.css'</style>",
        r'<path style="fill: \75rl(https://other.example/x.svg#a)"/>',
        r'<path fill="u\000072l(https://other.example/x.svg#a)"/>',
        """<style>path{mask-image: -webkit-image-set("https://other.example/x.png" 1x)}</style>""",
        '<path style="mask: src(&quot;https://other.example/x.png&quot;)"/>',
        '<use xlink:href="file:///etc/passwd#a"/>',
        '<a href="https://other.example/"><path/></a>',
        '<set attributeName="href" to="javascript:alert(1)"/>',
        '<animate attributeName="x" values="1;2"/>',
        "<style>@import 'https://other.example/x.css';</style>",
        "<style>path{fill:url(https://other.example/x)}</style>",
        '<path style="fill:url( &quot;https://other.example/x&quot; )"/>',
        '<path fill="url(//other.example/x#a)"/>',
        '<path xml:base="https://other.example/"/>',
        '<path id="a"/>' + '<use href="#a"/>' * 33,
    ],
)
def test_a_drawing_that_could_do_more_is_refused(inner: str) -> None:
    assert not is_harmless_svg(SVG.format(inner).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<svg><path/></svg>",
        b'<html xmlns="http://www.w3.org/1999/xhtml"/>',
        b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        b'<?xml-stylesheet href="https://x.example/"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        b'<svg xmlns="http://www.w3.org/2000/svg"><path>',
        b'<svg xmlns="http://www.w3.org/2000/svg">' + b" " * SVG_MAX + b"</svg>",
    ],
)
def test_what_is_no_whole_drawing_is_refused(body: bytes) -> None:
    assert not is_harmless_svg(body)
