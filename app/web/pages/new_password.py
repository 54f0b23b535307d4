"""A link of an admin's, with which somebody chooses a new password."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import ForbiddenError, InvalidError, RateLimitedError
from app.web import schemas, sessions
from app.web.context import services, session, user
from app.web.render import template
from app.web.schemas import text
from app.web.sessions import public

bp = Blueprint("new_password", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    token: str = text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    token: str = text(max=128)
    password: str = text(max=2048)


@bp.get("/new-password")
@public
def page() -> str | tuple[str, int]:
    """The field for the new password, or why there is none."""
    token = schemas.query(request, Query).token
    try:
        owner = services().people.owner(token)
    except ForbiddenError as e:
        return template("pages/new_password.html", error=e, owner=None, token=""), e.http_status
    return template("pages/new_password.html", error=None, owner=owner, token=token)


@bp.post("/new-password")
@public
def choose() -> Response | tuple[str, int]:
    """Set the password and log in; every session of before ends."""
    form = schemas.form(request, Choice)
    try:
        session_id = services().people.choose_password(form.token, form.password, sessions.client())
    except (InvalidError, RateLimitedError) as e:
        owner = services().people.owner(form.token)
        page = template("pages/new_password.html", error=e, owner=owner, token=form.token)
        return page, e.http_status
    except ForbiddenError as e:
        return template("pages/new_password.html", error=e, owner=None, token=""), e.http_status
    if user() is not None:
        # Somebody else's, who was logged in in this browser: it leaves nothing behind (W01).
        services().sign_in.log_out(session())
    sessions.begin(session_id)
    return make_response(redirect("/read/all", 303))
