"""Suggestions for a search: names of feeds, folders and tags, also of those with typing errors."""

from __future__ import annotations

from collections.abc import Collection

from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.search import QUERY_MAX
from app.models.reading.suggestions import (
    STATES,
    NamePart,
    Suggestion,
    complete_part,
    correct_query,
    find_open_part,
)
from app.models.reading.tokenizer import fold_text
from app.services.access import require_permission
from app.services.validation import check_text

#: Most completions of a name.
COMPLETIONS = 8
#: Most corrected queries.
CORRECTIONS = 3


class SearchSuggestions:
    """Completes and corrects the names in a query. Nothing is read for a query without names."""

    def __init__(
        self,
        subscriptions: SubscriptionGateway,
        streams: StreamGateway,
        folders: FolderGateway,
        tags: TagGateway,
    ) -> None:
        self._subscriptions, self._streams = subscriptions, streams
        self._folders, self._tags = folders, tags

    def find_completions(self, actor: Actor, text: str) -> list[Suggestion]:
        """Return completions of the name that a query ends with, best first.

        Raises:
            InvalidError: the query is too long.
        """
        require_permission(actor, Permission.ENTRY_READ)
        query = check_text(text, "query", limit=4 * QUERY_MAX, empty=True)
        part = None if text.endswith(" ") else find_open_part(query)
        if part is None:
            return []
        names = STATES if part.kind == "is" else self._find_names(actor.user_id, part.kind)
        if part.kind != "is" and part.value and part.value in names:
            return []
        return complete_part(query, part, names, COMPLETIONS)

    def find_corrections(self, actor: Actor, text: str) -> list[Suggestion]:
        """Return queries in which the first name that nothing of the actor's has is replaced by near ones.

        Raises:
            InvalidError: the query is too long.
        """
        require_permission(actor, Permission.ENTRY_READ)
        text = check_text(text, "query", limit=4 * QUERY_MAX, empty=True)
        known = dict[str, Collection[str]]()

        def find_names(kind: str) -> Collection[str]:
            if kind not in known:
                known[kind] = self._find_names(actor.user_id, kind)
            return known[kind]

        def has_match(part: NamePart) -> bool:
            wanted = " ".join(fold_text(part.value).split())
            names = map(fold_text, find_names(part.kind))
            return any(name == wanted if part.kind == "tag" else wanted in name for name in names)

        return correct_query(text, has_match, find_names, CORRECTIONS)

    def _find_names(self, user_id: int, kind: str) -> Collection[str]:
        if kind == "tag":
            return [tag.name for tag in self._tags.find_by_user(user_id)]
        if kind == "folder":
            return [folder.name for folder in self._folders.find_by_user(user_id)]
        mine = self._subscriptions.find_by_user(user_id)
        titles = self._streams.load_sources(mine)
        return [titles.get_title(one.feed_id) for one in mine]
