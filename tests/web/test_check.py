"""The self-test of the way to the server: each probe passes, and fails where a proxy is in its way."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from app import cli, create_app, embedded
from app.bootstrap.services import Services
from app.commands import doctor
from app.commands.check import IGNORED, run_probe
from app.models.operations.check_result import Severity
from app.models.operations.proxy_probes import AUTHORIZATION, BY_NAME, PROBES
from tests.conftest import Eventually
from tests.platform.test_web_tier import Web, _web
from tests.support.up import free_port
from tests.web.conftest import Visitor

Wsgi = Callable[[dict[str, Any], Any], Any]


@pytest.fixture(scope="module")
def tier(eventually: Eventually, servers: embedded.EmbeddedServers) -> Iterator[Web]:
    """The real web tier under gunicorn, which hands slashes on as they come."""
    yield from _web(
        eventually,
        *(1e6, 1e6, 1e6),
        EVENTR_MONGODB_URI=servers.mongodb_uri,
        EVENTR_MONGODB_NAME="test_check",
        EVENTR_REDIS_URL=servers.redis_url,
        EVENTR_SECRET_KEY="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
    )


def test_all_is_well_without_a_proxy(tier: Web) -> None:
    done = CliRunner().invoke(cli.cli, ["check", f"http://127.0.0.1:{tier.port}"])
    assert done.exit_code == 0, done.output
    assert [line.split()[:2] for line in done.output.splitlines()] == [["ok", p.name] for p in PROBES]


def test_by_another_port_than_the_given_one_it_fails(tier: Web, services: Services) -> None:
    with _served(services, base_url="http://127.0.0.1:9") as base:
        done = CliRunner().invoke(cli.cli, ["check", base])
    assert done.exit_code == 1
    assert "FAIL  origin" in done.output
    assert "nginx: proxy_set_header Host $host;" in done.output
    assert done.output.count("FAIL") == 1


def test_where_nobody_answers_it_says_so_once() -> None:
    base = f"http://127.0.0.1:{free_port()}"
    done = CliRunner().invoke(cli.cli, ["check", base])
    assert done.exit_code == 1
    assert f"Can't get a valid response from {base}: Connection refused." in done.output
    assert "FAIL" not in done.output


def test_where_somebody_else_answers_it_says_so(services: Services) -> None:
    with _served(services, _refusing(lambda environ: True, "404 Not Found")) as base:
        done = CliRunner().invoke(cli.cli, ["check", base])
    assert done.exit_code == 1
    assert f"{base} isn't running Eventr, or its version is too old (HTTP status 404)." in done.output


@pytest.mark.parametrize(
    "url", ["ftp://x", "reader.example.org", "https://x/path", "https://", "https://a:b@x"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    done = CliRunner().invoke(cli.cli, ["check", url])
    assert "Enter an address like" in str(done.exception)


def test_another_name_is_said_to_be_unknown(services: Services) -> None:
    with _served(services, base_url="http://reader.example.org") as base:
        done = CliRunner().invoke(cli.cli, ["check", base])
    assert done.exit_code == 1
    assert "The server doesn't recognize the host name 127.0.0.1" in done.output


# -- proxies that are in the way
def _without(name: str) -> Callable[[Wsgi], Wsgi]:
    def proxy(app: Wsgi) -> Wsgi:
        return lambda environ, start: app({k: v for k, v in environ.items() if k != name}, start)

    return proxy


def _refusing(when: Callable[[dict[str, Any]], bool], status: str) -> Callable[[Wsgi], Wsgi]:
    def proxy(app: Wsgi) -> Wsgi:
        def answer(environ: dict[str, Any], start: Any) -> Any:
            if when(environ):
                start(status, [("Content-Length", "0"), ("Connection", "close")])
                return []
            return app(environ, start)

        return answer

    return proxy


def _changing(name: str, old: str, new: str) -> Callable[[Wsgi], Wsgi]:
    def proxy(app: Wsgi) -> Wsgi:
        return lambda environ, start: app({**environ, name: environ[name].replace(old, new)}, start)

    return proxy


def _tagging(app: Wsgi) -> Wsgi:
    """As Apache's mod_deflate does where nobody forbids it."""

    def proxy(environ: dict[str, Any], start: Any) -> Any:
        def head(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            tagged = [(k, f'{v[:-1]}-gzip"' if k == "ETag" else v) for k, v in headers]
            return start(status, tagged, *rest)

        return app(environ, head)

    return proxy


def _keeping(app: Wsgi) -> Wsgi:
    kept: dict[str, tuple[Any, list[bytes]]] = {}

    def answer(environ: dict[str, Any], start: Any) -> Any:
        key = environ["REQUEST_URI"]
        if "fresh" not in key:
            return app(environ, start)
        if key not in kept:
            said: list[Any] = []
            body = list(app(environ, lambda *head, **_: said.append(head)))
            kept[key] = said[0], body
        start(*kept[key][0])
        return kept[key][1]

    return answer


class _AsItCame(WSGIRequestHandler):
    """Python's own server makes two slashes one before anybody sees them."""

    def parse_request(self) -> bool:
        done = super().parse_request()
        if done:
            self.path = self.requestline.split()[1]
        return done


@contextlib.contextmanager
def _served(
    services: Services, proxy: Callable[[Wsgi], Wsgi] = lambda app: app, **settings: Any
) -> Iterator[str]:
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    own = dataclasses.replace(services.settings, **{"base_url": base, "port": port, **settings})
    server = make_server("127.0.0.1", port, proxy(create_app(own, services)), True, request_handler=_AsItCame)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield base
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("name", "proxy", "given"),
    [
        ("", lambda app: app, {}),
        ("authorization", _without("HTTP_AUTHORIZATION"), {}),
        ("etag", _without("HTTP_IF_NONE_MATCH"), {}),
        ("etag", _tagging, {}),
        ("slash", _refusing(lambda e: e["REQUEST_URI"].startswith("//"), "404 Not Found"), {}),
        ("slash", _refusing(lambda e: e["REQUEST_URI"].startswith("//"), "301 Moved"), {}),
        ("path", _refusing(lambda e: "%2F" in e["REQUEST_URI"].partition("?")[0], "404 Not Found"), {}),
        ("path", _changing("PATH_INFO", "feed/17", "feed%2F17"), {}),
        ("query", _changing("QUERY_STRING", "%2B", "+"), {}),
        ("query", _changing("QUERY_STRING", "%26", "&"), {}),
        ("body", _refusing(lambda e: int(e.get("CONTENT_LENGTH") or 0) > 500_000, "413 Too Large"), {}),
        ("fresh", _keeping, {}),
        ("forwarded", lambda app: app, {"trusted_proxies": 1}),
        ("origin", lambda app: app, {"base_url": "http://127.0.0.1:9"}),
    ],
)
def test_each_probe_finds_what_is_in_its_way(
    services: Services, name: str, proxy: Callable[[Wsgi], Wsgi], given: dict[str, Any]
) -> None:
    with _served(services, proxy, **given) as base:
        found = [probe.name for probe in PROBES if run_probe(probe, urlsplit(base), probe.size)]
    assert found == ([name] if name else [])


def _forwarding(app: Wsgi) -> Wsgi:
    def proxy(environ: dict[str, Any], start: Any) -> Any:
        sent = environ.get("HTTP_X_FORWARDED_FOR")
        came = f"{sent}, 192.0.2.1" if sent else "192.0.2.1"
        return app({**environ, "HTTP_X_FORWARDED_FOR": came}, start)

    return proxy


@pytest.mark.parametrize(("trusted", "warns"), [(0, True), (1, False)])
def test_W06_a_forwarded_address_that_is_not_trusted_is_warned_of(
    services: Services, caplog: pytest.LogCaptureFixture, trusted: int, warns: bool
) -> None:
    """By ``eventr check``, the doctor and the log, which says so once and quotes nothing."""
    with _served(services, _forwarding, trusted_proxies=trusted) as base:
        done = CliRunner().invoke(cli.cli, ["check", base])
        told = list(doctor.check_proxies(dataclasses.replace(services.settings, base_url=base)))
    assert ("WARN  proxies" in done.output) is warns
    assert "FAIL" not in done.output
    assert [(one.word, one.text) for one in told] == [(Severity.WARN, IGNORED)] * warns
    logged = [one for one in caplog.messages if "forwarded_address_ignored" in one]
    assert len(logged) == warns
    assert "192.0.2.1" not in "".join(logged)


def test_W06_without_a_proxy_nothing_is_warned_of(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    """The test's own forged address doesn't count as one."""
    with _served(services) as base:
        assert "WARN" not in CliRunner().invoke(cli.cli, ["check", base]).output
        assert not list(doctor.check_proxies(dataclasses.replace(services.settings, base_url=base)))
    assert "forwarded_address_ignored" not in caplog.text


# -- the page
def _asked(app: Flask, path: str, base_url: str, **headers: str) -> bool:
    answer = app.test_client().get(path, base_url=base_url, headers=headers)
    assert answer.status_code == 200
    return bool(answer.get_json()["ok"])


def _app(services: Services, base_url: str, **settings: Any) -> Flask:
    return create_app(dataclasses.replace(services.settings, base_url=base_url, **settings), services)


def test_https_counts_where_the_proxy_says_so_and_is_believed(services: Services) -> None:
    base = "https://reader.example"
    path = f"/check/%s?origin={base}"
    for proxies, proto, ok in ((1, "https", True), (0, "https", False), (1, "http", False)):
        app = _app(services, base, trusted_proxies=proxies)
        for name in ("secure", "origin"):
            came = _asked(app, path % name, "http://reader.example", **{"X-Forwarded-Proto": proto})
            assert came is ok, (name, proxies, proto)


@pytest.mark.parametrize(
    ("base", "origin", "ok"),
    [
        ("http://reader.example", "http://reader.example", False),
        ("http://127.0.0.1:8080", "http://localhost:8080", True),
        ("http://127.0.0.1:8080", "http://reader.example", False),
        ("http://127.0.0.1:8080", "", False),
        ("http://127.0.0.1:8080", "http://[::1", False),
        ("http://127.0.0.1:8080", "http://127.0.0.1:x", False),
    ],
)
def test_without_https_only_this_machine_is_safe(
    services: Services, base: str, origin: str, ok: bool
) -> None:
    assert _asked(_app(services, base), f"/check/secure?origin={origin}", base) is ok


def test_a_proxy_that_drops_the_port_is_none_in_the_way(services: Services) -> None:
    """``proxy_set_header Host $host`` of nginx does; all addresses are built of the one that was set."""
    base = "https://reader.example:8443"
    app = _app(services, base, trusted_proxies=1)
    origin = f"/check/origin?origin={base}"
    assert _asked(app, origin, "http://reader.example", **{"X-Forwarded-Proto": "https"})


def test_the_page_says_what_was_seen(app: Flask, services: Services) -> None:
    page = app.test_client().get("/check")
    assert page.status_code == 200
    assert "Set-Cookie" not in page.headers
    for probe in PROBES:
        assert f'id="{probe.name}"' in page.text
    proxied = app.test_client().get("/check", headers={"X-Forwarded-For": "192.0.2.1"})
    assert "set EVENTR_TRUSTED_PROXIES" in proxied.text
    assert "set EVENTR_TRUSTED_PROXIES" not in page.text


def test_for_somebody_who_is_logged_in_it_is_a_page_like_others(ann: Visitor) -> None:
    assert 'href="/settings"' in ann.get("/check").text


def test_scripts_get_the_same(app: Flask, services: Services) -> None:
    said = app.test_client().get("/check/compatibility").get_json()
    assert (said["ok"], said["trusted_proxies"], said["secure_cookies"]) == (False, 0, False)
    assert said["base_url"] == services.settings.own_origin
    assert [each["name"] for each in said["probes"]] == [probe.name for probe in PROBES]
    there = app.test_client().get("/check/compatibility", base_url=services.settings.own_origin)
    assert there.get_json()["ok"]


def test_no_answer_holds_what_was_sent(app: Flask) -> None:
    secret = "GoogleLogin auth=canary"
    for path in (
        "",
        "/compatibility",
        "/authorization",
        "/query?q=canary",
        "/path/canary",
        "/origin?origin=canary",
    ):
        for accept in ("application/json", "text/html"):
            headers = {"Authorization": secret, "Accept": accept, "X-Forwarded-For": "canary"}
            answer = app.test_client().get(f"/check{path}", headers=headers)
            assert answer.status_code == 200
            assert "canary" not in answer.text, (path, accept)
    yes = app.test_client().get("/check/authorization", headers={"Authorization": AUTHORIZATION})
    assert yes.get_json() == {"ok": True}


def test_without_a_script_a_link_or_a_button_tries_it(app: Flask) -> None:
    person = {"Accept": "text/html,application/xhtml+xml"}
    client = app.test_client()
    page = client.get("/check").text
    for probe in PROBES:
        if not probe.by_hand:
            continue
        assert "/check/" in page
        answer = client.get(probe.build_path("http://localhost").replace("//check", "/check"), headers=person)
        assert answer.status_code == 200
        assert "<h1>" in answer.text
    form = client.get("/check/body").text
    assert len(form) > 700 * 1024
    done = client.post("/check/body", data={"filling": "x" * BY_NAME["body"].size}, headers=person)
    assert (done.status_code, "note error" in done.text) == (200, False)
    short = client.post("/check/body", data={"filling": "x"}, headers=person)
    assert "client_max_body_size" in short.text


def test_W16_a_body_has_an_end(services: Services) -> None:
    small = _app(services, "", api_max_bytes=1 << 16)
    told = small.test_client().get("/check/compatibility").get_json()
    (size,) = (each["bytes"] for each in told["probes"] if each["name"] == "body")
    assert size == 1 << 16
    assert small.test_client().post("/check/body", data=b"x" * size).get_json() == {"ok": True}
    assert small.test_client().post("/check/body", data=b"x" * (size * 4)).status_code == 413
