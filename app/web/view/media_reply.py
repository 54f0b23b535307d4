"""Answers with stored files: ranges, validators, and headers for bytes that strangers sent (security.md H09).

A view opens a piece, or hands in how to open it. The worker asks for the next chunk when the client has room
for it, so a slow client holds no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar, cast
from urllib.parse import quote

from flask import Response, g, request

from app.models.media.store import Piece
from app.runtime.pieces import close_piece, read_piece
from app.web.context import get_web

#: Opens a file from its first to its last byte, inclusive; None: to the end.
Opener = Callable[[int, int | None], Piece]
View = TypeVar("View", bound=Callable[..., Any])

#: For addresses whose content never changes, and for files that only some people may see.
PUBLIC = "public, max-age=31536000, immutable"
PRIVATE = "private, max-age=3600"
#: Media types of pictures that Eventr draws itself; browsers may show them.
DRAWN = frozenset({"image/webp", "image/png"})


def serve_media(view: View) -> View:
    """Mark a view as one that answers with such bytes; its errors get the same headers, and no page."""

    @wraps(view)
    def _marked(*args: Any, **kwargs: Any) -> Any:
        g.media_bytes = True
        return view(*args, **kwargs)

    return cast(View, _marked)


def reply_with_file(
    piece: Piece | Opener,
    *,
    media_type: str,
    etag: str,
    cache: str,
    size: int | None = None,
    attachment: str | None = None,
    cross_origin: bool = False,
) -> Response:
    """Return a file, a range of it, or 304.

    Args:
        piece: the whole file, or how to open it; then only what is sent is opened.
        media_type: from the bytes, never from a client.
        etag: of the content, without quotes.
        cache: the header ``Cache-Control``, such as :data:`PUBLIC`.
        size: bytes of the file, if ``piece`` opens it.
        attachment: name under which a browser saves the file; it then shows nothing. Required unless Eventr
            drew the picture.
        cross_origin: whether pages of other sites may embed it, such as web apps of reader apps.

    Raises:
        ValueError: a file that Eventr didn't draw has no ``attachment``.
        NotFoundError: the opener found no file.
        MediaStoreError: the opener found no store.
    """
    if attachment is None and media_type not in DRAWN:
        raise ValueError("a file that a stranger sent must be an attachment")
    g.media_bytes = True
    total = piece.total if isinstance(piece, Piece) else size or 0
    response = Response(content_type=media_type)
    response.set_etag(etag)
    response.headers["Cache-Control"] = cache
    response.headers["Accept-Ranges"] = "bytes"
    if cross_origin:
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    if cache.startswith("public"):
        g.public_bytes = True
    if request.if_none_match.contains_weak(etag):
        response.status_code = HTTPStatus.NOT_MODIFIED
        return _drop(response, piece)
    if attachment is not None:
        response.headers["Content-Disposition"] = build_disposition(attachment)
    span = _read_range(total, etag)
    if span == ():
        response.status_code = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        response.headers["Content-Range"] = f"bytes */{total}"
        return _drop(response, piece)
    first, last = span or (0, total - 1)
    if span:
        response.status_code = HTTPStatus.PARTIAL_CONTENT
        response.headers["Content-Range"] = f"bytes {first}-{last}/{total}"
    response.content_length = last + 1 - first
    if request.method == "HEAD":
        return _drop(response, piece)
    return _send(response, piece, (first, last), accel="" if cross_origin else get_web().settings.media_accel)


def _send(response: Response, piece: Piece | Opener, span: tuple[int, int], accel: str) -> Response:
    opened = _cut(piece, *span) if isinstance(piece, Piece) else piece(*span)
    # The location of the proxy has headers of its own, which allow no other site.
    if accel and opened.path is not None:
        # The proxy reads the file, and the range from the request.
        close_piece(opened)
        del response.headers["Content-Length"]
        response.status_code = HTTPStatus.OK
        for name in ("Content-Range", "Accept-Ranges"):  # nginx adds its own
            response.headers.pop(name, None)
        response.headers["X-Accel-Redirect"] = accel + quote(opened.path)
        return response
    response.response = _Body(opened)
    return response


def _cut(piece: Piece, first: int, last: int) -> Piece:
    if piece.descriptor is not None:
        return Piece(last + 1 - first, piece.total, piece.descriptor, piece.first + first, path=piece.path)
    return Piece(last + 1 - first, piece.total, chunks=_skip(piece, first, last))


def _skip(piece: Piece, first: int, last: int) -> Iterator[bytes]:
    position = 0
    for chunk in read_piece(piece):
        yield chunk[max(0, first - position) : max(0, last + 1 - position)]
        position += len(chunk)
        if position > last:
            return


def _drop(response: Response, piece: Piece | Opener) -> Response:
    if isinstance(piece, Piece):
        close_piece(piece)
    return response


def _read_range(total: int, etag: str) -> tuple[int, int] | tuple[()] | None:
    """Return the first and last byte of the requested range; (): there's none in the file, None: all of it.

    Several ranges at once are answered with the whole file, which RFC 9110 section 14.2 allows.
    """
    wanted = request.range
    if wanted is None or wanted.units != "bytes" or len(wanted.ranges) != 1:
        return None
    if request.headers.get("If-Range", f'"{etag}"') != f'"{etag}"':
        return None
    found = wanted.range_for_length(total)
    return () if found is None else (found[0], found[1] - 1)


class _Body:
    """The bytes of a piece as a response; it is also closed if nobody reads it."""

    def __init__(self, piece: Piece) -> None:
        self._piece: Piece | None = piece
        self._chunks = read_piece(piece)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self._piece = None  # the generator closes it
        return next(self._chunks)

    def close(self) -> None:
        """Close the piece."""
        if self._piece is not None:
            close_piece(self._piece)
            self._piece = None
        self._chunks.close()  # type: ignore[attr-defined]


def build_disposition(name: str) -> str:
    """Return the header ``Content-Disposition`` that saves a file under this name (RFC 6266).

    Control characters and characters that change the direction of writing are left out: they could show
    another ending than the file has.
    """
    plain = "".join(c for c in name if c.isprintable()).replace("/", "_").replace("\\", "_").strip(". ")[:150]
    plain = plain or "file"
    ascii_name = "".join(c if c.isascii() and c not in '"%;' else "_" for c in plain)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(plain, safe='')}"
