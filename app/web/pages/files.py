"""Settings → Files: storage, uploads in progress, and files; scripts upload large ones in parts."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import (
    ConflictError,
    EventrError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NoSpaceError,
    QuotaError,
    RateLimitedError,
    TooLargeError,
)
from app.models.accounts.user import Notice
from app.models.media.upload import NewUpload
from app.services.media.files import PAGE
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.forms import declare_text
from app.web.pages.settings import render_section
from app.web.security.sessions import takes_file
from app.web.view.media_reply import serve_media
from app.web.view.own_files import reply_with_own_file, reply_with_preview
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("files", __name__, url_prefix="/settings/files")

#: Errors that the page shows itself.
_SHOWN = (InvalidError, TooLargeError, RateLimitedError, QuotaError, NoSpaceError, ForbiddenError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilesQuery:
    """``before``: the last id of the previous page."""

    before: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneFile:
    file: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneUpload:
    upload: str = declare_text(max=32)


@bp.get("")
def show_files() -> str:
    """Show used storage, uploads in progress and files."""
    return _page()


def _page(error: EventrError | None = None) -> str:
    services, settings = get_services(), get_web().settings
    files = services.files.list_files(get_actor(), forms.read_query(request, FilesQuery).before)
    values = {
        "files": files,
        "more": files[-1].id if len(files) == PAGE else None,
        "usage": services.files.get_usage(get_actor()),
    }
    if get_fragment_id() == "files-body":
        return render_page("parts/files.html", **values)
    return render_section(
        "files",
        error=error,
        can_upload=settings.uploads,
        uploads=services.uploads.list_active(get_actor()) if settings.uploads else [],
        part=min(4 << 20, settings.upload_part_max),
        largest=services.uploads.get_max(),
        days=settings.media_window,
        form_max=settings.upload_form_max,
        **values,
    )


@bp.post("")
@takes_file("upload_form_max")
def upload_file() -> Response | tuple[str, int]:
    """Upload small files by a form, as browsers without scripts do."""
    forms.read_form(request, forms.Empty)
    try:
        found = [file for file in request.files.getlist("file") if file.filename]
        if not found:
            raise InvalidError("Choose a file.", field="file")
        for file in found:
            body = file.read()
            _upload(file.filename or "", body)
    except _SHOWN as e:
        return _page(e), e.http_status
    return _back(_("Uploaded. The file appears here in a moment."))


def _upload(name: str, body: bytes) -> None:
    uploads, actor = get_services().uploads, get_actor()
    status = uploads.create(actor, NewUpload(size=len(body), name=name))
    if body:
        uploads.append(actor, status.upload.id, 0, body)


@bp.post("/cancel")
def cancel_upload() -> Response:
    """Cancel an upload in progress."""
    form = forms.read_form(request, OneUpload)
    try:
        get_services().uploads.delete(get_actor(), form.upload)
    except (GoneError, ConflictError):
        return _back(_("This upload has already ended."))
    return _back(_("Upload canceled"))


@bp.post("/delete")
def delete_file() -> Response:
    """Delete a file."""
    get_services().files.delete(get_actor(), forms.read_form(request, OneFile).file)
    return _back(_("File deleted"))


@bp.get("/<int:file_id>")
@serve_media
def download_file(file_id: int) -> Response:
    """Send one of the user's own files, always as a download."""
    return reply_with_own_file(get_actor(), file_id)


@bp.get("/<int:file_id>/preview")
@serve_media
def show_preview(file_id: int) -> Response:
    """Show a small form of one of the user's own pictures."""
    return reply_with_preview(get_actor(), file_id)


def _back(words: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect("/settings/files", 303))
