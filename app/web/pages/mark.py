"""Marks: read, star, everything read, undo. Each works as a form and as a script's call."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.accounts.user import Notice
from app.models.reading.stream import REF_MAX, MassMarked, StreamRef
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.undo import Returned
from app.web import forms
from app.web.context import actor, services, session
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.view.undo import restored

bp = Blueprint("mark", __name__)

#: Entries in one call; a script sends what piled up within a third of a second.
AT_ONCE = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    entry: tuple[int, ...]
    read: bool
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    entry: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    entry: int
    on: bool
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MarkAll:
    stream: str = text(max=REF_MAX)
    snapshot: str = text(max=128)
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MarkPart(MarkAll):
    entry: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    token: str = text(max=128)
    next: str = text(max=2048, default="")


def _done(goal: str, **answer: object) -> Response:
    """Answer a script with JSON, a form by going on to its page."""
    if wants_json():
        return jsonify(**answer)
    return make_response(redirect(safe_next(goal), 303))


@bp.post("/entries/mark")
def mark() -> Response:
    """Mark entries as read or unread."""
    form = forms.form(request, Mark)
    done = services().reading.mark(actor(), form.entry[:AT_ONCE], form.read)
    return _done(form.next, moved=done.total)


@bp.post("/entries/states")
def states() -> Response:
    """Tell by id which entries of a list are read by now."""
    form = forms.form(request, Entries)
    return jsonify(read=services().reading.states(actor(), form.entry[:AT_ONCE]))


@bp.post("/entries/star")
def star() -> Response:
    """Set or take away a star."""
    form = forms.form(request, Star)
    services().reading.star(actor(), form.entry, form.on)
    return _done(form.next, starred=form.on)


@bp.post("/read/mark-all")
def mark_all() -> Response:
    """Mark a stream as read up to what its list has shown; can be undone for a day."""
    form = forms.form(request, MarkAll)
    done = services().reading.mark_all(actor(), StreamRef.parse(form.stream), snapshot=form.snapshot)
    return _marked(done, form.next)


@bp.post("/read/mark-above", defaults={"part": "above"})
@bp.post("/read/mark-below", defaults={"part": "below"})
def mark_part(part: str) -> Response:
    """Mark what is above or below an entry in its list as read; can be undone for a day."""
    form = forms.form(request, MarkPart)
    marking = services().marking
    mark = marking.mark_above if part == "above" else marking.mark_below
    return _marked(mark(actor(), StreamRef.parse(form.stream), form.snapshot, form.entry), form.next)


def _marked(done: MassMarked, goal: str) -> Response:
    undo = done.undo if done.count else None
    words = (
        ngettext("%(num)s entry marked as read", "%(num)s entries marked as read", done.count)
        if done.count
        else _("Nothing was unread")
    )
    if not wants_json():
        services().accounts.notify(actor(), session(), Notice(words, undo))
    return _done(goal, text=words, undo=undo, count=done.count)


@bp.post("/undo")
def undo() -> Response:
    """Take a mass action back, or what was removed: those tokens say of which kind they are."""
    form = forms.form(request, Undo)
    done = restored(services(), actor(), form.token)
    words = _back(form.token.rpartition(".")[0], done)
    if not wants_json():
        services().accounts.notify(actor(), session(), Notice(words))
    goal = form.next
    if isinstance(done, Subscription) and goal.startswith("/feeds/"):
        goal = f"/feeds/{done.feed_id}"  # a change of address taken back: that page's feed is his no more
    return _done(goal, text=words)


def _back(kind: str, done: object) -> str:
    """Return what became of it: people may want to be asked by now."""
    if kind == "feed" and done is None:
        return str(_("This person wants to be asked by now, and was"))
    words = [_("Taken back")]
    if isinstance(done, Returned):
        if count := len(done.asked):
            words.append(ngettext("%(num)s person is asked first", "%(num)s people are asked first", count))
        if done.lost:
            words.append(
                ngettext(
                    "%(num)s person can no longer be followed",
                    "%(num)s people can no longer be followed",
                    done.lost,
                )
            )
    return " · ".join(map(str, words))
