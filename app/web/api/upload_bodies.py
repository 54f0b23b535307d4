"""Bodies of uploads: what a request brings, in the slices that the web server hands over.

The web server receives a long body before a thread gets it (:mod:`app.models.media.spooled`). It first runs
the view with an empty body; a view that accepts says how many bytes it wants at once. Then the view runs once
for each slice, and only the response to the last one is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from flask import Response, request
from werkzeug.exceptions import LengthRequired

from app.errors import InvalidError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.media.spooled import SPOOLED, WANTED, SpooledBody
from app.models.media.upload import NewUpload, PartDigest, Upload, UploadStatus
from app.ports import PartSource
from app.web.context import get_services, get_web

_NUMBER = re.compile(r"[0-9]{1,15}")


class Slice(NamedTuple):
    """A piece of a request's body.

    Attributes:
        start: its offset in the body.
        is_last: whether the body ends with it.
        is_broken: whether the rest of the body didn't arrive.
    """

    source: PartSource | bytes
    size: int
    start: int
    is_last: bool
    is_broken: bool = False


def create_upload(
    actor: Actor, new: NewUpload, length: int, digest: PartDigest | None = None
) -> UploadStatus | None:
    """Create an upload with the bytes of this request, its first part.

    Args:
        length: bytes of the body.
        digest: checksum of the body.

    Returns:
        None if the response doesn't matter: the body is still to come, or its sender has gone.
    """
    uploads = get_services().uploads
    if new.size is not None and length > new.size:
        raise TooLargeError("This part goes beyond the end of the file.")
    if (accept := request.environ.get(WANTED)) is not None:
        uploads.check_new(actor, new)
        accept(get_web().settings.upload_part_max)
        return None
    status: UploadStatus | None = None
    for piece in _read_slices(length):
        status = status or _begin(actor, new, piece)
        if status is None:
            return None
        status = _append_slice(actor, status.upload.id, 0, piece, digest)
    return status or uploads.create(actor, new)


def append_part(
    actor: Actor, upload_id: str, offset: int, *, size: int | None = None, digest: PartDigest | None = None
) -> UploadStatus | None:
    """Append the bytes of this request to an upload.

    Args:
        size: size of the file, if the request declares it.
        digest: checksum of the body.

    Returns:
        None if the response doesn't matter: the body is still to come.
    """
    uploads, length = get_services().uploads, get_length()
    body: SpooledBody | None = request.environ.get(SPOOLED)
    if size is not None and (body is None or not body.start):
        if offset + length > size:
            raise TooLargeError("This part goes beyond the end of the file.")
        uploads.declare_size(actor, upload_id, size)
    if (accept := request.environ.get(WANTED)) is not None:
        uploads.check_part(actor, upload_id, offset, length)
        accept(get_web().settings.upload_part_max)
        return None
    status: UploadStatus | None = None
    for piece in _read_slices(length):
        status = _append_slice(actor, upload_id, offset, piece, digest)
    return status or uploads.append(actor, upload_id, offset, b"")


def _begin(actor: Actor, new: NewUpload, piece: Slice) -> UploadStatus | None:
    """Create the upload of the first slice, or find it for a later one; None: nobody learns its address."""
    body: SpooledBody | None = request.environ.get(SPOOLED)
    notes = body.notes if body is not None else {}
    if piece.start:
        return get_services().uploads.find(actor, notes["upload"])
    if piece.is_broken:
        return None
    status = get_services().uploads.create(actor, new)
    notes["upload"] = status.upload.id
    return status


def _append_slice(
    actor: Actor, upload_id: str, offset: int, piece: Slice, digest: PartDigest | None
) -> UploadStatus:
    """Append a slice of a part that begins at ``offset``."""
    uploads = get_services().uploads
    if digest is not None and piece.is_broken:
        # A part with a checksum counts as a whole or not at all.
        return uploads.discard_part(actor, upload_id, offset, offset + piece.start)
    return uploads.append(
        actor,
        upload_id,
        offset + piece.start,
        piece.source,
        digest if piece.is_last else None,
        part_start=offset,
    )


def get_length() -> int:
    """Return the length of the body; a chunked one that breaks off would look complete.

    Raises:
        LengthRequired: it isn't known.
    """
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired
    return request.content_length or 0


def read_number(name: str) -> int | None:
    """Return the number in a header, None without it.

    Raises:
        InvalidError: it isn't a number.
    """
    raw = request.headers.get(name)
    if raw is None:
        return None
    if not _NUMBER.fullmatch(raw):
        raise InvalidError("The header %(field)s is missing or invalid.", field=name)
    return int(raw)


def build_empty(status: int) -> Response:
    """Return a response without a body."""
    response = Response(status=status)
    response.headers.pop("Content-Type", None)
    return response


def add_result(response: Response, upload: Upload) -> Response:
    """Add what has become of an upload."""
    if upload.file_id is not None:
        response.headers["Upload-Result"] = f"/api/v1/files/{upload.file_id}"
    if upload.error is not None:
        response.headers["Upload-Error"] = upload.error
    return response


def _read_slices(length: int) -> Iterator[Slice]:
    """Yield the slices of the body that this request has: one that was received, or all of a short one."""
    body: SpooledBody | None = request.environ.get(SPOOLED)
    if body is not None:
        yield Slice(body, body.size, body.start, body.is_last, body.is_broken)
        return
    request.max_content_length = length
    start, limit = 0, get_web().settings.upload_part_max
    while start < length:
        data = request.stream.read(min(limit, length - start))
        if not data:
            break
        end = start + len(data)
        yield Slice(data, len(data), start, end == length)
        start = end
