"""The callback for WebSub hubs: they verify our subscriptions and push content (W3C WebSub §5 and §7).

Requests have no session and no form token: the address ends with a secret, and pushes are signed.
"""

from __future__ import annotations

from flask import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from app.errors import NotFoundError
from app.web.api import long_bodies
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
    most = get_web().settings.websub_max_bytes
    request.max_content_length = most
    try:
        if (unread := _accept_body(token, most)) is not None:
            return unread
        get_services().websub.accept_push(token, request.headers.get("X-Hub-Signature", ""), request.get_data)
    except NotFoundError:
        return Response(status=410)  # makes the hub stop
    return Response(status=202)


def _accept_body(token: str, limit: int) -> Response | None:
    """Let the web server receive a long push, if its callback exists; None: the body is there."""
    if not long_bodies.is_awaited():
        return None
    get_services().websub.check_callback(token)
    if (request.content_length or 0) > limit:
        raise RequestEntityTooLarge
    return long_bodies.accept_body()
