"""Report a share, a comment or a person to the administrators."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from app.errors import EventrError, ExistsError, InvalidError, NotFoundError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.discussion.moderation import Reason, Reported
from app.web import forms
from app.web.context import actor, services, session
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.view.render import template

bp = Blueprint("report", __name__)

REASONS = {
    Reason.SPAM: lazy_gettext("It is advertising, or the same again and again"),
    Reason.ABUSE: lazy_gettext("It insults, threatens or exposes somebody"),
    Reason.ILLEGAL: lazy_gettext("It is against the law"),
    Reason.OTHER: lazy_gettext("Something else"),
}
_SHOWN = (ExistsError, InvalidError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    share: int | None = None
    comment: int | None = None
    person: str = text(max=64, default="")
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filled(Query):
    reason: str = text(max=16, one_of=tuple(r.value for r in Reason))
    text: str = text(max=4096, default="")


@bp.get("/report")
def page() -> str:
    """The form."""
    asked = forms.query(request, Query)
    return _page(asked, _thing(asked))


def _page(asked: Query, thing: Reported, error: EventrError | None = None) -> str:
    return template("pages/report.html", asked=asked, thing=thing, reasons=REASONS, error=error)


def _thing(asked: Query) -> Reported:
    if asked.share:
        return services().moderation.share(actor(), asked.share)
    if asked.comment:
        return services().moderation.comment(actor(), asked.comment)
    if asked.person:
        return services().moderation.person(actor(), asked.person)
    raise NotFoundError


@bp.post("/report")
def report() -> Response | tuple[str, int]:
    """Send the report."""
    form = forms.form(request, Filled)
    thing = _thing(form)
    try:
        services().moderation.report(actor(), thing, Reason(form.reason), form.text)
    except _SHOWN as e:
        if wants_json():
            raise
        return _page(form, thing, e), e.http_status
    words = _("Thank you. An administrator will look at it.")
    if wants_json():
        return make_response({"text": words})
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect(safe_next(form.next, "/people"), 303))
