"""Which kept values a write to MongoDB can change, read from the driver's command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.models.cache import CacheKind, Changed

#: The fields of a feed's card, in the collection ``feeds``.
CARD_FIELDS = frozenset(
    (
        *("title", "url", "site_url", "icon_blob", "error", "first_seq", "last_seq", "last_entry_at"),
        *("read_at", "language", "owner", "gone", "hidden", "shown_at", "unlisted", "avatar"),
        *("merged_into", "private_to", "kind"),
    )
)
#: The fields of a feed that take entries from public pages.
_SECRECY = frozenset(("hidden", "unlisted", "private_to"))
#: The fields of an import that begin or resume it.
_IMPORT_FIELDS = frozenset(("state", "user_id"))
#: Operators that change only the fields that they name.
_PLAIN = frozenset(
    (
        *("$set", "$unset", "$inc", "$max", "$min", "$setOnInsert", "$currentDate", "$mul", "$bit"),
        *("$push", "$pull", "$addToSet", "$pop", "$addFields"),
    )
)
#: Documents of one person, who is in ``user_id``.
LISTS = {
    "folders": CacheKind.FOLDERS,
    "tags": CacheKind.TAGS,
    "searches": CacheKind.SEARCHES,
    "streamviews": CacheKind.STREAM_VIEWS,
    "imports": CacheKind.NO_IMPORT,
    "notifications": CacheKind.NOTIFICATIONS,
}

#: What public pages show, by collection: fields that these pages don't show.
PUBLIC = {
    "profiles": frozenset[str](),
    "shares": frozenset(("stars",)),
    "comments": frozenset(("answered",)),
    "users": frozenset(("settings", "password", "email", "email_key", "social", "synced", "guard")),
}


def find_changed(name: str, command: Mapping[str, Any]) -> list[Changed]:
    """Return the kept values that a command can change."""
    collection = command[name]
    if collection == "feeds":
        return _find_cards(name, command)
    if collection in PUBLIC:
        queries = _list_queries(name, command)  # new documents make no page wrong
        changed = (
            query for query, update in queries if update is None or _exceeds(update, PUBLIC[collection])
        )
        # A share that was removed before is replaced.
        is_shown = any("live" not in query or query["live"] is not None for query in changed)
        return [Changed(CacheKind.PUBLIC, 0)] if is_shown else []
    if (kind := LISTS.get(collection)) is None:
        return []
    queries = _list_queries(name, command, with_inserts=True)
    if kind is CacheKind.NO_IMPORT:  # progress doesn't begin an import
        queries = [one for one in queries if one[1] is None or _touches(one[1], _IMPORT_FIELDS)]
    return _name(kind, "user_id", [query for query, _ in queries])


def _exceeds(update: Any, names: frozenset[str]) -> bool:
    """Return whether an update changes other fields than these."""
    if isinstance(update, list) or not all(isinstance(fields, Mapping) for fields in update.values()):
        return True
    return any(field.partition(".")[0] not in names for fields in update.values() for field in fields)


def _find_cards(name: str, command: Mapping[str, Any]) -> list[Changed]:
    if name == "insert":
        return []  # a feed that doesn't exist has no card
    queries = _list_queries(name, command)
    changed = [query for query, update in queries if update is None or _touches(update, CARD_FIELDS)]
    # Cards of people's streams aren't kept.
    kept = [query for query in changed if "owner" not in query and query.get("kind") != "shared"]
    hides = any(update is None or _touches(update, _SECRECY) for _, update in queries)
    return [*_name(CacheKind.CARD, "_id", kept), *([Changed(CacheKind.PUBLIC, 0)] if hides else [])]


def _name(kind: CacheKind, field: str, queries: Sequence[Mapping[str, Any]]) -> list[Changed]:
    """Return the values of the ids that queries require of a field; all of the kind if a query names none."""
    found: dict[int, None] = {}
    for query in queries:
        value = query.get(field)
        several: Any = value.get("$in") if isinstance(value, Mapping) else [value]
        if several is None or not all(isinstance(one, int) for one in several):
            return [Changed(kind, None)]
        found |= dict.fromkeys(several)
    return [Changed(kind, one) for one in found]


def _list_queries(
    name: str, command: Mapping[str, Any], *, with_inserts: bool = False
) -> list[tuple[Mapping[str, Any], Any]]:
    """Return the query and the update of each statement; None: a deletion."""
    if name == "insert":
        return [(doc, None) for doc in command.get("documents", ({},))] if with_inserts else []
    if name == "findAndModify":
        return [(command["query"], command.get("update"))]
    return [(part["q"], part.get("u")) for part in command.get(f"{name}s", ({"q": {}},))]


def _touches(update: Any, names: frozenset[str]) -> bool:
    stages = update if isinstance(update, list) else [update]
    for stage in stages:
        for operator, fields in stage.items():
            if operator not in _PLAIN or not isinstance(fields, Mapping):
                return True
            if any(field.partition(".")[0] in names for field in fields):
                return True
    return False
