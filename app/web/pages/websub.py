"""The callback of hubs: they confirm what we asked of them, and push (W3C WebSub §5 and §7).

No session, no form token: the end of the address is the secret, and pushes are signed.
"""

from __future__ import annotations

from flask import Blueprint, Response, request

from app.errors import NotFoundError
from app.web.context import services, web
from app.web.security.sessions import for_programs

bp = Blueprint("websub", __name__)


@bp.get("/websub/<token>")
@for_programs
def confirm(token: str) -> Response:
    """Answer a hub that asks whether we meant it, or that refuses."""
    body = services().websub.answer(token, request.args)
    return Response(body, content_type="text/plain; charset=utf-8")


@bp.post("/websub/<token>")
@for_programs
def push(token: str) -> Response:
    """Take a push. A wrong signature is answered like a right one, so that nobody can guess at it."""
    request.max_content_length = web().settings.websub_max_bytes
    try:
        services().websub.push(token, request.headers.get("X-Hub-Signature", ""), request.get_data)
    except NotFoundError:
        return Response(status=410)  # which tells a hub to stop
    return Response(status=202)
