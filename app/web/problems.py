"""Errors of the REST API as application/problem+json (RFC 9457), from the common tree of errors."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from flask import Response, g, request
from flask_babel import gettext as _

from app.errors import AuthRequiredError, EventrError, ForbiddenError, RateLimitedError
from app.models.accounts.actor import Permission
from app.models.accounts.token import SCOPES, Caller

PREFIX = "/api/v1/"
TYPE = "application/problem+json"
_FIELD = re.compile(r"[\w.\[\]$-]{1,128}")


def is_rest_request() -> bool:
    """Return whether this request is for the REST API."""
    return request.path.startswith(PREFIX)


def build_problem(
    status: int, word: str, title: str, detail: str, error: EventrError | None = None
) -> Response:
    """Return a problem; ``word`` is the stable error code."""
    body: dict[str, Any] = {
        "type": f"/api/docs#error-{word}",
        "title": title,
        "status": status,
        "detail": detail,
        "word": word,
    }
    response = Response(status=status, content_type=TYPE)
    if error is not None:
        field = error.ids.get("field")
        if isinstance(field, str) and _FIELD.fullmatch(field):
            body["field"] = field
        if isinstance(error, RateLimitedError):
            body["retry_after"] = int(error.ids.get("retry_after", 60))
        if isinstance(error, ForbiddenError) and (scope := find_missing_scope(error)):
            body["scope"] = scope
            body["detail"] = _(
                "This access token doesn't have the scope “%(scope)s”. Create one that does.", scope=scope
            )
            response.headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{scope}"'
    if isinstance(error, AuthRequiredError):
        # RFC 6750 section 3: a request without a token gets no error code.
        sent = "Authorization" in request.headers
        response.headers["WWW-Authenticate"] = 'Bearer error="invalid_token"' if sent else "Bearer"
    response.set_data(msgspec.json.encode(body))
    return response


def find_missing_scope(error: ForbiddenError) -> str:
    """Return the scope that would have been enough; empty: no scope permits this."""
    if scope := error.ids.get("scope"):
        return str(scope)
    caller, wanted = cast("Caller | None", g.get("caller")), error.ids.get("permission")
    if caller is None or wanted is None or caller.actor.has_permission(Permission(wanted)):
        return ""
    lacking = (scope for scope in SCOPES if scope not in caller.token.scopes)
    return next((scope.value for scope in lacking if wanted in SCOPES[scope]), "")
