"""Errors as users see them: one page, one JSON shape, never internals (security.md V03)."""

from __future__ import annotations

import contextlib
import secrets
from urllib.parse import quote, urlsplit

from flask import Flask, Response, current_app, g, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from werkzeug.exceptions import HTTPException

from app import logs
from app.errors import (
    N_,
    AuthRequiredError,
    EventrError,
    MovingError,
    OldPageError,
    RateLimitedError,
    StaleSaveError,
)
from app.web import problems
from app.web.api import programs
from app.web.security.csrf import FIELD
from app.web.security.redirects import get_safe_next
from app.web.view import i18n
from app.web.view.render import get_fragment_id, render_page

log = logs.get(__name__)

TITLES = {
    400: N_("Invalid request"),
    401: N_("Log in first"),
    403: N_("Not allowed"),
    404: N_("Not found"),
    405: N_("Method not allowed"),
    409: N_("Conflict"),
    412: N_("Changed in the meantime"),
    410: N_("No longer available"),
    411: N_("Length required"),
    413: N_("Too large"),
    415: N_("Unsupported content type"),
    422: N_("Problem with the site"),
    429: N_("Too many requests"),
    460: N_("Damaged on its way"),
    507: N_("Storage full"),
    503: N_("Temporarily unavailable"),
}
#: Seconds after which a request may succeed, by status: a conflict is over soon, a store may be restarting.
RETRY_STATUSES = {409: 2, 503: 10}
#: Titles of errors whose status has a different meaning elsewhere.
_TITLES_OF = {
    "old_page": N_("This page has expired"),
    "key_reused": N_("Idempotency-Key already used"),
    "upload_version": N_("Unsupported protocol version"),
}
#: Fields that no page repeats; nor the token of a form with a login, as undo forms have another kind.
_SECRETS = ("password", "cookie", "headers")
#: The message for any other status.
_UNKNOWN = N_("The request failed.")
#: What a page says instead of the message, which its title would repeat.
_TEXTS_OF = {"old_page": N_("Go back, reload that page, and send the form again.")}
_SENTENCES = {
    400: N_("The server couldn't understand the request."),
    404: N_("This page doesn't exist, or you don't have access to it."),
    405: N_("This address doesn't support this kind of request."),
    411: N_("Send the request in one piece, with a Content-Length header."),
    413: N_("The request is larger than this server accepts."),
    415: N_("Send the request with a supported Content-Type."),
}


def install(app: Flask) -> None:
    """Render every error of ``app``."""
    app.register_error_handler(EventrError, _ours)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unexpected)
    app.after_request(_add_retry_after)


def _ours(error: Exception) -> Response:
    assert isinstance(error, EventrError)  # noqa: S101 — registered for this class only
    if isinstance(error, StaleSaveError) and get_fragment_id() == "saved":
        return Response(status=204)  # the answer to the later save says what is saved
    response = answer_error(error)
    if isinstance(error, AuthRequiredError) and not is_json_wanted():
        # A form that saves each change keeps what is typed, and says why it isn't saved.
        if is_for_script() and get_fragment_id() != "saved":
            there = _page()
            response.headers["HX-Redirect"] = f"/login?next={quote(there)}" if there else "/login"
        elif request.method == "GET":
            return make_response(redirect(f"/login?next={quote(_here())}", 303))
    return response


def answer_error(error: EventrError) -> Response:
    """Log an EventrError and return its answer."""
    log.info("request_refused", error=error.word, status=error.http_status, path=_rule(), **error.logged_ids)
    return render_error(error.http_status, error.word, i18n.translate_error(error), error)


def _http(error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 — registered for this class only
    status = error.code or 500
    if error.response is not None or 300 <= status < 400:
        return make_response(error.get_response())
    response = render_error(status, f"http_{status}", _(_SENTENCES.get(status, _UNKNOWN)))
    for name, value in error.get_headers():
        if name in ("Allow", "Retry-After"):
            response.headers[name] = value
    return response


def _unexpected(error: Exception) -> Response:
    incident = secrets.token_hex(4)
    log.error("request_failed", exc_info=True, incident=incident, path=_rule())
    words = _(
        "Something went wrong on our side. Try again in a minute. Error ID: %(incident)s",
        incident=incident,
    )
    return render_error(500, "error", words)


def render_error(status: int, word: str, message: str, error: EventrError | None = None) -> Response:
    """Return an error as JSON or as a page, depending on the client."""
    title = _(_TITLES_OF.get(word) or TITLES.get(status, N_("Something went wrong")))
    if problems.is_rest_request():
        response = problems.build_problem(status, word, title, message, error)
    elif programs.is_program_request():
        response = programs.answer_error(status, message)
    elif g.get("media_bytes"):
        response = Response(f"{message}\n", status, content_type="text/plain; charset=utf-8")
    elif is_json_wanted():
        response = make_response(jsonify(error=word, message=message), status)
    else:
        name = "parts/problem.html" if is_for_script() else "pages/error.html"
        if get_fragment_id() == "saved":  # beside a form that saves each change
            name = "parts/unsaved.html"
        if not is_for_script() and word in _TEXTS_OF:
            message = _(_TEXTS_OF[word])
        is_moving = isinstance(error, MovingError) and request.method == "POST"
        again = _list_fields() if is_moving else None
        page = render_page(
            name,
            status=status,
            title=title,
            message=message,
            word=word,
            again=again,
            field=error.ids.get("field") if error else None,
            is_back=is_moving and again is None,
            form=_find_form() if isinstance(error, OldPageError) else None,
            above=_find_page_above() if status == 413 else None,
        )
        response = make_response(page, status)
    _add_retry_after(response)
    if isinstance(error, RateLimitedError):
        response.headers["Retry-After"] = str(error.ids.get("retry_after", 60))
    elif isinstance(error, MovingError):
        response.headers["Retry-After"] = str(MovingError.RETRY_SECONDS)
    return response


def _find_page_above() -> str | None:
    """Return the address of the nearest page at or above the refused request's; None: there is none."""
    routes, path = current_app.url_map.bind(""), request.path.rstrip("/")
    while path:
        with contextlib.suppress(HTTPException):
            routes.match(path, "GET")
            return path
        path = path.rpartition("/")[0]
    return None


def _find_form() -> str | None:
    """Return the address of the page with the refused form; None: it is on a page with another address."""
    try:
        current_app.url_map.bind("").match(request.path, "GET")
    except HTTPException:
        return None
    return _here()


def _add_retry_after(response: Response) -> Response:
    """Say when a request may succeed; for all responses, because pages also answer with these statuses."""
    if response.status_code in RETRY_STATUSES and "Retry-After" not in response.headers:
        response.headers["Retry-After"] = str(RETRY_STATUSES[response.status_code])
    return response


def is_json_wanted() -> bool:
    """Return whether the client is a script."""
    best = request.accept_mimetypes.best_match(["text/html", "application/json"])
    return best == "application/json" or request.path.startswith(("/api/", "/uploads"))


def is_for_script() -> bool:
    """Return whether the answer becomes part of a page."""
    return "HX-Request" in request.headers


def _list_fields() -> list[tuple[str, str]] | None:
    """Return the fields of a form that was refused, to send it again; None: it has files or secrets."""
    sent = request.form
    is_secret = any(sent.get(name) for name in _SECRETS) or ("login" in sent and sent.get("token"))
    if is_secret or any(file.filename for file in request.files.values()):
        return None
    return [(name, value) for name, value in sent.items(multi=True) if name != FIELD]


def _here() -> str:
    return request.full_path.rstrip("?") if request.query_string else request.path


def _page() -> str:
    """Return the path of the page that a script updates; empty: unknown, or not a page of this server."""
    try:
        page = urlsplit(request.headers.get("HX-Current-URL", ""))
    except ValueError:
        return ""
    return get_safe_next(f"{page.path}?{page.query}" if page.query else page.path, "")


def _rule() -> str:
    # Log the rule, not the address: addresses may contain private data.
    return str(request.url_rule) if request.url_rule else "-"
