"""The user's account: name, address, password, sessions, data export, deletion."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import ConflictError, EventrError, ExistsError, InvalidError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.privacy.export import ExportState
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.pages.settings import render_section
from app.web.security import sessions

bp = Blueprint("account", __name__, url_prefix="/settings")

#: Errors that a form shows itself; all others lead to an error page.
Shown = (ConflictError, ExistsError, InvalidError, RateLimitedError)
#: The value of ``?changed=`` if the new password also ended apps and tokens.
ENDED = "all"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    name: str = declare_text(max=64)
    email: str = declare_text(max=254)
    confirm: str = declare_text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    old: str = declare_text(max=2048)
    password: str = declare_text(max=2048)
    programs: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    confirm: str = declare_text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    proof: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    session: str = declare_text(max=16)


@bp.get("/account")
def show_account() -> str:
    """Show the account page."""
    return _page()


def _page(wrong: str = "", error: EventrError | None = None, **values: object) -> str:
    """Render the page; ``wrong`` is the form that ``error`` belongs to."""
    personal, tokens = get_services().personal_exports, get_services().tokens.list_tokens(get_actor())
    return render_section(
        "account",
        wrong=wrong,
        error=error,
        export=personal.find_latest(get_actor()),
        proved=personal.is_proved(get_session()),
        State=ExportState,
        programs=len(tokens),
        changed=describe_outcome(request.args["changed"] == ENDED, len(tokens))
        if "changed" in request.args
        else "",
        **values,
    )


@bp.post("/identity")
def change_identity() -> Response | tuple[str, int]:
    """Change the user's name and address."""
    form = forms.read_form(request, Identity)
    try:
        get_services().accounts.change_identity(get_actor(), form.name, form.email, form.confirm)
    except Shown as e:
        return _page("identity", e, form=form), e.http_status
    return _back("account", _("Saved"))


@bp.post("/password")
def change_password() -> Response | tuple[str, int]:
    """Change the password and end all other sessions."""
    form = forms.read_form(request, Password)
    try:
        token = get_services().accounts.change_password(
            get_actor(), form.old, form.password, sessions.get_client(), programs=form.programs
        )
    except Shown as e:
        return _page("password", e, ticked=form.programs), e.http_status
    sessions.begin_session(token)
    return make_response(redirect(f"/settings/account?changed={ENDED if form.programs else 1}", 303))


def describe_outcome(ended: bool, tokens_left: int) -> str:
    """Return the message about what a new password has ended.

    Args:
        ended: The user chose to end app passwords and access tokens too.
        tokens_left: The number of app passwords and access tokens that still work.
    """
    if ended:
        words = _(
            "Password changed. All other sessions have ended, and all app passwords and access "
            "tokens are revoked."
        )
    elif tokens_left:
        words = _(
            "Password changed. All other sessions have ended. Your app passwords and access "
            "tokens still work."
        )
    else:
        words = _("Password changed. All other sessions have ended.")
    return str(words)


@bp.post("/delete")
def delete() -> Response | tuple[str, int]:
    """Close the account permanently; a job deletes it with all its data."""
    form = forms.read_form(request, Delete)
    try:
        get_services().accounts.delete_account(get_actor(), form.confirm)
    except Shown as e:
        return _page("delete", e), e.http_status
    sessions.end_session()
    return make_response(redirect("/?gone=1", 303))


@bp.post("/account/export")
def request_export() -> Response | tuple[str, int]:
    """Queue a job that collects all the user's data into a file."""
    form = forms.read_form(request, Proof)
    try:
        get_services().personal_exports.request_export(get_actor(), get_session(), form.proof)
    except Shown as e:
        return _page("export", e), e.http_status
    return make_response(redirect("/settings/account#export", 303))


@bp.get("/account/export/<export_id>")
def download_export(export_id: str) -> Response:
    """Serve the export file; without a recently entered password, redirect to the form for it."""
    try:
        found, parts = get_services().personal_exports.open_download(get_actor(), get_session(), export_id)
    except InvalidError:
        return make_response(redirect("/settings/account#export", 303))
    headers = {
        "Content-Disposition": f'attachment; filename="{found.name}"',
        "Content-Length": str(found.size),
        "Cache-Control": "no-store",
    }
    return Response(parts, content_type="application/zip", headers=headers)


@bp.post("/account/export/<export_id>")
def unlock_export(export_id: str) -> Response | tuple[str, int]:
    """Check the password for a download."""
    form = forms.read_form(request, Proof)
    found = get_services().personal_exports.get(get_actor(), export_id)
    try:
        get_services().personal_exports.verify_password(get_actor(), get_session(), form.proof)
    except Shown as e:
        return _page("unlock", e), e.http_status
    return make_response(redirect(f"/settings/account/export/{found.id}", 303))


@bp.get("/sessions")
def list_sessions() -> str:
    """List the user's sessions."""
    return render_section(
        "sessions", sessions=get_services().accounts.list_sessions(get_actor()), mine=get_session().key
    )


@bp.post("/sessions/end")
def end_session() -> Response:
    """End one of the user's sessions."""
    form = forms.read_form(request, EndSession)
    get_services().accounts.end_session(get_actor(), form.session)
    return _back("sessions", _("Session ended"))


@bp.post("/sessions/end-others")
def end_others() -> Response:
    """End all sessions except this one."""
    forms.read_form(request, forms.Empty)
    count = get_services().accounts.end_other_sessions(get_actor(), get_session())
    words = ngettext("%(num)s other session ended", "%(num)s other sessions ended", count)
    return _back("sessions", words)


def _back(name: str, words: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect(f"/settings/{name}", 303))
