"""What one is told of: rows in words, and that they were read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from urllib.parse import quote

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.talk import Face, Note, NoteKind
from app.web import present, schemas
from app.web.context import actor, services
from app.web.errors import wants_json
from app.web.render import feed_words, template
from app.web.schemas import text

bp = Blueprint("notifications", __name__)

_ICONS: Mapping[NoteKind, str] = {
    NoteKind.FOLLOWER: "user",
    NoteKind.REQUEST: "user",
    NoteKind.RESHARE: "refresh",
    NoteKind.LIKE: "heart",
    NoteKind.IMPORT: "download",
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


@bp.get("/notifications")
def page() -> str:
    """The rows, the newest first."""
    asked = schemas.query(request, Query)
    found = services().notifications.page(actor(), asked.cursor or None)
    rows = [Row(n, _words(n), _goal(n), _ICONS.get(n.kind, "comment")) for n in found.notes]
    return template("pages/notifications.html", rows=rows, cursor=found.cursor)


@bp.post("/notifications/read")
def read() -> Response:
    """Mark one row as read."""
    services().notifications.read(actor(), schemas.form(request, Read).row)
    return _done()


@bp.post("/notifications/read-all")
def read_all() -> Response:
    """Mark all as read."""
    schemas.form(request, schemas.Empty)
    services().notifications.read_all(actor())
    return _done()


def _done() -> Response:
    if wants_json():
        return jsonify(unread=services().notifications.unread(actor()))
    return make_response(redirect("/notifications", 303))


def _goal(note: Note) -> str:
    if note.kind is NoteKind.FEED:
        return f"/feeds/{note.subject}"
    if note.kind is NoteKind.IMPORT:
        return f"/imports/{note.subject}"
    if note.kind is NoteKind.RESHARE:
        return f"/shares/{note.target}/comments"
    if note.kind.of_share:
        at = f"?at={note.target}#c{note.target}" if note.target and note.kind is not NoteKind.LIKE else ""
        return f"/shares/{note.share_id}/comments{at}"
    return f"/@{quote(note.faces[0].handle)}" if note.faces[0].page else ""


def _follower(note: Note, who: str, what: str) -> str:
    return str(ngettext("%(who)s follows you", "%(who)s follow you", note.count, who=who))


def _request(note: Note, who: str, what: str) -> str:
    return str(ngettext("%(who)s asks to follow you", "%(who)s ask to follow you", note.count, who=who))


def _reshare(note: Note, who: str, what: str) -> str:
    words = ngettext(
        "%(who)s re-shared %(what)s", "%(who)s re-shared %(what)s", note.count, who=who, what=what
    )
    return str(words)


def _like(note: Note, who: str, what: str) -> str:
    return str(ngettext("%(who)s likes %(what)s", "%(who)s like %(what)s", note.count, who=who, what=what))


def _comment(note: Note, who: str, what: str) -> str:
    words = ngettext(
        "%(who)s commented on %(what)s",
        "%(num)s comments on %(what)s by %(who)s",
        note.count,
        who=who,
        what=what,
    )
    return str(words)


def _reply(note: Note, who: str, what: str) -> str:
    words = ngettext(
        "%(who)s answered your comment on %(what)s",
        "%(num)s answers to your comment on %(what)s by %(who)s",
        note.count,
        who=who,
        what=what,
    )
    return str(words)


def _mention(note: Note, who: str, what: str) -> str:
    return str(_("%(who)s mentions you: %(what)s", who=who, what=what))


def _import(note: Note, who: str, what: str) -> str:
    return str(_("Your import has ended"))


def _feed(note: Note, who: str, what: str) -> str:
    when, why = present.relative(note.at), feed_words(note.detail)
    return str(_("%(what)s has failed since %(when)s: %(why)s", what=what, when=when, why=why))


_SENTENCES: Mapping[NoteKind, Callable[[Note, str, str], str]] = {
    NoteKind.FOLLOWER: _follower,
    NoteKind.REQUEST: _request,
    NoteKind.RESHARE: _reshare,
    NoteKind.LIKE: _like,
    NoteKind.COMMENT: _comment,
    NoteKind.REPLY: _reply,
    NoteKind.MENTION: _mention,
    NoteKind.IMPORT: _import,
    NoteKind.FEED: _feed,
}


def _words(note: Note) -> str:
    said = note.kind in (NoteKind.COMMENT, NoteKind.REPLY)
    who = _who(note.faces, len(note.faces) if said else note.count)
    return _SENTENCES[note.kind](note, who, _apart(note.title) if note.title else str(_("a post")))


def _who(faces: tuple[Face, ...], count: int) -> str:
    """Return people for a sentence: two by name, the others by their number."""
    names = [_apart(face.name) for face in faces[:2]]
    if count <= 1 or len(names) < 2:
        return names[0] if names else ""
    if count == 2:
        return str(_("%(one)s and %(two)s", one=names[0], two=names[1]))
    words = ngettext(
        "%(one)s, %(two)s and %(num)s other",
        "%(one)s, %(two)s and %(num)s others",
        count - 2,
        one=names[0],
        two=names[1],
    )
    return str(words)


def _apart(name: str) -> str:
    """Return foreign words for a sentence, whatever direction they are written in."""
    return f"\u2068{name}\u2069"
