"""The way of a browser's connection from the web tier to the controller, on the real processes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import Callable, Iterator

import pytest

from app.adapters.redis.events import RedisEvents
from app.config import Settings
from controller.messages import get_handover_path, get_socket_path
from controller.result_channel import ResultChannel
from tests.support import live

Inside = Callable[..., None]
ANN = 1_700_000_000_000_001


@pytest.fixture
def web(settings: Settings, events: RedisEvents, db: object) -> Iterator[Settings]:
    """A web tier with two threads; no port of the controller's own."""
    own = dataclasses.replace(settings, events_port=0, web_threads=2)
    part = live.web(own)
    yield own
    assert part.stop() == 0


def _url(events: RedisEvents) -> str:
    return "/events?pass=" + events.issue_pass(ANN, [1], events.get_position())


def _hears(ear: live.Ear, events: RedisEvents) -> None:
    events.notify_counts(ANN)
    assert ear.next()[1] == "counts"


def test_streams_come_by_the_web_tiers_port_and_hold_none_of_its_threads(
    web: Settings, events: RedisEvents, inside: Inside
) -> None:
    with contextlib.ExitStack() as stack:
        # Without a controller there is no stream, and no error in the browser's console.
        assert stack.enter_context(live.listening(web.port, _url(events))).status == 204
        inside(events_port=0)
        ears = [stack.enter_context(live.listening(web.port, _url(events))) for _ in range(10)]
        assert [ear.status for ear in ears] == [200] * 10
        assert stack.enter_context(live.listening(web.port, "/healthz")).status == 200
        events.notify_counts(ANN)
        assert {ear.next()[1] for ear in ears} == {"counts"}
        assert stack.enter_context(live.listening(web.port, "/events")).status == 401
        assert stack.enter_context(live.listening(web.port, "/eventsx")).status == 404


@pytest.mark.parametrize("way", ["later", "in pieces", "together"])
def test_a_connection_is_handed_over_whatever_came_before(
    web: Settings, events: RedisEvents, inside: Inside, way: str
) -> None:
    """On a connection that was used before; its head in two pieces; sent along with another request."""
    inside(events_port=0)
    request = live.get(_url(events))
    with contextlib.closing(socket.create_connection(("127.0.0.1", web.port), 20)) as sock:
        first = live.Ear(sock, live.get("/healthz") + (request if way == "together" else ""))
        assert (first.status, first.read(3)) == (200, b"ok\n")
        if way == "in pieces":
            sock.sendall(request[:20].encode())
            request = request[20:]
        ear = first.again("" if way == "together" else request)
        assert ear.status == 200
        _hears(ear, events)
        ear.close()


def test_after_a_restart_of_the_controller_the_web_tier_finds_the_new_one(
    web: Settings, events: RedisEvents
) -> None:
    for _ in range(2):
        with (
            live.inside(dataclasses.replace(web, events_port=0)),
            live.listening(web.port, _url(events)) as ear,
        ):
            _hears(ear, events)
        with live.listening(web.port, _url(events)) as ear:
            assert ear.status == 204


def test_a_home_with_a_long_path_has_these_sockets_too(
    settings: Settings, events: RedisEvents, db: object
) -> None:
    home = settings.home / ("d" * 60) / ("e" * 60)
    deep = dataclasses.replace(settings, home=home, events_port=0, web_threads=2)
    home.mkdir(parents=True)
    assert len(str(get_handover_path(deep))) > 108
    with contextlib.ExitStack() as stack:
        for start in (live.controller, live.web):
            stack.callback(start(deep).stop)
        ear = stack.enter_context(live.listening(deep.port, _url(events)))
        _hears(ear, events)
        assert asyncio.run(ResultChannel(deep.redis_url, get_socket_path(deep))._hub_answers())
