"""The stream of events: who may listen is decided here, the stream itself is the controller's."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, request

from app.web import forms
from app.web.context import actor, services, session
from app.web.security.sessions import public

bp = Blueprint("live", __name__)


@bp.post("/api/live")
def admit() -> Response:
    """Return the address of a stream for this browser, to be opened within a minute."""
    forms.form(request, forms.Empty)
    return jsonify(url="/events?" + urlencode({"pass": services().live.admit(actor(), session())}))


@bp.get("/events")
@public
def events() -> Response:
    """Answer in the controller's place while it is not there; else it has the connection by now.

    204 tells a browser that this is no error, and that there is no stream to come back to.
    """
    return Response(status=204)
