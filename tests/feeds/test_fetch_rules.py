"""The address rules of security.md §2 on the running fetcher, in a world where no packet leaves loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.errors import get_feed_fix, get_feed_message
from app.feeds.fetch import curl_loop, resolver, slot
from app.feeds.fetch.address_policy import Policy
from app.feeds.fetch.resolver import Answer
from app.feeds.fetch.transfer import HopResult, Transfer
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose, Target
from tests.support.rawserver import RawServer, Reply
from tests.support.world import PUBLIC, World, local_fetcher

FEED = b"<rss version='2.0'/>"
TLS = Path(__file__).parents[1] / "support" / "tls"


@pytest.fixture
def world() -> Iterator[World]:
    with RawServer({"/f": Reply(body=FEED)}) as server:
        yield World(server)


def word(fetched: Fetched) -> str | None:
    return fetched.error.word if fetched.error else None


def redirect(target: str, status: int = 302) -> Reply:
    return Reply(status=status, headers=(("Location", target),))


def go(world: World, url: str, *, target: Target = Target.FEED, **settings: Any) -> Fetched:
    with world.fetcher(**settings) as fetcher:
        return fetcher.fetch(FetchRequest(url, target))


# -- S07: one lookup a hop, all answers public, only those are connected to


def test_S07_a_public_name_is_fetched_at_its_address(world: World) -> None:
    got = go(world, "http://pub.example/f")
    assert (word(got), got.body) == (None, FEED)
    assert (world.lookups, world.connects) == (["pub.example"], [(PUBLIC, 80)])
    assert world.server.requests[0].headers["host"] == "pub.example"


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["::1"], [PUBLIC, "10.0.0.5"], ["::ffff:10.0.0.1"], ["::"], ["64:ff9b::a9fe:a9fe"],
     ["fe80::1%eth0"], ["not an address"]],
)  # fmt: skip
def test_S07_one_bad_answer_refuses_the_hop(world: World, answers: list[str]) -> None:
    world.names["n.example"] = [answers]
    assert word(go(world, "http://n.example/f")) == "refused"
    assert world.connects == []


def test_S07_a_second_lookup_does_not_happen(world: World) -> None:
    world.names["pub.example"] = [[PUBLIC], ["127.0.0.1"]]
    world.server.set("/r", redirect("/f"))
    got = go(world, "http://pub.example/r")
    assert (word(got), got.url) == (None, "http://pub.example/f")
    assert world.lookups == ["pub.example"]
    assert {ip for ip, _ in world.connects} == {PUBLIC}


def test_S07_at_most_four_of_twenty_addresses_are_tried(world: World) -> None:
    many = [f"93.184.216.{n}" for n in range(18)] + ["2606:4700::1", "2606:4700::2"]
    world.names["many.example"] = [many]
    assert word(go(world, "http://many.example/f", fetch_connect_timeout=1)) == "connect_failed"
    tried = {ip for ip, _ in world.connects}
    assert 1 <= len(tried) <= 4
    assert any(":" in ip for ip in tried)
    assert any("." in ip for ip in tried)


def test_S07_a_name_without_address_is_named(world: World) -> None:
    assert word(go(world, "http://nowhere.example/f")) == "dns_failed"


def test_S07_a_resolver_that_does_not_answer_is_not_waited_for(world: World) -> None:
    release = threading.Event()

    def hanging(host: str, port: int) -> list[str]:
        release.wait(30)
        return [PUBLIC]

    world.lookup = hanging  # type: ignore[method-assign]
    got = go(world, "http://pub.example/f", fetch_connect_timeout=0.1)
    release.set()
    assert word(got) == "dns_failed"
    assert world.connects == []


def test_S07_feeds_of_one_host_share_a_lookup(world: World) -> None:
    with world.fetcher() as fetcher:
        got = list(fetcher.fetch_many(FetchRequest(f"http://pub.example/f?{n}") for n in range(10)))
    assert len(got) == 10
    assert world.lookups == ["pub.example"]


@pytest.mark.parametrize("tidy", [1, 2, 500])
def test_S07_a_host_that_moved_is_asked_at_its_new_address(
    world: World, monkeypatch: pytest.MonkeyPatch, tidy: int
) -> None:
    """libcurl remembers names for ever between its tidyings: a new pin must come before what it knows."""
    monkeypatch.setattr(resolver, "TTL", -1.0)
    monkeypatch.setattr(curl_loop, "TIDY", tidy)
    moved = [f"93.184.216.{n}" for n in range(1, 7)]
    world.names["pub.example"] = [[ip] for ip in moved]
    world.served.update(moved)
    world.server.set("/f", Reply(body=FEED, close=True))
    with world.fetcher() as fetcher:
        got = [fetcher.fetch(FetchRequest("http://pub.example/f")) for _ in moved]
    assert [word(one) for one in got] == [None] * len(moved)
    assert [ip for ip, _ in world.connects] == moved


# -- S08: the guard at connect; each wall alone holds, and without both the server is reached


def attack(world: World) -> tuple[str | None, int]:
    world.names["evil.example"] = [["127.0.0.1"]]
    world.served.add("127.0.0.1")
    got = go(world, "http://evil.example/f")
    return word(got), world.server.connections


def no_answers_check(self: curl_loop.Engine, transfer: Transfer, answer: Answer) -> None:
    # What is left of Engine._use_addresses when the check of the answers is taken out.
    transfer.pinned = answer.addresses
    self._connect(transfer)


def test_S08_without_the_check_of_answers_the_guard_refuses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl_loop.Engine, "_use_addresses", no_answers_check)
    assert attack(world) == ("refused", 0)
    assert world.connects == []


def test_S08_without_the_guard_the_check_of_answers_refuses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "is_permitted", lambda *_: True)
    assert attack(world) == ("refused", 0)


def test_S08_without_both_the_attack_arrives(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curl_loop.Engine, "_use_addresses", no_answers_check)
    monkeypatch.setattr(slot, "is_permitted", lambda *_: True)
    assert attack(world) == (None, 1)


def test_S08_an_address_that_was_not_pinned_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if libcurl had asked a resolver of its own and got another, public answer.
    pin = slot._pin
    monkeypatch.setattr(slot, "_pin", lambda host, port, _: pin(host, port, ("93.184.216.34",)))
    assert word(go(world, "http://pub.example/f")) == "refused"
    assert world.connects == []


def test_S08_a_literal_is_checked_as_well(world: World) -> None:
    for url in ("http://127.0.0.1/f", "http://[::1]/f", "http://2130706433/f", "http://0x7f.1/f"):
        assert word(go(world, url)) in ("refused", "invalid_url")
    assert world.connects == []


def test_S08_an_open_private_connection_is_not_lent_to_a_redirect(world: World) -> None:
    # nas.example was private when it was asked for, and claims to be public when evil.example names it.
    world.add("evil.example", "93.184.216.1")
    world.names["nas.example"] = [["192.168.1.5"]]
    world.served.add("192.168.1.5")
    world.server.set("/r", redirect("http://nas.example/f"))
    with world.fetcher(fetch_allow=("192.168.1.0/24",)) as fetcher:
        assert word(fetcher.fetch(FetchRequest("http://nas.example/f"))) is None
        assert word(fetcher.fetch(FetchRequest("http://evil.example/r"))) == "refused"
        answer = Answer((PUBLIC,))
        fetcher._resolver._keep("nas.example", answer)
        assert word(fetcher.fetch(FetchRequest("http://evil.example/r"))) is None
    assert world.connects[-1] == (PUBLIC, 80)


# -- S09: redirects by hand


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/",
        "//169.254.169.254/",
        "file:///etc/passwd",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://inside.example/",
        "http://localhost/",
        "http://pub.example:6379/",
        "gopher://pub.example/",
        "http://u:p@pub.example/",
        "http://pub .example/f",
        "\\\\127.0.0.1\\x",
        "",
    ],
)
def test_S09_a_redirect_to_what_is_refused_ends_there(world: World, target: str) -> None:
    world.names["inside.example"] = [["10.0.0.5"]]
    world.server.set("/r", redirect(target))
    got = go(world, "http://pub.example/r")
    assert word(got) == ("refused" if "inside" in target else "bad_redirect")
    assert {ip for ip, _ in world.connects} == {PUBLIC}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_S09_five_kinds_of_redirect_are_followed(world: World, status: int) -> None:
    world.server.set("/r", redirect("f", status))
    got = go(world, "http://pub.example/r")
    assert (got.status, got.url, got.body) == (200, "http://pub.example/f", FEED)
    assert got.permanent_url == ("http://pub.example/f" if status in (301, 308) else None)


@pytest.mark.parametrize("status", [300, 304, 305, 306])
def test_S09_other_3xx_are_not_followed(world: World, status: int) -> None:
    world.server.set("/r", redirect("/f", status))
    assert word(go(world, "http://pub.example/r")) == f"http_{status}"
    assert world.server.seen("/f") == []


def test_H13_the_address_to_keep_has_no_tracking(world: World) -> None:
    world.server.set("/short", redirect("/f?id=1&utm_campaign=alice", 301))
    world.server.set("/f?id=1&utm_campaign=alice", Reply(body=FEED))
    got = go(world, "http://pub.example/short")
    # Followed as told: the site may ask for it on each visit.
    assert got.url == "http://pub.example/f?id=1&utm_campaign=alice"
    assert got.permanent_url == "http://pub.example/f?id=1"
    world.server.set("/f?id=1", redirect("/f?id=1&utm_campaign=alice", 301))
    assert go(world, "http://pub.example/f?id=1").permanent_url is None, "it would move to where it is"


def chain(world: World, hops: int, status: int = 302) -> str:
    for n in range(hops):
        world.server.set(f"/{n}", redirect(f"/{n + 1}" if n + 1 < hops else "/f", status))
    return "http://pub.example/0"


def test_S09_five_hops_and_no_more(world: World) -> None:
    assert word(go(world, chain(world, 5))) is None
    assert word(go(world, chain(world, 6))) == "too_many_redirects"
    world.server.requests.clear()
    assert word(go(world, chain(world, 20))) == "too_many_redirects"
    assert len(world.server.requests) == 6


def test_S09_a_loop_ends(world: World) -> None:
    world.server.set("/a", redirect("/b"))
    world.server.set("/b", redirect("/a"))
    assert word(go(world, "http://pub.example/a")) == "too_many_redirects"


def test_S09_only_an_unbroken_permanent_chain_is_recorded(world: World) -> None:
    world.server.set("/1", redirect("/2", 301))
    world.server.set("/2", redirect("/3", 308))
    world.server.set("/3", redirect("/f", 302))
    assert go(world, "http://pub.example/1").permanent_url == "http://pub.example/3"
    world.server.set("/1", redirect("/2", 302))
    assert go(world, "http://pub.example/1").permanent_url is None


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a b", "/a%20b"),
        ("http://pub.example/a b?q=c d", "/a%20b?q=c%20d"),
        ("\\a\\b", "/a/b"),
        ("http:\\\\pub.example\\a", "/a"),
        ('/a"<b>|{c}', "/a%22%3Cb%3E%7C%7Bc%7D"),
        ("/a%20b", "/a%20b"),
        ("/a?b=\\c", "/a?b=%5Cc"),
        ("http://pub.example\\@127.0.0.1/f", "/@127.0.0.1/f"),
    ],
)
def test_S09_a_location_is_repaired_as_browsers_do(world: World, target: str, path: str) -> None:
    world.server.set("/r", redirect(target))
    world.server.set(path, Reply(body=FEED))
    got = go(world, "http://pub.example/r")
    assert (word(got), got.body, got.url) == (None, FEED, f"http://pub.example{path}")


LOCATIONS = {
    "long": b"Location: /" + b"a" * 70_000,
    "longer than a line": b"Location: /" + b"a" * 8200,
    "bare CR": b"Location: /f\rX: y",
    "tab": b"Location: /f\tx",
    "NUL": b"Location: /f\x00x",
    "two": b"Location: /f\r\nLocation: /g",
}


@pytest.mark.parametrize("case", LOCATIONS)
def test_S09_a_location_that_breaks_rules_is_not_followed(world: World, case: str) -> None:
    raw = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n" + LOCATIONS[case] + b"\r\n\r\n"
    world.server.set("/r", Reply(raw=raw))
    assert word(go(world, "http://pub.example/r")) in ("bad_redirect", "bad_response")
    assert [r.path for r in world.server.requests] == ["/r"]


def test_S09_a_crlf_in_a_location_adds_no_request_header(world: World) -> None:
    world.server.set("/r", redirect("/f%0D%0AX-Evil:%20yes"))
    world.server.set("/f%0D%0AX-Evil:%20yes", Reply(body=FEED))
    assert word(go(world, "http://pub.example/r")) is None
    assert "x-evil" not in world.server.requests[-1].headers


OWN = (("Authorization", "Basic eDp5"), ("Cookie", "a=b"), ("X-Api-Key", "k"))


def sent_after(world: World, target: str, *, start: str = "http://pub.example/r") -> dict[str, str]:
    world.server.set("/r", redirect(target))
    with world.fetcher(fetch_ports=(80, 443, 8080)) as fetcher:
        fetcher.fetch(FetchRequest(start, headers=OWN))
    assert world.server.seen("/r")[0].headers["authorization"] == "Basic eDp5"
    last = world.server.seen("/f")[-1].headers
    return {name: last[name] for name in ("authorization", "cookie", "x-api-key") if name in last}


def test_S09_credentials_stay_at_their_origin(world: World) -> None:
    world.add("other.example", "93.184.216.1")
    assert len(sent_after(world, "/f")) == 3
    assert sent_after(world, "http://other.example/f") == {}
    assert sent_after(world, "http://pub.example:8080/f") == {}
    world.server.set("/home", redirect("http://pub.example/f"))
    assert sent_after(world, "http://other.example/home") == {}


def test_S09_from_https_to_http_goes_without_credentials() -> None:
    tls = (str(TLS / "cert.pem"), str(TLS / "key.pem"))
    with RawServer(tls=tls) as secure, RawServer({"/f": Reply(body=FEED)}) as plain:
        secure.set("/r", redirect("http://pub.example/f"))
        world = World(plain)
        world.cafile = tls[0]
        world.ports[443] = secure
        with world.fetcher() as fetcher:
            got = fetcher.fetch(FetchRequest("https://pub.example/r", headers=OWN))
        assert (got.status, got.url) == (200, "http://pub.example/f")
        assert secure.requests[0].headers["cookie"] == "a=b"
        assert not {"authorization", "cookie", "x-api-key"} & set(plain.requests[0].headers)


@pytest.mark.parametrize("target", ["http://pub.example/f", "https://pub.example/f"])
def test_S09_a_permanent_step_down_to_http_is_followed_but_not_stored(target: str) -> None:
    tls = (str(TLS / "cert.pem"), str(TLS / "key.pem"))
    served = {"/r": redirect(target, 301), "/f": Reply(body=FEED)}
    with RawServer(served, tls=tls) as secure, RawServer({"/f": Reply(body=FEED)}) as plain:
        world = World(plain)
        world.cafile = tls[0]
        world.ports[443] = secure
        got = go(world, "https://pub.example/r")
    assert (got.status, got.url) == (200, target)
    assert got.permanent_url == (target if target.startswith("https:") else None)


def page(content: str) -> Reply:
    body = f'<html><head><meta http-equiv="refresh" content="{content}"></head></html>'.encode()
    return Reply(body=body, headers=(("Content-Type", "text/html"),))


def test_S09_a_feed_that_turned_into_a_page_is_followed(world: World) -> None:
    world.server.set("/p", page("0; url=/f"))
    got = go(world, "http://pub.example/p")
    assert (got.url, got.body, got.permanent_url) == ("http://pub.example/f", FEED, None)
    entry = b"<rss><item><description><meta http-equiv=refresh content='0;url=/f'></description></item></rss>"
    world.server.set("/p", Reply(body=entry, headers=(("Content-Type", "text/html"),)))
    got = go(world, "http://pub.example/p")
    assert (got.url, got.body) == ("http://pub.example/p", entry)


@pytest.mark.parametrize(
    "start",
    [
        '<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN">',
        "<!-- moved --><html>",
        "",
        "<title>Moved</title>",
        "\ufeff<HTML>",
    ],
)
def test_S09_a_feed_that_turned_into_a_page_is_followed_however_the_page_starts(
    world: World, start: str
) -> None:
    body = start + '<meta http-equiv="refresh" content="0;url=/f">'
    world.server.set("/p", Reply(body=body.encode(), headers=(("Content-Type", "text/html"),)))
    assert go(world, "http://pub.example/p").url == "http://pub.example/f"


def test_S09_the_page_before_a_feed_is_never_asked_with_the_feed_s_validators(world: World) -> None:
    fields = (("ETag", '"1"'), ("Last-Modified", "Mon, 02 Feb 2026 10:00:00 GMT"))
    world.server.set("/p", page("0; url=/f"))
    world.server.set("/f", Reply(body=FEED, headers=fields))

    def ask_again(got: Fetched) -> Fetched:
        with world.fetcher() as fetcher:
            return fetcher.fetch(FetchRequest("http://pub.example/p", validators=got.validators))

    first = go(world, "http://pub.example/p")
    assert (first.body, first.validators[:2]) == (FEED, (None, None))
    again = ask_again(first)
    assert (again.unchanged, again.validators) == (True, first.validators)
    world.server.set("/f", Reply(body=FEED + b"<!-- new -->", headers=fields))
    assert not ask_again(again).unchanged
    assert not any("if-" in name for request in world.server.requests for name in request.headers)


def test_S09_a_page_may_refresh_once(world: World) -> None:
    world.server.set("/p", page("0; url=/f"))
    got = go(world, "http://pub.example/p", target=Target.PAGE)
    assert (got.url, got.body, got.permanent_url) == ("http://pub.example/f", FEED, None)
    world.server.set("/f", page("0;URL='/g'"))
    got = go(world, "http://pub.example/p", target=Target.PAGE)
    assert got.url == "http://pub.example/f"
    assert world.server.seen("/g") == []


def test_S09_a_refresh_counts_as_a_hop(world: World) -> None:
    url = chain(world, 5)
    world.server.set("/f", page("0; url=/g"))
    assert word(go(world, url, target=Target.PAGE)) == "too_many_redirects"


def test_S09_a_refresh_is_followed_by_pages_only_and_only_at_once(world: World) -> None:
    for content in ("300; url=/f", "5", "0; url=/p", "x", ""):
        world.server.set("/p", page(content))
        assert go(world, "http://pub.example/p", target=Target.PAGE).url == "http://pub.example/p"
    refresh = Reply(body=FEED, headers=(("Refresh", "0; url=/g"), ("Content-Type", "text/html")))
    world.server.set("/p", refresh)
    assert go(world, "http://pub.example/p", target=Target.PAGE).url == "http://pub.example/p"
    assert world.server.seen("/f") == []


def test_S09_a_refresh_to_a_private_address_is_refused(world: World) -> None:
    for target in ("http://127.0.0.1/", "http://[::1]/", "//169.254.169.254/latest", "javascript:alert(1)"):
        world.server.set("/p", page(f"0; url={target}"))
        assert word(go(world, "http://pub.example/p", target=Target.PAGE)) == "bad_redirect"
    assert {ip for ip, _ in world.connects} == {PUBLIC}


# -- S10: no proxy and no password from the surroundings


def test_S10_the_environment_names_no_proxy(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with RawServer(default=Reply(body=b"proxied")) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy.origin}")
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".netrc").write_text("machine pub.example login a password b\n")
        assert go(world, "http://pub.example/f").body == FEED
        assert proxy.connections == 0
    assert "authorization" not in world.server.requests[0].headers


def test_S10_the_admins_proxy_gets_every_hop(world: World) -> None:
    with RawServer() as proxy:
        proxy.set("http://pub.example/r", redirect("http://far.example/f"))
        proxy.set("http://far.example/f", Reply(body=b"proxied"))
        proxy.set("http://pub.example/p", redirect("http://10.0.0.1/"))
        with local_fetcher(proxy, fetch_proxy=f"http://{proxy.origin}", fetch_ports=(80,)) as fetcher:
            assert fetcher.fetch(FetchRequest("http://pub.example/r")).body == b"proxied"
            assert word(fetcher.fetch(FetchRequest("http://pub.example/p"))) == "bad_redirect"
            assert word(fetcher.fetch(FetchRequest("http://127.0.0.2:22/"))) == "refused"


# -- S11: private feeds by the admin's list


def test_S11_private_only_when_asked_for_and_never_by_a_redirect(world: World) -> None:
    world.add("there.example", "192.168.1.6")
    world.served.add("192.168.1.5")
    world.server.set("/home", redirect("/f"))
    world.server.set("/r", redirect("http://192.168.1.5/f"))
    world.server.set("/n", redirect("http://there.example/f"))
    world.server.set("/away", redirect("http://pub.example/r"))
    allow: dict[str, Any] = {"fetch_allow": ("192.168.1.0/24",)}
    assert word(go(world, "http://192.168.1.5/home", **allow)) is None
    assert word(go(world, "http://there.example/f", **allow)) is None
    assert word(go(world, "http://192.168.2.5/f", **allow)) == "refused"
    assert word(go(world, "http://pub.example/r", **allow)) == "bad_redirect"
    assert word(go(world, "http://pub.example/n", **allow)) == "refused"
    # Out and home again: the second redirect comes from another host.
    assert word(go(world, "http://192.168.1.5/away", **allow)) == "bad_redirect"


@pytest.mark.parametrize("purpose", [Purpose.HUB, Purpose.PUSH])
def test_S11_hubs_and_push_services_need_their_own_list(world: World, purpose: Purpose) -> None:
    world.add("there.example", "192.168.1.5")
    feed = FetchRequest("http://there.example/f")
    post = FetchRequest("http://there.example/f", form=b"x", follow=False, purpose=purpose)
    own = {f"{purpose}_allow": ("192.168.1.0/24",)}
    for settings, allowed, refused in (({"fetch_allow": ("192.168.1.0/24",)}, feed, post), (own, post, feed)):
        with world.fetcher(**settings) as fetcher:
            assert word(fetcher.fetch(allowed)) is None
            assert word(fetcher.fetch(refused)) == "refused"


def test_S11_a_push_never_uses_the_open_connection_of_a_private_feed(world: World) -> None:
    world.add("there.example", "192.168.1.5")
    post = FetchRequest("http://there.example/f", form=b"x", follow=False, purpose=Purpose.PUSH)
    with world.fetcher(fetch_allow=("192.168.1.0/24",)) as fetcher:
        assert word(fetcher.fetch(FetchRequest("http://there.example/f"))) is None
        fetcher._resolver._keep("there.example", Answer((PUBLIC,)))
        assert word(fetcher.fetch(post)) is None
    assert world.connects == [("192.168.1.5", 80), (PUBLIC, 80)]


def test_S11_who_left_home_is_away_for_good() -> None:
    settings = Settings()
    transfer = Transfer(FetchRequest("http://pub.example/"), print, settings, Policy(settings))
    transfer.begin()
    away = []
    for target in ("/b", "http://other.example/", "/c", "http://pub.example/"):
        transfer.finish_hop(HopResult(302, [f"Location: {target}\r\n".encode()]))
        away.append(not transfer.requested)
    assert away == [False, True, True, True]


def test_S11_an_address_named_by_a_foreign_page_is_not_asked_for(world: World) -> None:
    world.served.add("192.168.1.5")
    private = "http://192.168.1.5/f"
    with world.fetcher(fetch_allow=("192.168.1.0/24",)) as fetcher:
        foreign = fetcher.fetch(FetchRequest(private, referred_by="http://pub.example/"))
        own = fetcher.fetch(FetchRequest(private, referred_by="http://192.168.1.5/blog"))
        public = fetcher.fetch(FetchRequest("http://pub.example/f", referred_by="http://192.168.1.5/"))
    assert (word(foreign), word(own), word(public)) == ("refused", None, None)


# -- S13: TLS is always checked


def test_S13_certificates_are_checked() -> None:
    tls = (str(TLS / "cert.pem"), str(TLS / "key.pem"))
    with RawServer({"/f": Reply(body=FEED)}, tls=tls) as server:
        world = World(server)
        world.add("wrong.example", "93.184.216.1")
        assert word(go(world, "https://pub.example/f")) == "tls_failed"
        world.cafile = tls[0]
        assert word(go(world, "https://pub.example/f")) is None
        assert word(go(world, "https://wrong.example/f")) == "tls_failed"
    assert len(server.requests) == 1


class _Plain(RawServer):
    """Complains of whatever is no HTTP, as web servers do of TLS at their port 80."""

    def opened(self, connection: Any) -> None:
        super().opened(connection)
        connection.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_a_port_that_speaks_no_tls_is_told_from_a_bad_certificate() -> None:
    with _Plain() as server:
        assert word(go(World(server), "https://pub.example/f")) == "https_failed"


def test_an_address_with_a_password_names_it_as_the_reason() -> None:
    with RawServer() as server:
        found = go(World(server), "http://user:secret@pub.example/f")
        assert server.served == 0
    assert word(found) == "login_in_url"
    assert found.error is not None
    assert "user name or password" in found.error.message
    assert "secret" not in found.error.message + found.error.detail


@pytest.mark.parametrize(
    ("status", "says", "advises"),
    [
        ("http_403", "block feed readers", "Open the address in a browser"),
        ("http_401", "requires a login", "public feed"),
        ("http_304", "unexpected “Not modified” response", "Only the site's owner can fix this"),
    ],
)
def test_statuses_with_more_than_one_cause_are_not_called_by_one(
    status: str, says: str, advises: str
) -> None:
    assert says in get_feed_message(status)
    assert advises in get_feed_fix(status)
