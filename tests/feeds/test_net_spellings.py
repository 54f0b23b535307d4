"""Spellings that only look like what is allowed: signs folded to ASCII, IPv4 addresses inside IPv6 ones."""

from __future__ import annotations

import dataclasses

import pytest

from app.config import Settings
from app.errors import FetchError
from app.feeds.fetch.address_policy import Endpoint, Policy


@pytest.mark.parametrize("url", ["httpſ://pub.example/", "HTTPſ://127.0.0.1/", "Httpſ://[::1]/"])
def test_S02_a_scheme_that_only_folds_to_https_is_invalid(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        Policy(Settings()).check_url(url)
    assert caught.value.word == "invalid_url"


def test_S02_a_redirect_to_such_a_scheme_stays_a_path() -> None:
    base = Endpoint("http", "pub.example", 80, "http://pub.example/a", is_ip_literal=False)
    there = Policy(Settings()).check_target(base, "httpſ://127.0.0.1/", requested=True)
    assert there.host == "pub.example"


_HIDDEN = [
    "[::ffff:169.254.169.254]",
    "[::169.254.169.254]",
    "[::ffff:0:169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::5efe:a9fe:a9fe]",
]


def _refusal(policy: Policy, url: str) -> str:
    with pytest.raises(FetchError) as caught:
        policy.check_url(url)
    return caught.value.detail


@pytest.mark.parametrize("host", ["169.254.169.254", *_HIDDEN])
def test_S11_no_wide_entry_opens_metadata_in_any_spelling(host: str) -> None:
    wide = Policy(dataclasses.replace(Settings(), fetch_allow=("0.0.0.0/0", "::/0")))
    assert "metadata" in _refusal(wide, f"http://{host}/")


def test_S11_a_wide_entry_opens_what_is_private_otherwise() -> None:
    wide = Policy(dataclasses.replace(Settings(), fetch_allow=("0.0.0.0/0", "::/0")))
    assert wide.check_url("http://10.0.0.1/").is_ip_literal
    assert wide.check_url("http://[fd00::1]/").is_ip_literal


def test_S11_an_exact_entry_opens_one_spelling() -> None:
    one = Policy(dataclasses.replace(Settings(), fetch_allow=("64:ff9b::a9fe:a9fe/128", "::/0")))
    assert one.check_url("http://[64:ff9b::a9fe:a9fe]/").is_ip_literal
    assert "metadata" in _refusal(one, "http://[::ffff:169.254.169.254]/")
