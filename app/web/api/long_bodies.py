"""Long bodies of programs and hubs, which the web server receives before a thread reads them (W17).

The web server first runs the application with an empty body (:mod:`app.models.media.spooled`). An API
accepts once it knows who sends the request and how long it may be. Then the application runs again, with the
whole body.
"""

from __future__ import annotations

from typing import cast

from flask import Response, request

from app.models.accounts.token import Quota
from app.models.media.spooled import NOTES, WANTED

_QUOTA = "quota"


def is_awaited() -> bool:
    """Return whether the body of this request is still to come."""
    return WANTED in request.environ


def accept_body(quota: Quota | None = None) -> Response | None:
    """Let the web server receive the body if it hasn't yet.

    Args:
        quota: the caller's quota after this request; :func:`find_quota` returns it when the body is there.

    Returns:
        A response that nobody gets, if the body is still to come.
    """
    accept = request.environ.get(WANTED)
    if accept is None:
        return None
    request.environ[NOTES][_QUOTA] = quota
    accept(request.content_length or 1)
    return Response(status=204)


def find_quota() -> Quota | None:
    """Return the quota of a request that was counted before its body arrived, so that it counts once."""
    return cast("Quota | None", request.environ.get(NOTES, {}).get(_QUOTA))
