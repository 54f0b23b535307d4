"""Abuse reports to the admins about a share, a comment or a person."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from app.errors import EventrError, ExistsError, InvalidError, NotFoundError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.discussion.moderation import Reason, ReportedItem
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view import pictures
from app.web.view.render import render_page

bp = Blueprint("report", __name__)

REASONS = {
    Reason.SPAM: lazy_gettext("Spam or advertising"),
    Reason.ABUSE: lazy_gettext("Insults, threats or private information"),
    Reason.ILLEGAL: lazy_gettext("Illegal content"),
    Reason.OTHER: lazy_gettext("Something else"),
}
_SHOWN = (ExistsError, InvalidError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    share: int | None = None
    comment: int | None = None
    person: str = declare_text(max=64, default="")
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReportForm(Query):
    reason: str = declare_text(max=16, one_of=tuple(r.value for r in Reason))
    text: str = declare_text(max=4096, default="")


@bp.get("/report")
def show_report() -> str:
    """Show the form."""
    asked = forms.read_query(request, Query)
    return _page(asked, _thing(asked))


def _page(asked: Query, thing: ReportedItem, error: EventrError | None = None) -> str:
    back = get_safe_next(asked.next, "/people")
    pictures.collect_reported([thing])
    return render_page("pages/report.html", asked=asked, back=back, thing=thing, reasons=REASONS, error=error)


def _thing(asked: Query) -> ReportedItem:
    if asked.share:
        return get_services().moderation.describe_share(get_actor(), asked.share)
    if asked.comment:
        return get_services().moderation.describe_comment(get_actor(), asked.comment)
    if asked.person:
        return get_services().moderation.describe_person(get_actor(), asked.person)
    raise NotFoundError


@bp.post("/report")
def report() -> Response | tuple[str, int]:
    """Send the report."""
    form = forms.read_form(request, ReportForm)
    thing = _thing(form)
    try:
        get_services().moderation.report(get_actor(), thing, Reason(form.reason), form.text)
    except _SHOWN as e:
        if is_json_wanted():
            raise
        return _page(form, thing, e), e.http_status
    words = _("Thank you. An admin will review your report.")
    if is_json_wanted():
        return make_response({"text": words})
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect(get_safe_next(form.next, "/people"), 303))
