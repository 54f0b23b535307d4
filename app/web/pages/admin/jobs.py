"""Queues with their switches, running and dead tasks."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import InvalidError
from app.models.accounts.user import Notice
from app.models.jobs.job_engine import DeadKind
from app.web import forms
from app.web.context import actor, services, session
from app.web.forms import text
from app.web.view.render import template

bp = Blueprint("jobs", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    task: str = text(max=64, default="")
    error: str = text(max=64, default="")
    after: str = text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    queue: str = text(max=32)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """One task by its id, or all of a kind."""

    job: str = text(max=64, default="")
    task: str = text(max=64, default="")
    error: str = text(max=64, default="")
    sure: bool = False


@bp.get("/jobs")
def page() -> str:
    """Queues, what runs, what is dead."""
    asked = forms.query(request, Query)
    kind = DeadKind(asked.task, asked.error) if asked.task else None
    ask = services().operations
    return template(
        "pages/admin/jobs.html",
        asked=asked,
        kind=kind,
        engine=ask.now(actor()),
        pace=ask.throughput(actor()).pace,
        running=ask.running(actor()),
        kinds=ask.dead_kinds(actor()),
        dead=ask.dead(actor(), kind, asked.after),
    )


@bp.get("/jobs/<job_id>")
def job(job_id: str) -> str:
    """One job with the history of its attempts."""
    return template("pages/admin/job.html", job=services().operations.job(actor(), job_id))


@bp.post("/jobs/queues/<any(pause, drain, resume):act>")
def switch(act: str) -> Response:
    """Pause, drain or resume a queue, for the whole system."""
    form = forms.form(request, Switch)
    do = services().operations
    if act == "pause":
        do.pause(actor(), form.queue)
        words = _("%(queue)s is paused: nothing is taken from it", queue=form.queue)
    elif act == "drain":
        do.drain(actor(), form.queue)
        words = _("%(queue)s accepts nothing new", queue=form.queue)
    else:
        do.resume(actor(), form.queue)
        words = _("%(queue)s works again", queue=form.queue)
    return _back(words)


@bp.post("/jobs/dead/<any(retry, drop):act>")
def bury(act: str) -> Response:
    """Queue dead tasks again, or forget them: one, or all of a kind."""
    form = forms.form(request, Which)
    if not form.job and not form.task:
        raise InvalidError("Say which task.", field="job")
    if not form.job and not form.sure:
        raise InvalidError("Tick the box: this is about all tasks of the kind.", field="sure")
    of = form.job or DeadKind(form.task, form.error)
    if act == "retry":
        count = services().operations.retry(actor(), of)
        return _back(ngettext("%(num)s task is tried again", "%(num)s tasks are tried again", count))
    count = services().operations.drop(actor(), of)
    return _back(ngettext("%(num)s task is forgotten", "%(num)s tasks are forgotten", count))


def _back(words: str) -> Response:
    services().accounts.notify(actor(), session(), Notice(words))
    return make_response(redirect("/admin/jobs", 303))
