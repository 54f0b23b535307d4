"""The admin port by itself: who is answered, what a hung process looks like, what cannot harm it."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.config import Settings
from app.errors import SettingsError
from app.models.operations.settings_view import list_settings
from app.monitoring import admin_port
from app.monitoring.admin_port import AdminServer, Pulse
from tests.operations import ask

TOKEN = "hT7cV2mQ9xB4nW6kR8pL3sD5fG1jZ0yA"
ANYWHERE = dataclasses.replace(Settings(), metrics_listen="127.0.0.1:0")
Port = Callable[..., int]


async def _nothing() -> list[str]:
    return []


async def _figures() -> bytes:
    return b"x 1\n"


@pytest.fixture
def port() -> Iterator[Port]:
    """``port(**settings)``: serve, and return where."""
    with contextlib.ExitStack() as stack:

        def serve(pulse: Pulse | None = None, figures: admin_port.Figures = _figures, **changes: Any) -> int:
            settings = dataclasses.replace(ANYWHERE, **changes)
            server = AdminServer(settings, "manager", pulse or Pulse(), _nothing, figures)
            stack.callback(server.stop)
            server.start()
            assert server.port
            return server.port

        yield serve


def test_three_pages_and_nothing_else(port: Port) -> None:
    here = port()
    metrics = ask.at("127.0.0.1", here, "/metrics")
    assert (metrics.status, metrics.body) == (200, b"x 1\n")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert metrics.headers["cache-control"] == "no-store"
    assert ask.at("127.0.0.1", here, "/readyz?verbose").json == {
        "ready": True,
        "process": "manager",
        "missing": [],
    }
    assert ask.at("127.0.0.1", here, "/healthz").json["ok"] is True
    head = ask.at("127.0.0.1", here, "/metrics", "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "4")
    for path in ("/", "/metrics/", "//metrics", "/../metrics", "/healthz%20"):
        assert ask.at("127.0.0.1", here, path).status == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask.at("127.0.0.1", here, "/metrics", method).status == 405, method


def test_V04_a_token_is_asked_for_whatever_a_proxy_says(port: Port) -> None:
    here = port(metrics_token=TOKEN)
    for path in ("/metrics", "/healthz", "/readyz", "/nope"):
        refused = ask.at("127.0.0.1", here, path, X_Forwarded_For="127.0.0.1", Forwarded="for=127.0.0.1")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert b"x 1" not in refused.body
        for wrong in (
            TOKEN,
            f"Bearer {TOKEN}x",
            "Bearer",
            f"Basic {TOKEN}",
            f"Bearer {TOKEN[:-1]}",
            "Bearer é",
        ):
            assert ask.at("127.0.0.1", here, path, Authorization=wrong).status == 401, wrong
    # Who has it may come by any name.
    right = ask.at("127.0.0.1", here, "/metrics", Authorization=f"Bearer {TOKEN}", Host="metrics.example")
    assert right.status == 200


def test_without_a_token_a_name_that_a_page_chose_is_refused(port: Port) -> None:
    here = port()
    for name in ("rebound.example", "rebound.example:9180", "localhost.example", "", "127.0.0.1.example"):
        assert ask.at("127.0.0.1", here, "/metrics", Host=name).status == 403, name
    for name in ("127.0.0.1", "localhost:9180", "[::1]:9180", "LOCALHOST", "10.1.2.3:80"):
        assert ask.at("127.0.0.1", here, "/metrics", Host=name).status == 200, name


def test_garbage_is_answered_or_dropped_and_hurts_nobody(port: Port) -> None:
    here = port()
    assert ask.raw(here, b"\x16\x03\x01\x02\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert ask.raw(here, b"GET /metrics SPDY/3\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    two = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n"
    assert ask.raw(here, two).startswith(b"HTTP/1.1 400 ")
    assert ask.raw(here, b"GET /" + b"a" * 100_000) == b""
    assert ask.raw(here, b"GET / HTTP/1.1\r\n") == b""
    with contextlib.ExitStack() as stack:
        for _ in range(40):  # they say nothing; beyond sixteen nobody is let in
            stack.enter_context(socket.create_connection(("127.0.0.1", here)))
        assert ask.raw(here, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == b""
    assert ask.at("127.0.0.1", here, "/healthz").status == 200


def test_a_loop_that_hangs_is_not_healthy(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(admin_port.HUNG, "manager", 0.0)
    sick = ask.at("127.0.0.1", port(), "/healthz")
    assert (sick.status, sick.json["ok"]) == (503, False)


def test_figures_that_cannot_be_made_are_no_empty_answer(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> bytes:
        raise KeyError("canary")

    answer = ask.at("127.0.0.1", port(figures=broken), "/metrics")
    assert answer.status == 503
    assert b"canary" not in answer.body
    assert "metrics_failed" in caplog.messages


def test_a_port_that_is_taken_ends_nothing(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    settings = dataclasses.replace(ANYWHERE, metrics_listen=f"127.0.0.1:{port()}")
    second = AdminServer(settings, "manager", Pulse(), _nothing, _figures)
    second.start()
    assert second.port == 0
    assert "admin_unavailable" in caplog.messages
    second.stop()


@pytest.mark.parametrize("listen", ["127.0.0.1:9180", "[::1]:9180", "127.8.0.1:0"])
def test_loopback_needs_no_token(listen: str) -> None:
    assert Settings(metrics_listen=listen).metrics_listen == listen


@pytest.mark.parametrize("listen", ["0.0.0.0:9180", "[::]:9180", "10.0.0.7:9180", "192.0.2.1:80"])
def test_other_addresses_need_a_token(listen: str) -> None:
    with pytest.raises(SettingsError, match="EVENTR_METRICS_TOKEN"):
        Settings(metrics_listen=listen)
    assert Settings(metrics_listen=listen, metrics_token=TOKEN).metrics_listen == listen


@pytest.mark.parametrize(
    "listen", ["localhost:9180", "9180", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65535", ":80"]
)
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(SettingsError, match="EVENTR_METRICS_LISTEN"):
        Settings(metrics_listen=listen, metrics_token=TOKEN)


def test_a_short_token_is_refused_and_a_good_one_not_shown() -> None:
    with pytest.raises(SettingsError, match="EVENTR_METRICS_TOKEN"):
        Settings(metrics_token="secret")
    shown = list_settings(Settings(metrics_token=TOKEN, report_urls="json://user:canary@127.0.0.1/"))
    assert TOKEN not in str(shown)
    assert "canary" not in str(shown)


def test_the_processes_of_a_machine_take_the_next_ports() -> None:
    settings = Settings(metrics_listen="[::1]:9180")
    assert [admin_port.get_url(settings, name) for name in ("manager", "controller", "updater")] == [
        "http://[::1]:9180",
        "http://[::1]:9181",
        "http://[::1]:9182",
    ]
    assert admin_port.get_url(Settings(), "manager") == ""
