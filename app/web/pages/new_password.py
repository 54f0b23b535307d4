"""Choosing a new password by an admin's link."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request

from app.errors import EventrError, ForbiddenError, InvalidError, RateLimitedError
from app.models.accounts.user import Notice, User
from app.web import forms
from app.web.context import find_user, get_services, get_session
from app.web.forms import declare_text
from app.web.pages.account import describe_outcome
from app.web.security import sessions
from app.web.security.sessions import allow_strangers
from app.web.view.render import render_page

bp = Blueprint("new_password", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    token: str = declare_text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    token: str = declare_text(max=128)
    password: str = declare_text(max=2048)
    programs: bool = False


@bp.get("/new-password")
@allow_strangers
def show_new_password() -> str | tuple[str, int]:
    """Show the field for the new password, or the reason why the link isn't valid."""
    token = forms.read_query(request, Query).token
    try:
        owner = get_services().admin_accounts.get_reset_user(token)
    except ForbiddenError as e:
        return _void(e)
    # By default, end all tokens: someone who took over the account may have created some.
    return _page(owner, Choice(token=token, password="", programs=True))


def _void(error: ForbiddenError) -> tuple[str, int]:
    return render_page("pages/new_password.html", error=error, owner=None), error.http_status


def _page(owner: User, form: Choice, error: EventrError | None = None) -> str:
    programs = get_services().admin_accounts.count_tokens(owner)
    return render_page("pages/new_password.html", error=error, owner=owner, form=form, programs=programs)


@bp.post("/new-password")
@allow_strangers
def choose_password() -> Response | tuple[str, int]:
    """Set the password and log in; all earlier sessions end."""
    form = forms.read_form(request, Choice)
    try:
        session_id = get_services().admin_accounts.choose_password(
            form.token, form.password, sessions.get_client(), programs=form.programs
        )
    except (InvalidError, RateLimitedError) as e:
        return _page(get_services().admin_accounts.get_reset_user(form.token), form, e), e.http_status
    except ForbiddenError as e:
        return _void(e)
    if find_user() is not None:
        # End the session of another user in this browser (W01).
        get_services().sign_in.log_out(get_session())
    sessions.begin_session(session_id)
    _tell(session_id, ended=form.programs)
    return make_response(redirect("/read/all", 303))


def _tell(session_id: str, *, ended: bool) -> None:
    found = get_services().sign_in.resume(session_id)
    if found is None:  # already ended again
        return
    begun, owner = found
    left = get_services().admin_accounts.count_tokens(owner)
    if ended or left:
        get_services().accounts.add_notice(owner.actor, begun, Notice(describe_outcome(ended, left)))
