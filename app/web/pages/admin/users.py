"""Accounts and invites."""

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
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.forms import declare_text
from app.web.view.render import render_page

bp = Blueprint("users", __name__)

#: Errors that the page shows beside its forms; all others lead to an error page.
_SHOWN = (ConflictError, ExistsError, InvalidError, RateLimitedError)
_ROLES = tuple(map(str, Role))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = declare_text(max=254, default="")
    after: str = declare_text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    name: str = declare_text(max=64)
    email: str = declare_text(max=254)
    role: str = declare_text(max=8, default=Role.USER.value, one_of=_ROLES)
    proof: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    proof: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneInvite:
    invite: str = declare_text(max=16)


@bp.get("/users")
def show_users() -> str:
    """Show the list of accounts, the form for a new account, and the invites."""
    return _page()


def _page(error: EventrError | None = None, **values: Any) -> str:
    asked = forms.read_query(request, Query)
    people = get_services().admin_accounts
    return render_page(
        "pages/admin/users.html",
        asked=asked,
        found=people.list_accounts(get_actor(), asked.q, asked.after),
        invites=people.list_invites(get_actor()),
        mode=get_services().sign_in.get_signup_mode(),
        proved=people.is_proved(get_session()),
        error=error,
        **{"link": "", "filled": None, "invite": "", **values},
    )


@bp.post("/users")
def create() -> str | tuple[str, int]:
    """Create an account; show once the link by which its owner chooses a password."""
    form = forms.read_form(request, NewUser)
    try:
        user, token = get_services().admin_accounts.create_account(
            get_actor(), get_session(), form.email, name=form.name, role=Role(form.role), proof=form.proof
        )
    except _SHOWN as e:
        return _page(e, filled=form), e.http_status
    return _person(user.id, link=_link(token))


@bp.get("/users/<int:user_id>")
def show_user(user_id: int) -> str:
    """Show one account and the actions on it."""
    return _person(user_id)


def _person(user_id: int, error: EventrError | None = None, link: str = "") -> str:
    people = get_services().admin_accounts
    return render_page(
        "pages/admin/user.html",
        person=people.get_account(get_actor(), user_id),
        myself=user_id == get_actor().user_id,
        proved=people.is_proved(get_session()),
        minutes=get_web().settings.reset_ttl // 60,
        error=error,
        link=link,
    )


@bp.post("/users/<int:user_id>/<any(admin, user, disable, enable, sessions, link, confirm):act>")
def change_user(user_id: int, act: str) -> Response | str | tuple[str, int]:
    """Change an account's role or state, end its sessions, or create a link for a new password."""
    form = forms.read_form(request, Proof)
    try:
        if act == "link":
            token = get_services().admin_accounts.create_reset_link(
                get_actor(), get_session(), user_id, form.proof
            )
            return _person(user_id, link=_link(token))
        words = _change(user_id, act, form.proof)
    except _SHOWN as e:
        return _person(user_id, e), e.http_status
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect(f"/admin/users/{user_id}", 303))


def _change(user_id: int, act: str, proof: str) -> str:
    do, me, mine = get_services().admin_accounts, get_actor(), get_session()
    if act in _ROLES:
        do.set_role(me, mine, user_id, Role(act), proof)
        return str(
            _("This user is now an admin") if act == Role.ADMIN else _("This user isn't an admin anymore")
        )
    if act == "sessions":
        count = do.end_sessions(me, user_id)
        return str(ngettext("%(num)s session ended", "%(num)s sessions ended", count))
    if act == "confirm":
        do.confirm_email(me, mine, user_id, proof)
        return str(_("Email address confirmed"))
    do.set_disabled(me, mine, user_id, act == "disable", proof)
    return str(_("Account closed") if act == "disable" else _("Account reopened"))


@bp.post("/invites")
def invite() -> str:
    """Create an invite; show its link once."""
    forms.read_form(request, forms.Empty)
    token = get_services().admin_accounts.create_invite(get_actor())
    return _page(invite=f"{get_web().base_url}/signup?invite={token}")


@bp.post("/invites/revoke")
def revoke() -> Response:
    """Revoke an invite."""
    form = forms.read_form(request, OneInvite)
    get_services().admin_accounts.revoke_invite(get_actor(), form.invite)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Invite revoked")))
    return make_response(redirect("/admin/users#invitations", 303))


def _link(token: str) -> str:
    return f"{get_web().base_url}/new-password?token={token}"
