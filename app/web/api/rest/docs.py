"""The document of the API, and the page on which it is read and tried."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from flask import Blueprint, Response, request

from app.web.api.rest import openapi
from app.web.api.rest.table import OPERATIONS, Operation, tags
from app.web.context import web
from app.web.security.sessions import for_programs, public
from app.web.view.render import template

bp = Blueprint("restdocs", __name__)


@bp.get("/api/v1/openapi.json")
@for_programs
def document() -> Response:
    """The document, for programs; anybody may read it."""
    body = openapi.document()
    response = Response(body, content_type="application/json")
    response.set_etag(hashlib.sha256(body).hexdigest()[:32])
    response.make_conditional(request)
    return response


@bp.get("/api/docs")
@public
def page() -> str:
    """All operations with what they take and answer; with scripts each can be tried."""
    return template(
        "pages/api_docs.html",
        groups=_groups(),
        paths=_paths(),
        errors=openapi.errors(),
        base=web().base_url,
        curl=f'curl -H "Authorization: Bearer evt_…" {web().base_url}/api/v1/me',
        example_of=_shown,
        statuses=openapi.statuses,
        meanings=openapi.MEANINGS,
    )


@functools.cache
def _groups() -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {tag: [] for tag in tags()}
    for each in OPERATIONS:
        found[each.tag].append(each)
    return found


@functools.cache
def _paths() -> Any:
    """Return the document's paths; each parameter with its words (``choices``) and its default as JSON."""
    document = json.loads(openapi.document())
    for ways in document["paths"].values():
        for said in ways.values():
            for parameter in said.get("parameters", ()):
                schema = parameter["schema"]
                kind = schema.get("$ref", "").rpartition("/")[2]
                named = document["components"]["schemas"].get(kind, schema)
                parameter["choices"] = named.get("enum", ())
                usual = schema.get("default", "")
                parameter["usual"] = "" if usual == "" else json.dumps(usual).strip('"')
    return document["paths"]


@functools.cache
def _shown(kind: Any) -> str:
    return json.dumps(openapi.example_of(kind), ensure_ascii=False, indent=2)
