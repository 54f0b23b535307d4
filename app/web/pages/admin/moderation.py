"""Abuse reports and the admins' decisions on them."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ConflictError, EventrError, InvalidError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.discussion.moderation import ReportSubject
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.pages.abuse_report import REASONS
from app.web.view import pictures
from app.web.view.render import render_page

bp = Blueprint("moderation", __name__)

_SHOWN = (InvalidError, ConflictError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DecisionForm:
    thing: int
    about: str = declare_text(
        max=8, default=ReportSubject.PERSON.value, one_of=tuple(a.value for a in ReportSubject)
    )
    proof: str = declare_text(max=2048, default="")


@bp.get("/moderation")
def show_reports() -> str:
    """Show open reports, longest waiting first, and suspended people."""
    return _page()


def _page(error: EventrError | None = None, failed: int = 0) -> str:
    found = get_services().moderation.list_cases(get_actor())
    pictures.collect_reported(case.thing for case in found.cases)
    return render_page(
        "pages/admin/moderation.html",
        found=found,
        reasons=REASONS,
        proved=get_services().admin_accounts.is_proved(get_session()),
        error=error,
        failed=failed,
    )


@bp.post("/moderation/<any(dismiss, remove, suspend, lift):act>")
def decide_report(act: str) -> Response | tuple[str, int]:
    """Decide on a reported share, comment or person."""
    form = forms.read_form(request, DecisionForm)
    try:
        words = _decide(act, form)
    except _SHOWN as e:
        return _page(e, form.thing), e.http_status
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect("/admin/moderation", 303))


def _decide(act: str, form: DecisionForm) -> str:
    do = get_services().moderation
    match act:
        case "dismiss":
            do.dismiss(get_actor(), ReportSubject(form.about), form.thing)
            return str(_("Report dismissed"))
        case "remove":
            if form.about == ReportSubject.COMMENT:
                do.remove_comment(get_actor(), form.thing)
                return str(_("Comment removed"))
            do.remove_share(get_actor(), form.thing)
            return str(_("Share removed"))
        case "suspend":
            do.suspend(get_actor(), get_session(), form.thing, form.proof)
            return str(_("Account suspended. The account is closed, and all its content is hidden."))
        case _:
            do.lift_suspension(get_actor(), get_session(), form.thing, form.proof)
            return str(_("Suspension lifted"))
