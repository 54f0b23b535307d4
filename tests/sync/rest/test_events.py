"""The stream of events, from the pass to the event, on a real web tier and a real controller."""

from __future__ import annotations

import dataclasses
import json
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from tests.sharing.conftest import People
from tests.support import live
from tests.sync.rest.conftest import Program, token_for


@pytest.fixture
def settings(settings: Settings) -> Iterator[Settings]:
    """A short home, and a port for the web tier."""
    with live.homed(settings) as own:
        yield dataclasses.replace(own, web_threads=2, events_port=0)


@pytest.fixture
def port(settings: Settings, services: Services) -> Iterator[int]:
    """Where the web tier listens, a controller behind it."""
    with live.inside(settings):
        part = live.web(settings)
        yield settings.port
        assert part.stop() == 0


def _ask(port: int, method: str, path: str, secret: str, body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(asked) as answer:
        return answer.status, json.load(answer)


def test_a_program_hears_of_what_it_and_others_do(
    port: int, services: Services, people: People, ann: Actor
) -> None:
    ids = people.blog([ann], entries=2)
    secret = token_for(services, ann, "read", "mark")
    status, made = _ask(port, "POST", "/events/pass", secret)
    assert status == 201
    url = urlsplit(made["url"])
    assert (url.path, parse_qs(url.query)["pass"]) == ("/events", [made["token"]])
    with live.listening(port, f"{url.path}?{url.query}") as ear:
        assert ear.status == 200
        assert _ask(port, "POST", "/entries/mark", secret, {"ids": ids[:1], "read": True})[1]["moved"] == -1
        assert ear.next()[1] == "counts"
        people.blog([ann], entries=1)
        (feed,) = services.gateways.subscriptions.find_feed_ids(ann.user_id)
        services.events.notify_new_entries({feed: 1})
        found = ear.next()
        while found[1] != "new":
            found = ear.next()
        assert found[2]["feeds"] == {str(feed): 1}
    assert _ask(port, "GET", "/counts", secret)[1]["unread"] == 2
    assert _ask(port, "PATCH", f"/entries/{ids[0]}", secret, {"starred": True})[1]["starred"]


def test_W08_with_its_token_ends_what_a_program_listens_to(port: int, services: Services, ann: Actor) -> None:
    secret = token_for(services, ann, "read")
    passes = [_ask(port, "POST", "/events/pass", secret)[1]["token"] for _ in range(2)]
    with live.listening(port, f"/events?pass={passes[0]}") as ear:
        assert ear.status == 200
        (token,) = services.tokens.list_tokens(ann)
        services.tokens.revoke(ann, token.id)
        assert ear.ended()
    with live.listening(port, f"/events?pass={passes[1]}") as ear:
        assert ear.status == 401


def test_W08_a_pass_that_is_asked_for_while_the_token_ends_is_none(
    mine: Program, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (token,) = services.tokens.list_tokens(ann)
    place = services.events.get_position

    def revoked_meanwhile() -> str:
        services.tokens.revoke(ann, token.id)
        return place()

    monkeypatch.setattr(services.events, "get_position", revoked_meanwhile)
    assert mine.post("/events/pass").status_code == 401
