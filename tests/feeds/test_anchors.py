"""Anchors: footnotes and other links inside an entry stay inside it, with ids that clash with nothing."""

from __future__ import annotations

import re

import pytest

from app.feeds.html import anchors
from app.feeds.html.sanitize import sanitize as clean
from app.models.reading.anchors import scope_anchors

BASE = "https://site.example/blog/post.html?utm_source=rss"
PAGE = "https://site.example/blog/post.html"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("<a href='#fn:1' id='r'>1</a>", "<li id='fn:1'>Note</li>"),
        ("<a href='#fn1'>1</a>", "<p><a name=fn1></a>Note</p>"),
        (f"<a href='{PAGE}#fn1'>1</a>", "<p id=fn1>Note</p>"),
        ("<a href='http://site.example/blog/post.html/#fn1'>1</a>", "<p id=fn1>Note</p>"),
        (f"<a href='{BASE.replace('?', '?a=1&')}#fn1'>1</a>", None),
        ("<a href='#fu%C3%9Fnote-1'>1</a>", "<p id='fußnote-1'>Note</p>"),
        ("<A HREF=#n>1</A>", "<div ID=n>Note</div>"),
        ("<a href='#at-n'>1</a>", "<p id='at-n'>Note</p>"),
        ("<a href='#a&amp;b'>1</a>", None),
        ("<a href='#more'>1</a>", "<p id=less>Note</p>"),
        ("<a href='/other#n'>1</a>", "<p id=n>Note</p>"),
        ("<a href='#n'>1</a>", "<script id=n></script><!-- id=n --><p>id=n Note</p>"),
    ],
)
def test_a_link_leads_to_its_target_in_the_entry_or_to_the_page(link: str, target: str | None) -> None:
    result = clean(f"<p>a{link}</p>{target or ''}", BASE)
    (href,) = re.findall(r'<a [^>]*href="([^"]*)"', result)
    stays = bool(target) and "less" not in str(target) and "other" not in link and "script" not in str(target)
    if stays:
        assert href.startswith("#at-")
        assert f' id="{href[1:]}"' in result
        assert "target=" not in result
    else:
        assert href.startswith("https://site.example/")
        assert ' target="_blank"' in result
        assert " id=" not in result
    assert clean(result, BASE) == result


def test_a_link_without_a_target_keeps_its_fragment() -> None:
    result = clean("<a href='#n'>1</a><a href='#m%C3%BC'>2</a><i id=n>a</i>", "https://e.org/p")
    assert 'href="#at-n"' in result
    assert 'href="https://e.org/p#mü"' in result
    assert "href" not in clean("<a href='#x'>1</a><template><p id=x></template>", "")


def test_H06_only_targets_of_links_keep_ids_and_each_once() -> None:
    markup = (
        "<a href=#n>1</a>"
        + "<b id=n name=n>x</b><i id=cookie>y</i><a name=body>z</a><img id=n name=n src=a.png>"
    )
    result = clean(markup, BASE)
    assert re.findall(r' (?:id|name)="([^"]*)"', result) == ["at-n"]


@pytest.mark.parametrize(
    "name", ["", " ", "a b", '"onload=x', "'x", "<img>", "a&#9;b", "\\", "`", "x" * 200, "\x00", "a\u2028b"]
)
def test_H06_an_odd_id_is_none(name: str) -> None:
    written = name.replace('"', "&quot;").replace("<", "&lt;")
    result = clean(f'<a href="#{written}">1</a><p id="{written}">x</p>', BASE)
    assert " id=" not in result
    assert clean(result, BASE) == result


def test_H06_ids_clash_neither_with_the_page_nor_with_other_entries() -> None:
    text = clean('<p id=n title=\' id="at-n"\'>id="at-n" <a href=#n>1</a></p>', BASE)
    one, two = scope_anchors(text, 1), scope_anchors(text, 22)
    assert ' id="at-1-n"' in one
    assert ' href="#at-1-n"' in one
    assert '>id="at-n" <a' in one
    assert re.findall(r' (?:id|href)="#?([^"]*)"', two) == ["at-22-n", "at-22-n"]
    assert scope_anchors("<p>a</p>", 1) == "<p>a</p>"


@pytest.mark.parametrize(
    "unit", ["<a href=#n>", "<p id=n>", "<a href=#n name=n>x</a>", "href=#", "<a name=", "#"]
)
def test_X08_anchors_take_linear_time(unit: str) -> None:
    markup = "<a href=#n>1</a><p id=n>" + unit * ((1 << 19) // len(unit))
    assert isinstance(clean(markup, BASE), str)


def test_X02_anchors_are_bounded() -> None:
    many = "".join(f"<a href=#{n}>1</a><b id={n}>x</b>" for n in range(anchors.MAX_ANCHORS + 50))
    assert clean(many, BASE).count(" id=") == anchors.MAX_ANCHORS
