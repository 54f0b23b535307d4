"""What people type: which of it becomes a link."""

from __future__ import annotations

import re

import pytest

from app.feeds.html import linkify

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
