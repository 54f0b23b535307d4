"""Passes for the event stream. The web tier authorizes listeners; the controller serves the stream."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, request

from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.security.sessions import allow_strangers

bp = Blueprint("live", __name__)


@bp.post("/api/live")
def create_pass() -> Response:
    """Return the address of a stream for this browser, to be opened within a minute."""
    forms.read_form(request, forms.Empty)
    return jsonify(
        url="/events?"
        + urlencode({"pass": get_services().event_passes.create_pass(get_actor(), get_session())})
    )


@bp.get("/api/session")
def check_session() -> Response:
    """Answer pages that the browser kept; without a session, the answer has status 401."""
    return jsonify()


@bp.get("/events")
@allow_strangers
def answer_events() -> Response:
    """Answer while the controller is down; otherwise the controller has taken over the connection.

    Status 204 isn't an error, but stops the browser from reconnecting.
    """
    return Response(status=204)
