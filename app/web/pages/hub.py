"""The WebSub hub for public streams: other servers subscribe here (W3C WebSub §5.1).

Requests have no session and no form token. Instead, the hub asks each callback to confirm the request.
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, request

from app.errors import EventrError
from app.models.sharing.hub import HubForm
from app.web.context import get_services, get_web
from app.web.security.sessions import for_programs, get_client

bp = Blueprint("hub", __name__)


@bp.post("/hub")
@for_programs
def submit_request() -> Response:
    """Accept a request with 202 and verify the callback later; report errors as plain text."""
    request.max_content_length = request.max_form_memory_size = get_web().settings.hub_form_max
    is_form = request.mimetype == "application/x-www-form-urlencoded"
    form: Mapping[str, str] = request.form if is_form else {}
    lease = form.get("hub.lease_seconds", "")
    asked = HubForm(
        form.get("hub.mode", ""),
        form.get("hub.topic", ""),
        form.get("hub.callback", ""),
        int(lease) if lease.isascii() and lease.isdigit() and len(lease) <= 12 else None,
        form.get("hub.secret", ""),
    )
    try:
        get_services().hub.submit_request(asked, get_client().network)
    except EventrError as e:
        said = " ".join(filter(None, (e.word, str(e.ids.get("field", "")))))
        answer = Response(said + "\n", e.http_status, content_type="text/plain; charset=utf-8")
        if wait := e.ids.get("retry_after"):
            answer.headers["Retry-After"] = str(wait)
        return answer
    return Response(status=202)
