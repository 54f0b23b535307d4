"""Notifications."""

from __future__ import annotations

import datetime as dt

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.services.notifications import texts
from app.web.api.rest.shapes import PERSON, SHARE, UNSET, Body, CursorQuery, Id0, NoteRef, Shape, UnsetType
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services
from app.web.view import i18n

TAG = "Notifications"


class Notification(Shape, frozen=True):
    """One notification, which may combine several similar events.

    `ref`: its ID for marking it as read. `people`: the most recent people. `goal`: the page it links to.
    """

    ref: str
    kind: NotificationKind
    text: str
    at: dt.datetime
    count: int
    read: bool
    people: tuple[str, ...]
    subject: Id0
    goal: str


class NotificationPage(Shape, frozen=True):
    """One page of notifications, newest first, after failing feeds. `unread`: at most 99."""

    items: tuple[Notification, ...]
    next: str | None
    unread: int


class NotificationsRead(Body, frozen=True):
    """`ref`: the notification to mark; omit it for all.

    Notifications newer than `until` stay unread: send the newest `at` you have.
    """

    ref: NoteRef | UnsetType = UNSET
    until: dt.datetime | UnsetType = UNSET


_ONE = add_example(
    Notification(
        ref=f"like.{SHARE}",
        kind=NotificationKind.LIKE,
        text="Cleo likes your share",
        at=dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC),
        count=1,
        read=False,
        people=(PERSON,),
        subject=SHARE,
        goal=f"/shares/{SHARE}/comments",
    )
)
add_example(NotificationPage(items=(_ONE,), next=None, unread=1))
add_example(NotificationsRead(ref=f"like.{SHARE}", until=_ONE.at))


@add_operation("GET", "/notifications", "List notifications", scope=Scope.READ, tag=TAG)
def list_notifications(actor: Actor, query: CursorQuery) -> NotificationPage:
    """Texts are in the language requested with `Accept-Language`."""
    page = get_services().notifications.list_notifications(actor, query.cursor or None)
    unread = get_services().notifications.count_unread(actor)
    return NotificationPage(items=tuple(map(_shape, page.notes)), next=page.cursor, unread=unread)


def _shape(note: NotificationRow) -> Notification:
    told = (
        i18n.translate_feed_error(note.detail)
        if note.kind is NotificationKind.FEED
        else texts.format_sentence(note, i18n.get_catalogue())
    )
    return Notification(
        ref=note.ref,
        kind=note.kind,
        text=told,
        at=note.at,
        count=note.count,
        read=note.read,
        people=tuple(face.handle for face in note.faces),
        subject=note.subject,
        goal=texts.build_path(note),
    )


@add_operation("POST", "/notifications/mark-read", "Mark notifications as read", scope=Scope.MARK, tag=TAG,
           status=204, errors=(404,))  # fmt: skip
def mark_notifications_read(actor: Actor, body: NotificationsRead) -> None:
    """Marks one notification, or all of them. Repeating the request has no further effect."""
    until = None if body.until is UNSET else body.until
    if body.ref is UNSET:
        get_services().notifications.mark_all_read(actor, until)
    else:
        get_services().notifications.mark_read(actor, body.ref, until)
