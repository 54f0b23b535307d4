"""The look at entry HTML before its parser: linear itself, and blind to no attribute (X02, X08)."""

from __future__ import annotations

import pytest

from app.feeds.html import prescan
from app.feeds.html.sanitize import sanitize

MIB = 1 << 20


@pytest.mark.parametrize(
    "unit",
    ["<a", "<a/b=", "<a\"'", "<a b=<", "<a b'", "<script", "<a<b ", "<a b=c<", "<a '\"", "<a b=\"<c d='"],
)
def test_X08_the_look_at_tags_in_tags_is_linear(unit: str) -> None:
    """Quadratic work on a mebibyte runs into the time-out of the test run."""
    markup = unit * (MIB // len(unit))
    prescan.is_hostile(markup)
    assert isinstance(sanitize(markup, "http://e.example/"), str)


_MANY = prescan.MAX_ATTRIBUTES + 1


@pytest.mark.parametrize(
    "tag",
    [
        "<p " + "a " * _MANY + ">",
        "<p<q " + "a " * _MANY + ">",
        "<p " + "a<b " * _MANY + ">",
        "<p " + "a=<b " * _MANY + ">",
        "<p " + "a='>' " * _MANY + ">",
        '<p title=">" b<c ' + "a " * _MANY + ">",
        "<p/" + "a/" * _MANY + ">",
        "<p " + "a=<b/c " * _MANY,
        "</p><p " + 'a<b="<i>" ' * _MANY + ">",
    ],
)
def test_X02_no_spelling_hides_attributes(tag: str) -> None:
    assert prescan.is_hostile(f"<p>Text.</p>{tag}text")


@pytest.mark.parametrize("attribute", ["a ", "a=b ", "a='>' ", 'a=""', "a/"])
def test_X02_the_last_attribute_allowed_is_allowed(attribute: str) -> None:
    assert not prescan.is_hostile("<p " + attribute * (_MANY - 1) + ">text</p>")


def test_X02_depth_is_seen_among_elements_that_are_closed() -> None:
    closed = "<p>Text.</p>" * 300
    assert not prescan.is_hostile(closed)
    assert not prescan.is_hostile(closed + "<div>" * (prescan.MAX_DEPTH - 1))
    assert prescan.is_hostile(closed + "<div>" * (prescan.MAX_DEPTH + 1))


def test_X02_tags_in_tags_are_no_crime() -> None:
    assert not prescan.is_hostile('if a <b and c <d then <img alt="x < y" src=z> <p title=">" b<c>text</p>')


_DEEP = 2 * prescan.MAX_DEPTH


@pytest.mark.parametrize(
    "unit",
    [
        "<a x\"y='z\">t</a>'>",
        "<a\xa0x='>t</a>'>",
        '<a x="y>t</a>">',
        "<a b c='d' =e\"f='>t</a>'>",
        "<p><!-- </p> --><b><i>",
        "<div><xmp></div></xmp>",
        "<div><textarea><p>x</p></div></textarea>",
        "<DIV><p>x</p>",
        "<div><br/><img>",
    ],
)
def test_X02_nothing_hides_depth(unit: str) -> None:
    assert prescan.is_hostile(unit * _DEEP)


def test_X02_elements_that_close_themselves_hide_no_reopened_ones() -> None:
    unclosed = "<p>" + "<b><i><u>" * 30
    assert not prescan.is_hostile(unclosed + "<p>text</p>" * 300)
    assert prescan.is_hostile(unclosed + "</p><p>text</p>" * 3000)


def test_long_but_flat_html_is_known_at_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prescan, "_Open", None)
    row = "<tr><td class='a'><a href=\"/x\">x</a><br/></td><td width=10%><b>y</b></td></tr>"
    assert not prescan.is_hostile("<table>" + row * 400 + "</table>")
