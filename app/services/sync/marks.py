"""Marks by time that native apps set: all of a stream that had come when they last looked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.read_marks import ReadGateway
from app.gateways.reading.undo_history import UndoGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.gateways.sync.filters import Shelf
from app.gateways.sync.streams import SyncGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.history import ActionKind, MassAction
from app.models.reading.stream import MassMarked, StreamKind, StreamRef
from app.models.sync.sync import Part, PartKind, SyncQuery, called
from app.ports import EventPort
from app.services.access import require
from app.services.sync.reading import KEYS_MAX
from app.services.sync.scope import Shelves

log = logs.get(__name__)


class SyncMarkService:
    """Marks on behalf of programs.

    Args:
        undo_ttl: seconds.
    """

    def __init__(
        self,
        shelves: Shelves,
        subscriptions: SubscriptionGateway,
        reads: ReadGateway,
        feeds: FeedGateway,
        folders: FolderGateway,
        sync: SyncGateway,
        undos: UndoGateway,
        changes: ChangeGateway,
        events: EventPort,
        *,
        undo_ttl: float,
    ) -> None:
        self._shelves, self._sync = shelves, sync
        self._subscriptions, self._reads = subscriptions, reads
        self._feeds, self._folders = feeds, folders
        self._undos, self._changes, self._events = undos, changes, events
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def mark_before(self, actor: Actor, part: Part, when: dt.datetime | None) -> MassMarked | None:
        """Mark what of a stream had come by a time as read, None: all of it; it can be undone for a day.

        Returns:
            What it did; None: there is nothing that could be marked.

        Raises:
            NotFoundError: no such feed or label of his.
            InvalidError: this stream is not one that is marked.
        """
        require(actor, Permission.ENTRY_MARK)
        shelf = self._shelves.asked(actor, SyncQuery((part,)))
        feeds = self._markable(shelf, part)
        if feeds is None:
            return self._mark_listed(actor, shelf, part, when)
        return self._mark_feeds(actor, shelf, feeds, _ref(shelf, part), when) if feeds else None

    def mark_folder_before(self, actor: Actor, folder_id: int, when: dt.datetime | None) -> None:
        """Mark what of a folder had come by a time as read, as :meth:`mark_before` does.

        Raises:
            NotFoundError: he has no such folder.
        """
        require(actor, Permission.ENTRY_MARK)
        if all(folder.id != folder_id for folder in self._folders.of_user(actor.user_id)):
            raise NotFoundError(folder_id=folder_id)
        shelf = self._shelves.of(actor, self._subscriptions.in_folders(actor.user_id, [folder_id]))
        self._mark_feeds(actor, shelf, list(shelf.feeds), StreamRef(StreamKind.FOLDER, folder_id), when)

    def _mark_feeds(
        self, actor: Actor, shelf: Shelf, feeds: Sequence[int], ref: StreamRef, when: dt.datetime | None
    ) -> MassMarked:
        now = clock.now()
        seen = None if when is None else self._sync.last_before(shelf, feeds, when)
        marked, cards = self._reads.mark_all(actor.user_id, feeds, seen, now + self._undo_ttl)
        self._feeds.touch(cards, now)
        self._done(actor, ref, marked, now)
        return marked

    def _markable(self, shelf: Shelf, part: Part) -> list[int] | None:
        mine = shelf.sources.subscriptions
        match part.kind:
            # Who is muted is in none of these lists.
            case PartKind.READING | PartKind.UNREAD:
                return [f for f, s in mine.items() if not s.muted]
            case PartKind.FRIENDS | PartKind.COMMENTED:
                return [f for f, s in mine.items() if s.person and not s.muted]
            case PartKind.FEED:
                return [part.id]
            case PartKind.LABEL if shelf.tag(part.name) is None:
                return shelf.labelled(part.name)
            case PartKind.STARRED | PartKind.LABEL | PartKind.LIKED:
                return None
            case PartKind.READ:
                return []
            case _:
                raise InvalidError("This list cannot be marked as read.", field="s")

    def _mark_listed(
        self, actor: Actor, shelf: Shelf, part: Part, when: dt.datetime | None
    ) -> MassMarked | None:
        """Mark entries one by one: their feeds hold others too."""
        query = SyncQuery((part,), include=(Part(PartKind.UNREAD),), until=when, limit=KEYS_MAX)
        keys, _ = self._sync.page(shelf, query)
        if not keys:
            return None
        now = clock.now()
        marked, cards = self._reads.mark_found(actor.user_id, keys, now + self._undo_ttl)
        self._feeds.touch(cards, now)
        self._done(actor, _ref(shelf, part), marked, now)
        return marked

    def _done(self, actor: Actor, ref: StreamRef, marked: MassMarked, now: dt.datetime) -> None:
        if marked.count:
            self._changes.note_mass(actor.user_id, marked.undo)
            action = MassAction(marked.undo, ActionKind.ALL, str(ref), marked.count, now)
            self._undos.note(actor.user_id, action)
        self._events.counts(actor.user_id)
        log.info("marked_all", user_id=actor.user_id, stream=str(ref), count=marked.count)


def _ref(shelf: Shelf, part: Part) -> StreamRef:
    """Return the list of the web that is named in the history of what can be taken back."""
    match part.kind:
        case PartKind.FEED:
            return StreamRef(StreamKind.FEED, part.id)
        case PartKind.LABEL:
            if (tag := shelf.tag(part.name)) is not None:
                return StreamRef(StreamKind.TAG, tag)
            return StreamRef(StreamKind.FOLDER, called(shelf.folders, part.name)[0])
        case PartKind.FRIENDS | PartKind.COMMENTED:
            return StreamRef(StreamKind.FOLLOWING)
        case PartKind.STARRED:
            return StreamRef(StreamKind.STARRED)
        case _:
            return StreamRef(StreamKind.ALL)
