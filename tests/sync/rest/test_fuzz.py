"""Whatever the document lets in is answered as the document says, and never with a fault of ours."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import schemathesis
from flask import Flask
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.config import Settings
from app.web.api.rest import shapes
from app.web.problems import PREFIX
from tests.sharing.conftest import People
from tests.sync.rest.conftest import Program
from tests.sync.rest.world import World, world

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: Requests for each operation, of each kind: such as fit the document, and such as do not.
FITTING, OTHERS = 4, 3


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Limits that are not reached here: else they would hide what lies behind them."""
    things = ("likes", "comments", "shares", "follows", "imports", "reports", "addresses")
    often: dict[str, Any] = {f"{thing}_per_hour": 10_000 for thing in things}
    return dataclasses.replace(settings, api_per_minute=10_000, **often)


@pytest.fixture
def fuzzed(people: People) -> World:
    """Somebody who has one of everything."""
    return world(people, 1)


def _headers(of: Program) -> dict[str, str]:
    return {"Authorization": f"Bearer {of.secret}", "Accept-Encoding": "identity"}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_W15_no_request_is_a_server_error(
    app: Flask, fuzzed: World, program: Callable[..., Program], mode: GenerationMode
) -> None:
    w, headers = fuzzed, _headers(program(fuzzed.who))
    schema = schemathesis.openapi.from_wsgi(f"{PREFIX}openapi.json", app)
    count, statuses = 0, collections.Counter[int]()
    for found in schema.get_all_operations():
        operation = found.ok()

        @hypothesis.settings(
            max_examples=FITTING if mode is GenerationMode.POSITIVE else OTHERS,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            nonlocal count
            count += 1
            # Half of them about what there is.
            if count % 2 and case.path_parameters:
                for name in case.path_parameters:
                    case.path_parameters[name] = w.of(shapes.PARTS[name][1])
            # What gives its token back comes with another one each time.
            own = _headers(program(w.who)) if case.path == "/me/token" else headers
            response = case.call(headers=own)
            statuses[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        send()
    assert statuses[429] == 0
    wanted = 200 if mode is GenerationMode.POSITIVE else 400
    assert statuses[wanted] > 50, statuses
