"""Accounts and invitations."""

from __future__ import annotations

import dataclasses
from typing import Any

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import ConflictError, EventrError, ExistsError, InvalidError, RateLimitedError
from app.models.accounts.actor import Role
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import actor, services, session, web
from app.web.forms import text
from app.web.view.render import template

bp = Blueprint("users", __name__)

#: What a page shows beside its forms; all else is an error page.
_SHOWN = (ConflictError, ExistsError, InvalidError, RateLimitedError)
_ROLES = tuple(map(str, Role))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = text(max=254, default="")
    after: str = text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    name: str = text(max=64)
    email: str = text(max=254)
    role: str = text(max=8, default=Role.USER.value, one_of=_ROLES)
    proof: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    proof: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneInvite:
    invite: str = text(max=16)


@bp.get("/users")
def page() -> str:
    """The list of accounts, the form for a new one, invitations."""
    return _page()


def _page(error: EventrError | None = None, **values: Any) -> str:
    asked = forms.query(request, Query)
    people = services().people
    return template(
        "pages/admin/users.html",
        asked=asked,
        found=people.page(actor(), asked.q, asked.after),
        invites=people.invites(actor()),
        mode=services().sign_in.signup_mode(),
        proved=people.is_proved(session()),
        error=error,
        **{"link": "", "filled": None, "invite": "", **values},
    )


@bp.post("/users")
def create() -> str | tuple[str, int]:
    """Make an account; its owner chooses the password by a link that is shown this once."""
    form = forms.form(request, NewUser)
    try:
        user, token = services().people.create(
            actor(), session(), form.email, form.name, Role(form.role), form.proof
        )
    except _SHOWN as e:
        return _page(e, filled=form), e.http_status
    return _person(user.id, link=_link(token))


@bp.get("/users/<int:user_id>")
def person(user_id: int) -> str:
    """One account, and what can be done with it."""
    return _person(user_id)


def _person(user_id: int, error: EventrError | None = None, link: str = "") -> str:
    people = services().people
    return template(
        "pages/admin/user.html",
        person=people.person(actor(), user_id),
        myself=user_id == actor().user_id,
        proved=people.is_proved(session()),
        minutes=web().settings.reset_ttl // 60,
        error=error,
        link=link,
    )


@bp.post("/users/<int:user_id>/<any(admin, user, disable, enable, sessions, link):act>")
def change(user_id: int, act: str) -> Response | str | tuple[str, int]:
    """Change who may what, end sessions, or make a link for a new password."""
    form = forms.form(request, Proof)
    try:
        if act == "link":
            token = services().people.reset_link(actor(), session(), user_id, form.proof)
            return _person(user_id, link=_link(token))
        words = _change(user_id, act, form.proof)
    except _SHOWN as e:
        return _person(user_id, e), e.http_status
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect(f"/admin/users/{user_id}", 303))


def _change(user_id: int, act: str, proof: str) -> str:
    do, me, mine = services().people, actor(), session()
    if act in _ROLES:
        do.set_role(me, mine, user_id, Role(act), proof)
        return str(_("Is an admin now") if act == Role.ADMIN else _("Is a user now"))
    if act == "sessions":
        count = do.end_sessions(me, user_id)
        return str(ngettext("%(num)s session ended", "%(num)s sessions ended", count))
    do.set_disabled(me, mine, user_id, act == "disable", proof)
    return str(_("The account is closed") if act == "disable" else _("The account is open again"))


@bp.post("/invites")
def invite() -> str:
    """Make an invitation; its link is shown this once."""
    forms.form(request, forms.Empty)
    token = services().people.invite(actor())
    return _page(invite=f"{web().base_url}/signup?invite={token}")


@bp.post("/invites/revoke")
def revoke() -> Response:
    """Take an invitation back."""
    form = forms.form(request, OneInvite)
    services().people.revoke_invite(actor(), form.invite)
    services().accounts.notify(actor(), session(), Notice(_("The invitation is not good any more")))
    return make_response(redirect("/admin/users#invitations", 303))


def _link(token: str) -> str:
    return f"{web().base_url}/new-password?token={token}"
