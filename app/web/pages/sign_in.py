"""Sign up, log in, log out."""

from __future__ import annotations

import dataclasses
from urllib.parse import parse_qs, urlsplit

from flask import Blueprint, Response, jsonify, make_response, redirect, request

from app.errors import AuthRequiredError, ExistsError, ForbiddenError, InvalidError, RateLimitedError
from app.services.accounts.sign_in import SignUp
from app.web import forms
from app.web.context import find_user, get_services, get_session
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security import devices, sessions
from app.web.security.redirects import get_safe_next
from app.web.security.sessions import allow_strangers
from app.web.view.i18n import translate_error
from app.web.view.render import render_page

bp = Blueprint("sign_in", __name__)

#: Characters of an invite's code; none is longer.
INVITE_MAX = 128

#: Errors that a form shows itself; all others lead to an error page.
Shown = (AuthRequiredError, ExistsError, ForbiddenError, InvalidError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    login: str = declare_text(max=254)
    password: str = declare_text(max=2048)
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    email: str = declare_text(max=254)
    name: str = declare_text(max=64)
    password: str = declare_text(max=2048)
    invite: str = declare_text(max=INVITE_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    next: str = declare_text(max=2048, default="")
    invite: str = declare_text(max=512, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    name: str = declare_text(max=64)


@bp.get("/login")
@allow_strangers
def show_log_in() -> Response | str:
    """Show the login form."""
    asked = forms.read_query(request, Query)
    if find_user() is not None:
        return make_response(redirect(get_safe_next(asked.next), 303))
    return _log_in_form(next=asked.next)


@bp.post("/login")
@allow_strangers
def log_in() -> Response | tuple[str, int]:
    """Check name and password, and start a session."""
    form = forms.read_form(request, LogIn)
    client = dataclasses.replace(sessions.get_client(), device=devices.find_device())
    try:
        token = get_services().sign_in.log_in(form.login, form.password, client)
    except Shown as e:
        return _log_in_form(next=form.next, login=form.login, error=e), e.http_status
    _begin_session(token)
    return make_response(redirect(get_safe_next(form.next), 303))


def _log_in_form(**values: object) -> str:
    return render_page("pages/login.html", mode=get_services().sign_in.get_signup_mode(), **values)


@bp.get("/signup")
@allow_strangers
def show_sign_up() -> Response | str:
    """Show the sign-up form, or the reason why sign-up is closed."""
    if find_user() is not None:
        return make_response(redirect("/read/all", 303))
    asked = forms.read_query(request, Query)
    mode = get_services().sign_in.get_signup_mode()
    return render_page("pages/signup.html", mode=mode, form=None, invite=_read_invite(asked.invite))


def _read_invite(text: str) -> str:
    """Return the code of an invite, which may have been pasted as a whole link."""
    (code, *_others) = parse_qs(urlsplit(text.strip()).query).get("invite", [text.strip()])
    return code[:INVITE_MAX]


@bp.post("/signup")
@allow_strangers
def sign_up() -> Response | tuple[str, int]:
    """Create an account and log the user in."""
    form = forms.read_form(request, Registration)
    wish = SignUp(form.email, form.name, form.password, form.invite)
    try:
        token = get_services().sign_in.sign_up(wish, sessions.get_client())
    except Shown as e:
        if is_json_wanted():  # the page's script shows it beside the field, and nothing typed is lost
            problem = {"field": e.ids.get("field", ""), "message": translate_error(e)}
            return make_response(jsonify(problem), e.http_status)
        mode = get_services().sign_in.get_signup_mode()
        near = get_services().sign_in.suggest_name(form.name) if e.ids.get("field") == "name" else ""
        page = render_page(
            "pages/signup.html", mode=mode, form=form, invite=form.invite, error=e, suggestion=near
        )
        return page, e.http_status
    _begin_session(token)
    if is_json_wanted():
        return make_response(jsonify(next="/welcome"))
    return make_response(redirect("/welcome", 303))


@bp.get("/signup/name")
@allow_strangers
def check_name() -> Response:
    """Say whether a user name can be chosen, while it is being typed: ``problem`` and ``suggestion``."""
    asked = forms.read_query(request, Name)
    found = get_services().sign_in.check_name(asked.name, sessions.get_client())
    problem = translate_error(found.problem) if found.problem else ""
    return jsonify(problem=problem, suggestion=found.suggestion)


def _begin_session(token: str) -> None:
    # A new login ends the browser's old session (W01).
    if find_user() is not None:
        get_services().sign_in.log_out(get_session())
    sessions.begin_session(token)
    resumed = get_services().sign_in.resume(token)
    if resumed is not None:
        devices.remember_device(resumed[1].id)


@bp.post("/logout")
def log_out() -> Response:
    """End this session."""
    forms.read_form(request, forms.Empty)
    get_services().sign_in.log_out(get_session())
    sessions.end_session()
    return make_response(redirect("/", 303))
