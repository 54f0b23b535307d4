"""The page of notifications, and marking them as read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app import clock
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.services.notifications import texts
from app.web import forms
from app.web.context import get_actor, get_services
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.view import i18n, present
from app.web.view.render import describe_feed_error, render_page

bp = Blueprint("notifications", __name__)

_ICONS: Mapping[NotificationKind, str] = {
    NotificationKind.FOLLOWER: "user",
    NotificationKind.REQUEST: "user",
    NotificationKind.RESHARE: "refresh",
    NotificationKind.LIKE: "heart",
    NotificationKind.IMPORT: "download",
    NotificationKind.EXPORT: "download",
    NotificationKind.FEED: "warn",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A notification as text; ``path``: the page it links to, empty: none."""

    note: NotificationRow
    text: str
    path: str
    icon: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    cursor: str = declare_text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    row: str = declare_text(max=64)
    until: str = declare_text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadAll:
    until: str = declare_text(max=64, default="")


@bp.get("/notifications")
def show_notifications() -> str:
    """Show the notifications, newest first."""
    asked = forms.read_query(request, Query)
    now = clock.now()
    found = get_services().notifications.list_notifications(get_actor(), asked.cursor or None)
    rows = [Row(n, _words(n), texts.build_path(n), _ICONS.get(n.kind, "comment")) for n in found.notes]
    return render_page("pages/notifications.html", rows=rows, cursor=found.cursor, now=now)


@bp.post("/notifications/read")
def mark_read() -> Response:
    """Mark one notification as read, as of the time the page was shown."""
    asked = forms.read_form(request, Read)
    get_services().notifications.mark_read(get_actor(), asked.row, asked.until or None)
    return _done()


@bp.post("/notifications/read-all")
def mark_all_read() -> Response:
    """Mark all notifications as read that existed when the page was shown."""
    asked = forms.read_form(request, ReadAll)
    get_services().notifications.mark_all_read(get_actor(), asked.until or None)
    return _done()


def _done() -> Response:
    if is_json_wanted():
        return jsonify(unread=get_services().notifications.count_unread(get_actor()))
    return make_response(redirect("/notifications", 303))


def _words(note: NotificationRow) -> str:
    if note.kind is not NotificationKind.FEED:
        return texts.format_sentence(note, i18n.get_catalogue())
    when, why, what = (
        present.format_moment(note.at),
        describe_feed_error(note.detail),
        f"\u2068{note.title}\u2069",
    )
    return str(_("“%(what)s” has been failing since %(when)s. %(why)s", what=what, when=when, why=why))
