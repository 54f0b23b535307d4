"""Saved view options of streams, and the history of actions that can be undone. Forms and script calls."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import N_
from app.models.reading.history import ActionKind, HistoryCursor, MassAction
from app.models.reading.stream import REF_MAX, StreamRef, Tree
from app.models.reading.stream_view import FIELDS
from app.web import forms
from app.web.context import get_actor, get_services, get_user
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view.i18n import isolate_name
from app.web.view.render import render_page
from app.web.view.views import build_head

bp = Blueprint("look", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamViewForm:
    stream: str = declare_text(max=REF_MAX)
    view: str = declare_text(max=16, default="")
    density: str = declare_text(max=16, default="")
    sort: str = declare_text(max=16, default="")
    show: str = declare_text(max=16, default="")
    next: str = declare_text(max=2048, default="")


@bp.post("/read/view")
def set_view() -> Response:
    """Save the view options of a stream."""
    form = forms.read_form(request, StreamViewForm)
    changes = {name: value for name in FIELDS if (value := getattr(form, name))}
    ref = StreamRef.parse(form.stream)
    found = get_services().stream_views.set(get_actor(), ref, get_user().preferences, changes)
    if not is_json_wanted():
        return make_response(redirect(get_safe_next(form.next, f"/read/{ref}"), 303))
    return jsonify(text=_("View changed"), **dataclasses.asdict(found))


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One action as text."""

    action: MassAction
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """The end of the previous page."""

    after: str = declare_text(max=80, default="")

    @property
    def place(self) -> HistoryCursor | None:
        """The position in the history."""
        return HistoryCursor.parse(self.after) if self.after else None


@bp.get("/history")
def show_history() -> str:
    """Show the mass actions of the last day, each with an undo button."""
    page = get_services().marking.list_history(get_actor(), forms.read_query(request, Older).place)
    tree = get_services().reading.get_tree(get_actor())
    older = urlencode({"after": str(page.after)}) if page.after else ""
    lines = [Line(a, _words(a, tree)) for a in page.actions]
    here = request.full_path.rstrip("?")
    return render_page("pages/history.html", lines=lines, older=older, here=here)


_REMOVED = {
    ActionKind.SHARE: N_("No longer shared"),
    ActionKind.PAGE: N_("Page removed"),
    ActionKind.NOTE: N_("Note removed"),
    ActionKind.HIDDEN: N_("Entry hidden"),
}


def _words(action: MassAction, tree: Tree) -> str:
    name = action.about
    if action.kind is ActionKind.FEED:
        return str(_("Unsubscribed from “%(name)s”", name=name))
    if action.kind is ActionKind.FEEDS:
        words = ngettext("Unsubscribed from %(num)s feed", "Unsubscribed from %(num)s feeds", action.count)
        return str(words)
    if action.kind is ActionKind.FOLDER:
        return str(_("Folder “%(name)s” deleted", name=name))
    if action.kind is ActionKind.SEARCH:
        done = _("Saved search deleted")
        return f"{isolate_name(name)}: {done}"
    if action.kind in _REMOVED:
        done = _(_REMOVED[action.kind])
        return f"{isolate_name(name)}: {done}" if name else str(done)
    if action.kind is ActionKind.MOVED_FOLDER:
        done = _("Folder moved")
        return f"{isolate_name(name)}: {done}"
    if action.kind is ActionKind.MOVED:
        return str(ngettext("%(num)s feed moved", "%(num)s feeds moved", action.count))
    head = build_head(tree, StreamRef.parse(name)) if name else None
    done = str(ngettext("%(num)s entry marked as read", "%(num)s entries marked as read", action.count))
    if action.kind is ActionKind.AUTO:
        done += " · " + _("automatically")
    return str(_("%(name)s: %(done)s", done=done, name=head.title)) if head else done
