"""A link of an admin's, with which somebody chooses a new password."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import EventrError, ForbiddenError, InvalidError, RateLimitedError
from app.models.accounts.user import Notice, User
from app.web import forms
from app.web.context import services, session, user
from app.web.forms import text
from app.web.pages.account import outcome
from app.web.security import sessions
from app.web.security.sessions import public
from app.web.view.render import template

bp = Blueprint("new_password", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    token: str = text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    token: str = text(max=128)
    password: str = text(max=2048)
    programs: bool = False


@bp.get("/new-password")
@public
def page() -> str | tuple[str, int]:
    """The field for the new password, or why there is none."""
    token = forms.query(request, Query).token
    try:
        owner = services().people.owner(token)
    except ForbiddenError as e:
        return _void(e)
    # Whoever needs such a link may have lost the account to somebody who made a token.
    return _page(owner, Choice(token=token, password="", programs=True))


def _void(error: ForbiddenError) -> tuple[str, int]:
    return template("pages/new_password.html", error=error, owner=None), error.http_status


def _page(owner: User, form: Choice, error: EventrError | None = None) -> str:
    programs = services().people.programs(owner)
    return template("pages/new_password.html", error=error, owner=owner, form=form, programs=programs)


@bp.post("/new-password")
@public
def choose() -> Response | tuple[str, int]:
    """Set the password and log in; every session of before ends."""
    form = forms.form(request, Choice)
    try:
        session_id = services().people.choose_password(
            form.token, form.password, sessions.client(), programs=form.programs
        )
    except (InvalidError, RateLimitedError) as e:
        return _page(services().people.owner(form.token), form, e), e.http_status
    except ForbiddenError as e:
        return _void(e)
    if user() is not None:
        # Somebody else's, who was logged in in this browser: it leaves nothing behind (W01).
        services().sign_in.log_out(session())
    sessions.begin(session_id)
    _tell(session_id, ended=form.programs)
    return make_response(redirect("/read/all", 303))


def _tell(session_id: str, *, ended: bool) -> None:
    found = services().sign_in.resume(session_id)
    if found is None:  # ended again in this moment
        return
    begun, owner = found
    left = services().people.programs(owner)
    if ended or left:
        services().accounts.notify(owner.actor, begun, Notice(outcome(ended, left)))
