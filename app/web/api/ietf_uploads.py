"""Resumable uploads in the form of the IETF draft (draft-ietf-httpbis-resumable-upload).

Off until the draft is a standard. A request without ``Tus-Resumable`` is one of these. The server doesn't
send 104 (Upload Resumption Supported), because WSGI can't.
"""

from __future__ import annotations

from typing import Final

from flask import Response, request
from werkzeug.exceptions import UnsupportedMediaType

from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.media.upload import NewUpload, UploadState, UploadStatus
from app.web.api import upload_bodies as bodies
from app.web.context import get_services, get_web

PART_TYPE: Final = "application/partial-upload"
_BOOLEANS: Final = {"?0": False, "?1": True}


def is_wanted() -> bool:
    """Return whether this request has this form, and the server accepts it."""
    return get_web().settings.uploads_ietf and "Tus-Resumable" not in request.headers


def create_upload(actor: Actor, place: str) -> Response:
    """Begin an upload with the content of the request, which may be all of it."""
    is_complete, length, size = _read_complete(), bodies.get_length(), bodies.read_number("Upload-Length")
    if is_complete:
        if size not in (None, length):
            raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Length")
        size = length
    status = bodies.create_upload(actor, NewUpload(size=size, name=_read_name()), length)
    if status is None:
        return bodies.build_empty(204)
    response = _add_progress(bodies.build_empty(201), status)
    response.headers["Location"] = f"{place}/{status.upload.id}"
    return response


def show_upload(actor: Actor, upload_id: str) -> Response:
    """Return the offset of an upload."""
    status = get_services().uploads.find(actor, upload_id)
    response = _add_progress(bodies.build_empty(204), status)
    if status.upload.size is not None:
        response.headers["Upload-Length"] = str(status.upload.size)
    return bodies.add_result(response, status.upload)


def append_part(actor: Actor, upload_id: str) -> Response:
    """Append the content of the request."""
    if request.mimetype != PART_TYPE:
        raise UnsupportedMediaType
    offset, size = bodies.read_number("Upload-Offset"), bodies.read_number("Upload-Length")
    if offset is None:
        raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Offset")
    if _read_complete():
        size = offset + bodies.get_length()
    status = bodies.append_part(actor, upload_id, offset, size=size)
    return bodies.build_empty(204) if status is None else _add_progress(bodies.build_empty(204), status)


def _read_complete() -> bool:
    found = _BOOLEANS.get(request.headers.get("Upload-Complete", ""))
    if found is None:
        raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Complete")
    return found


def _read_name() -> str:
    """Return the file name from ``Content-Disposition``, where the draft leaves it."""
    return request.headers.get("Content-Disposition", "").partition("filename=")[2].strip('" ')


def _add_progress(response: Response, status: UploadStatus) -> Response:
    is_open = status.upload.state is UploadState.OPEN
    response.headers["Upload-Offset"] = str(status.offset)
    response.headers["Upload-Complete"] = "?0" if is_open else "?1"
    return response
