"""Sign up, log in, log out."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import AuthRequiredError, ExistsError, ForbiddenError, InvalidError, RateLimitedError
from app.services.accounts.sign_in import SignUp
from app.web import forms
from app.web.context import services, session, user
from app.web.forms import text
from app.web.security import sessions
from app.web.security.redirects import safe_next
from app.web.security.sessions import public
from app.web.view.render import template

bp = Blueprint("sign_in", __name__)

#: What a form shows beside itself; all else is an error page.
Shown = (AuthRequiredError, ExistsError, ForbiddenError, InvalidError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    login: str = text(max=254)
    password: str = text(max=2048)
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    email: str = text(max=254)
    name: str = text(max=64)
    password: str = text(max=2048)
    invite: str = text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    next: str = text(max=2048, default="")
    invite: str = text(max=128, default="")


@bp.get("/login")
@public
def log_in_page() -> Response | str:
    """The log-in form."""
    asked = forms.query(request, Query)
    if user() is not None:
        return make_response(redirect(safe_next(asked.next), 303))
    return _log_in_form(next=asked.next)


@bp.post("/login")
@public
def log_in() -> Response | tuple[str, int]:
    """Check name and password, start a session."""
    form = forms.form(request, LogIn)
    try:
        token = services().sign_in.log_in(form.login, form.password, sessions.client())
    except Shown as e:
        return _log_in_form(next=form.next, login=form.login, error=e), e.http_status
    _leave_old_session()
    sessions.begin(token)
    return make_response(redirect(safe_next(form.next), 303))


def _log_in_form(**values: object) -> str:
    return template("pages/login.html", mode=services().sign_in.signup_mode(), **values)


@bp.get("/signup")
@public
def sign_up_page() -> Response | str:
    """The sign-up form, or why there is none."""
    if user() is not None:
        return make_response(redirect("/read/all", 303))
    asked = forms.query(request, Query)
    mode = services().sign_in.signup_mode()
    return template("pages/signup.html", mode=mode, form=None, invite=asked.invite)


@bp.post("/signup")
@public
def sign_up() -> Response | tuple[str, int]:
    """Create an account and log it in."""
    form = forms.form(request, Registration)
    wish = SignUp(form.email, form.name, form.password, form.invite)
    try:
        token = services().sign_in.sign_up(wish, sessions.client())
    except Shown as e:
        mode = services().sign_in.signup_mode()
        page = template("pages/signup.html", mode=mode, form=form, invite=form.invite, error=e)
        return page, e.http_status
    _leave_old_session()
    sessions.begin(token)
    return make_response(redirect("/welcome", 303))


def _leave_old_session() -> None:
    # Whoever logs in anew in the same browser leaves no session behind (W01).
    if user() is not None:
        services().sign_in.log_out(session())


@bp.post("/logout")
def log_out() -> Response:
    """End this session."""
    forms.form(request, forms.Empty)
    services().sign_in.log_out(session())
    sessions.end()
    return make_response(redirect("/", 303))
