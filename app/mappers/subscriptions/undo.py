"""Undo of removals and moves: the collection ``removals``.

Of many subscriptions removed together each has its own document, with the token ``<token>~<feed id>``.

A saved page is in the home store, and its marks may be in another. While it is removed or restored, the
document has ``pending {step, since, expires}`` and no expiry. What a crash interrupts is finished from it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.mappers.reading.marks import build_note_doc, parse_note
from app.mappers.sharing.shares import build_share_doc, parse_share
from app.mappers.subscriptions.raw_read_states import FLAGS, read_highlighters
from app.mappers.subscriptions.subscriptions import encode_orders, encode_rule_marks
from app.models.reading.tag import SavedSearch
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.read_state import ReadState, RemovedEntries, from_words
from app.models.subscriptions.subscription import Subscription
from app.models.subscriptions.undo import FeedPlacement, Removal, Step

#: Separates the token of a group from a feed id; no token contains it.
MANY = "~"

#: What rules set.
_NUMBERS = ("hidden", "highlighted")


class RemovalMapper:
    """Document ↔ :class:`Removal`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._removals = cells.get_table("removals")

    @translate_errors
    def add(self, removal: Removal, expires: dt.datetime, session: Session | None = None) -> None:
        """Store a removal until ``expires``."""
        removals, mine = self._removals.get_joined(removal.user_id, session)
        doc = _doc(removal, expires)
        if session is None or mine is not None:
            removals.insert_one(doc, session=mine)
        else:  # a transaction of the home store, which may repeat this
            removals.replace_one({"user_id": removal.user_id, "token": removal.token}, doc, upsert=True)

    @translate_errors
    def add_many(
        self, token: str, subscriptions: Sequence[Subscription], expires: dt.datetime, session: Session
    ) -> None:
        """Store the removals of subscriptions that were removed together."""
        docs = [_doc(Removal(f"{token}{MANY}{s.feed_id}", s.user_id, s), expires) for s in subscriptions]
        self._removals.get(subscriptions[0].user_id, session).insert_many(docs, session=session)

    @translate_errors
    def find_many(self, user_id: int, token: str, now: dt.datetime) -> list[Removal]:
        """Return a user's unexpired removals in the group of a token."""
        prefix = {"$regex": f"^{re.escape(token)}{MANY}"}
        found = self._removals.get(user_id).find(
            {"user_id": user_id, "token": prefix, "expires": {"$gt": now}}
        )
        return [_removal(doc) for doc in found]

    @translate_errors
    def find(self, user_id: int, token: str, now: dt.datetime) -> Removal | None:
        """Return a user's unexpired removal, or None."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._removals.get(user_id).find_one(query)
        return _removal(doc) if doc else None

    @translate_errors
    def find_newest(
        self, user_id: int, now: dt.datetime, limit: int, after: tuple[dt.datetime, str] | None
    ) -> list[tuple[Removal, int, dt.datetime]]:
        """Return a user's latest removals that can be undone.

        Args:
            after: (expiry, token) of the removal before the first.

        Returns:
            Removal, number of removals in its group, and their expiry; latest expiry first.
        """
        token = {"$arrayElemAt": [{"$split": ["$token", MANY]}, 0]}
        older: Doc = {}
        if after is not None:
            end, last = after
            older = {"$or": [{"expires": {"$lt": end}}, {"expires": end, "_id": {"$lt": last}}]}
        groups = self._removals.get(user_id).aggregate(
            [
                {"$match": {"user_id": user_id, "expires": {"$gt": now}}},
                {"$project": {"token": 1, "expires": 1, "of": token}},
                {
                    "$group": {
                        "_id": "$of",
                        "expires": {"$max": "$expires"},
                        "count": {"$sum": 1},
                        "first": {"$min": "$token"},
                    }
                },
                {"$match": older},
                {"$sort": {"expires": -1, "_id": -1}},
                {"$limit": limit},
            ]
        )
        rows = list(groups)
        found = self._removals.get(user_id).find(
            {"user_id": user_id, "token": {"$in": [row["first"] for row in rows]}}
        )
        removals = {doc["token"]: _removal(doc) for doc in found}
        return [(removals[r["first"]], r["count"], r["expires"]) for r in rows if r["first"] in removals]

    @translate_errors
    def remove(self, user_id: int, token: str, session: Session | None = None) -> bool:
        """Delete a removal; return False if it is already gone."""
        query = {"user_id": user_id, "token": token}
        return bool(self._removals.get(user_id, session).delete_one(query, session=session).deleted_count)

    # -- pages whose removal or restoration has begun and hasn't ended

    @translate_errors
    def begin(self, removal: Removal, expires: dt.datetime, now: dt.datetime, session: Session) -> None:
        """Store a removal that isn't done yet: it doesn't expire, and can't be undone, before it ends."""
        doc = {**_doc(removal, expires), **_begin(Step.REMOVE, expires, now)}
        self._removals.get(removal.user_id, session).insert_one(doc, session=session)

    @translate_errors
    def begin_restore(self, user_id: int, token: str, now: dt.datetime, session: Session) -> bool:
        """Mark a removal as one that is being restored; return False if there is no such unexpired one."""
        removals, query = self._removals.get(user_id, session), {"user_id": user_id, "token": token}
        doc = removals.find_one({**query, "expires": {"$gt": now}}, {"expires": 1}, session=session)
        if doc is None:
            return False
        removals.update_one(query, {"$set": _begin(Step.RESTORE, doc["expires"], now)}, session=session)
        return True

    @translate_errors
    def find_begun(
        self, user_id: int, token: str | None = None, session: Session | None = None
    ) -> list[tuple[Removal, Step]]:
        """Return a user's removals that have begun and not ended: all of them, or the one with a token."""
        query: Doc = {"user_id": user_id, "pending": {"$exists": True}}
        if token is not None:
            query["token"] = token
        found = self._removals.get(user_id, session).find(query, session=session)
        return [(_removal(doc), Step(doc["pending"]["step"])) for doc in found]

    @translate_errors
    def find_left(self, before: dt.datetime, limit: int) -> list[tuple[int, str]]:
        """Return user and token of what began before a time and hasn't ended, of each store that responds."""
        query = {"pending.since": {"$lt": before}}
        fields = {"_id": 0, "user_id": 1, "token": 1}
        found = self._removals.read_each(
            lambda table: list(table.find(query, fields).sort("pending.since").limit(limit))
        )
        return [(doc["user_id"], doc["token"]) for docs in found for doc in docs]

    @translate_errors
    def confirm(self, user_id: int, token: str, step: Step, page: Doc | None = None) -> bool:
        """Return whether a step has begun and not ended; ``page`` replaces the page that is kept.

        Not in a transaction of the home store that asks this: that one only writes if the answer is yes.
        """
        query = {"user_id": user_id, "token": token, "pending.step": step.value}
        change = {"$set": {"page": page} if page is not None else {"pending.step": step.value}}
        return bool(self._removals.get(user_id).update_one(query, change).matched_count)

    @translate_errors
    def end(
        self, user_id: int, token: str, step: Step, session: Session, *, mark: Mapping[str, Any] | None = None
    ) -> bool:
        """Let a removal be undone from now on, until it would have expired; return False if it ended before.

        Args:
            mark: the marks of the page, as stored, to keep with it.
        """
        query = {"user_id": user_id, "token": token, "pending.step": step.value}
        ended: Doc = {"expires": "$pending.expires"}
        if mark:
            ended["mark"] = {"$literal": dict(mark)}
        removals = self._removals.get(user_id, session)
        change: list[Doc] = [{"$set": ended}, {"$unset": "pending"}]
        return bool(removals.update_one(query, change, session=session).matched_count)

    @translate_errors
    def remove_by_feed(self, user_id: int, feed_id: int) -> None:
        """Delete all of a user's removals of a subscription to a feed."""
        self._removals.get(user_id).delete_many({"user_id": user_id, "subscription.feed_id": feed_id})

    @translate_errors
    def remove_by_share(self, user_id: int, share_id: int) -> None:
        """Delete all of a user's removals of a share."""
        self._removals.get(user_id).delete_many({"user_id": user_id, "share._id": share_id})


def _begin(step: Step, expires: dt.datetime, now: dt.datetime) -> Doc:
    # A document whose ``expires`` isn't a time is never deleted by its age.
    return {"expires": None, "pending": {"step": step.value, "since": now, "expires": expires}}


def _doc(removal: Removal, expires: dt.datetime) -> Doc:
    subscription, folder, moved = removal.subscription, removal.folder, removal.moved
    search = removal.search
    return {
        "token": removal.token,
        "user_id": removal.user_id,
        "expires": expires,
        "subscription": _of_subscription(subscription) if subscription else None,
        "folder": _of_folder(folder) if folder else None,
        "feed_ids": list(removal.feed_ids),
        "inner": list(removal.subfolder_ids),
        "moved": _of_folder(moved) if moved else None,
        **({"goal": Int64(removal.moved_to)} if moved else {}),
        "places": [
            [p.feed_id, list(p.before), list(p.after), encode_orders(p.orders)] for p in removal.places
        ],
        **({"instead": Int64(removal.replacement_id)} if removal.replacement_id else {}),
        **({"rules": [[i, list(map(Int64, f))] for i, f in removal.rules.items()]} if removal.rules else {}),
        **({"search": [search.id, search.name, search.query, search.notify]} if search else {}),
        **({"share": build_share_doc(removal.share), "title": removal.title} if removal.share else {}),
        **({"page": dict(removal.page)} if removal.page else {}),
        **({"mark": dict(removal.mark)} if removal.mark else {}),
        **({"note": build_note_doc(removal.note)} if removal.note else {}),
    }


def _of_subscription(subscription: Subscription) -> Doc:
    state = subscription.state
    return {
        "feed_id": subscription.feed_id,
        "title": subscription.title,
        "folder_ids": list(subscription.folder_ids),
        "orders": encode_orders(subscription.orders),
        "paused": subscription.paused,
        "person": subscription.person,
        "muted": subscription.muted,
        "private": subscription.private,
        "original": subscription.original,
        "notify": subscription.notify,
        "full_text": subscription.full_text,
        "reopen": subscription.reopen,
        "read_after": subscription.read_after,
        "keep_newest": subscription.keep_newest,
        "read_after_done": Int64(subscription.read_after_done),
        "upto": state.upto,
        "words": {key: Int64(word) for key, word in state.to_words().items()},
        "unread": list(state.unread),
        **_of_rules(subscription),
    }


def _of_rules(subscription: Subscription) -> Doc:
    # Hidden by hand, or by rules that are gone: entries stay so without any rule.
    ruled = {} if subscription.ruled is None else {"ruled": Int64(subscription.ruled)}
    return ruled | encode_rule_marks(subscription)


def _of_folder(folder: Folder) -> Doc:
    return {"id": folder.id, "name": folder.name, "parent": folder.parent, "order": folder.order}


def _removal(doc: Doc) -> Removal:
    user_id, was = doc["user_id"], doc["subscription"]
    return Removal(
        token=doc["token"],
        user_id=user_id,
        subscription=_subscription(user_id, was) if was else None,
        replacement_id=doc.get("instead", 0),
        folder=_folder(user_id, doc["folder"]),
        feed_ids=tuple(doc["feed_ids"]),
        subfolder_ids=tuple(doc["inner"]),
        moved=_folder(user_id, doc.get("moved")),
        moved_to=doc.get("goal", 0),
        places=tuple(
            FeedPlacement(feed_id, tuple(before), tuple(after), _orders(orders))
            for feed_id, before, after, orders in doc.get("places", ())
        ),
        search=_search(user_id, doc.get("search")),
        share=parse_share(doc["share"]) if "share" in doc else None,
        title=doc.get("title", ""),
        page=doc.get("page"),
        mark=doc.get("mark"),
        note=parse_note(doc["note"]) if "note" in doc else None,
        rules={rule_id: tuple(feeds) for rule_id, feeds in doc.get("rules", ())},
    )


def _folder(user_id: int, doc: Doc | None) -> Folder | None:
    return Folder(doc["id"], user_id, doc["name"], doc["parent"], doc["order"] or "") if doc else None


def _search(user_id: int, doc: list[Any] | None) -> SavedSearch | None:
    return SavedSearch(doc[0], user_id, doc[1], doc[2], *doc[3:]) if doc else None


def _orders(doc: Doc) -> dict[int, str]:
    return {int(folder): key for folder, key in doc.items()}


def _subscription(user_id: int, doc: Doc) -> Subscription:
    bits, start = from_words(doc["words"])
    state = ReadState(doc["upto"], bits, start, tuple(doc["unread"]))
    folder_ids, orders = tuple(doc["folder_ids"]), _orders(doc.get("orders", {}))
    flags = {flag: doc.get(flag, False) for flag in FLAGS}
    hidden, highlighted = (RemovedEntries(*from_words(doc.get(name, {}))) for name in _NUMBERS)
    found = Subscription(0, user_id, doc["feed_id"], doc["title"], folder_ids, orders, state, **flags)
    return found._replace(
        ruled=doc.get("ruled"),
        read_after=doc.get("read_after", 0),
        keep_newest=doc.get("keep_newest", 0),
        read_after_done=doc.get("read_after_done", 0),
        hidden=hidden,
        highlighted=highlighted,
        highlighted_by=read_highlighters(doc),
    )
