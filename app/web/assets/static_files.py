"""The route ``/static/…``: public, immutable, without cookies."""

from __future__ import annotations

from flask import Blueprint, Response, g, request

from app.errors import NotFoundError
from app.web.context import get_web
from app.web.security.sessions import allow_strangers

bp = Blueprint("static_files", __name__)


@bp.get("/static/<name>")
@allow_strangers
def serve_file(name: str) -> Response:
    """Answer with a static file, compressed if the browser accepts gzip."""
    asset = get_web().assets.get(name)
    if asset is None:
        raise NotFoundError
    g.public_bytes = True
    packed = asset.packed is not asset.body and bool(request.accept_encodings.quality("gzip"))
    response = Response(asset.packed if packed else asset.body, content_type=asset.type)
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    response.vary.add("Accept-Encoding")
    # The name contains the hash of the content, so the content never changes.
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response
