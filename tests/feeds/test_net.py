from __future__ import annotations

import dataclasses
import ipaddress
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.errors import FetchError, InvalidError, SettingsError
from app.feeds.fetch import address_policy
from app.feeds.fetch.address_policy import Policy
from app.models.feeds import ip_addresses
from app.models.feeds.fetched import Purpose

PUBLIC = "93.184.215.14"
POLICY = Policy(Settings())


@dataclasses.dataclass(frozen=True)
class Row:
    refuse: bool
    group: str
    url: str
    answers: tuple[str, ...]


def block() -> list[Row]:
    rows = []
    for line in (Path(__file__).parent / "ssrf_urls.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        verdict, group, urls = line.split(maxsplit=2)
        for text in urls.split(" | "):
            url, _, answers = text.strip().partition(" dns=")
            rows.append(Row(verdict == "R", group, url, tuple(answers.split(",")) if answers else (PUBLIC,)))
    return rows


BLOCK = block()


def verdict(policy: Policy, row: Row) -> str | None:
    """Return the error word of a URL and all its addresses, None when it may be fetched."""
    try:
        endpoint = policy.check_url(row.url)
        for ip in () if endpoint.is_ip_literal else row.answers:
            policy.check_address(ip, endpoint.host, endpoint.port)
    except FetchError as e:
        return e.word
    return None


def check(group: str) -> None:
    rows = [row for row in BLOCK if row.group == group]
    assert rows
    wrong = [(row.url, verdict(POLICY, row)) for row in rows if (verdict(POLICY, row) is None) == row.refuse]
    assert wrong == []


def test_the_block_is_whole() -> None:
    assert len(BLOCK) == 112
    assert sum(row.refuse for row in BLOCK) == 99


@pytest.mark.parametrize("group", ["scheme", "syntax", "userinfo", "percent", "port"])
def test_S02_normalised_once_and_never_repaired(group: str) -> None:
    check(group)


def test_S03_strict_idna() -> None:
    check("idn")
    assert POLICY.check_url("http://bücher.example/f").host == "xn--bcher-kva.example"


def test_S03_case_folding_maps_no_sign_to_ascii() -> None:
    # U+212A, the Kelvin sign, is "k" in lower case; U+0130 is "i" and a dot.
    for host in ("\u212anown.example", "\u0130d.example", "stra\u1e9ee.example"):
        with pytest.raises(FetchError):
            POLICY.check_url(f"http://{host}/")


def test_S04_numbers_are_strict_quads() -> None:
    check("numeric")


def test_S05_local_names() -> None:
    check("name")


@pytest.mark.parametrize("group", ["v4", "v6"])
def test_S06_only_global_unicast(group: str) -> None:
    check(group)


def test_S06_every_embedded_ipv4_form_is_refused() -> None:
    inner = int(ipaddress.IPv4Address(PUBLIC))
    forms = [
        ipaddress.IPv6Address(inner),
        ipaddress.IPv6Address((0xFFFF << 32) + inner),
        ipaddress.IPv6Address((0xFFFF << 48) + inner),
        ipaddress.IPv6Address((0x64FF9B << 96) + inner),
        ipaddress.IPv6Address((0x64FF9B0001 << 80) + inner),
        ipaddress.IPv6Address((0x2002 << 112) + (inner << 80)),
        ipaddress.IPv6Address((0x20010000 << 96) + (inner ^ 0xFFFFFFFF)),
        ipaddress.IPv6Address((0x26064700 << 96) + (0x5EFE << 32) + inner),
        ipaddress.IPv6Address((0x26064700 << 96) + (0x02005EFE << 32) + inner),
    ]
    assert [str(form) for form in forms if ip_addresses.is_public(form)] == []


def test_S06_both_borders_of_each_special_network_are_refused_and_nothing_beside_it() -> None:
    known = set(ip_addresses.SPECIAL_V4)
    for network in known:
        first, last = int(network[0]), int(network[-1])
        beside = {first - 1, last + 1} - {-1, 1 << 32}
        for address in map(ipaddress.IPv4Address, beside | {first, (first + last) // 2, last}):
            assert ip_addresses.is_public(address) is not any(address in other for other in known), address


@given(
    st.one_of(
        st.integers(0, 2**32 - 1).map(lambda n: str(ipaddress.IPv4Address(n))),
        st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4}){1,4}", fullmatch=True),
        st.from_regex(r"[0-9a-f:.]{1,20}", fullmatch=True),
        st.text(max_size=20),
    )
)
def test_S03_an_address_is_read_as_strictly_as_the_library_reads_it(text: str) -> None:
    def read(by: Callable[[str], Any]) -> Any:
        try:
            return by(text)
        except ValueError:
            return None

    assert read(ip_addresses.parse_address) == read(ipaddress.ip_address)


def test_S07_any_bad_answer_refuses() -> None:
    check("dns")


def test_the_allowed_rows_are_allowed() -> None:
    check("ok")


def test_a_url_is_put_together_from_its_checked_parts() -> None:
    cases = {
        "HTTP://PUB.EXAMPLE/": "http://pub.example/",
        "http://pub.example": "http://pub.example/",
        "https://pub.example:443?q=1": "https://pub.example/?q=1",
        "http://pub.example:8080/f": "http://pub.example:8080/f",
        "http://pub.example./f": "http://pub.example/f",
        "http://pub.example#@127.0.0.1/": "http://pub.example/",
        "http://pub.example/a?b#c?d#e": "http://pub.example/a?b",
        "http://pub.example/a|b<é>?x={y}": "http://pub.example/a%7Cb%3C%C3%A9%3E?x=%7By%7D",
        "http://pub.example/a%20b": "http://pub.example/a%20b",
        "http://[2606:4700:4700:0::1111]/": "http://[2606:4700:4700::1111]/",
    }
    assert {url: POLICY.check_url(url).url for url in cases} == cases


@pytest.mark.parametrize(
    "url",
    [
        "http://pub.example/" + "a" * 2048,
        "http://pub.example/a b",
        "http://pub.example/\ud800",
        "http://pub.example:/",
        "http://pub.example:１/",
        "http://.pub.example/",
        "http://pub..example/",
        "http://pub.example../",
        "http://" + "a" * 64 + ".example/",
        "http://8.8.8.8./",
        "http://",
        "",
        "http://[::ffff:8.8.8.8%25]/",
        "http://[2606:4700::1]x/",
        "http://pub.exam\u00adple/",
        " http://pub.example/",
        "http://pub.example/\x7f",
    ],
)
def test_S02_further_forms_are_refused(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        POLICY.check_url(url)
    assert caught.value.word == "invalid_url"


HOSTS = st.one_of(
    st.sampled_from(
        [str(n[0]) for n in ip_addresses.SPECIAL_V4] + ["127.0.0.1", "10.1.2.3", "169.254.169.254"]
    ),
    st.integers(0, 2**32 - 1).map(lambda n: str(ipaddress.IPv4Address(n))),
)


def notations(host: str) -> list[str]:
    number = int(ipaddress.IPv4Address(host))
    a, b, c, d = host.split(".")
    return [
        host, str(number), hex(number), f"0{number:o}", f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}", f"0{int(a):o}.{b}.{c}.{d}", f"{hex(int(a))}.{b}.{c}.{d}",
        f"[::ffff:{host}]", f"[::{host}]", f"[64:ff9b::{host}]",
        f"[2002:{number >> 16:x}:{number & 65535:x}::]",
        f"{host}.", f"x@{host}", host.replace(".", "。"), f"{a}.{b}.{c}.{d}%00.pub.example",
    ]  # fmt: skip


@given(HOSTS, st.integers(0, 15), st.sampled_from(["http://", "https://", "HTTP://"]))
def test_S15_what_libc_reads_as_private_is_refused(host: str, form: int, scheme: str) -> None:
    text = notations(host)[form]
    try:
        found = socket.getaddrinfo(text.strip("[]"), 80, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        found = []
    meant = [ipaddress.ip_address(entry[4][0]) for entry in found]
    if all(ip_addresses.is_public(address) for address in meant) and form == 0:
        return
    try:
        endpoint = POLICY.check_url(f"{scheme}{text}/")
    except FetchError:
        return
    assert endpoint.is_ip_literal
    assert all(ip_addresses.is_public(address) for address in meant)
    assert ipaddress.ip_address(endpoint.host) in meant


# -- S11: the allow-list


def allows(rows: tuple[str, ...], url: str, *, requested: bool = True, ip: str | None = None) -> bool:
    policy = Policy(Settings(fetch_allow=rows))
    try:
        endpoint = policy.check_url(url, requested=requested)
        if ip is not None:
            policy.check_address(ip, endpoint.host, endpoint.port, requested=requested)
    except FetchError:
        return False
    return True


def test_S11_a_network_is_allowed_for_the_host_that_was_asked_for() -> None:
    rows = ("192.168.1.0/24",)
    assert allows(rows, "http://192.168.1.5/")
    assert allows(rows, "http://feeds.example/", ip="192.168.1.5")
    assert not allows(rows, "http://192.168.2.5/")
    assert not allows(rows, "http://192.168.1.5/", requested=False)
    assert not allows(rows, "http://feeds.example/", requested=False, ip="192.168.1.5")
    assert not allows(rows, "http://192.168.1.5:6379/")


def test_S11_a_pair_is_allowed_exactly() -> None:
    rows = ("nas.local:8000", "[fd00::1]:90", "10.0.0.1:81")
    assert allows(rows, "http://nas.local:8000/", ip="192.168.1.5")
    assert not allows(rows, "http://nas.local/", ip="192.168.1.5")
    assert not allows(rows, "http://nas.local:8000/", requested=False, ip="192.168.1.5")
    assert allows(rows, "http://[fd00::1]:90/")
    assert not allows(rows, "http://[fd00::2]:90/")
    assert allows(rows, "http://10.0.0.1:81/")
    assert not allows(rows, "http://10.0.0.1/")


@pytest.mark.parametrize("ip", ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"])
def test_S11_metadata_needs_its_own_entry(ip: str) -> None:
    v6 = ":" in ip
    url = f"http://[{ip}]/" if v6 else f"http://{ip}/"
    wide = ("fd00::/8",) if v6 else ("0.0.0.0/0",)
    assert not allows(wide, url)
    assert not allows((f"[{ip}]:80" if v6 else f"{ip}:80",), url)
    assert not allows((*wide, "pub.example:80"), "http://pub.example/", ip=ip)
    assert allows((f"{ip}/{128 if v6 else 32}",), url)


@pytest.mark.parametrize("purpose", Purpose)
def test_S11_each_purpose_has_its_own_list(purpose: Purpose) -> None:
    for other in Purpose:
        policy = Policy(Settings(**{f"{other}_allow": ("192.168.1.0/24",)}), purpose)
        if other is purpose:
            assert policy.check_url("http://192.168.1.5/").host == "192.168.1.5"
        else:
            with pytest.raises(FetchError):
                policy.check_url("http://192.168.1.5/")
        with pytest.raises(SettingsError, match=f"EVENTR_{other.upper()}_ALLOW"):
            Policy(Settings(**{f"{other}_allow": ("a b",)}), other)


@pytest.mark.parametrize("row", ["10.0.0.1/8", "localhost", "nas.local:", "300.1.1.1:80", "a b:80", "*:80"])
def test_S11_a_row_that_cannot_be_read_stops_the_start(row: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(repr(row))):
        Policy(Settings(fetch_allow=(row,)))


def test_S09_the_target_of_a_redirect_is_a_url_of_its_own() -> None:
    policy = Policy(Settings(fetch_allow=("192.168.1.0/24",)))
    home = policy.check_url("http://192.168.1.5/a/b")
    assert policy.check_target(home, "../c?d", requested=True).url == "http://192.168.1.5/c?d"
    assert policy.check_target(home, "//pub.example/x", requested=True).url == "http://pub.example/x"
    for target in ("http://192.168.1.6/", "//192.168.1.6/"):
        with pytest.raises(FetchError, match="isn't allowed to fetch this address"):
            policy.check_target(home, target, requested=True)
    with pytest.raises(FetchError):
        policy.check_target(home, "/c", requested=False)
    for target in ("http:127.0.0.1/", "http:/x", "a\tb", "a\r\nb", "javascript:x", "/\\evil"):
        with pytest.raises(FetchError):
            policy.check_target(home, target, requested=True)


# -- S12: headers that people set

REFUSED = (
    "Host Content-Length Transfer-Encoding Connection Upgrade Proxy-Authorization Proxy-X Sec-Fetch-Site "
    "X-Forwarded-For X-Forwarded-Host Forwarded X-Real-IP Remote-User Remote_User REMOTE-USER "
    "X-WebAuth-User x_forwarded_for Range If-None-Match Accept-Encoding TE"
)


@pytest.mark.parametrize("name", REFUSED.split())
def test_S12_headers_that_mean_something_to_servers_are_refused(name: str) -> None:
    with pytest.raises(InvalidError):
        address_policy.check_headers([(name, "x")])


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-A", "a\r\nHost: b"), ("X-A", "a\nb"), ("X-A\r\n", "b"), ("X A", "b"), ("", "b"), ("X-A", "\x00"),
     ("X-A", "x" * 1025), ("X-Ä", "b"), ("X-A:", "b"), ("X-A", "日本")],
)  # fmt: skip
def test_S12_headers_cannot_break_out(name: str, value: str) -> None:
    with pytest.raises(InvalidError):
        address_policy.check_headers([(name, value)])


def test_S12_ordinary_headers_pass() -> None:
    given_ = (("Authorization", "Basic eDp5"), ("Cookie", "a=b"), ("X-Api-Key", "k"), ("User-Agent", "me"))
    assert address_policy.check_headers(given_) == given_
    with pytest.raises(InvalidError):
        address_policy.check_headers([(f"X-{n}", "y") for n in range(17)])
