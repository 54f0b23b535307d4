"""Notes and highlights on entries; an entry with a note is kept like a starred one."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from app.errors import ConflictError, NotFoundError, StoreError, TooLargeError
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.reading.marks import MarkMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.reading.entry import EntryKey
from app.models.reading.notes import BYTES_MAX, QUOTES_MAX, Note, Quote
from app.models.subscriptions.undo import Removal

#: Attempts when the same user's other devices interfere.
ROUNDS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class NoteChange:
    """The result of a change: the note before and after it; None: there is none."""

    before: Note | None
    after: Note | None


class NoteGateway:
    """Reads and writes people's notes."""

    def __init__(
        self, *, cells: Cells, marks: MarkMapper, entries: EntryMapper, removals: RemovalMapper
    ) -> None:
        self._cells, self.marks, self._entries, self.removals = cells, marks, entries, removals

    def iter_notes(self, user_id: int, batch: int) -> Iterator[Sequence[Note]]:
        """Yield all of a user's notes in batches, latest first."""
        after: tuple[dt.datetime, int] | None = None
        while found := self.marks.find_notes(user_id, after, batch):
            yield found
            after = found[-1].at, found[-1].entry_id

    def change_note(
        self,
        user_id: int,
        entry: EntryKey,
        change: Callable[[Note], Note],
        now: dt.datetime,
        *,
        undo: tuple[str, dt.datetime] | None = None,
        undone: str | None = None,
    ) -> NoteChange:
        """Change a user's note on an entry, or begin or end it; an empty note is deleted.

        Args:
            entry: of an entry that isn't a share.
            change: gets the note, an empty one if there is none, and returns the new one. It may run again.
            undo: a token for :meth:`find_removed` and its expiry, if removed parts are kept.
            undone: the token of a removal that this undoes, which ends with it.

        Raises:
            TooLargeError: the entry would have too many passages, or too much text.
            NotFoundError: the entry is gone, or what ``undone`` names was undone already.
        """

        def write_with_undo(session: Session) -> NoteChange:
            done = self._write_note(user_id, entry, change, now, session)
            if undo is not None and done.before is not None and done.before != done.after:
                removed = find_removed_parts(done.before, done.after)
                self.removals.add(Removal(undo[0], user_id, note=removed), undo[1], session)
            if undone is not None and not self.removals.remove(user_id, undone, session):
                raise NotFoundError("This can no longer be undone.", undo=undone)
            return done

        for _ in range(ROUNDS):
            try:
                return self._cells.run_in_transaction(user_id, write_with_undo)
            except ConflictError:
                continue  # another device; the next round sees its changes
        raise StoreError

    def _write_note(
        self,
        user_id: int,
        entry: EntryKey,
        change: Callable[[Note], Note],
        now: dt.datetime,
        session: Session,
    ) -> NoteChange:
        before = self.marks.find_note(user_id, entry.id, session)
        blank = Note(entry.id, entry.feed_id, "", (), now, now)
        after = change(before or blank)
        if len(after.quotes) > QUOTES_MAX:
            raise TooLargeError(
                "An entry can have at most %(limit)s highlights. Remove one first.", limit=QUOTES_MAX
            )
        if after.size > max(BYTES_MAX, before.size if before else 0):
            raise TooLargeError(
                "The note and the highlights of an entry are too long together. Shorten the note, or "
                "remove a highlight."
            )
        if (before or blank)._replace(edited=now) == after._replace(edited=now):
            return NoteChange(before, before)
        if after.is_empty:
            by = -int(self.marks.remove_note(user_id, entry.id, session))
        else:
            by = int(self.marks.set_note(user_id, after._replace(edited=now), session))
        if by and not self._entries.change_star_count(entry.feed_id, entry.id, by, session) and by > 0:
            raise NotFoundError(entry_id=entry.id)  # retention was faster
        return NoteChange(before, None if after.is_empty else after._replace(edited=now))

    def find_removed(self, user_id: int, token: str, now: dt.datetime) -> Note:
        """Return the removed parts of a note.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's.
        """
        removal = self.removals.find(user_id, token, now)
        if removal is None or removal.note is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        return removal.note


def find_removed_parts(before: Note, after: Note | None) -> Note:
    """Return the text and the passages that a change removed from a note; ``after`` None: all of it."""
    left = {quote.id for quote in after.quotes} if after else set()
    quotes = tuple(quote for quote in before.quotes if quote.id not in left)
    return before._replace(text="" if after and after.text else before.text, quotes=quotes)


def restore_parts(note: Note, removed: Note) -> Note:
    """Return a note with its removed parts; a text that was written since stays."""
    known = {quote.id for quote in note.quotes}
    quotes = (*note.quotes, *(quote for quote in removed.quotes if quote.id not in known))
    at = min(note.at, removed.at)
    return note._replace(text=note.text or removed.text, quotes=tuple(sorted(quotes, key=_when)), at=at)


def _when(quote: Quote) -> dt.datetime:
    return quote.at
