"""Mark-all-as-read of native apps: marks the entries of a stream up to a time."""

from __future__ import annotations

from collections.abc import Sequence

from app import logs
from app.errors import InvalidError, NotFoundError
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.gateways.sync.filters import SyncScope, from_micros
from app.gateways.sync.streams import SyncStreamGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.stream import MassMarkResult, StreamKind, StreamRef
from app.models.subscriptions.muting import exclude_muted, is_followed_person, is_in_mixed_lists
from app.models.sync.sync import ReadLimit, SyncQuery, SyncStream, SyncStreamKind, find_folders_by_label
from app.services.access import require_permission
from app.services.reading.mass_marks import MassMarks
from app.services.sync.reading import KEYS_MAX
from app.services.sync.scope import SyncScopeBuilder

log = logs.get(__name__)

#: Stands for the feeds outside of all folders, where a folder is expected.
NO_FOLDER = 0


class SyncMarkService:
    """Marks streams as read for native apps."""

    def __init__(
        self,
        scopes: SyncScopeBuilder,
        subscriptions: SubscriptionGateway,
        folders: FolderGateway,
        sync: SyncStreamGateway,
        mass_marks: MassMarks,
    ) -> None:
        self._scopes, self._sync = scopes, sync
        self._subscriptions, self._folders = subscriptions, folders
        self._mass_marks = mass_marks

    def check_markable(self, actor: Actor, stream: SyncStream) -> None:
        """Check that :meth:`mark_before` can mark a stream.

        Raises:
            NotFoundError: the actor has no such feed or label.
            InvalidError: this stream can't be marked as read.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        self._markable(self._scopes.build_for_query(actor, SyncQuery((stream,))), stream)

    def mark_before(
        self, actor: Actor, stream: SyncStream, before: ReadLimit | None
    ) -> MassMarkResult | None:
        """Mark the entries of a stream up to a time (None: all) as read; can be undone for a day.

        Apps send back any time that they got. Normally it is a time of arrival. If it is exactly the date of
        an entry that arrived later, it means the entries that are dated up to then.

        Returns:
            The result; None: there is nothing that could be marked.

        Raises:
            NotFoundError: the actor has no such feed or label.
            InvalidError: this stream can't be marked as read.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        scope = self._scopes.build_for_query(actor, SyncQuery((stream,)))
        feeds = self._markable(scope, stream)
        if feeds is None:
            return self._mark_listed(actor, scope, stream, before)
        return self._mark_feeds(actor, scope, feeds, _ref(scope, stream), before) if feeds else None

    def mark_folder_before(self, actor: Actor, folder_id: int, before: ReadLimit | None) -> None:
        """Mark the entries of a folder up to a time as read, like :meth:`mark_before`.

        Args:
            folder_id: :data:`NO_FOLDER` stands for the feeds outside of all folders.

        Raises:
            NotFoundError: the actor has no such folder.
        """
        require_permission(actor, Permission.ENTRY_MARK)
        if folder_id == NO_FOLDER:
            folders = {folder.id for folder in self._folders.find_by_user(actor.user_id)}
            mine = exclude_muted(self._subscriptions.find_by_user(actor.user_id))
            scope = self._scopes.build(actor, [s for s in mine if folders.isdisjoint(s.folder_ids)])
            self._mark_feeds(actor, scope, list(scope.feeds), StreamRef(StreamKind.ALL), before)
            return
        if all(folder.id != folder_id for folder in self._folders.find_by_user(actor.user_id)):
            raise NotFoundError(folder_id=folder_id)
        scope = self._scopes.build(actor, self._subscriptions.find_in_folders(actor.user_id, [folder_id]))
        self._mark_feeds(actor, scope, list(scope.feeds), StreamRef(StreamKind.FOLDER, folder_id), before)

    def _mark_feeds(
        self, actor: Actor, scope: SyncScope, feeds: Sequence[int], ref: StreamRef, limit: ReadLimit | None
    ) -> MassMarkResult:
        if limit is None:
            return self._mass_marks.mark_feeds(actor, feeds, ref)
        later = self._sync.find_later_dated(scope, feeds, limit)
        if later is not None:
            return self._mass_marks.mark_feeds(actor, feeds, ref, keep=later)
        seen = self._sync.find_last_before(scope, feeds, limit.last)
        return self._mass_marks.mark_feeds(actor, feeds, ref, last_seqs=seen)

    def _markable(self, scope: SyncScope, stream: SyncStream) -> list[int] | None:
        mine = scope.sources.subscriptions
        match stream.kind:
            # These lists leave out muted people.
            case SyncStreamKind.READING | SyncStreamKind.UNREAD:
                return [f for f, s in mine.items() if is_in_mixed_lists(s)]
            case SyncStreamKind.FRIENDS | SyncStreamKind.COMMENTED:
                return [f for f, s in mine.items() if is_followed_person(s)]
            case SyncStreamKind.FEED:
                return [stream.id]
            case SyncStreamKind.LABEL if scope.find_tag(stream.name) is None:
                return scope.find_labelled_feeds(stream.name)
            case SyncStreamKind.STARRED | SyncStreamKind.LABEL | SyncStreamKind.LIKED:
                return None
            case SyncStreamKind.READ:
                return []
            case _:
                raise InvalidError("You can't mark this list as read.", field="s")

    def _mark_listed(
        self, actor: Actor, scope: SyncScope, stream: SyncStream, limit: ReadLimit | None
    ) -> MassMarkResult | None:
        """Mark the entries of a list one by one, because their feeds hold other entries too."""
        when = None if limit is None else from_micros(limit.last)
        query = SyncQuery((stream,), include=(SyncStream(SyncStreamKind.UNREAD),), until=when, limit=KEYS_MAX)
        keys, _ = self._sync.load_page(scope, query)
        return self._mass_marks.mark_entries(actor, keys, _ref(scope, stream)) if keys else None


def _ref(scope: SyncScope, stream: SyncStream) -> StreamRef:
    """Return the matching list of the web pages, which the undo history names."""
    match stream.kind:
        case SyncStreamKind.FEED:
            return StreamRef(StreamKind.FEED, stream.id)
        case SyncStreamKind.LABEL:
            if (tag := scope.find_tag(stream.name)) is not None:
                return StreamRef(StreamKind.TAG, tag)
            return StreamRef(StreamKind.FOLDER, find_folders_by_label(scope.folders, stream.name)[0])
        case SyncStreamKind.FRIENDS | SyncStreamKind.COMMENTED:
            return StreamRef(StreamKind.FOLLOWING)
        case SyncStreamKind.STARRED:
            return StreamRef(StreamKind.STARRED)
        case _:
            return StreamRef(StreamKind.ALL)
