"""Feeds of people's lists, for everyone who knows the secret address; no cookie counts here."""

from __future__ import annotations

from flask import Blueprint, Response, request

from app.models.sharing.pages import FeedFormat
from app.services.sharing.pages import TYPES
from app.web.context import get_services
from app.web.security.sessions import for_programs, get_client

bp = Blueprint("stream_feeds", __name__, url_prefix="/feed")

#: ETag suffix of the compressed document. Different bytes need a different strong ETag (RFC 9110 §8.8.3).
_PACKED = "-gz"


@bp.get("/<secret>/atom.xml")
@for_programs
def serve_atom(secret: str) -> Response:
    """Serve a list as Atom."""
    return _feed(secret, FeedFormat.ATOM)


@bp.get("/<secret>/feed.json")
@for_programs
def serve_json_feed(secret: str) -> Response:
    """Serve a list as JSON Feed."""
    return _feed(secret, FeedFormat.JSON)


def _feed(secret: str, form: FeedFormat) -> Response:
    known = {tag.removesuffix(_PACKED) for tag in request.if_none_match.as_set(include_weak=True)}
    document = get_services().stream_feeds.build_feed(secret, form, get_client(), known)
    response = Response(content_type=TYPES[form])
    if document.body is None:
        response.status_code = 304
    else:
        response.set_data(document.body)
    packed = bool(request.accept_encodings.quality("gzip"))
    response.set_etag(document.tag + _PACKED * packed)
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["X-Robots-Tag"] = "noindex"
    response.vary.add("Accept-Encoding")
    return response
