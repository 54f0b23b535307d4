"""What people type: which of it becomes a link, emphasis or a quote."""

from __future__ import annotations

import html.parser
import json
import re

import pytest

from app.feeds.html import linkify
from app.models.sharing.typed_text import remove_signs
from tests.support import corpus

LINKED = [
    ("see https://web.dev now", "https://web.dev"),
    ("HTTPS://Mastodon.Social/x", "HTTPS://Mastodon.Social/x"),
    ("https://eventr.social/@ann", "https://eventr.social/@ann"),
    ("(http://a.example.photography/x?a=1&b=2).", "http://a.example.photography/x?a=1&b=2"),
    ("https://xn--j1amh.xn--p1ai/", "https://xn--j1amh.xn--p1ai/"),
    ("https://пример.рф/ж", "https://пример.рф/ж"),
    ("example.com, yes", "example.com"),
    ("www.example.org/a_(b)", "www.example.org/a_(b)"),
    ("https://example.org:8443/x", "https://example.org:8443/x"),
    ("end.Then", ""),
    ("web.dev", ""),
    ("https://localhost/x", ""),
    ("javascript:alert(1)", ""),
    ("ftp://example.dev/", ""),
    ("x@example.dev", ""),
    ("http://bank.com@evil.dev/", ""),
]


@pytest.mark.parametrize(("text", "goal"), LINKED)
def test_what_is_a_link(text: str, goal: str) -> None:
    found = re.findall(r'href="([^"]*)"', linkify.render_line(text))
    wanted = goal if goal.lower().startswith("http") or not goal else f"http://{goal}"
    assert [f.replace("&amp;", "&") for f in found] == ([wanted] if goal else [])


@pytest.mark.parametrize("part", ["a-a.", "a.", "(", "https://", "a-", "https://a.b", "a@"])
def test_a_long_text_takes_no_long_time(part: str) -> None:
    """With a pattern that tries all ways, some of these take minutes."""
    assert linkify.render_line(part * (20_000 // len(part)))
    assert linkify.render_html(part * (20_000 // len(part)))


SHOWN = [
    ("a *b* c", "<p>a <em>b</em> c</p>"),
    ("_b_, **c d**!", "<p><em>b</em>, <strong>c d</strong>!</p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
    ("(*b*)", "<p>(<em>b</em>)</p>"),
    ("2*3*4 and snake_case_name", "<p>2*3*4 and snake_case_name</p>"),
    ("2 * 3 * 4", "<p>2 * 3 * 4</p>"),
    ("* a\n* b", "<p>* a<br>* b</p>"),
    ("*a\nb*", "<p>*a<br>b*</p>"),
    ("**a", "<p>**a</p>"),
    ("____ **** **", "<p>____ **** **</p>"),
    ("@_ann_ @ann", "<p>@_ann_ @ann</p>"),
    ("*<b>*", "<p><em>&lt;b&gt;</em></p>"),
    ("> a\n> b\nc", "<blockquote><p>a<br>b</p></blockquote><p>c</p>"),
    (">a\n>\n>b", "<blockquote><p>a</p><p>b</p></blockquote>"),
    (">> a\n> b", "<blockquote><blockquote><p>a</p></blockquote><p>b</p></blockquote>"),
    ("a > b", "<p>a &gt; b</p>"),
    (">", "<blockquote></blockquote>"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_emphasis_and_quotes(text: str, shown: str) -> None:
    assert linkify.render_html(text) == shown


def test_emphasis_leaves_addresses_alone() -> None:
    shown = linkify.render_html("*see https://a.example/x_y_z/_q_ now* https://b.example/*c* \0")
    assert re.findall(r'href="([^"]*)"', shown) == ["https://a.example/x_y_z/_q_", "https://b.example/*c*"]
    assert shown.startswith("<p><em>see <a ")
    assert shown.count("<em>") == 1
    assert shown.count('rel="noopener noreferrer nofollow ugc"') == 2


@pytest.mark.parametrize(
    "sign", ["*a", "**a ", "_a", "**a *b ", ">", "> ", ">\n", "*a* ", "**", "_", "** *a"]
)
def test_signs_without_end_take_no_long_time(sign: str) -> None:
    assert linkify.render_html(sign * (20_000 // len(sign)))


class _Balanced(html.parser.HTMLParser):
    """Fails at any element that typed text can't have, and where elements overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("p", "a", "em", "strong", "br", "blockquote"), tag
        assert [name for name, _value in attrs] == (["href", "rel", "target"] if tag == "a" else [])
        if tag == "a":
            assert re.match("https?://", dict(attrs)["href"] or "", re.IGNORECASE)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "around", ["{}", "*{}*", "**{}**", "_{}_", "> {}", "**a *{}* b**", "*a {}", "{} https://a.example/{}"]
)
def test_v25_attack_vectors_in_typed_text_stay_text(around: str) -> None:
    for vector in json.loads((corpus.root() / "xss" / "vectors.json").read_text("utf-8")):
        parser = _Balanced()
        parser.feed(linkify.render_html(around.replace("{}", vector["payload"])))
        parser.close()
        assert not parser.open


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("so *very* **good _indeed_**", "so very good indeed"),
        ("> quoted\n>> twice\nmine", "quoted\ntwice\nmine"),
        ("2 * 3 * 4, snake_case_name, a > b", "2 * 3 * 4, snake_case_name, a > b"),
        ("see https://a.example/_x_/*y* *now*", "see https://a.example/_x_/*y* now"),
        ("*" * 40, "*" * 40),
    ],
)
def test_lines_without_markup_show_no_signs(typed: str, shown: str) -> None:
    assert remove_signs(typed) == shown
