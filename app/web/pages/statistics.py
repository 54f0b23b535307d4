"""Settings → Reading statistics: what the user has read, starred and shared, by day."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.models.accounts.user import Notice
from app.models.reading.statistics import Counted, sum_months
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.pages.settings import render_section
from app.web.view.reading_chart import draw_days, sum_spans

bp = Blueprint("statistics", __name__)

#: Days in the charts, and most days in the sums.
CHART_DAYS, SUM_DAYS = 30, 365
#: Feeds in the list of the most read ones.
FEEDS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    on: bool


@bp.get("/settings/statistics")
def show_statistics() -> str:
    """Show the statistics, or what they would be if they were switched on."""
    service = get_services().statistics
    days = service.list_days(get_actor(), min(SUM_DAYS, service.days))
    if days is None:
        return render_section("statistics", days=None, kept=service.days)
    shown = days[-CHART_DAYS:]
    read, feeds = get_services().reading.list_most_read(get_actor(), FEEDS)
    return render_section(
        "statistics",
        days=shown,
        kept=service.days,
        charts=[draw_days(shown, what) for what in Counted],
        spans=sum_spans(days),
        read=read,
        feeds=feeds,
        months=[month for month in reversed(sum_months(days)) if not month.is_empty],
    )


@bp.post("/settings/statistics")
def set_statistics() -> Response:
    """Begin to count, or stop and delete what was counted."""
    form = forms.read_form(request, Switch)
    get_services().statistics.set_enabled(get_actor(), form.on)
    words = _("Statistics are on") if form.on else _("Statistics are off, and their numbers are deleted")
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect("/settings/statistics", 303))
