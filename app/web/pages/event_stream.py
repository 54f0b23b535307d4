"""The stream of events: who may listen is decided here, the stream itself is the controller's."""

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


@bp.get("/events")
@allow_strangers
def answer_events() -> Response:
    """Answer in the controller's place while it is not there; else it has the connection by now.

    204 tells a browser that this is no error, and that there is no stream to come back to.
    """
    return Response(status=204)
