"""What one is told of: rows in words, and that they were read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app import clock
from app.models.discussion.comments import Note, NoteKind
from app.services.notifications import texts
from app.web import forms
from app.web.context import actor, services
from app.web.errors import wants_json
from app.web.forms import text
from app.web.view import i18n, present
from app.web.view.render import feed_words, template

bp = Blueprint("notifications", __name__)

_ICONS: Mapping[NoteKind, str] = {
    NoteKind.FOLLOWER: "user",
    NoteKind.REQUEST: "user",
    NoteKind.RESHARE: "refresh",
    NoteKind.LIKE: "heart",
    NoteKind.IMPORT: "download",
    NoteKind.EXPORT: "download",
    NoteKind.FEED: "warn",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A note in words; ``goal``: where it leads, empty: nowhere."""

    note: Note
    text: str
    goal: str
    icon: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    cursor: str = text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    row: str = text(max=64)
    until: str = text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadAll:
    until: str = text(max=64, default="")


@bp.get("/notifications")
def page() -> str:
    """The rows, the newest first."""
    asked = forms.query(request, Query)
    now = clock.now()
    found = services().notifications.page(actor(), asked.cursor or None)
    rows = [Row(n, _words(n), texts.goal(n), _ICONS.get(n.kind, "comment")) for n in found.notes]
    return template("pages/notifications.html", rows=rows, cursor=found.cursor, now=now)


@bp.post("/notifications/read")
def read() -> Response:
    """Mark one row as read, as it was shown."""
    asked = forms.form(request, Read)
    services().notifications.read(actor(), asked.row, asked.until or None)
    return _done()


@bp.post("/notifications/read-all")
def read_all() -> Response:
    """Mark all as read that were there when the page was made."""
    asked = forms.form(request, ReadAll)
    services().notifications.read_all(actor(), asked.until or None)
    return _done()


def _done() -> Response:
    if wants_json():
        return jsonify(unread=services().notifications.unread(actor()))
    return make_response(redirect("/notifications", 303))


def _words(note: Note) -> str:
    if note.kind is not NoteKind.FEED:
        return texts.sentence(note, i18n.words())
    when, why, what = present.relative(note.at), feed_words(note.detail), f"\u2068{note.title}\u2069"
    return str(_("%(what)s has failed since %(when)s: %(why)s", what=what, when=when, why=why))
