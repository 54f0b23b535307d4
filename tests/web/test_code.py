"""Code and tables in articles: boxes, and colors that never change the text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import lxml.html
import pytest

from app.bootstrap.services import Services
from app.feeds.html.sanitize import sanitize
from app.models.reading.code_languages import LANGUAGES, find_class_language
from app.web.view.code import BLOCK_MAX, COLORED_MAX, LINE_MAX, LINES_MAX, show_code
from tests.support.reader import pull, rss
from tests.web.conftest import Visitor

PYTHON = '@cache\ndef f(x: int) -> str:  # "note"\n\treturn f"a{x}" if x > 1 and True else None\n'


@pytest.fixture
def _page(app: Any) -> Iterator[None]:
    with app.test_request_context("/"):
        yield


def _text(shown: str) -> str:
    inside = re.search(r"<pre[^>]*>(.*?)</pre>", shown, re.S)
    assert inside
    return html.unescape(re.sub("<[^<>]*>", "", inside[1]))


def _pre(text: str, language: str = "python") -> str:
    return f'<pre class="language-{language}"><code>{html.escape(text, quote=False)}</code></pre>'


@pytest.mark.usefixtures("_page")
def test_caption_adds_no_attributes_to_the_box_of_its_table_h01() -> None:
    caption = 'x" hx-get="/evil" hx-trigger="load" onfocus="f()'
    shown = show_code(sanitize(f"<table><caption>{caption}</caption></table>", "https://a.example/"))
    assert f"<caption>{caption}</caption>" in shown
    box = lxml.html.fromstring(shown)
    assert set(box.attrib) == {"class", "data-script", "role", "tabindex", "aria-label"}
    assert box.get("aria-label") == caption


@pytest.mark.usefixtures("_page")
def test_code_gets_the_colors_of_its_language() -> None:
    shown = show_code(_pre(PYTHON), is_colored=True)
    for name, words in (
        ("k", "def"),
        ("f", "f"),
        ("c", '# "note"'),
        ("f", "@cache"),
        ("n", "1"),
        ("k", "and"),
    ):
        assert f'<span class="hl-{name}">{html.escape(words, quote=False)}' in shown
    assert "style=" not in shown
    assert '<span class="hl-s">+ b</span></pre>' in show_code(_pre("- a\n+ b", "diff"), is_colored=True)


@pytest.mark.usefixtures("_page")
@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize(
    "text",
    [PYTHON, "\n\n  a\r\tb  \n\n", "<b>&amp;</b> \"'\x85\u2028é𝒳", '/* "open', "", "`${{[<?php $x", "x"],
)
def test_colors_never_change_the_text(language: str, text: str) -> None:
    assert _text(show_code(_pre(text, language), is_colored=True)) == text
    assert find_class_language(f"language-{language}") == language


@pytest.mark.usefixtures("_page")
@pytest.mark.parametrize(
    "plain",
    [
        "<pre>def f(): pass</pre>",
        '<pre class="language-klingon">def f(): pass</pre>',
        '<pre class="language-python">def <a href="https://e.example">f</a>(): pass</pre>',
        '<pre class="language-python">def<br>f</pre>',
        _pre(f"{'x = 1; ' * 50}\n" * (BLOCK_MAX // 350 + 1)),
        _pre("x = 1\n" * (LINES_MAX + 1)),
        _pre("x = " + "1" * LINE_MAX),
    ],
)
def test_what_is_no_plain_code_of_a_known_language_stays_as_it_is(plain: str) -> None:
    shown = show_code(plain, is_colored=True)
    inside = re.search(r"<pre[^>]*>(.*?)</pre>", plain, re.S)
    assert inside
    assert f">{inside[1]}</pre>" in shown


@pytest.mark.usefixtures("_page")
def test_an_article_has_only_so_much_code_in_colors() -> None:
    block = _pre(f"{'x = 1; ' * 50}\n" * 11)
    shown = show_code(block * 6, is_colored=True)
    colored = [part for part in shown.split("</pre>") if "hl-" in part]
    assert 0 < len(colored) <= COLORED_MAX // len(block) + 1 < 6
    assert shown.count('class="copy') == 6
    assert "hl-" not in show_code(block)


@pytest.mark.usefixtures("_page")
def test_tables_have_one_box_each() -> None:
    inner = "<table><tr><td><table><tr><td>x</td></tr></table></td></tr></table>"
    shown = show_code(f"<p>a</p>{inner}<table><caption>T &amp; U</caption></table><p>b</p></table>")
    assert re.sub(r' data-script="[^"]*"', "", shown) == (
        f'<p>a</p><div class="wide" role="group" tabindex="0" aria-label="Table">{inner}</div>'
        '<div class="wide" role="group" tabindex="0" aria-label="T &amp; U">'
        "<table><caption>T &amp; U</caption></table></div><p>b</p></table>"
    )


def test_articles_have_colors_and_lists_have_none(services: Services, ann: Visitor, db: Any) -> None:
    known = services.gateways.accounts.find_credentials("ann")
    assert known is not None
    url = "https://site.example/feed"
    feed = services.subscriptions.subscribe(known.user.actor, url).subscription.feed_id
    pull(services, [feed], {url: rss("Site", [("One", _pre(PYTHON))])})
    article = ann.get(f"/read/all?entry={db.entries.find_one()['_id']}").text
    assert 'class="hl-k">' in article
    ann.post("/read/view", {"stream": "all", "view": "expanded"})
    listed = ann.get("/read/all").text
    assert 'class="code"' in listed
    assert "hl-" not in listed
