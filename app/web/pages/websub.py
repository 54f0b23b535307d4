"""The callback of hubs: they confirm what we asked of them, and push (W3C WebSub §5 and §7).

No session, no form token: the end of the address is the secret, and pushes are signed.
"""

from __future__ import annotations

from flask import Blueprint, Response, request

from app.errors import NotFoundError
from app.web.context import get_services, get_web
from app.web.security.sessions import for_programs

bp = Blueprint("websub", __name__)


@bp.get("/websub/<token>")
@for_programs
def confirm(token: str) -> Response:
    """Answer a hub that asks whether we meant it, or that refuses."""
    body = get_services().websub.answer_hub(token, request.args)
    return Response(body, content_type="text/plain; charset=utf-8")


@bp.post("/websub/<token>")
@for_programs
def push(token: str) -> Response:
    """Take a push. A wrong signature is answered like a right one, so that nobody can guess at it."""
    request.max_content_length = get_web().settings.websub_max_bytes
    try:
        get_services().websub.accept_push(token, request.headers.get("X-Hub-Signature", ""), request.get_data)
    except NotFoundError:
        return Response(status=410)  # which tells a hub to stop
    return Response(status=202)
