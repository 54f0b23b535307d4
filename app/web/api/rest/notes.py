"""Notes and highlights on entries."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.notes import EXACT_MAX, NOTE_MAX, PAGE_BYTES, QUOTES_MAX, Color, Note, Quote
from app.web.api.rest.shapes import ENTRY, Body, CursorQuery, Id, Shape, Undo
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services

TAG = "Notes"
Text = Annotated[str, Meta(max_length=NOTE_MAX, description="Plain text.")]
Passage = Annotated[str, Meta(max_length=EXACT_MAX)]
_AT = dt.datetime(2026, 3, 14, 9, 30, tzinfo=dt.UTC)


class Highlight(Shape, frozen=True):
    """A passage that you highlighted, as a W3C TextQuoteSelector. `note`: what you wrote about it."""

    id: str
    exact: str
    prefix: str
    suffix: str
    color: Color
    note: str
    at: dt.datetime


class EntryNote(Shape, frozen=True):
    """Your note on an entry. `title` and `url` are empty if you can't see the entry anymore."""

    entry_id: Id
    title: str
    url: str
    text: str
    highlights: tuple[Highlight, ...]
    at: dt.datetime
    edited: dt.datetime


class NewHighlight(Body, frozen=True):
    """A passage. `id`: of a highlight of this note; without one, it is new."""

    exact: Annotated[str, Meta(min_length=1, max_length=EXACT_MAX)]
    id: Annotated[str, Meta(max_length=64)] = ""
    prefix: Passage = ""
    suffix: Passage = ""
    color: Color = Color.YELLOW
    note: Text = ""


class NewNote(Body, frozen=True):
    """A whole note, at most 256 KiB of text. Highlights that it lacks are removed."""

    text: Text = ""
    highlights: Annotated[tuple[NewHighlight, ...], Meta(max_length=QUOTES_MAX)] = ()


class SavedNote(Shape, frozen=True):
    """Your note on an entry as it is now; an empty one if nothing is left of it."""

    text: str
    highlights: tuple[Highlight, ...]


class NotePage(Shape, frozen=True):
    """Your notes, latest first. `next`: the cursor of the next page; null on the last."""

    items: tuple[EntryNote, ...]
    next: str | None


_HIGHLIGHT = add_example(
    Highlight(
        id="9f2c10ab34de",
        exact="They curve toward the rain.",
        prefix="the old roofs of Kyoto. ",
        suffix=" Nobody builds them",
        color=Color.YELLOW,
        note="Why?",
        at=_AT,
    )
)
_NEW = add_example(NewHighlight(exact="They curve toward the rain.", color=Color.GREEN, note="Why?"))
add_example(NewNote(text="For the trip", highlights=(_NEW,)))
add_example(SavedNote(text="For the trip", highlights=(_HIGHLIGHT,)))
_NOTE = add_example(
    EntryNote(
        entry_id=ENTRY,
        title="Old roofs of Kyoto",
        url="https://magazine.example.org/roofs",
        text="For the trip",
        highlights=(_HIGHLIGHT,),
        at=_AT,
        edited=_AT,
    )
)
add_example(NotePage(items=(_NOTE,), next=None))

#: Most notes of a page.
_ROWS = 50


@add_operation("GET", "/notes", "List your notes", scope=Scope.READ, tag=TAG)
def list_notes(actor: Actor, query: CursorQuery) -> NotePage:
    """To list the entries with notes, use the stream `notes`."""
    found = get_services().notes.list_notes(actor, after=_parse_cursor(query.cursor), limit=_ROWS + 1)
    has_more = len(found) > _ROWS or sum(one.note.size for one in found) > PAGE_BYTES
    shown = found[:-1] if has_more else found
    items = tuple(
        EntryNote(
            entry_id=one.note.entry_id,
            title=one.title,
            url=one.url,
            text=one.note.text,
            highlights=_build_highlights(one.note),
            at=one.note.at,
            edited=one.note.edited,
        )
        for one in shown
    )
    last = shown[-1].note if has_more else None
    return NotePage(items=items, next=f"{last.at.isoformat()}~{last.entry_id}" if last else None)


def _parse_cursor(cursor: str | None) -> tuple[dt.datetime, int] | None:
    if not cursor:
        return None
    time, _, entry_id = cursor.partition("~")
    try:
        at = dt.datetime.fromisoformat(time)
        if at.tzinfo is not None and entry_id.isascii() and entry_id.isdigit() and len(entry_id) < 17:
            return at, int(entry_id)
    except ValueError:
        pass
    raise InvalidError("Can't load more of this list. Reload it.", field="cursor")


@add_operation("GET", "/entries/{entry_id}/note", "Get your note on an entry", scope=Scope.READ, tag=TAG)
def get_note(actor: Actor, entry_id: int) -> SavedNote:
    """Of an entry without a note, the text is empty."""
    return _build_note(get_services().notes.get_note(actor, entry_id))


@add_operation("PUT", "/entries/{entry_id}/note", "Write a note on an entry", scope=Scope.MARK, tag=TAG,
               errors=(413,))  # fmt: skip
def replace_note(actor: Actor, entry_id: int, body: NewNote) -> SavedNote:
    """Replaces the text and all highlights. An entry with a note is kept like a starred one."""
    quotes = [Quote(h.id, h.exact, h.prefix, h.suffix, h.color, h.note, _AT) for h in body.highlights]
    return _build_note(get_services().notes.replace_note(actor, entry_id, body.text, quotes))


@add_operation("DELETE", "/entries/{entry_id}/note", "Remove your note", scope=Scope.MARK, tag=TAG)
def remove_note(actor: Actor, entry_id: int) -> Undo:
    """Removes the text and all highlights. Repeating the request has no further effect."""
    token = get_services().notes.remove_note(actor, entry_id)
    return Undo(undo=f"note.{token}" if token else None)


def _build_note(note: Note | None) -> SavedNote:
    return SavedNote(text=note.text if note else "", highlights=_build_highlights(note))


def _build_highlights(note: Note | None) -> tuple[Highlight, ...]:
    return tuple(
        Highlight(
            id=q.id,
            exact=q.exact,
            prefix=q.prefix,
            suffix=q.suffix,
            color=Color(q.color),
            note=q.note,
            at=q.at,
        )
        for q in (note.quotes if note else ())
    )
