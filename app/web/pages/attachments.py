"""Pictures and files of posts, notes and comments; each request checks that its viewer may see them (U12)."""

from __future__ import annotations

import dataclasses
from functools import partial

from flask import Blueprint, Response, request

from app.web import forms
from app.web.context import find_user, get_services, get_web
from app.web.forms import declare_text
from app.web.security.sessions import allow_strangers
from app.web.view.media_reply import PRIVATE, reply_with_file, serve_media

bp = Blueprint("attachments", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    t: str = declare_text(max=512, default="")


@bp.get("/m/<int:file_id>/<size>")
@allow_strangers
@serve_media
def serve_picture(file_id: int, size: str) -> Response:
    """Serve an attached picture in one of its sizes."""
    return _serve(file_id, size, is_download=False)


@bp.get("/m/<int:file_id>/get")
@allow_strangers
@serve_media
def download_file(file_id: int) -> Response:
    """Serve an attached file as a download."""
    return _serve(file_id, None, is_download=True)


def _serve(file_id: int, size: str | None, *, is_download: bool) -> Response:
    person, service = find_user(), get_services().attachments
    token = forms.read_query(request, Query).t
    found = service.find(
        person.actor if person else None,
        file_id,
        size,
        token=token,
        key=get_web().secret_key.hex(),
    )
    return reply_with_file(
        partial(service.open, found),
        media_type=found.type,
        etag=found.tag,
        cache=PRIVATE,
        size=found.size,
        attachment=found.download_name if is_download else None,
        # Reader apps may be web pages of other sites.
        cross_origin=bool(token),
    )
