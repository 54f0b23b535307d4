"""One's own account: password, sessions, colours; invitations for admins."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import EventrError, InvalidError, RateLimitedError
from app.models.actor import Permission
from app.models.user import Notice
from app.web import schemas, sessions
from app.web.context import actor, services, session, web
from app.web.redirects import safe_next
from app.web.render import THEME_COOKIE, THEMES, template
from app.web.schemas import text

bp = Blueprint("settings", __name__, url_prefix="/settings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    old: str = text(max=2048)
    password: str = text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    theme: str = text(max=8, one_of=THEMES)
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    session: str = text(max=16)


@bp.get("")
def page() -> str:
    """All settings."""
    return _page()


def _page(error: EventrError | None = None, invite: str = "") -> str:
    return template(
        "pages/settings.html",
        error=error,
        sessions=services().accounts.sessions(actor()),
        here=session().key,
        may_invite=actor().may(Permission.USER_CREATE),
        invite=invite,
    )


@bp.post("/password")
def password() -> Response | tuple[str, int]:
    """Change the password; every other session ends."""
    form = schemas.form(request, Password)
    try:
        token = services().accounts.change_password(actor(), form.old, form.password, sessions.client())
    except (InvalidError, RateLimitedError) as e:
        return _page(e), e.http_status
    sessions.begin(token)
    return make_response(redirect("/settings", 303))


@bp.post("/sessions/end")
def end_session() -> Response:
    """End one session of one's own."""
    form = schemas.form(request, EndSession)
    services().accounts.end_session(actor(), form.session)
    return _back("Session ended")


@bp.post("/sessions/end-others")
def end_others() -> Response:
    """End all sessions but this one."""
    schemas.form(request, schemas.Empty)
    count = services().accounts.end_other_sessions(actor(), session())
    return _back(f"{count} other session{'' if count == 1 else 's'} ended")


def _back(words: str) -> Response:
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect("/settings", 303))


@bp.post("/theme")
def theme() -> Response:
    """Choose the colours of this device."""
    form = schemas.form(request, Theme)
    response = make_response(redirect(safe_next(form.next, "/settings"), 303))
    response.set_cookie(
        THEME_COOKIE, form.theme, max_age=400 * 86400, secure=web().secure, httponly=True, samesite="Lax"
    )
    return response


@bp.post("/invite")
def invite() -> str:
    """Make an invitation; its link is shown this once."""
    schemas.form(request, schemas.Empty)
    token = services().accounts.invite(actor())
    return _page(invite=f"{web().base_url}/signup?invite={token}")
