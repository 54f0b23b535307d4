"""No operation of the REST API sends a command to MongoDB twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app import create_app
from app.bootstrap.services import Services
from app.web.api.rest import openapi, shapes
from app.web.api.rest.table import OPERATIONS, Operation
from tests.sharing.conftest import People
from tests.support.commands import CommandLog, build_logged_services
from tests.sync.rest.conftest import Program, token_for
from tests.sync.rest.test_document import _BEFORE, _sent, _takes_away
from tests.sync.rest.world import world
from tests.web.test_commands import RESHARE, build_social_world

Logged = tuple[Services, CommandLog]


@pytest.fixture
def logged(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    with build_logged_services(services.settings, monkeypatch) as both:
        yield both


def test_no_operation_sends_a_command_twice(people: People, logged: Logged, services: Services) -> None:
    built, log = logged
    app, document = create_app(built.settings, built), json.loads(openapi.build_document())
    shared, repeated, number = build_social_world(people), dict[str, Any](), 1
    callers: dict[str, Program] = {}
    for each in sorted(OPERATIONS, key=_takes_away):
        w = shared
        if _takes_away(each):  # it needs somebody who still has everything
            number += 1
            w = world(people, number)
        if each.name in _BEFORE:
            _BEFORE[each.name](people, w)
        if w.name not in callers:
            callers[w.name] = Program(app, token_for(services, w.who))
        for answer in _logged(log, callers[w.name], each, document, w):
            assert answer.status_code in each.statuses, (each.name, answer.text)
            if found := log.find_repeats():
                repeated[each.name] = found
    assert not repeated


def _logged(
    log: CommandLog, caller: Program, each: Operation, document: dict[str, Any], w: Any
) -> Iterator[Any]:
    log.clear()
    for answer in _sent(caller, each, document, w):
        yield answer
        log.clear()


def test_a_reshare_stays_within_its_commands(people: People, logged: Logged, services: Services) -> None:
    built, log = logged
    w = build_social_world(people)
    caller = Program(create_app(built.settings, built), token_for(services, w.who))
    caller.get("/me")  # notes that the token is used
    log.clear()
    answer = caller.post(f"/entries/{w.real['theirs']}/share", {"note": "Look"})
    assert answer.status_code == 201, answer.text
    assert len(log.commands) <= RESHARE, log.commands
    assert w.real[shapes.SHARE] != answer.get_json()["id"]
