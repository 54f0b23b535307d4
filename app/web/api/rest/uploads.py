"""Uploads of programs: ``/api/v1/uploads``, by tus 1.0, and the contents of files.

They aren't in the table of operations: their requests and answers are headers and bytes, not JSON.
"""

from __future__ import annotations

from flask import Blueprint, Response

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.web.api import tus
from app.web.api.rest import run
from app.web.security.sessions import for_programs
from app.web.view.media_reply import serve_media
from app.web.view.own_files import reply_with_own_file

bp = Blueprint("rest_uploads", __name__, url_prefix="/api/v1/uploads")
contents = Blueprint("rest_contents", __name__, url_prefix="/api/v1/files")


@contents.get("/<int:file_id>/content")
@for_programs
@serve_media
def download_file(file_id: int) -> Response:
    """Send one of the caller's own files, or a range of it, always as a download."""
    return reply_with_own_file(_get_actor(), file_id)


@bp.after_request
def add_headers(response: Response) -> Response:
    """Add the headers of the protocol; scripts of all sites may read them, since cookies don't count."""
    response.headers["Access-Control-Allow-Headers"] = tus.REQUEST_HEADERS
    response.headers["Access-Control-Allow-Methods"] = ", ".join(("POST", *tus.METHODS, "OPTIONS"))
    response.headers["Access-Control-Max-Age"] = "600"
    return tus.add_headers(response)


def _get_actor() -> Actor:
    return run.get_caller(Scope.FILES).actor


@bp.route("", methods=["OPTIONS"], provide_automatic_options=False)
@bp.route("/<upload_id>", methods=["OPTIONS"], provide_automatic_options=False)
@for_programs
def show_options(upload_id: str = "") -> Response:
    """Return what this server supports; also the answer to a browser's preflight."""
    return tus.answer_options()


@bp.post("", provide_automatic_options=False)
@for_programs
def begin() -> Response:
    """Begin an upload."""
    return tus.answer_creation(_get_actor(), "/api/v1/uploads")


@bp.route("/<upload_id>", methods=[*tus.METHODS, "POST"], provide_automatic_options=False)
@for_programs
def change_upload(upload_id: str) -> Response:
    """Show, continue or cancel an upload."""
    return tus.answer_upload(_get_actor(), upload_id)
