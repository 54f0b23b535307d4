"""Resumable uploads by tus 1.0 (https://tus.io/protocols/resumable-upload): headers to calls, and back.

Bodies come as :mod:`app.web.api.upload_bodies` describes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from flask import Response, request
from werkzeug.exceptions import UnsupportedMediaType
from werkzeug.http import http_date

from app.errors import (
    EventrError,
    InvalidError,
    NoSpaceError,
    NotFoundError,
    OffsetError,
    UploadVersionError,
)
from app.models.accounts.actor import Actor
from app.models.media.blob import Purpose
from app.models.media.upload import (
    DIGESTS,
    METADATA_MAX,
    UPLOAD_ID,
    NewUpload,
    PartDigest,
    UploadState,
    UploadStatus,
)
from app.services.media.uploads import UploadService
from app.web import errors
from app.web.api import ietf_uploads
from app.web.api import upload_bodies as bodies
from app.web.context import get_services, get_web

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,creation-with-upload,creation-defer-length,termination,checksum,expiration"
PART_TYPE: Final = "application/offset+octet-stream"
#: Headers that scripts of other sites may send and read; the API allows them.
REQUEST_HEADERS: Final = (
    "Authorization, Content-Type, Tus-Resumable, Upload-Length, Upload-Defer-Length, Upload-Metadata, "
    "Upload-Offset, Upload-Checksum, X-HTTP-Method-Override, X-Requested-With"
)
RESPONSE_HEADERS: Final = (
    "Location, Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, "
    "Upload-Length, Upload-Defer-Length, Upload-Metadata, Upload-Offset, Upload-Expires, Upload-Result, "
    "Upload-Error, Upload-Limit, Upload-Complete"
)
#: Methods of an upload's address; browsers behind some proxies can send only POST.
METHODS: Final = ("HEAD", "PATCH", "DELETE")

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
#: Purposes that clients may name; icons and others come by their own pages.
_PURPOSES = {
    each.value: each for each in (Purpose.ATTACHMENT, Purpose.PICTURE, Purpose.AVATAR, Purpose.IMPORT)
}


def answer_options() -> Response:
    """Return what this server supports."""
    response = Response(status=204)
    response.headers["Tus-Version"] = VERSION
    response.headers["Tus-Extension"] = EXTENSIONS
    response.headers["Tus-Max-Size"] = str(_get_service().get_max())
    response.headers["Tus-Checksum-Algorithm"] = ",".join(DIGESTS)
    return response


def add_headers(response: Response) -> Response:
    """Add the headers of all responses, errors included."""
    if not ietf_uploads.is_wanted():
        response.headers["Tus-Resumable"] = VERSION
    response.headers["Upload-Limit"] = f"max-append-size={get_web().settings.upload_part_max}"
    if response.status_code == 460:
        response.status = "460 Checksum Mismatch"
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def answer_creation(actor: Actor, place: str) -> Response:
    """Begin an upload (POST), perhaps with its first part.

    Args:
        place: path below which the new upload has its address.
    """
    create = ietf_uploads.create_upload if ietf_uploads.is_wanted() else _create
    return _answer(lambda: create(actor, place))


def answer_upload(actor: Actor, upload_id: str) -> Response:
    """Answer a request for an upload: HEAD, PATCH or DELETE."""
    return _answer(lambda: _find_action(upload_id)(actor, upload_id))


def _answer(work: Callable[[], Response]) -> Response:
    try:
        _check_version()
        return work()
    except OffsetError as e:
        response = errors.answer_error(e)
        response.headers["Upload-Offset"] = str(e.ids["offset"])
        return response
    except NoSpaceError as e:
        response = errors.answer_error(e)
        response.status_code = 507  # for these clients, what is full is the place for their file
        return response
    except EventrError as e:
        return errors.answer_error(e)


def _get_service() -> UploadService:
    return get_services().uploads


def _get_method() -> str:
    method = request.method
    return request.headers.get("X-HTTP-Method-Override", method).upper() if method == "POST" else method


def _find_action(upload_id: str) -> Callable[[Actor, str], Response]:
    actions = {"HEAD": _show, "PATCH": _append, "DELETE": _delete}
    if ietf_uploads.is_wanted():
        actions |= {"HEAD": ietf_uploads.show_upload, "PATCH": ietf_uploads.append_part}
    action = actions.get(_get_method())
    if action is None or not UPLOAD_ID.fullmatch(upload_id):
        raise NotFoundError
    return action


def _check_version() -> None:
    if request.headers.get("Tus-Resumable") != VERSION and not ietf_uploads.is_wanted():
        raise UploadVersionError


# -- actions
def _show(actor: Actor, upload_id: str) -> Response:
    return _describe(Response(status=200), _get_service().find(actor, upload_id))


def _delete(actor: Actor, upload_id: str) -> Response:
    _get_service().delete(actor, upload_id)
    return bodies.build_empty(204)


def _create(actor: Actor, place: str) -> Response:
    new, length = _read_new(), bodies.get_length()
    has_part = request.mimetype == PART_TYPE
    if length and not has_part:
        raise UnsupportedMediaType
    status = bodies.create_upload(actor, new, length, _read_digest() if has_part else None)
    if status is None:
        return bodies.build_empty(204)
    response = bodies.build_empty(201)
    response.headers["Location"] = f"{place}/{status.upload.id}"
    return _add_progress(response, status)


def _append(actor: Actor, upload_id: str) -> Response:
    if request.mimetype != PART_TYPE:
        raise UnsupportedMediaType
    offset, size = bodies.read_number("Upload-Offset"), bodies.read_number("Upload-Length")
    if offset is None:
        raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Offset")
    status = bodies.append_part(actor, upload_id, offset, size=size, digest=_read_digest())
    return bodies.build_empty(204) if status is None else _add_progress(bodies.build_empty(204), status)


# -- headers of requests
def _read_new() -> NewUpload:
    if "Upload-Concat" in request.headers:
        raise InvalidError("This server doesn't join uploads.", field="Upload-Concat")
    size, deferred = bodies.read_number("Upload-Length"), request.headers.get("Upload-Defer-Length")
    if deferred not in (None, "1") or (size is None) != (deferred == "1"):
        raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Length")
    raw = request.headers.get("Upload-Metadata", "")
    found = read_metadata(raw)
    purpose = _PURPOSES.get(found.get("purpose", Purpose.ATTACHMENT.value))
    claimed = found.get("sha256", "")
    if purpose is None or (claimed and not _SHA256.fullmatch(claimed)):
        raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Metadata")
    return NewUpload(
        size=size,
        name=found.get("filename") or found.get("name", ""),
        purpose=purpose,
        claimed=bytes.fromhex(claimed) or None,
        metadata=raw,
    )


def read_metadata(raw: str) -> dict[str, str]:
    """Return the texts in a header ``Upload-Metadata``.

    Raises:
        InvalidError: it isn't one, or too long.
    """
    problem = InvalidError("The header %(field)s is missing or invalid.", field="Upload-Metadata")
    if len(raw) > METADATA_MAX or not (raw.isascii() and raw.isprintable()):
        raise problem
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, raw.split(","))):
        key, _, value = pair.partition(" ")
        try:
            found[key] = base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise problem from None
    return found


def _read_digest() -> PartDigest | None:
    raw = request.headers.get("Upload-Checksum")
    if raw is None:
        return None
    algorithm, _, value = raw.partition(" ")
    try:
        digest = base64.b64decode(value.strip(), validate=True)
    except binascii.Error:
        digest = b""
    if algorithm not in DIGESTS or not digest:
        raise InvalidError("The header %(field)s is missing or invalid.", field="Upload-Checksum")
    return PartDigest(algorithm, digest)


# -- headers of responses
def _add_progress(response: Response, status: UploadStatus) -> Response:
    response.headers["Upload-Offset"] = str(status.offset)
    if status.upload.state is UploadState.OPEN:
        response.headers["Upload-Expires"] = http_date(status.expires)
    return response


def _describe(response: Response, status: UploadStatus) -> Response:
    upload = status.upload
    response.headers.pop("Content-Type", None)
    if upload.size is None:
        response.headers["Upload-Defer-Length"] = "1"
    else:
        response.headers["Upload-Length"] = str(upload.size)
    if upload.metadata:
        response.headers["Upload-Metadata"] = upload.metadata
    return _add_progress(bodies.add_result(response, upload), status)
