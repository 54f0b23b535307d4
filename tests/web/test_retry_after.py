"""Every response that says "not now" says when: 409 and 503, on every route and by every handler."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask, request
from werkzeug.exceptions import Conflict, ServiceUnavailable
from werkzeug.routing import Rule

from app import errors
from app.errors import EventrError, LaterError, StoreError

_KINDS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EventrError) and kind.http_status in (409, 503)
    ),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", [*_KINDS, Conflict, ServiceUnavailable, 409, 503])
def test_every_conflict_and_outage_says_when_to_try_again(
    app: Flask, kind: type[EventrError] | type[Conflict] | int
) -> None:
    every_route = kind in (StoreError, Conflict, 409, 503)
    silent = [
        (rule.rule, headers)
        for rule in (list(app.url_map.iter_rules()) if every_route else _choose_routes(app))
        for headers in ([{}] if every_route else _CLIENTS)
        if not _says_when(app, rule, headers, kind)
    ]
    assert silent == []


#: A browser, a script in a page, and a program.
_CLIENTS = [{}, {"HX-Request": "true"}, {"Accept": "application/json"}]


def _choose_routes(app: Flask) -> list[Rule]:
    """Return one route of each blueprint."""
    return list({rule.endpoint.partition(".")[0]: rule for rule in app.url_map.iter_rules()}.values())


def _says_when(app: Flask, rule: Rule, headers: dict[str, str], kind: Any) -> bool:
    path = re.sub(r"<[^>]*>", "1", rule.rule)
    method = min((rule.methods or set()) - {"HEAD", "OPTIONS"}, default="GET")
    with app.test_request_context(path, method=method, headers=headers):
        request.url_rule = rule  # not every converter knows "1"
        if isinstance(kind, int):  # a page or a plain response of a view
            found = app.make_response(("", kind))
        else:
            found = app.make_response(app.handle_user_exception(kind(30) if kind is LaterError else kind()))
        found = app.process_response(found)
        return found.status_code not in (409, 503) or "Retry-After" in found.headers


def test_an_error_class_of_each_status_is_tried() -> None:
    assert StoreError in _KINDS
    assert {kind.http_status for kind in _KINDS} == {409, 503}


def test_a_given_time_is_kept(app: Flask) -> None:
    with app.test_request_context("/"):
        found = app.process_response(app.make_response(("", 503, {"Retry-After": "77"})))
        assert found.headers["Retry-After"] == "77"
