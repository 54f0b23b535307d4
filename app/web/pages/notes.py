"""Notes and highlights of the user. Each works as a form and as a script call."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.models.accounts.user import Notice
from app.models.reading.notes import Color
from app.services.reading.notes import TOKEN_MAX
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next

bp = Blueprint("notes", __name__)

#: Most characters of a form's text; the service limits texts further.
LONG = 100_000
COLORS = tuple(color.value for color in Color)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NoteForm:
    text: str = declare_text(max=LONG, default="")
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuoteForm:
    """A passage. With ``quote``, the id of one, it changes what the user wrote about that one."""

    quote: str = declare_text(max=TOKEN_MAX, default="")
    exact: str = declare_text(max=LONG, default="")
    prefix: str = declare_text(max=LONG, default="")
    suffix: str = declare_text(max=LONG, default="")
    color: str = declare_text(max=16, default=Color.YELLOW.value, one_of=COLORS)
    note: str = declare_text(max=LONG, default="")
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    quote: str = declare_text(max=TOKEN_MAX)
    next: str = declare_text(max=2048, default="")


@bp.post("/entries/<int:entry_id>/note")
def set_note(entry_id: int) -> Response:
    """Store the user's note on an entry; an empty one is removed, and undo is possible for a day."""
    form = forms.read_form(request, NoteForm)
    notes = get_services().notes
    if form.text.strip():
        notes.set_text(get_actor(), entry_id, form.text)
        return _done(_("Note saved"), form.next)
    token = notes.remove_text(get_actor(), entry_id)
    return _done(_("Note removed"), form.next, undo=f"note.{token}" if token else None)


@bp.post("/entries/<int:entry_id>/highlights")
def set_highlight(entry_id: int) -> Response:
    """Highlight a passage, or change what the user wrote about it."""
    form = forms.read_form(request, QuoteForm)
    notes = get_services().notes
    if form.quote:
        done = notes.edit_quote(get_actor(), entry_id, form.quote, color=form.color, note=form.note)
    else:
        done = notes.add_quote(
            get_actor(),
            entry_id,
            form.exact,
            prefix=form.prefix,
            suffix=form.suffix,
            color=form.color,
            note=form.note,
        )
    return _done(_("Highlighted"), form.next, quote=done.id)


@bp.post("/entries/<int:entry_id>/highlights/remove")
def remove_highlight(entry_id: int) -> Response:
    """Remove a highlight; undo is possible for a day."""
    form = forms.read_form(request, Removal)
    token = get_services().notes.remove_quote(get_actor(), entry_id, form.quote)
    undo = f"note.{token}" if token else None
    return _done(_("Highlight removed"), form.next, undo=undo)


def _done(text: str, target: str, **answer: str | None) -> Response:
    if is_json_wanted():
        return jsonify(text=text, **answer)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(text, answer.get("undo")))
    return make_response(redirect(get_safe_next(target), 303))


@bp.get("/notes.md")
def download_notes() -> Response:
    """Send all notes as a Markdown document."""
    pieces = get_services().notes.write_markdown(get_actor(), _("Notes"))
    body = (piece.encode() for piece in pieces)
    response = Response(body, content_type="text/markdown; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="eventr-notes.md"'
    response.headers["Cache-Control"] = "no-store"
    return response
