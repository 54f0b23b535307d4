"""Subscriptions and folders that were removed and can come back: the collection ``removals``."""

from __future__ import annotations

import datetime as dt

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.errors import translated
from app.mappers.store import Doc, Session
from app.models.folder import Folder
from app.models.removal import Removal
from app.models.subscription import ReadState, Subscription, from_words


class RemovalMapper:
    """Document ↔ :class:`Removal`. Every query carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._removals: Collection[Doc] = database["removals"]

    @translated
    def add(self, removal: Removal, expires: dt.datetime, session: Session | None = None) -> None:
        """Keep a removal until ``expires``."""
        subscription, folder = removal.subscription, removal.folder
        doc = {
            "token": removal.token,
            "user_id": removal.user_id,
            "expires": expires,
            "subscription": _of_subscription(subscription) if subscription else None,
            "folder": _of_folder(folder) if folder else None,
            "feed_ids": list(removal.feed_ids),
            "inner": list(removal.inner),
        }
        self._removals.insert_one(doc, session=session)

    @translated
    def get(self, user_id: int, token: str, now: dt.datetime) -> Removal | None:
        """Return a user's removal that has not expired."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._removals.find_one(query)
        return _removal(doc) if doc else None

    @translated
    def of_user(self, user_id: int, now: dt.datetime) -> list[tuple[Removal, dt.datetime]]:
        """Return what a user removed and can have back, each with the end of that, in no order."""
        found = self._removals.find({"user_id": user_id, "expires": {"$gt": now}})
        return [(_removal(doc), doc["expires"]) for doc in found]

    @translated
    def remove(self, user_id: int, token: str, session: Session | None = None) -> None:
        """Forget a removal."""
        self._removals.delete_one({"user_id": user_id, "token": token}, session=session)


def _of_subscription(subscription: Subscription) -> Doc:
    state = subscription.state
    return {
        "feed_id": subscription.feed_id,
        "title": subscription.title,
        "folder_ids": list(subscription.folder_ids),
        "order": subscription.order,
        "upto": state.upto,
        "words": {key: Int64(word) for key, word in state.words().items()},
        "unread": list(state.unread),
    }


def _of_folder(folder: Folder) -> Doc:
    return {"id": folder.id, "name": folder.name, "parent": folder.parent, "order": folder.order}


def _removal(doc: Doc) -> Removal:
    user_id, was, folder = doc["user_id"], doc["subscription"], doc["folder"]
    return Removal(
        token=doc["token"],
        user_id=user_id,
        subscription=_subscription(user_id, was) if was else None,
        folder=Folder(folder["id"], user_id, folder["name"], folder["parent"], folder["order"])
        if folder
        else None,
        feed_ids=tuple(doc["feed_ids"]),
        inner=tuple(doc["inner"]),
    )


def _subscription(user_id: int, doc: Doc) -> Subscription:
    bits, start = from_words(doc["words"])
    state = ReadState(doc["upto"], bits, start, tuple(doc["unread"]))
    return Subscription(
        0, user_id, doc["feed_id"], doc["title"], tuple(doc["folder_ids"]), doc["order"], state
    )
