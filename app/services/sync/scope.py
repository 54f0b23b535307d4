"""The scope of a native app's query: a user's current feeds, folders and tags."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from app.errors import InvalidError, NotFoundError
from app.gateways.reading.grouping import ALL_READ, GroupingGateway
from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.gateways.sync.filters import SyncScope
from app.models.accounts.actor import Actor
from app.models.subscriptions.subscription import Subscription
from app.models.sync.sync import SyncQuery, SyncStreamKind, find_folders_by_label

#: Streams that one query may combine or filter by.
PARTS_MAX = 50


class SyncScopeBuilder:
    """Builds scopes of queries; callers check permissions."""

    def __init__(
        self,
        *,
        subscriptions: SubscriptionGateway,
        folders: FolderGateway,
        tags: TagGateway,
        streams: StreamGateway,
        grouping: GroupingGateway,
        visibility: VisibilityGateway,
    ) -> None:
        self._subscriptions, self._folders, self._tags = subscriptions, folders, tags
        self._streams, self._gathering, self._sight = streams, grouping, visibility

    def build_for_query(self, actor: Actor, query: SyncQuery) -> SyncScope:
        """Return the scope of a query.

        Raises:
            NotFoundError: the actor has no such feed or label.
            InvalidError: too many streams at once.
        """
        parts = (*query.streams, *query.include, *query.exclude)
        if len(parts) > PARTS_MAX:
            raise InvalidError("This request combines too many lists. Use fewer.", field="s")
        feed_ids = [part.id for part in query.streams if part.kind is SyncStreamKind.FEED]
        alone = len(feed_ids) == len(query.streams)
        mine = self._subscriptions.find_by_user(actor.user_id, feed_ids if alone else None)
        others = self._others(actor, feed_ids, mine)
        mine += others
        own = any(part.kind is SyncStreamKind.SHARED for part in parts)
        if own:
            mine += self._gathering.make_own_subscriptions(actor.user_id)
        is_whole = not (alone or others or own)
        shelf = self.build(actor, mine, [s.feed_id for s in others], is_whole=is_whole)
        for part in query.streams:
            if part.kind is SyncStreamKind.FEED and part.id not in shelf.sources.subscriptions:
                raise NotFoundError("You aren't subscribed to this feed.", feed_id=part.id)
            if part.kind is SyncStreamKind.LABEL and not _has(shelf, part.name):
                raise NotFoundError("You don't have this folder or tag.", label=part.name)
        return shelf

    def _others(
        self, actor: Actor, feed_ids: Sequence[int], subscriptions: Sequence[Subscription]
    ) -> list[Subscription]:
        """Return stand-in subscriptions to people whose streams the actor visits without following."""
        missing = set(feed_ids) - {s.feed_id for s in subscriptions}
        seen = self._sight.filter_open_streams(actor.user_id, list(missing)) if missing else []
        return [Subscription(0, actor.user_id, f, state=ALL_READ, person=True) for f in seen]

    def build(
        self,
        actor: Actor,
        subscriptions: Sequence[Subscription],
        visited: Collection[int] = (),
        *,
        is_whole: bool = False,
    ) -> SyncScope:
        """Return the scope of these subscriptions, with the actor's folders and tags.

        Args:
            visited: feeds of people whose streams the actor visits without following.
            is_whole: whether these are all of the actor's subscriptions; their counts are kept.
        """
        user_id = actor.user_id
        if is_whole:
            sources = self._streams.load_all_sources(user_id, subscriptions)
        else:
            sources = self._streams.load_sources(subscriptions)
        folders = partial(self._folders.find_by_user, user_id)
        tags = partial(self._tags.find_by_user, user_id)
        return SyncScope(user_id, sources, sources.feeds, folders, tags, visited)


def _has(scope: SyncScope, name: str) -> bool:
    return scope.find_tag(name) is not None or bool(find_folders_by_label(scope.folders, name))
