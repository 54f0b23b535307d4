"""Atom and JSON feeds of shares: the same for everyone, so without a cookie and cacheable for a minute."""

from __future__ import annotations

from urllib.parse import quote

from flask import Blueprint, Response, g, make_response, redirect, request

from app.models.sharing.pages import FeedFormat
from app.services.sharing.pages import FILES, TYPES
from app.web.context import get_services, get_web
from app.web.security.sessions import for_programs

bp = Blueprint("sharedfeeds", __name__)

_CACHING = "public, max-age=60"
#: ETag suffix of the compressed document. Different bytes need a different strong ETag (RFC 9110 §8.8.3).
_PACKED = "-gz"


@bp.get("/@<name>/atom.xml")
@for_programs
def serve_atom(name: str) -> Response:
    """Serve a person's stream as Atom."""
    return _feed(name, FeedFormat.ATOM)


@bp.get("/@<name>/feed.json")
@for_programs
def serve_json_feed(name: str) -> Response:
    """Serve a person's stream as JSON Feed."""
    return _feed(name, FeedFormat.JSON)


def _feed(name: str, form: FeedFormat) -> Response:
    known = {tag.removesuffix(_PACKED) for tag in request.if_none_match.as_set(include_weak=True)}
    document = get_services().public_pages.build_feed(name, form, known, request.if_modified_since)
    path = f"/@{quote(document.profile.handle)}/{FILES[form]}"
    if name != document.profile.handle:
        return make_response(redirect(path, 301))
    g.public_bytes = True
    response = Response(content_type=TYPES[form])
    if document.body is None:
        response.status_code = 304
    else:
        response.set_data(document.body)
    packed = bool(request.accept_encodings.quality("gzip"))
    response.set_etag(document.tag + _PACKED * packed)
    response.last_modified = document.modified
    response.headers["Cache-Control"] = _CACHING
    response.vary.add("Accept-Encoding")
    base = get_web().base_url
    hub = f'<{get_services().public_pages.hub}>; rel="hub", ' if get_services().public_pages.hub else ""
    response.headers["Link"] = f'{hub}<{base}{path}>; rel="self"'
    if not document.profile.listed:
        response.headers["X-Robots-Tag"] = "noindex"
    return response
