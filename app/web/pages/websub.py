"""The callback for WebSub hubs: they verify our subscriptions and push content (W3C WebSub §5 and §7).

Requests have no session and no form token: the address ends with a secret, and pushes are signed.
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
    """Confirm our intent to a hub, or record its denial."""
    body = get_services().websub.answer_hub(token, request.args)
    return Response(body, content_type="text/plain; charset=utf-8")


@bp.post("/websub/<token>")
@for_programs
def push(token: str) -> Response:
    """Accept a push. A wrong signature gets the same answer as a right one, so that it can't be guessed."""
    request.max_content_length = get_web().settings.websub_max_bytes
    try:
        get_services().websub.accept_push(token, request.headers.get("X-Hub-Signature", ""), request.get_data)
    except NotFoundError:
        return Response(status=410)  # makes the hub stop
    return Response(status=202)
