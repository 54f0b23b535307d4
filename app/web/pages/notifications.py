"""The page of notifications, and marking them as read."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from markupsafe import Markup, escape

from app import clock
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.services.notifications import texts
from app.services.sharing.people_lists import Contact
from app.web import forms
from app.web.context import get_actor, get_services
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.view import i18n, present
from app.web.view.render import describe_feed_error, render_page

bp = Blueprint("notifications", __name__)

_ICONS: Mapping[NotificationKind, str] = {
    NotificationKind.FOLLOWER: "follow",
    NotificationKind.REQUEST: "follow",
    NotificationKind.RESHARE: "share",
    NotificationKind.LIKE: "heart",
    NotificationKind.IMPORT: "download",
    NotificationKind.EXPORT: "download",
    NotificationKind.FEED: "warn",
    NotificationKind.ENTRIES: "bell",
    NotificationKind.SEARCH: "search",
    NotificationKind.FOUND: "search",
}


#: Kinds whose people can be answered in place.
_FOLLOWS = (NotificationKind.FOLLOWER, NotificationKind.REQUEST)
#: In a sentence, where a link goes: characters that no text contains.
_MARK, _SUBJECT = "\ue000{}\ue001", "s"
_MARKED = re.compile("\ue000(.+?)\ue001")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A notification as a sentence with links.

    ``path``: the page it is about, empty: none. ``people``: those to follow or answer.
    """

    note: NotificationRow
    sentence: Markup
    path: str
    icon: str
    people: Sequence[Contact]


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
    people = get_services().people_lists.find_contacts(
        get_actor(), [face.user_id for note in found.notes if note.kind in _FOLLOWS for face in note.faces]
    )
    rows = [_build_row(note, people) for note in found.notes]
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


def _build_row(note: NotificationRow, people: Mapping[int, Contact]) -> Row:
    path, faces = texts.build_path(note), note.faces if note.kind in _FOLLOWS else ()
    return Row(
        note,
        build_sentence(note, path),
        "" if faces else path,
        _ICONS.get(note.kind, "comment"),
        [
            people[face.user_id]
            for face in faces
            if face.user_id in people and _can_answer(note, people[face.user_id])
        ],
    )


def _can_answer(note: NotificationRow, who: Contact) -> bool:
    # Someone without an open page can't be followed, but asks to follow.
    return note.kind is NotificationKind.REQUEST or who.open or who.tie.follows or who.tie.requested


def build_sentence(note: NotificationRow, path: str) -> Markup:
    """Return the sentence of a notification, in which people and what it is about are links."""
    if not note.faces:
        if note.kind is not NotificationKind.FEED:
            return _link(path, escape(_format(note)))
        before, after = _describe_feed(note, _MARK.format(_SUBJECT)).split(_MARK.format(_SUBJECT))
        return escape(before) + _link(path, Markup("<bdi>{}</bdi>").format(note.title)) + escape(after)
    links = {_SUBJECT: _link(path, escape(texts.format_subject(note, i18n.get_catalogue())))}
    faces = []
    for number, face in enumerate(note.faces):
        name = Markup("<bdi>{}</bdi>").format(face.name)
        links[str(number)] = _link(f"/@{quote(face.handle)}", name) if face.page else name
        faces.append(face._replace(name=_MARK.format(number)))
    marked = _format(dataclasses.replace(note, faces=tuple(faces)), _MARK.format(_SUBJECT))
    # Texts and marks by turns.
    parts = enumerate(_MARKED.split(marked))
    return Markup().join(links[part] if number % 2 else escape(part) for number, part in parts)


def _format(note: NotificationRow, what: str = "") -> str:
    return texts.format_sentence(note, i18n.get_catalogue(), what)


def _link(path: str, words: Markup) -> Markup:
    return Markup('<a href="{}">{}</a>').format(path, words)


def _describe_feed(note: NotificationRow, what: str) -> str:
    when, why = present.format_moment(note.at), describe_feed_error(note.detail)
    return str(_("“%(what)s” has been failing since %(when)s. %(why)s", what=what, when=when, why=why))
