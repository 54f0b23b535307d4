"""Notifications of a user: listing, counting unread ones and marking them as read."""

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
    """Lists and marks the actor's notifications."""

    def __init__(self, notes: NotificationGateway, events: EventPort) -> None:
        self._notes, self._events = notes, events

    def list_notifications(self, actor: Actor, cursor: str | None = None) -> NotificationRows:
        """Return a page of the actor's notifications, newest first; page 1 starts with failing feeds."""
        require_permission(actor, Permission.ENTRY_READ)
        # This comes first because it reads all subscriptions, and the rows need some of them.
        broken = self._notes.list_failing_feeds(actor.user_id, clock.now()) if cursor is None else []
        found = self._notes.list_notifications(
            actor.user_id, "" if cursor is None else check_text(cursor, "cursor", limit=CURSOR_MAX)
        )
        if cursor is not None:
            return found
        return NotificationRows((*broken, *found.notes), found.cursor)

    def find_notification(self, actor: Actor, kind: NotificationKind, subject: int) -> NotificationRow | None:
        """Return a notification as the page shows it, or None if the page doesn't show it."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._notes.find_notification(actor.user_id, kind, subject)

    def count_unread(self, actor: Actor) -> int:
        """Return how many notifications are unread, up to 99."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._notes.count_unread(actor.user_id)

    def mark_read(self, actor: Actor, ref: str, until: object = None) -> None:
        """Mark a notification (``like.1234``) as read; twice is the same as once.

        Args:
            until: events added to the notification after this time (or its ISO text) stay unread. None: mark
                all.

        Raises:
            InvalidError: the id or the time is invalid.
            NotFoundError: it is about a feed that the actor doesn't follow.
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
        """Mark all notifications as read, up to the time ``until`` if given; twice is the same as once.

        Raises:
            InvalidError: the time is invalid.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        self._notes.mark_all_read(actor.user_id, clock.now(), _upto(until))
        self._events.notify_counts(actor.user_id)


def _upto(until: object) -> dt.datetime | None:
    return None if until is None else check_time(until, "until")
