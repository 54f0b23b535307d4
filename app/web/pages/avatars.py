"""Avatars: pictures of people, the same for everyone."""

from __future__ import annotations

from flask import Blueprint, Response, request

from app.models.accounts.user import get_avatar_version
from app.web.context import get_services
from app.web.security.sessions import for_anybody
from app.web.view.media_reply import PUBLIC, reply_with_file, serve_media

bp = Blueprint("avatars", __name__)

#: Of addresses without the current version: the picture there changes.
_SHORT = "public, max-age=300"


@bp.get("/a/<handle>/<size>")
@for_anybody
@serve_media
def serve_avatar(handle: str, size: str) -> Response:
    """Serve a person's picture in one of its sizes."""
    avatars = get_services().avatars
    blob_id = avatars.find_blob(handle)
    version = get_avatar_version(blob_id)
    return reply_with_file(
        avatars.open(blob_id, size),
        media_type="image/webp",
        etag=f"{version}-{size}",
        cache=PUBLIC if request.args.get("v") == version else _SHORT,
    )
