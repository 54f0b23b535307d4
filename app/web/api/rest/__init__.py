"""The REST API, version 1: ``/api/v1/…``, its OpenAPI document and the page to try it.

One table (:mod:`app.web.api.rest.table`) defines routes, checks and document; a module per resource fills it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response

from app.web.api.rest import (  # noqa: F401 — importing them fills the table
    account,
    comments,
    discover,
    discoveries,
    docs,
    entries,
    events,
    feed_addresses,
    files,
    folders,
    health,
    imports,
    lists,
    notes,
    notifications,
    page_lists,
    pages,
    people,
    playback,
    profiles,
    rules,
    run,
    settings,
    shares,
    statistics,
    streams,
    subscriptions,
    tags,
    targets,
)
from app.web.api.rest.table import OPERATIONS, Operation
from app.web.security.sessions import for_programs

bp = Blueprint("rest", __name__, url_prefix="/api/v1")
bp.before_request(run.answer_preflight)
bp.after_app_request(run.add_api_headers)

_PART = re.compile(r"\{(\w+)\}")


def _rule(operation: Operation) -> str:
    """Return the path in Flask's notation; the checks of request data validate its parts."""
    return _PART.sub(r"<\1>", operation.path)


def _view(operation: Operation) -> Callable[..., Response]:
    def answer_request(**path: Any) -> Response:
        return run.answer_request(operation, path)

    return for_programs(answer_request)


for _each in OPERATIONS:
    bp.add_url_rule(_rule(_each), _each.name, _view(_each), methods=[_each.method])
