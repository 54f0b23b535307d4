"""What people reported, and what is done about it."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ConflictError, EventrError, InvalidError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.discussion.moderation import About
from app.web import forms
from app.web.context import actor, services, session
from app.web.forms import text
from app.web.pages.abuse_report import REASONS
from app.web.view.render import template

bp = Blueprint("moderation", __name__)

_SHOWN = (InvalidError, ConflictError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    thing: int
    about: str = text(max=8, default=About.PERSON.value, one_of=tuple(a.value for a in About))
    proof: str = text(max=2048, default="")


@bp.get("/moderation")
def page() -> str:
    """Open reports, the longest waiting first; and who is suspended."""
    return _page()


def _page(error: EventrError | None = None, failed: int = 0) -> str:
    return template(
        "pages/admin/moderation.html",
        found=services().moderation.cases(actor()),
        reasons=REASONS,
        proved=services().people.is_proved(session()),
        error=error,
        failed=failed,
    )


@bp.post("/moderation/<any(dismiss, remove, suspend, lift):act>")
def decide(act: str) -> Response | tuple[str, int]:
    """Decide on what was reported."""
    form = forms.form(request, Deed)
    try:
        words = _decide(act, form)
    except _SHOWN as e:
        return _page(e, form.thing), e.http_status
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect("/admin/moderation", 303))


def _decide(act: str, form: Deed) -> str:
    do = services().moderation
    match act:
        case "dismiss":
            do.dismiss(actor(), About(form.about), form.thing)
            return str(_("Left as it is"))
        case "remove":
            if form.about == About.COMMENT:
                do.remove_comment(actor(), form.thing)
                return str(_("The comment is removed"))
            do.remove(actor(), form.thing)
            return str(_("The share is removed"))
        case "suspend":
            do.suspend(actor(), session(), form.thing, form.proof)
            return str(_("Suspended: the account is closed, and nothing of it is seen any more"))
        case _:
            do.lift(actor(), session(), form.thing, form.proof)
            return str(_("The suspension is lifted"))
