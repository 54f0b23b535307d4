"""Pictures of other sites, as Eventr stores them: icons of feeds and pictures of entries.

Nobody needs to log in: only pages and programs of this server have such addresses (security.md H12).
"""

from __future__ import annotations

import base64
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, g, jsonify, request

from app.errors import NotFoundError
from app.models.media.addresses import encode_bytes, parse_id
from app.models.media.icon import SVG_TYPE
from app.models.media.rewriting import PICTURES_MAX
from app.models.media.shown import PictureState, ShownPicture
from app.models.media.store import Piece
from app.web.context import get_services, get_web
from app.web.security.sessions import for_anybody, get_client
from app.web.view.media_reply import PUBLIC, reply_with_file, serve_media
from app.web.view.pictures import BLANK, build_set, describe_failure, get_largest, is_tall

bp = Blueprint("pictures", __name__)

#: The picture at an address may change with the next fetch, unlike an icon.
MONTH: Final = "public, max-age=2592000, immutable"
#: Seconds after which a program may ask again for a picture that isn't there yet.
RETRY_AFTER: Final = 10
_BLANK: Final = base64.b64decode(BLANK.partition(",")[2])


@bp.get("/icon/<name>.png")
@for_anybody
@serve_media
def serve_icon(name: str) -> Response:
    """Answer with the icon of a feed; its address contains the hash of its content."""
    piece, kind, blob_id = get_services().icons.open(name, small=False)
    # A drawing isn't drawn anew: as a page of its own it's only a download (V02).
    attachment = "icon.svg" if kind == SVG_TYPE else None
    return reply_with_file(
        piece, media_type=kind, etag=blob_id.hex(), cache=PUBLIC, attachment=attachment, cross_origin=True
    )


@bp.get("/i/<name>/<size>.webp")
@for_anybody
@serve_media
def serve_picture(name: str, size: str) -> Response:
    """Answer with a picture in one of its sizes; with an empty one until it is there."""
    source_id = parse_id(name)
    if source_id is None:
        raise NotFoundError
    found = get_services().pictures.open(source_id, size)
    if found is None:
        return _wait(Response(_BLANK, content_type="image/gif"))
    return _reply(found, size)


@bp.get("/i/u/<signature>/<data>")
@for_anybody
@serve_media
def serve_signed(signature: str, data: str) -> Response:
    """Answer with a picture for a program, which may be a page of another site."""
    found = get_services().pictures.open_signed(signature, data, get_client().network)
    if found is None:
        response = _wait(Response(status=HTTPStatus.SERVICE_UNAVAILABLE))
        response.headers["Retry-After"] = str(RETRY_AFTER)
        return response
    return _reply(found, "program", cross_origin=True)


@bp.get("/i/states")
@for_anybody
def list_states() -> Response:
    """Answer which of the pictures that a page waits for are there, for its script."""
    names = request.args.get("ids", "")[: 23 * PICTURES_MAX].split(",")
    ids = [found for name in names if (found := parse_id(name)) is not None]
    states = get_services().pictures.find_states(ids)
    return jsonify({encode_bytes(i): _describe(shown) for i, shown in states.items()})


def _describe(shown: ShownPicture) -> dict[str, object]:
    if shown.state is PictureState.FAILED:
        return {"state": shown.state.value, "reason": describe_failure(shown.error)}
    if shown.state is PictureState.PENDING:
        return {"state": shown.state.value}
    return {
        "state": shown.state.value,
        "width": shown.width,
        "height": shown.height,
        "tall": is_tall(shown.width or 1, shown.height or 1),
        "src": shown.build_path("w640"),
        "thumb": shown.build_path("t208"),
        "srcset": build_set(shown),
        "full": get_largest(shown),
        "lightbox": get_web().assets.get_url("lightbox.js"),
    }


def _reply(found: tuple[Piece, bytes], size: str, *, cross_origin: bool = False) -> Response:
    piece, blob_id = found
    return reply_with_file(
        piece,
        media_type="image/webp",
        etag=f"{blob_id.hex()[:32]}-{size}",
        cache=MONTH,
        cross_origin=cross_origin,
    )


def _wait(response: Response) -> Response:
    g.media_bytes = g.public_bytes = True
    response.headers["Cache-Control"] = "no-store"
    return response
