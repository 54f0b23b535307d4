"""The short lists around the content of every page, read in one command."""

from __future__ import annotations

from app.gateways.notifications.notifications import BADGE
from app.mappers.imports.imports import ImportMapper
from app.mappers.mongo.shared_cache import SharedCache
from app.mappers.mongo.together import ListRead, read_together
from app.mappers.notifications.notifications import NotificationMapper
from app.mappers.reading.stream_views import StreamViewMapper
from app.mappers.reading.tags import SavedSearchMapper, TagMapper
from app.mappers.subscriptions.folders import FolderMapper
from app.models.reading.stream import StreamRef


class PageFrameGateway:
    """Reads these lists ahead; afterwards, the gateways that own them find them in the identity map."""

    def __init__(
        self,
        *,
        folders: FolderMapper,
        tags: TagMapper,
        searches: SavedSearchMapper,
        stream_views: StreamViewMapper,
        imports: ImportMapper,
        notifications: NotificationMapper,
        cache: SharedCache | None,
    ) -> None:
        self._cache = cache
        self._folders, self._tags, self._searches = folders, tags, searches
        self._views, self._imports, self._notes = stream_views, imports, notifications

    def prefetch_counts(self, user_id: int, *, with_folders: bool = False) -> None:
        """Read a user's running import and unread notifications."""
        folders = [self._folders.plan_by_user(user_id)] if with_folders else []
        read_together([*folders, *self._plan_counts(user_id)], self._cache)

    def prefetch_stream(self, user_id: int, ref: StreamRef | None, *, whole: bool) -> None:
        """Read a user's folders and tags, and a stream's display settings.

        Args:
            whole: with the rest of the page: saved searches, and what :meth:`prefetch_counts` reads.
        """
        rest = [self._searches.plan_by_user(user_id), *self._plan_counts(user_id)] if whole else []
        view = [self._views.plan(user_id, ref)] if ref else []
        lists = [self._folders.plan_by_user(user_id), self._tags.plan_by_user(user_id)]
        read_together([*lists, *view, *rest], self._cache)

    def _plan_counts(self, user_id: int) -> list[ListRead]:
        return [self._imports.plan_active_by_user(user_id), self._notes.plan_unread(user_id, BADGE)]
