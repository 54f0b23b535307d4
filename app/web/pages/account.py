"""One's own account: name, address, password, sessions, its end."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import ConflictError, EventrError, ExistsError, InvalidError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.privacy.export import ExportState
from app.web import forms
from app.web.context import actor, services, session
from app.web.forms import text
from app.web.pages.settings import section
from app.web.security import sessions

bp = Blueprint("account", __name__, url_prefix="/settings")

#: What a form shows beside itself; all else is an error page.
Shown = (ConflictError, ExistsError, InvalidError, RateLimitedError)
#: The value of ``?changed=`` where apps and tokens ended with the password.
ENDED = "all"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    name: str = text(max=64)
    email: str = text(max=254)
    confirm: str = text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    old: str = text(max=2048)
    password: str = text(max=2048)
    programs: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    confirm: str = text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    proof: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    session: str = text(max=16)


@bp.get("/account")
def page() -> str:
    """Name, address, password, end."""
    return _page()


def _page(wrong: str = "", error: EventrError | None = None, **values: object) -> str:
    """Render the page; ``wrong`` is the form that ``error`` belongs to."""
    personal, tokens = services().personal, services().tokens.all(actor())
    return section(
        "account",
        wrong=wrong,
        error=error,
        export=personal.latest(actor()),
        proved=personal.is_proved(session()),
        State=ExportState,
        programs=len(tokens),
        changed=outcome(request.args["changed"] == ENDED, len(tokens)) if "changed" in request.args else "",
        **values,
    )


@bp.post("/identity")
def identity() -> Response | tuple[str, int]:
    """Change name and address."""
    form = forms.form(request, Identity)
    try:
        services().accounts.change_identity(actor(), form.name, form.email, form.confirm)
    except Shown as e:
        return _page("identity", e, form=form), e.http_status
    return _back("account", _("Saved"))


@bp.post("/password")
def password() -> Response | tuple[str, int]:
    """Change the password; every other session ends."""
    form = forms.form(request, Password)
    try:
        token = services().accounts.change_password(
            actor(), form.old, form.password, sessions.client(), programs=form.programs
        )
    except Shown as e:
        return _page("password", e, ticked=form.programs), e.http_status
    sessions.begin(token)
    return make_response(redirect(f"/settings/account?changed={ENDED if form.programs else 1}", 303))


def outcome(ended: bool, left: int) -> str:
    """Return what a new password has ended, and what it has not.

    Args:
        ended: apps and tokens were to end with it. left: how many there are.
    """
    if ended:
        words = _("The password is changed; all other sessions, apps and tokens have ended.")
    elif left:
        words = _("The password is changed; all other sessions have ended. Your apps and tokens go on.")
    else:
        words = _("The password is changed; all other sessions have ended.")
    return str(words)


@bp.post("/delete")
def delete() -> Response | tuple[str, int]:
    """Close the account for good; a job deletes it with all that is in it."""
    form = forms.form(request, Delete)
    try:
        services().accounts.delete(actor(), form.confirm)
    except Shown as e:
        return _page("delete", e), e.http_status
    sessions.end()
    return make_response(redirect("/?gone=1", 303))


@bp.post("/account/export")
def export() -> Response | tuple[str, int]:
    """Let a job make a file of all that is one's own."""
    form = forms.form(request, Proof)
    try:
        services().personal.ask(actor(), session(), form.proof)
    except Shown as e:
        return _page("export", e), e.http_status
    return make_response(redirect("/settings/account#export", 303))


@bp.get("/account/export/<export_id>")
def download(export_id: str) -> Response:
    """Serve the file; who has not entered his password for some minutes is sent to where it is asked for."""
    try:
        found, parts = services().personal.download(actor(), session(), export_id)
    except InvalidError:
        return make_response(redirect("/settings/account#export", 303))
    headers = {
        "Content-Disposition": f'attachment; filename="{found.name}"',
        "Content-Length": str(found.size),
        "Cache-Control": "no-store",
    }
    return Response(parts, content_type="application/zip", headers=headers)


@bp.post("/account/export/<export_id>")
def unlock(export_id: str) -> Response | tuple[str, int]:
    """Take the password that a download wants."""
    form = forms.form(request, Proof)
    found = services().personal.get(actor(), export_id)
    try:
        services().personal.prove(actor(), session(), form.proof)
    except Shown as e:
        return _page("unlock", e), e.http_status
    return make_response(redirect(f"/settings/account/export/{found.id}", 303))


@bp.get("/sessions")
def session_list() -> str:
    """Where one is logged in."""
    return section("sessions", sessions=services().accounts.sessions(actor()), mine=session().key)


@bp.post("/sessions/end")
def end_session() -> Response:
    """End one session of one's own."""
    form = forms.form(request, EndSession)
    services().accounts.end_session(actor(), form.session)
    return _back("sessions", _("Session ended"))


@bp.post("/sessions/end-others")
def end_others() -> Response:
    """End all sessions but this one."""
    forms.form(request, forms.Empty)
    count = services().accounts.end_other_sessions(actor(), session())
    words = ngettext("%(num)s other session ended", "%(num)s other sessions ended", count)
    return _back("sessions", words)


def _back(name: str, words: str) -> Response:
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect(f"/settings/{name}", 303))
