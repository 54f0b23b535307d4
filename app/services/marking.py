"""Marks of a part of a list, and the history of all that was done to many entries at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import InvalidError
from app.gateways.streams import StreamGateway
from app.gateways.subscriptions import SubscriptionGateway
from app.gateways.undos import UndoGateway
from app.models.actor import Actor, Permission
from app.models.entry import EntryKey
from app.models.history import ActionKind, MassAction
from app.models.stream import MassMarked, StreamKind, StreamRef
from app.ports import EventPort
from app.services.access import require
from app.services.checks import a_text, an_id

log = logs.get(__name__)

TOKEN_MAX = 64
#: Lists of all that some feeds hold: below an entry lies everything that is not above it.
WHOLE_FEEDS = (StreamKind.ALL, StreamKind.FEED, StreamKind.FOLDER)


class MarkingService:
    """Marks what is above or below an entry in a list as read; each can be taken back for a day.

    Args:
        most: rows from the top of a list to the entry.
        undo_ttl: seconds.
    """

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        streams: StreamGateway,
        undos: UndoGateway,
        events: EventPort,
        *,
        most: int,
        undo_ttl: float,
    ) -> None:
        self._subscriptions = subscriptions
        self._streams = streams
        self._undos = undos
        self._events = events
        self._most = most
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def mark_above(self, actor: Actor, ref: StreamRef, snapshot: str, entry_id: int) -> MassMarked:
        """Mark all rows above an entry as read, in the order of this list.

        Raises:
            NotFoundError: the list has expired, or the entry is not among its first rows.
            InvalidError: the list does not hold whole feeds.
        """
        rows = self._above(actor, ref, snapshot, entry_id)[:-1]
        now = clock.now()
        marked, _ = self._subscriptions.mark_found(actor.user_id, rows, now + self._undo_ttl)
        self._done(actor, ActionKind.ABOVE, ref, marked, now)
        return marked

    def mark_below(self, actor: Actor, ref: StreamRef, snapshot: str, entry_id: int) -> MassMarked:
        """Mark all rows below an entry as read, however far the list goes on.

        Raises:
            As :meth:`mark_above`.
        """
        rows = self._above(actor, ref, snapshot, entry_id)
        now = clock.now()
        _, seen = self._streams.lasts(actor.user_id, snapshot, now)
        marked, _ = self._subscriptions.mark_all(
            actor.user_id, list(seen), seen, now + self._undo_ttl, keep=_numbers(rows)
        )
        self._done(actor, ActionKind.BELOW, ref, marked, now)
        return marked

    def history(self, actor: Actor) -> list[MassAction]:
        """Return what the actor can still take back, the newest first."""
        require(actor, Permission.ENTRY_MARK)
        return self._undos.history(actor.user_id, clock.now(), self._undo_ttl)

    def _above(self, actor: Actor, ref: StreamRef, snapshot: str, entry_id: int) -> list[EntryKey]:
        require(actor, Permission.ENTRY_MARK)
        if ref.kind not in WHOLE_FEEDS:
            raise InvalidError("The entries of this list are marked one by one.", field="stream")
        token = a_text(snapshot, "snapshot", most=TOKEN_MAX)
        found = self._streams.snapshot(actor.user_id, token, clock.now())
        if found.ref != ref:
            raise InvalidError("This list was another one. Reload it.", field="snapshot")
        return self._streams.above(found, an_id(entry_id, "entry"), self._most)

    def _done(
        self, actor: Actor, kind: ActionKind, ref: StreamRef, marked: MassMarked, now: dt.datetime
    ) -> None:
        if marked.count:
            self._undos.note(actor.user_id, MassAction(marked.undo, kind, str(ref), marked.count, now))
        self._events.counts(actor.user_id)
        log.info("marked_part", user_id=actor.user_id, part=kind.value, stream=str(ref), count=marked.count)


def _numbers(rows: Sequence[EntryKey]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key in rows:
        found.setdefault(key.feed_id, []).append(key.seq)
    return found
