"""The OpenAPI document, and the page on which people read and try the API."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

from flask import Blueprint, Response, request

from app.web.api.rest import openapi
from app.web.api.rest.table import OPERATIONS, Operation, list_tags
from app.web.context import get_web
from app.web.security.sessions import allow_strangers, for_programs
from app.web.view.render import render_page

bp = Blueprint("restdocs", __name__)


@bp.get("/api/v1/openapi.json")
@for_programs
def serve_document() -> Response:
    """Return the document for programs; it needs no token."""
    body = openapi.build_document()
    response = Response(body, content_type="application/json")
    response.set_etag(hashlib.sha256(body).hexdigest()[:32])
    response.make_conditional(request)
    return response


@bp.get("/api/docs")
@allow_strangers
def show_docs() -> str:
    """Show all operations with their parameters and answers; with JavaScript, each can be tried."""
    return render_page(
        "pages/api_docs.html",
        groups=_groups(),
        paths=_paths(),
        errors=openapi.list_errors(),
        base=get_web().base_url,
        curl=f'curl -H "Authorization: Bearer evt_…" {get_web().base_url}/api/v1/me',
        example_of=_shown,
        statuses=openapi.list_error_statuses,
        meanings=openapi.MEANINGS,
    )


@functools.cache
def _groups() -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {tag: [] for tag in list_tags()}
    for each in OPERATIONS:
        found[each.tag].append(each)
    return found


@functools.cache
def _paths() -> Any:
    """Return the document's paths, with each parameter's allowed values (``choices``) and default as JSON."""
    document = json.loads(openapi.build_document())
    for ways in document["paths"].values():
        for said in ways.values():
            for parameter in said.get("parameters", ()):
                schema = parameter["schema"]
                kind = schema.get("$ref", "").rpartition("/")[2]
                named = document["components"]["schemas"].get(kind, schema)
                parameter["choices"] = named.get("enum", ())
                usual = schema.get("default", "")
                parameter["usual"] = "" if usual == "" else "default: " + json.dumps(usual).strip('"')
    return document["paths"]


@functools.cache
def _shown(kind: Any) -> str:
    return json.dumps(openapi.build_example(kind), ensure_ascii=False, indent=2)
