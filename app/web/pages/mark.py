"""Marks: read, star, mark all as read, undo. Each works as a form and as a script call."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.accounts.user import Notice
from app.models.reading.stream import REF_MAX, MassMarkResult, StreamRef
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.undo import RestoreResult
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view.undo import restore_token

bp = Blueprint("mark", __name__)

#: Most entries in one call; a script sends the marks of a third of a second together.
AT_ONCE = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    entry: tuple[int, ...]
    read: bool
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    entry: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    entry: int
    on: bool
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MarkAll:
    stream: str = declare_text(max=REF_MAX)
    snapshot: str = declare_text(max=128)
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MarkPart(MarkAll):
    entry: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    token: str = declare_text(max=128)
    next: str = declare_text(max=2048, default="")


def _done(target: str, **answer: object) -> Response:
    """Answer a script with JSON, a form with a redirect."""
    if is_json_wanted():
        return jsonify(**answer)
    return make_response(redirect(get_safe_next(target), 303))


@bp.post("/entries/mark")
def mark() -> Response:
    """Mark entries as read or unread."""
    form = forms.read_form(request, Mark)
    done = get_services().reading.mark(get_actor(), form.entry[:AT_ONCE], form.read)
    return _done(form.next, moved=done.total)


@bp.post("/entries/states")
def list_states() -> Response:
    """Return the entries of a list that are read now."""
    form = forms.read_form(request, Entries)
    return jsonify(read=get_services().reading.find_read_states(get_actor(), form.entry[:AT_ONCE]))


@bp.post("/entries/star")
def star() -> Response:
    """Add or remove a star."""
    form = forms.read_form(request, Star)
    get_services().reading.set_starred(get_actor(), form.entry, form.on)
    return _done(form.next, starred=form.on)


@bp.post("/entries/apart")
def set_apart() -> Response:
    """Show the copies of an entry in rows of their own, or in one row again."""
    form = forms.read_form(request, Star)
    get_services().stories.set_apart(get_actor(), form.entry, form.on)
    return _done(form.next, apart=form.on)


@bp.post("/entries/hide")
def set_hidden() -> Response:
    """Hide an entry and its copies from lists, or show them again; hiding can be undone for a day."""
    form = forms.read_form(request, Star)
    if form.on:
        token = get_services().hiding.hide_entry(get_actor(), form.entry)
        words, undo = _("Entry hidden"), f"hidden.{token}" if token else None
    else:
        get_services().hiding.show_entry(get_actor(), form.entry)
        words, undo = _("Lists show the entry again"), None
    if not is_json_wanted():
        get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    return _done(form.next, text=words, undo=undo)


@bp.post("/read/mark-all")
def mark_all() -> Response:
    """Mark a stream as read up to its list's snapshot; undo is possible for a day."""
    form = forms.read_form(request, MarkAll)
    done = get_services().reading.mark_all(get_actor(), StreamRef.parse(form.stream), snapshot=form.snapshot)
    return _marked(done, form.next)


@bp.post("/read/mark-above", defaults={"part": "above"})
@bp.post("/read/mark-below", defaults={"part": "below"})
def mark_part(part: str) -> Response:
    """Mark the entries above or below an entry in its list as read; undo is possible for a day."""
    form = forms.read_form(request, MarkPart)
    marking = get_services().marking
    mark = marking.mark_above if part == "above" else marking.mark_below
    return _marked(mark(get_actor(), StreamRef.parse(form.stream), form.snapshot, form.entry), form.next)


def _marked(done: MassMarkResult, target: str) -> Response:
    undo = done.undo if done.count else None
    words = (
        ngettext("%(num)s entry marked as read", "%(num)s entries marked as read", done.count)
        if done.count
        else _("No unread entries")
    )
    if not is_json_wanted():
        get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    return _done(target, text=words, undo=undo, count=done.count)


@bp.post("/undo")
def undo() -> Response:
    """Undo a mass action or a deletion; the prefix of a token names the kind of action."""
    form = forms.read_form(request, Undo)
    done = restore_token(get_services(), get_actor(), form.token)
    words = _back(form.token.rpartition(".")[0], done)
    if not is_json_wanted():
        get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    goal = form.next
    if isinstance(done, Subscription) and goal.startswith("/feeds/"):
        goal = f"/feeds/{done.feed_id}"  # undoing a change of address removes the feed of the current page
    return _done(goal, text=words)


def _back(kind: str, done: object) -> str:
    """Return the result of an undo, which may include new follow requests."""
    if kind == "feed" and done is None:
        return str(_("Follow request sent. This person now approves each follow request."))
    words = [_("Undone")]
    if isinstance(done, RestoreResult):
        if count := len(done.requested_user_ids):
            words.append(
                ngettext(
                    "follow request sent to %(num)s person", "follow requests sent to %(num)s people", count
                )
            )
        if done.lost_count:
            words.append(
                ngettext(
                    "%(num)s person can no longer be followed",
                    "%(num)s people can no longer be followed",
                    done.lost_count,
                )
            )
    return " · ".join(map(str, words))
