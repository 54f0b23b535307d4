"""Notes and highlights: a person's own words about an entry, and the passages that they marked in it."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.notes import NoteChange, NoteGateway, restore_parts
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import EntryKey
from app.models.reading.notes import (
    CONTEXT_MAX,
    EXACT_MAX,
    NOTE_MAX,
    QUOTES_MAX,
    Color,
    Note,
    NotedEntry,
    Quote,
    make_quote_id,
    squeeze_spaces,
    write_markdown,
)
from app.services.access import require_permission
from app.services.validation import check_id, check_text, check_words

log = logs.get(__name__)

_Change = Callable[[Note], Note]

TOKEN_MAX = 64
#: Notes that are read at once for a document, and most notes of a page.
BATCH, PAGE_MAX = 100, 200


class NoteService:
    """Changes, lists and exports the actor's notes.

    Args:
        undo_ttl: seconds for which a removal can be undone.
    """

    def __init__(
        self, notes: NoteGateway, entries: EntryGateway, changes: ChangeGateway, *, undo_ttl: float
    ) -> None:
        self._notes, self._entries, self._changes = notes, entries, changes
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def get_note(self, actor: Actor, entry_id: int) -> Note | None:
        """Return the actor's note on an entry, or on the entry that a share shows; None: there is none.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
        """
        require_permission(actor, Permission.ENTRY_READ)
        return self._notes.marks.find_note(actor.user_id, self._get_key(actor, entry_id).id)

    def _get_key(self, actor: Actor, entry_id: int) -> EntryKey:
        return self._entries.get_kept_key(actor.user_id, check_id(entry_id, "entry_id"))

    def set_text(self, actor: Actor, entry_id: int, text: str) -> Note | None:
        """Store the text of a note; an empty text leaves only its passages. Return the note.

        Raises:
            NotFoundError: as for :meth:`get_note`.
            InvalidError: the text is too long.
            TooLargeError: it is too long together with the passages.
        """
        text = check_words(text, "text", limit=NOTE_MAX)
        return self._change(actor, entry_id, lambda note: note._replace(text=text)).after

    def add_quote(
        self,
        actor: Actor,
        entry_id: int,
        exact: str,
        *,
        prefix: str = "",
        suffix: str = "",
        color: str = Color.YELLOW,
        note: str = "",
    ) -> Quote:
        """Highlight a passage; the same passage twice is highlighted once.

        Args:
            exact: the words of the passage. prefix, suffix: the text before and after it.
            note: what the actor writes about it.

        Raises:
            NotFoundError: as for :meth:`get_note`.
            InvalidError: the passage is empty or too long, or there is no such color.
            TooLargeError: the entry has the maximum number of passages, or too much text.
        """
        new = _check_quote(exact, prefix, suffix, color, note)

        def add(old: Note) -> Note:
            if any(_is_same_passage(quote, new) for quote in old.quotes):
                return old
            return old._replace(quotes=(*old.quotes, new))

        done = self._change(actor, entry_id, add).after
        quotes = done.quotes if done else ()
        return next((quote for quote in quotes if _is_same_passage(quote, new)), new)

    def edit_quote(
        self,
        actor: Actor,
        entry_id: int,
        quote_id: str,
        *,
        color: str | None = None,
        note: str | None = None,
    ) -> Quote:
        """Change the color of a passage, or what the actor wrote about it; None leaves it as it is.

        Raises:
            NotFoundError: as for :meth:`get_note`, or there is no such passage.
            InvalidError: the text is too long, or there is no such color.
            TooLargeError: as for :meth:`set_text`.
        """
        quote_id = check_text(quote_id, "quote", limit=TOKEN_MAX)
        changes: dict[str, Any] = {} if color is None else {"color": _check_color(color)}
        if note is not None:
            changes["note"] = check_words(note, "note", limit=NOTE_MAX)

        def replace(old: Note) -> Note:
            if all(quote.id != quote_id for quote in old.quotes):
                raise NotFoundError(quote=quote_id)
            quotes = (q._replace(**changes) if q.id == quote_id else q for q in old.quotes)
            return old._replace(quotes=tuple(quotes))

        done = self._change(actor, entry_id, replace).after
        return next(quote for quote in (done.quotes if done else ()) if quote.id == quote_id)

    def remove_quote(self, actor: Actor, entry_id: int, quote_id: str) -> str | None:
        """Remove a highlight; return a token for :meth:`restore`; None: it was gone already.

        Raises:
            NotFoundError: as for :meth:`get_note`.
        """
        quote_id = check_text(quote_id, "quote", limit=TOKEN_MAX)

        def remove(old: Note) -> Note:
            return old._replace(quotes=tuple(quote for quote in old.quotes if quote.id != quote_id))

        return self._remove(actor, entry_id, remove)

    def remove_text(self, actor: Actor, entry_id: int) -> str | None:
        """Remove the text of a note; return a token for :meth:`restore`; None: there was none.

        Raises:
            NotFoundError: as for :meth:`get_note`.
        """
        return self._remove(actor, entry_id, lambda old: old._replace(text=""))

    def remove_note(self, actor: Actor, entry_id: int) -> str | None:
        """Remove a note with all its passages; return a token for :meth:`restore`; None: there was none.

        Raises:
            NotFoundError: as for :meth:`get_note`.
        """
        return self._remove(actor, entry_id, lambda old: old._replace(text="", quotes=()))

    def replace_note(self, actor: Actor, entry_id: int, text: str, quotes: Sequence[Quote]) -> Note | None:
        """Store a whole note, as apps do; passages with known ids keep them and their times. Return the note.

        A passage whose id the note doesn't have, or that an earlier passage has, gets a new one.

        Raises:
            NotFoundError: as for :meth:`get_note`.
            InvalidError: a text is too long, a passage is empty, or there is no such color.
            TooLargeError: too many passages, or too much text.
        """
        text = check_words(text, "text", limit=NOTE_MAX)
        wanted = [
            (q.id, _check_quote(q.exact, q.prefix, q.suffix, q.color, q.note))
            for q in quotes[: QUOTES_MAX + 1]
        ]

        def replace(old: Note) -> Note:
            times = {quote.id: quote.at for quote in old.quotes}
            kept = tuple(
                quote._replace(id=known, at=at) if (at := times.pop(known, None)) else quote
                for known, quote in wanted
            )
            return old._replace(text=text, quotes=kept)

        return self._change(actor, entry_id, replace).after

    def _remove(self, actor: Actor, entry_id: int, drop: _Change) -> str | None:
        token = secrets.token_urlsafe(16)
        done = self._change(actor, entry_id, drop, undo=(token, clock.now() + self._undo_ttl))
        return None if done.before is None or done.before == done.after else token

    def restore(self, actor: Actor, token: str) -> Note:
        """Undo a removal: the parts that it removed come back, and no others.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's; or the entry is gone.
            TooLargeError: too many passages, or too much text since then.
        """
        require_permission(actor, Permission.TAG_EDIT)
        token, now = check_text(token, "token", limit=TOKEN_MAX), clock.now()
        removed = self._notes.find_removed(actor.user_id, token, now)
        key = EntryKey(removed.entry_id, removed.feed_id, 0, 0)
        done = self._notes.change_note(
            actor.user_id, key, lambda note: restore_parts(note, removed), now, undone=token
        )
        self._record(actor, removed.entry_id)
        return done.after or removed

    def list_notes(
        self, actor: Actor, *, after: tuple[dt.datetime, int] | None = None, limit: int = BATCH
    ) -> list[NotedEntry]:
        """Return the actor's notes with the titles of their entries, latest first, at most ``limit``.

        Long notes make a list shorter: its last one may be that which exceeds :data:`PAGE_BYTES`.

        Args:
            after: (``at``, entry) of the note before the first.
        """
        require_permission(actor, Permission.ENTRY_READ)
        found = self._notes.marks.find_notes(actor.user_id, after, min(limit, PAGE_MAX))
        return self._name(actor, found)

    def write_markdown(self, actor: Actor, heading: str) -> Iterable[str]:
        """Return all of the actor's notes as a Markdown document, piece by piece."""
        require_permission(actor, Permission.ENTRY_READ)
        batches = self._notes.iter_notes(actor.user_id, BATCH)
        return write_markdown((one for notes in batches for one in self._name(actor, notes)), heading)

    def _name(self, actor: Actor, notes: Sequence[Note]) -> list[NotedEntry]:
        keys = [EntryKey(note.entry_id, note.feed_id, 0, 0) for note in notes]
        entries = self._entries.find_rows(actor.user_id, keys) if keys else {}
        named = []
        for note in notes:
            entry = entries.get(note.entry_id)
            shown = (entry.title or entry.excerpt[:80], entry.url or "", entry.author) if entry else ()
            named.append(NotedEntry(note, *shown))
        return named

    def _change(
        self, actor: Actor, entry_id: int, change: _Change, undo: tuple[str, dt.datetime] | None = None
    ) -> NoteChange:
        require_permission(actor, Permission.TAG_EDIT)
        key = self._get_key(actor, entry_id)
        done = self._notes.change_note(actor.user_id, key, change, clock.now(), undo=undo)
        if done.before != done.after:
            self._record(actor, key.id)
            log.info("noted", user_id=actor.user_id, entry_id=key.id, removed=done.after is None)
        return done

    def _record(self, actor: Actor, entry_id: int) -> None:
        if actor.synced:
            self._changes.record_changes(actor.user_id, {}, {entry_id})


def _check_quote(exact: str, prefix: str, suffix: str, color: str, note: str) -> Quote:
    exact = squeeze_spaces(check_words(exact, "exact", limit=EXACT_MAX))
    if not exact:
        raise InvalidError("Select the passage to highlight.", field="exact")
    before = squeeze_spaces(check_words(prefix, "prefix", limit=EXACT_MAX))[-CONTEXT_MAX:]
    after = squeeze_spaces(check_words(suffix, "suffix", limit=EXACT_MAX))[:CONTEXT_MAX]
    note = check_words(note, "note", limit=NOTE_MAX)
    return Quote(make_quote_id(), exact, before, after, _check_color(color), note, clock.now())


def _check_color(color: str) -> str:
    if color not in tuple(Color):
        raise InvalidError("Choose one of these colors: %(colors)s.", field="color", colors=", ".join(Color))
    return str(color)


def _is_same_passage(one: Quote, other: Quote) -> bool:
    return (one.exact, one.prefix, one.suffix) == (other.exact, other.prefix, other.suffix)
