"""Everything that belongs to a user, taken out of the store (security.md G02)."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pymongo.database import Database

from app.mappers.accounts.users import build_leaving_condition
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import INDEXES

Doc = dict[str, Any]


def list_owned_collections() -> tuple[str, ...]:
    """Return the collections that are found by user: whoever adds one, indexes it so."""
    return (
        "sessions",
        "resets",
        *(name for name, indexes in INDEXES.items() if any("user_id" in i.document["key"] for i in indexes)),
    )


class ErasureMapper:
    """Deletes by user over all collections; each step can be done again."""

    def __init__(self, database: Database[Doc]) -> None:
        self._database = database

    @translate_errors
    def stop(self, user_id: int) -> None:
        """Forget a user's imports and exports: whoever works on one finds that out with his next note."""
        for name in ("imports", "import_parts", "personal_exports", "personal_export_parts"):
            self._database[name].delete_many({"user_id": user_id})

    @translate_errors
    def forget(self, user_id: int) -> None:
        """Delete the feeds of what a user shared, with who followed them and what was laid down about him."""
        feeds = [d["_id"] for d in self._database["feeds"].find({"owner": user_id}, {"_id": 1}).hint("owner")]
        if feeds:
            for name in ("subscriptions", "entries", "searchables"):
                self._database[name].delete_many({"feed_id": {"$in": feeds}})
            self._database["feeds"].delete_many({"_id": {"$in": feeds}})
        self._database["ties"].delete_many({"to": user_id})
        self._database["reports"].delete_many({"whom": user_id})

    @translate_errors
    def erase(self, user_id: int, before: dt.datetime) -> bool:
        """Delete a user's documents, his account last: until then it says what is left to do.

        The account stays if it goes since ``before`` or later.

        Returns:
            Whether there is no account any more.
        """
        for name in list_owned_collections():
            self._database[name].delete_many({"user_id": user_id})
        self._database["invites"].delete_many({"by": user_id})
        users = self._database["users"]
        users.delete_one({"_id": user_id, "leaving": build_leaving_condition(before)})
        return users.find_one({"_id": user_id}, {"_id": 1}) is None
