"""What the actor is told of: his rows, how many are unread, and that he has read them."""

from __future__ import annotations

import datetime as dt

from app import clock
from app.errors import InvalidError
from app.gateways.notifications.notifications import NotificationGateway
from app.models.accounts.actor import Actor, Permission
from app.models.discussion.comments import NotificationKind, NotificationRow, NotificationRows
from app.ports import EventPort
from app.services.access import require_permission
from app.services.validation import check_text, check_time

CURSOR_MAX = 64
_DIGITS = 16


class NotificationService:
    """Reads and marks the rows of the actor."""

    def __init__(self, notes: NotificationGateway, events: EventPort) -> None:
        self._notes, self._events = notes, events

    def list_notifications(self, actor: Actor, cursor: str | None = None) -> NotificationRows:
        """Return a page of what the actor may see, the newest first; feeds that fail come before all."""
        require_permission(actor, Permission.ENTRY_READ)
        found = self._notes.list_notifications(
            actor.user_id, "" if cursor is None else check_text(cursor, "cursor", limit=CURSOR_MAX)
        )
        if cursor is not None:
            return found
        broken = self._notes.list_failing_feeds(actor.user_id, clock.now())
        return NotificationRows((*broken, *found.notes), found.cursor)

    def find_notification(self, actor: Actor, kind: NotificationKind, subject: int) -> NotificationRow | None:
        """Return a row as the page shows it, None: he would not find it there."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._notes.find_notification(actor.user_id, kind, subject)

    def count_unread(self, actor: Actor) -> int:
        """Return how many unread rows there are, up to 99."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._notes.count_unread(actor.user_id)

    def mark_read(self, actor: Actor, ref: str, until: object = None) -> None:
        """Mark a row (``like.1234``) as read; twice is the same as once.

        Args:
            until: what came into the row after this time, or text of one, is not read yet. None: nothing is.

        Raises:
            InvalidError: this names no row, or no time.
            NotFoundError: it is about a feed that he does not follow.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        kind, _, subject = check_text(ref, "row", limit=CURSOR_MAX).partition(".")
        if kind not in list(NotificationKind) or not (subject.isascii() and subject.isdigit()):
            raise InvalidError("This isn't a valid ID.", field="row")
        self._notes.mark_read(
            actor.user_id, NotificationKind(kind), int(subject[:_DIGITS]), clock.now(), _upto(until)
        )
        self._events.notify_counts(actor.user_id)

    def mark_all_read(self, actor: Actor, until: object = None) -> None:
        """Mark all as read, ``until``: without what came after it; twice is the same as once.

        Raises:
            InvalidError: this is no time.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        self._notes.mark_all_read(actor.user_id, clock.now(), _upto(until))
        self._events.notify_counts(actor.user_id)


def _upto(until: object) -> dt.datetime | None:
    return None if until is None else check_time(until, "until")
