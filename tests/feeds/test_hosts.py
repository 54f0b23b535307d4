"""The host of an address, found without taking the address apart."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models.feeds.hosts import parse_host


def _parsed(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/feed", "example.org"),
        ("http://A-b.Example.org:8080/feed?x=https://other.example/", "a-b.example.org"),
        ("https://example.org", "example.org"),
        ("https://example.org?x", "example.org"),
        ("https://example.org:80#@other.example/", "example.org"),
        ("https://name@example.org/", "example.org"),
        ("https://name:word@example.org:8443/", "example.org"),
        ("https://example.org:word@other.example/", "other.example"),
        ("https://[::1]:8000/", "::1"),
        ("https://[::1/", ""),
        ("http://a:[/", ""),
        ("http://a:]/", ""),
        ("http://a:\u2100/", ""),
        ("https://\u212aelvin.example/", "kelvin.example"),
        ("https:///path", ""),
        ("a/b/c", ""),
        ("", ""),
    ],
)
def test_the_host_of_an_address(url: str, host: str) -> None:
    assert parse_host(url) == host == _parsed(url)


@given(st.from_regex(r"https?:/?/?[a-zA-Z0-9.:@\[\]?#/\\ \t_%-]*", fullmatch=True))
def test_it_is_what_the_parser_says(url: str) -> None:
    assert parse_host(url) == _parsed(url)
