"""Resumable uploads of this browser (session) and of programs (bearer token); the protocol is tus 1.0."""

from __future__ import annotations

import datetime as dt
from typing import Any

from flask import Blueprint, Response, jsonify

from app.models.media.upload import UploadStatus
from app.web.api import tus
from app.web.context import get_actor, get_services
from app.web.security.sessions import takes_upload

bp = Blueprint("uploads", __name__)
bp.after_request(tus.add_headers)


@bp.route("/uploads", methods=["OPTIONS"], provide_automatic_options=False)
def show_options() -> Response:
    """Return what this server supports."""
    return tus.answer_options()


@bp.get("/uploads")
def list_uploads() -> Response:
    """Return the uploads in progress, so that another tab or device can go on."""
    found = get_services().uploads.list_active(get_actor())
    return jsonify(uploads=[_describe(status) for status in found])


@bp.post("/uploads")
@takes_upload
def begin() -> Response:
    """Begin an upload."""
    return tus.answer_creation(get_actor(), "/uploads")


@bp.route("/uploads/<upload_id>", methods=["OPTIONS"], provide_automatic_options=False)
def show_upload_options(upload_id: str) -> Response:
    """Return what this server supports."""
    return tus.answer_options()


@bp.route("/uploads/<upload_id>", methods=[*tus.METHODS, "POST"], provide_automatic_options=False)
@takes_upload
def change_upload(upload_id: str) -> Response:
    """Show, continue or cancel an upload."""
    return tus.answer_upload(get_actor(), upload_id)


def _describe(status: UploadStatus) -> dict[str, Any]:
    upload = status.upload
    return {
        "url": f"/uploads/{upload.id}",
        "name": upload.name,
        "size": upload.size,
        "offset": status.offset,
        "purpose": upload.purpose.value,
        "modified": tus.read_metadata(upload.metadata).get("modified"),
        "state": upload.state.value,
        "expires": status.expires.astimezone(dt.UTC).isoformat(),
    }
