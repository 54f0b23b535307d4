"""OPML imports: upload, selection, progress, report; and the export of subscriptions."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime as dt
import io
from urllib.parse import urlencode

from flask import Blueprint, Response, json, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app import clock
from app.errors import (
    ConflictError,
    EventrError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    TooLargeError,
)
from app.models.accounts.user import Notice
from app.models.imports.imports import Import, ImportedFeeds, ImportItem, ImportState
from app.models.imports.pulls import ADDRESS_MAX, NAME_MAX, SECRET_MAX, PullKind
from app.services.imports.imports import PAGE
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.security.sessions import takes_file
from app.web.view import imports as importview
from app.web.view.i18n import get_language
from app.web.view.lookup import find_lookup_address
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("imports", __name__)

bp.add_app_template_global(importview.has_archive_name)
bp.add_app_template_global(importview.format_state)
bp.add_app_template_global(importview.format_progress)
bp.add_app_template_global(importview.explain_failure)
bp.add_app_template_global(importview.suggest_fix)
bp.add_app_template_global(find_lookup_address)

#: Errors that the user can fix.
_SHOWN = (InvalidError, TooLargeError, RateLimitedError, ConflictError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    pasted: str = declare_text(max=1 << 30, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    file: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerForm:
    kind: str = declare_text(max=16, default="greader", one_of=tuple(kind.value for kind in PullKind))
    address: str = declare_text(max=ADDRESS_MAX, default="")
    name: str = declare_text(max=NAME_MAX, default="")
    secret: str = declare_text(max=SECRET_MAX, default="")
    #: An import that this one replaces, because its address was wrong.
    instead: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    again: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    page: int = 0
    declined: bool = False
    format: str = declare_text(max=8, default="opml", one_of=("opml", "csv", "json"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    page: int = 0
    pick: tuple[int, ...] = ()
    do: str = declare_text(max=8, default="start", one_of=("start", "save", "next", "back", "all", "none"))
    target: str = declare_text(max=8, default="keep", one_of=("keep", "one"))
    into: str = declare_text(max=128, default="")
    choices: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryForm:
    index: int | None = None


@bp.get("/imports")
def show_imports() -> str:
    """Show the upload form, the export, and earlier imports."""
    return _centre()


def _centre(error: EventrError | None = None, pasted: str = "") -> str:
    return render_page(
        "pages/imports.html",
        imports=get_services().imports.list_recent(get_actor()),
        error=error,
        pasted=pasted,
    )


@bp.post("/imports")
@takes_file("opml_max_bytes")
def upload_file() -> Response | tuple[str, int]:
    """Accept an OPML file or its text, and show its contents."""
    form = forms.read_form(request, UploadForm)
    file = request.files.get("file")
    # The body limits apply to both (W16). Long files are on disk.
    body = file.read() if file else b""
    name = file.filename or "" if file and (body or not form.pasted.strip()) else _("Pasted text")
    try:
        if not (file or form.pasted.strip()):
            raise InvalidError("Choose a file or paste its text.", field="file")
        found = get_services().imports.preview(get_actor(), body or form.pasted.encode(), name)
    except _SHOWN as e:
        return _centre(e, form.pasted), e.http_status
    return _to(found)


@bp.post("/imports/file")
def read_file() -> Response:
    """Let a job read an uploaded file, however large, and show how far it is."""
    form = forms.read_form(request, StoredFile)
    return _to(get_services().archives.request_reading(get_actor(), form.file))


@bp.get("/imports/server")
def show_server_form() -> str:
    """Show the form that names the server of another reader, filled in from a failed or waiting import."""
    typed = ServerForm()
    if earlier_id := forms.read_query(request, Again).again:
        # It may have been deleted meanwhile: then the form is empty.
        with contextlib.suppress(NotFoundError):
            earlier = get_services().imports.get(get_actor(), earlier_id)
            if earlier.server:
                typed = ServerForm(kind=earlier.server[0].value, address=earlier.server[1])
            elif pull := earlier.pull:
                typed = ServerForm(kind=pull.kind.value, address=pull.address, instead=earlier_id)
    return render_page("pages/import_server.html", typed=typed, error=None)


@bp.post("/imports/server")
def read_server() -> Response | tuple[str, int]:
    """Let a job read the person's account on another reader's server, and show how far it is."""
    form = forms.read_form(request, ServerForm)
    kind = PullKind(form.kind)
    # The form hides the address for NewsBlur, but it may still have one that was typed for another reader.
    address = "" if kind is PullKind.NEWSBLUR else form.address
    try:
        found = get_services().pulled_imports.request_pull(
            get_actor(), kind, address, name=form.name, secret=form.secret, instead_of=form.instead
        )
    except _SHOWN as e:
        if isinstance(e, ConflictError) and form.instead:  # its page says what has become of it
            with contextlib.suppress(NotFoundError):
                return _show(form.instead, error=e), e.http_status
            return _centre(e), e.http_status
        return render_page("pages/import_server.html", typed=form, error=e), e.http_status
    return _to(found)


def _to(found: Import, page: int = 0, *, declined: bool = False) -> Response:
    query = urlencode(({"page": page} if page else {}) | ({"declined": 1} if declined else {}))
    return make_response(redirect(f"/imports/{found.id}" + (f"?{query}" if query else ""), 303))


@bp.get("/imports/<int:import_id>")
def show_import(import_id: int) -> str:
    """Show an import: its preview, its progress, or its report."""
    shown = forms.read_query(request, Shown)
    return _show(import_id, shown.page, declined=shown.declined)


def _show(import_id: int, page: int = 0, error: EventrError | None = None, *, declined: bool = False) -> str:
    found = get_services().imports.get(get_actor(), import_id)
    if found.state is ImportState.PREVIEW:
        items = get_services().imports.list_page(get_actor(), import_id, page)
        pages = max(1, -(-found.total // PAGE))
        groups = importview.group_items(found, items)
        return render_page(
            "pages/import_preview.html",
            one=found,
            groups=groups,
            icons=get_services().imports.find_icons(get_actor(), items),
            page=page,
            pages=pages,
            declined=declined,
            error=error,
        )
    if found.state in (ImportState.READING, ImportState.UNREADABLE):
        fault = importview.build_fault(found)
        pull, now = found.pull, clock.now()
        next_try = pull.due if pull and pull.is_waiting(now) else None
        held_until = pull.asked_until if pull and pull.is_held(now) else None
        return render_page(
            "pages/import_reading.html",
            one=found,
            error=error or fault,
            next_try=next_try,
            held_until=held_until,
        )
    failures = [] if found.is_active else get_services().imports.list_failures(get_actor(), import_id)
    brought = (
        ImportedFeeds()
        if found.is_active
        else get_services().imports.find_imported_feeds(get_actor(), import_id)
    )
    mine = [item for item in failures if item.feed_id not in brought.left]
    shown = failures[page * PAGE : (page + 1) * PAGE]
    name = "parts/import_body.html" if get_fragment_id() == "import-body" else "pages/import.html"
    return render_page(
        name,
        one=found,
        report=found.build_report(clock.now()),
        failures=shown,
        icons=get_services().imports.find_icons(get_actor(), shown),
        page=page,
        all_failures=len(failures),
        can_retry=any(item.can_retry for item in mine),
        asked_again=any(item.feed_id for item in mine),
        brought=brought,
        error=error,
    )


@bp.post("/imports/<int:import_id>/choose")
def choose_items(import_id: int) -> Response | tuple[str, int]:
    """Store the selection of a page; then start the import or show another page."""
    form = forms.read_form(request, Choice)
    imports, declined = get_services().imports, not form.choices
    try:
        if form.do in ("all", "none"):
            imports.choose_all(get_actor(), import_id, form.do == "all")
            found = imports.get(get_actor(), import_id)
            return _to(found, form.page, declined=declined and found.has_choices)
        found = imports.choose_items(get_actor(), import_id, form.page, form.pick)
        if form.do == "start":
            keep, into = form.target == "keep", form.into if form.target == "one" else ""
            return _to(
                imports.start(get_actor(), import_id, keep_folders=keep, into=into, choices=form.choices)
            )
    except (ConflictError, InvalidError) as e:
        return _show(import_id, form.page, e, declined=declined), e.http_status
    page = max(0, form.page + {"next": 1, "back": -1}.get(form.do, 0))
    return _to(found, page, declined=declined and found.has_choices)


@bp.post("/imports/<int:import_id>/cancel")
def cancel(import_id: int) -> Response | tuple[str, int]:
    """Cancel an import; existing subscriptions stay."""
    forms.read_form(request, forms.Empty)
    try:
        return _to(get_services().imports.cancel(get_actor(), import_id))
    except ConflictError as e:
        return _show(import_id, error=e), e.http_status


@bp.post("/imports/<int:import_id>/continue")
def resume(import_id: int) -> Response | tuple[str, int]:
    """Continue a canceled import."""
    forms.read_form(request, forms.Empty)
    try:
        return _to(get_services().imports.resume(get_actor(), import_id))
    except ConflictError as e:
        return _show(import_id, error=e), e.http_status


@bp.post("/imports/<int:import_id>/try")
def try_now(import_id: int) -> Response | tuple[str, int]:
    """Try a server again that isn't answering, without waiting."""
    forms.read_form(request, forms.Empty)
    try:
        return _to(get_services().pulled_imports.try_now(get_actor(), import_id))
    except (ConflictError, RateLimitedError) as e:
        return _show(import_id, error=e), e.http_status


@bp.post("/imports/<int:import_id>/retry")
def retry(import_id: int) -> Response | tuple[str, int]:
    """Retry failed outlines, all or one."""
    form = forms.read_form(request, RetryForm)
    try:
        return _to(get_services().imports.retry(get_actor(), import_id, form.index))
    except ConflictError as e:
        return _show(import_id, error=e), e.http_status


@bp.post("/imports/<int:import_id>/unsubscribe")
def unsubscribe(import_id: int) -> Response | tuple[str, int]:
    """Unsubscribe from the feeds that an import added."""
    forms.read_form(request, forms.Empty)
    try:
        token, count = get_services().imports.unsubscribe(get_actor(), import_id)
    except ConflictError as e:
        return _show(import_id, error=e), e.http_status
    words = ngettext("Unsubscribed from %(num)s feed", "Unsubscribed from %(num)s feeds", count)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, f"feeds.{token}"))
    return _to(get_services().imports.get(get_actor(), import_id))


@bp.post("/imports/<int:import_id>/remove")
def remove(import_id: int) -> Response | tuple[str, int]:
    """Delete an import; subscriptions stay."""
    forms.read_form(request, forms.Empty)
    try:
        get_services().imports.remove(get_actor(), import_id)
    except ConflictError as e:
        return _show(import_id, error=e), e.http_status
    get_services().accounts.add_notice(
        get_actor(), get_session(), Notice(_("Import deleted. Your feeds aren't affected."))
    )
    return make_response(redirect("/imports", 303))


@bp.get("/imports/<int:import_id>/report")
def download_report(import_id: int) -> Response:
    """Return the report as a file: failures as OPML, or all outlines as CSV or JSON."""
    kind = forms.read_query(request, Shown).format
    if kind == "opml":
        found = get_services().imports
        failures = found.export_failures(get_actor(), import_id, importview.explain_failure)
        return _file(failures, "text/x-opml", "failed.opml")
    rows = [_row(item) for item in get_services().imports.list_items(get_actor(), import_id)]
    if kind == "json":
        return _file(json.dumps(rows).encode(), "application/json", "import.json")
    out = io.StringIO()
    writer = csv.DictWriter(out, ["line", "title", "url", "result", "reason"])
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return _file(out.getvalue().encode("utf-8-sig"), "text/csv; charset=utf-8", "import.csv")


def _row(item: ImportItem) -> dict[str, str | int]:
    reason = importview.explain_failure(item) if item.error else ""
    return {
        "line": item.line,
        "title": item.title,
        "url": item.url,
        "result": item.state.value,
        "reason": reason,
    }


def _cell(value: str | int) -> str | int:
    # A spreadsheet would execute a value that begins like a formula.
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _file(body: bytes, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, content_type=kind, headers=headers)


@bp.get("/api/imports/<int:import_id>")
def show_progress(import_id: int) -> Response:
    """Return an import's progress, for pages without an event stream."""
    return jsonify(get_services().imports.get(get_actor(), import_id).build_report(clock.now()))


@bp.get("/export/opml")
def export_subscriptions() -> Response:
    """Export all subscriptions as an OPML file."""
    day = dt.datetime.now(dt.UTC).date().isoformat()
    return _file(
        get_services().imports.export(get_actor()), "text/x-opml; charset=utf-8", f"eventr-{day}.opml"
    )


@bp.get("/welcome")
def show_welcome() -> str:
    """Show ways to start for a user without feeds."""
    recent = get_services().imports.list_recent(get_actor())
    begun = next((one for one in recent if one.is_active or one.state is ImportState.PREVIEW), None)
    packs = get_services().packs.list_packs(get_actor(), get_language())
    return render_page("pages/welcome.html", begun=begun, packs=packs)
