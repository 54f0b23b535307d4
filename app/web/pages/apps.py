"""App passwords, access tokens of the API, and settings for reading apps."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import N_, EventrError, InvalidError, RateLimitedError, TooLargeError
from app.models.accounts.token import Scope, Token
from app.models.accounts.user import Notice
from app.services.accounts.tokens import DAYS
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.forms import declare_text
from app.web.pages.settings import render_section
from app.web.view.qr_code import is_reachable_by_phones
from app.web.view.reader_apps import APPS, BY_SLUG, Protocol
from app.web.view.render import render_page

bp = Blueprint("apps", __name__, url_prefix="/settings/apps")

#: Errors that a form shows itself; all others lead to an error page.
Shown = (InvalidError, RateLimitedError, TooLargeError)
BEARER = "Authorization: Bearer evt_…"
#: Scope → its short label, and its description.
SCOPES = {
    Scope.READ: (N_("read"), N_("View your feeds, folders and entries")),
    Scope.MARK: (N_("mark"), N_("Mark entries as read, and star, like and tag them")),
    Scope.SUBSCRIBE: (
        N_("subscribe"),
        N_("Add and remove feeds and folders, and follow, mute and block people"),
    ),
    Scope.SHARE: (N_("share"), N_("Share, comment and report in your name, and choose who can follow you")),
    Scope.SETTINGS: (N_("settings"), N_("Change your view settings, keyboard shortcuts and notifications")),
    Scope.FILES: (N_("files"), N_("Upload files, and list, download and delete them")),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AppQuery:
    """``app``: the slug of a known app."""

    app: str = declare_text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewPassword:
    name: str = declare_text(max=256, default="")
    fever: bool = False
    app: str = declare_text(max=64, default="")
    proof: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    name: str = declare_text(max=256, default="")
    read: bool = False
    mark: bool = False
    subscribe: bool = False
    share: bool = False
    settings: bool = False
    files: bool = False
    days: int | None = None
    proof: str = declare_text(max=2048, default="")

    @property
    def scopes(self) -> list[str]:
        """The names of the selected scopes."""
        return [scope.value for scope in Scope if getattr(self, scope.value)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneToken:
    token: int


@bp.get("")
def show_apps() -> str:
    """Show all app passwords and access tokens; ``?app=`` fills the form for a known app."""
    known = BY_SLUG.get(forms.read_query(request, AppQuery).app)
    form = NewPassword(name=known.name, fever=known.needs_fever, app=known.slug) if known else NewPassword()
    return _page(form=form)


def _page(wrong: str = "", error: EventrError | None = None, **values: object) -> str:
    """Render the page; ``wrong`` is the form that ``error`` belongs to."""
    given: dict[str, object] = {"form": NewPassword(), "wish": NewToken(read=True, days=90)}
    given |= {"proved": get_services().tokens.is_proved(get_session()), **values}
    return render_section(
        "apps",
        wrong=wrong,
        error=error,
        tokens=get_services().tokens.list_tokens(get_actor()),
        scopes=SCOPES,
        days=DAYS,
        base=get_web().base_url,
        reachable=is_reachable_by_phones(get_web().base_url),
        bearer=BEARER,
        fever=Protocol.FEVER.value,
        **given,
    )


def _made(made: Token, secret: str, slug: str = "") -> Response:
    """Show a new secret once: only in this answer, which nothing stores (W08)."""
    response = make_response(_page(made=made, secret=secret, known=BY_SLUG.get(slug), proved=True))
    response.headers["Cache-Control"] = "no-store"
    return response


@bp.post("/password")
def make_password() -> Response | tuple[str, int]:
    """Create an app password."""
    form = forms.read_form(request, NewPassword)
    try:
        made, secret = get_services().tokens.make_app_password(
            get_actor(), get_session(), form.name, fever=form.fever, proof=form.proof
        )
    except Shown as e:
        return _page("password", e, form=form), e.http_status
    return _made(made, secret, form.app)


@bp.post("/token")
def make_token() -> Response | tuple[str, int]:
    """Create an access token for the API."""
    form = forms.read_form(request, NewToken)
    try:
        made, secret = get_services().tokens.make_api_token(
            get_actor(), get_session(), form.name, form.scopes, days=form.days, proof=form.proof
        )
    except Shown as e:
        return _page("token", e, wish=form), e.http_status
    return _made(made, secret)


@bp.post("/revoke")
def revoke() -> Response:
    """Revoke an app password or access token."""
    get_services().tokens.revoke(get_actor(), forms.read_form(request, OneToken).token)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Revoked")))
    return make_response(redirect("/settings/apps", 303))


@bp.get("/clients")
def show_clients() -> str:
    """Show the settings for each reading app."""
    return render_page("pages/settings/clients.html", section="apps", apps=APPS, base=get_web().base_url)
