"""Queues and their switches, running jobs, and dead jobs."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import N_, InvalidError
from app.models.accounts.user import Notice
from app.models.jobs.job_engine import DeadKind
from app.models.jobs.jobs import State
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.view.render import render_page

bp = Blueprint("jobs", __name__)

STATES = {
    State.QUEUED: N_("waiting"),
    State.STARTED: N_("running"),
    State.SCHEDULED: N_("waiting"),
    State.FINISHED: N_("finished"),
    State.FAILED: N_("failed"),
    State.MISSING: N_("deleted"),
}
#: What the errors mean that aren't those of feeds or services.
FAILURES = {
    "unexpected": N_("Something unexpected happened in Eventr. The log of the worker says more."),
    "crashed": N_("The worker process ended while it ran this job."),
    "bad_arguments": N_("The job was created with values that its task doesn't accept."),
    "bad_result": N_("The job returned an unexpected result."),
    "unknown_task": N_("The workers don't know this task. Check that all processes have the same version."),
}
#: Names of arguments → what one number or several of them are. An import has no page here: it is its owner's.
_LABELS = {
    "feed_id": (N_("Feed"), N_("Feeds")),
    "user_id": (N_("User"), N_("Users")),
    "import_id": (N_("Import"), N_("Imports")),
}
#: Most names of what a job is about.
_NAMED = 3


class Subject(NamedTuple):
    """An argument of a job.

    Attributes:
        values: text, address ("" for none) and title of each value.
        total: number of all values; 0: not counted.
    """

    label: str
    values: tuple[tuple[str, str, str], ...]
    total: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    task: str = declare_text(max=64, default="")
    error: str = declare_text(max=64, default="")
    after: str = declare_text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    queue: str = declare_text(max=32)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadSelection:
    """One job by its id, or all jobs of a kind."""

    job: str = declare_text(max=64, default="")
    task: str = declare_text(max=64, default="")
    error: str = declare_text(max=64, default="")
    sure: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    letter: str = declare_text(max=64)


@bp.get("/jobs")
def show_jobs() -> str:
    """Show the queues, running jobs and dead jobs."""
    asked = forms.read_query(request, Query)
    kind = DeadKind(asked.task, asked.error) if asked.task else None
    ask = get_services().operations
    return render_page(
        "pages/admin/jobs.html",
        asked=asked,
        kind=kind,
        engine=ask.get_engine(get_actor()),
        pace=ask.get_throughput(get_actor()).pace,
        running=ask.list_running(get_actor()),
        kinds=ask.count_dead_kinds(get_actor()),
        dead=ask.list_dead(get_actor(), kind, asked.after),
        letters=get_services().dead_letters.list_newest(get_actor()),
    )


@bp.get("/jobs/<job_id>")
def show_job(job_id: str) -> str:
    """Show one job with the history of its attempts."""
    job = get_services().operations.get_job(get_actor(), job_id)
    return render_page(
        "pages/admin/job.html",
        job=job,
        about=_list_subjects(job.about),
        sentences={word: _(sentence) for word, sentence in FAILURES.items()},
        states={state: _(words) for state, words in STATES.items()},
    )


def _list_subjects(about: str) -> list[Subject]:
    """Return what a job is about; feeds and accounts by their names, with the number as the title."""
    return [_build_subject(*part.partition(" ")[::2]) for part in about.split("; ") if part]


def _build_subject(argument: str, values: str) -> Subject:
    # What follows is the number of all, if some aren't shown.
    shown, _mark, rest = values.partition(" … ")
    texts = shown.split(", ")
    total = int(found[0]) if (found := re.findall(r"\d+", rest)) else len(texts)
    name = argument if argument in _LABELS else argument.removesuffix("s")
    if name not in _LABELS:
        return Subject(argument, ((values, "", ""),), 0)
    ids = [int(text) for text in texts[:_NAMED] if text.isdecimal()]
    names: dict[int, str] = {}
    if name == "feed_id":
        names = get_services().feed_lists.find_names(get_actor(), ids)
    elif name == "user_id":
        names = get_services().admin_accounts.find_names(get_actor(), ids)
    page = {"feed_id": "/admin/feeds/", "user_id": "/admin/users/"}.get(name, "")
    # A deleted feed or account has only its number.
    found_values = ((names.get(i, str(i)), f"{page}{i}" if i in names else "", str(i)) for i in ids)
    return Subject(_(_LABELS[name][total > 1]), tuple(found_values), total)


@bp.post("/jobs/queues/<any(pause, drain, resume):act>")
def switch_queue(act: str) -> Response:
    """Pause, drain or resume a queue for the whole system."""
    form = forms.read_form(request, Switch)
    do = get_services().operations
    if act == "pause":
        do.pause(get_actor(), form.queue)
        words = _("Queue %(queue)s paused. Its jobs wait until you resume it.", queue=form.queue)
    elif act == "drain":
        do.drain(get_actor(), form.queue)
        words = _("Draining queue %(queue)s. It doesn't accept new jobs.", queue=form.queue)
    else:
        do.resume(get_actor(), form.queue)
        words = _("Queue %(queue)s resumed", queue=form.queue)
    return _back(words)


@bp.post("/jobs/dead/<any(retry, drop):act>")
def change_dead(act: str) -> Response:
    """Requeue or delete dead jobs: one, or all of a kind."""
    form = forms.read_form(request, DeadSelection)
    if not form.job and not form.task:
        raise InvalidError("Select a job first.", field="job")
    if not form.job and not form.sure:
        raise InvalidError(
            "Select the checkbox to confirm. This applies to all jobs of this kind.", field="sure"
        )
    of = form.job or DeadKind(form.task, form.error)
    if act == "retry":
        count = get_services().operations.retry_dead(get_actor(), of)
        return _back(ngettext("Retrying %(num)s job", "Retrying %(num)s jobs", count))
    count = get_services().operations.drop_dead(get_actor(), of)
    return _back(ngettext("%(num)s job deleted", "%(num)s jobs deleted", count))


@bp.post("/jobs/delayed/<any(run, drop):act>")
def change_letter(act: str) -> Response:
    """Run a delayed task again that couldn't be queued, or delete it."""
    form = forms.read_form(request, LetterSelection)
    if act == "run":
        get_services().dead_letters.run_again(get_actor(), form.letter)
        return _back(_("The delayed task runs again in a moment."))
    get_services().dead_letters.remove(get_actor(), form.letter)
    return _back(_("Delayed task deleted"))


def _back(words: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect("/admin/jobs", 303))
