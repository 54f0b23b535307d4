"""A notification that couldn't be stored yet, because its recipient's data can't be written."""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.models.discussion.comments import NotificationKind


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingNotification:
    """An event of which a person is to be notified; ids of 0: none.

    Attributes:
        id: of the event. A row remembers the ids of its last events, so none counts twice.
        at: when it happened.
        user_id: the person to notify.
        by: the person who did it.
        share_id: the share that it is about; the recipient must be able to see it.
        target_id: the comment or share that was made.
        also_id: another share that the recipient must be able to see.
        count: new entries.
    """

    id: str
    at: dt.datetime
    user_id: int
    kind: NotificationKind
    subject: int
    by: int = 0
    share_id: int = 0
    target_id: int = 0
    also_id: int = 0
    count: int = 1
