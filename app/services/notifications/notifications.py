"""What the actor is told of: his rows, how many are unread, and that he has read them."""

from __future__ import annotations

import datetime as dt

from app import clock
from app.errors import InvalidError
from app.gateways.notifications.notifications import NoteGateway
from app.models.accounts.actor import Actor, Permission
from app.models.discussion.comments import Note, NoteKind, NotePage
from app.ports import EventPort
from app.services.access import require
from app.services.validation import a_text, a_time

CURSOR_MAX = 64
_DIGITS = 16


class NotificationService:
    """Reads and marks the rows of the actor."""

    def __init__(self, notes: NoteGateway, events: EventPort) -> None:
        self._notes, self._events = notes, events

    def page(self, actor: Actor, cursor: str | None = None) -> NotePage:
        """Return a page of what the actor may see, the newest first; feeds that fail come before all."""
        require(actor, Permission.ENTRY_READ)
        found = self._notes.page(
            actor.user_id, "" if cursor is None else a_text(cursor, "cursor", most=CURSOR_MAX)
        )
        if cursor is not None:
            return found
        broken = self._notes.broken(actor.user_id, clock.now())
        return NotePage((*broken, *found.notes), found.cursor)

    def one(self, actor: Actor, kind: NoteKind, subject: int) -> Note | None:
        """Return a row as the page shows it, None: he would not find it there."""
        require(actor, Permission.ENTRY_READ)
        return self._notes.one(actor.user_id, kind, subject)

    def unread(self, actor: Actor) -> int:
        """Return how many unread rows there are, up to 99."""
        require(actor, Permission.ENTRY_READ)
        return self._notes.unread(actor.user_id)

    def read(self, actor: Actor, ref: str, until: object = None) -> None:
        """Mark a row (``like.1234``) as read; twice is the same as once.

        Args:
            until: what came into the row after this time, or text of one, is not read yet. None: nothing is.

        Raises:
            InvalidError: this names no row, or no time.
            NotFoundError: it is about a feed that he does not follow.
        """
        require(actor, Permission.ENTRY_MARK)
        kind, _, subject = a_text(ref, "row", most=CURSOR_MAX).partition(".")
        if kind not in list(NoteKind) or not (subject.isascii() and subject.isdigit()):
            raise InvalidError("This is not an id.", field="row")
        self._notes.read(actor.user_id, NoteKind(kind), int(subject[:_DIGITS]), clock.now(), _upto(until))
        self._events.counts(actor.user_id)

    def read_all(self, actor: Actor, until: object = None) -> None:
        """Mark all as read, ``until``: without what came after it; twice is the same as once.

        Raises:
            InvalidError: this is no time.
        """
        require(actor, Permission.ENTRY_MARK)
        self._notes.read_all(actor.user_id, clock.now(), _upto(until))
        self._events.counts(actor.user_id)


def _upto(until: object) -> dt.datetime | None:
    return None if until is None else a_time(until, "until")
