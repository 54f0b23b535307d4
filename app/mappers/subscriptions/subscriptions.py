"""Subscriptions with their read states: the collection ``subscriptions``.

``rev`` rises with every write of a read state, so that a whole state is only replaced if nothing was marked
since it was read. ``mass`` names the last mass mark, the only one that can be undone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NamedTuple

from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    DuplicateKeyError,
    NetworkTimeout,
    ServerSelectionTimeoutError,
)

from app.errors import ExistsError
from app.mappers.mongo import raw_replies
from app.mappers.mongo.cells import Cells, get_own_session
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.outbox_rows import add_missed_feeds
from app.mappers.mongo.page_saves import match_current, note_save
from app.mappers.mongo.store import DUPLICATE_KEY, Doc, Session, find_and_update, is_duplicate
from app.mappers.subscriptions import raw_read_states
from app.models.accounts.page_save import PageSave
from app.models.reading.rules import RuledReader, RuleMarks
from app.models.subscriptions.read_state import ReadState, RemovedEntries, build_word_masks, from_words
from app.models.subscriptions.subscription import Subscription
from app.runtime import identity_map

#: Subscriptions per statement: for each one the server searches half as many positions on average. Bits per
#: statement: one word of 64 bits takes 15 bytes.
PLACES, BITS = 500, 1 << 23
#: Statements of one mass mark that run concurrently.
SIDE_BY_SIDE = 2
_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
#: Write concerns of the last of several writes, and of those before it.
_SAFE: Doc = {"w": "majority", "j": True}
_FAST: Doc = {"w": 1}
_RULED: Doc = {"ruled": {"$gte": 0}}
_STATE = {"feed_id": 1, "upto": 1, "words": 1, "unread": 1, "rev": 1, "mass": 1, "keep_newest": 1}


class StateBefore(NamedTuple):
    """A read state before a mark, and how many of the newest entries its user's lists show; 0: all."""

    state: ReadState
    keep_newest: int


class StateReplacement(NamedTuple):
    """A read state that replaces the one of ``was``, through the mass mark ``mass``."""

    was: Subscription
    state: ReadState
    mass: str | None


class SubscriptionMapper:
    """Document ↔ :class:`Subscription`. Every query for a user contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._subscriptions = cells.get_table("subscriptions")
        self._raw = cells.get_table("subscriptions", codec_options=_RAW)
        self._rules = cells.get_table("rules")

    @translate_errors
    def add(
        self,
        subscription: Subscription,
        *,
        pending: bool,
        session: Session,
        has_rules: bool | None = None,
    ) -> Subscription:
        """Store a new subscription; its id is assigned here.

        Args:
            pending: the feed has no entries yet, so its first pull sets where reading starts.
            has_rules: of :meth:`has_rules`, if the caller has it.

        Raises:
            ExistsError: the user already subscribes to this feed; the transaction has ended.
        """
        if has_rules is None:
            has_rules = self.has_rules(subscription.user_id, session)
        doc = _new(self._subscriptions.reserve_id(), subscription, pending=pending, has_rules=has_rules)
        try:
            self._subscriptions.get(subscription.user_id, session).insert_one(doc, session=session)
        except DuplicateKeyError as e:
            if is_duplicate(e, "_id"):
                return self.add(subscription, pending=pending, session=session, has_rules=has_rules)
            raise ExistsError("You're already subscribed to this feed.", feed_id=doc["feed_id"]) from e
        return subscription._replace(id=doc["_id"])

    @translate_errors
    def add_many(
        self, subscriptions: Sequence[Subscription], pending: frozenset[int], session: Session
    ) -> list[Subscription]:
        """Store new subscriptions of one user; see :meth:`add`.

        Args:
            pending: the feeds that have no entries yet.

        Raises:
            ExistsError: the user already subscribes to one of the feeds, or an id was taken; the transaction
                has ended.
        """
        new_ids = self._subscriptions.reserve_ids(len(subscriptions))
        new = [one._replace(id=new_id) for new_id, one in zip(new_ids, subscriptions, strict=True)]
        ruled = self.has_rules(new[0].user_id, session)
        docs = [_new(one.id, one, pending=one.feed_id in pending, has_rules=ruled) for one in new]
        try:
            self._subscriptions.get(new[0].user_id, session).insert_many(docs, session=session)
        except BulkWriteError as e:
            if any(error["code"] != DUPLICATE_KEY for error in e.details["writeErrors"]):
                raise
            raise ExistsError("You're already subscribed to one of these feeds.") from e
        return new

    @translate_errors
    def find(self, user_id: int, feed_id: int) -> Subscription | None:
        """Return a user's subscription to a feed."""
        return next(iter(self.find_by_user(user_id, [feed_id])), None)

    @translate_errors
    def find_by_user(self, user_id: int, feed_ids: Sequence[int] | None = None) -> list[Subscription]:
        """Return a user's subscriptions, all or those to these feeds."""
        if feed_ids is None:
            return list(self._find_all(user_id).values())
        if (every := self._peek(user_id)) is not None:
            return [every[f] for f in dict.fromkeys(feed_ids) if f in every]

        def _fetch(missing: Sequence[int]) -> dict[int, Subscription]:
            return {s.feed_id: s for s in self._find({"user_id": user_id, "feed_id": {"$in": list(missing)}})}

        return list(identity_map.find_each("subscriptions", f"of {user_id}", feed_ids, _fetch).values())

    def _find_all(self, user_id: int) -> dict[int, Subscription]:
        def _fetch() -> dict[int, Subscription]:
            return {s.feed_id: s for s in self._find({"user_id": user_id})}

        return identity_map.find_once("subscriptions", "all", user_id, _fetch)

    def _peek(self, user_id: int) -> dict[int, Subscription] | None:
        """Return all of a user's subscriptions by feed id, if this request has read them."""
        every: dict[int, Subscription] | None = identity_map.get_value("subscriptions", "all", user_id)
        return every

    def _find(self, query: Doc, hint: str | None = None) -> list[Subscription]:
        found = raw_replies.fetch_documents(self._subscriptions.get(query["user_id"]), query, hint=hint)
        return list(map(raw_read_states.decode_subscription, found))

    @translate_errors
    def find_in_folders(self, user_id: int, folder_ids: Sequence[int]) -> list[Subscription]:
        """Return a user's subscriptions in any of these folders."""
        query = {"user_id": user_id, "folder_ids": {"$in": list(folder_ids)}}
        # Without the hint MongoDB often uses the index of all the user's subscriptions.
        return self._find(query, "user_folder")

    @translate_errors
    def find_people(self, user_id: int) -> list[Subscription]:
        """Return a user's subscriptions to people."""
        if (every := self._peek(user_id)) is not None:
            return [s for s in every.values() if s.person]

        def _fetch() -> list[Subscription]:
            return self._find({"user_id": user_id, "person": True}, "user_people")

        return list(identity_map.find_once("subscriptions", "people", user_id, _fetch))

    @translate_errors
    def filter_followed(self, user_id: int, feed_ids: Sequence[int]) -> set[int]:
        """Return which of these feeds are streams of people whom a user follows."""
        people: list[Subscription] | None = identity_map.get_value("subscriptions", "people", user_id)
        if people is None:
            people = self.find_by_user(user_id, feed_ids)
        return {s.feed_id for s in people if s.person}.intersection(feed_ids)

    @translate_errors
    def count_common(self, user_ids: Sequence[int], feed_ids: Sequence[int]) -> dict[int, int]:
        """Return how many of these feeds each user subscribes to.

        Users with none are left out, and those whose cell isn't responding.
        """
        count = {"$group": {"_id": "$user_id", "count": {"$sum": 1}}}

        def _read_cell(subscriptions: Collection[Doc], found: list[int]) -> dict[int, int]:
            # Nobody learns that someone reads a feed that they keep private.
            query = {"user_id": {"$in": found}, "feed_id": {"$in": list(feed_ids)}, "private": None}
            rows = subscriptions.aggregate([{"$match": query}, count], hint="user_feed")
            return {d["_id"]: d["count"] for d in rows}

        return dict(
            itertools.chain.from_iterable(
                counts.items() for counts in self._subscriptions.read_groups(user_ids, _read_cell)
            )
        )

    @translate_errors
    def set_muted(self, user_id: int, feed_id: int, muted: bool) -> bool:
        """Mute or unmute a followed person; return False if the user doesn't follow them."""
        update = {"$set": {"muted": True}} if muted else {"$unset": {"muted": ""}}
        query = {"user_id": user_id, "feed_id": feed_id, "person": True}
        return bool(self._subscriptions.get(user_id).update_one(query, update).matched_count)

    @translate_errors
    def find_followers(self, feed_id: int, after: int, limit: int) -> list[tuple[int, int]]:
        """Return (subscription id, user id) of a person's followers, latest first; keyset by id."""
        query: Doc = {"feed_id": feed_id, "person": True}
        if after:
            query["_id"] = {"$lt": after}

        def _read_cell(subscriptions: Collection[Doc]) -> list[tuple[int, int]]:
            found = subscriptions.find(query, {"user_id": 1}).sort("_id", -1).limit(limit).hint("people")
            return [(d["_id"], d["user_id"]) for d in found]

        found = self._subscriptions.read_each(_read_cell)
        # Someone who is being moved is in two cells.
        return found[0] if len(found) == 1 else sorted(set(itertools.chain(*found)), reverse=True)[:limit]

    @translate_errors
    def find_by_feed(self, feed_id: int, limit: int, session: Session | None = None) -> list[Subscription]:
        """Return at most ``limit`` subscriptions to a feed."""
        found: list[Subscription] = []
        for subscriptions in self._raw.iterate_tables():
            mine = get_own_session(subscriptions.database, session)
            docs = subscriptions.find({"feed_id": feed_id}, limit=limit - len(found), session=mine)
            found += [raw_read_states.decode_subscription(bytes(doc.raw)) for doc in docs]
            if len(found) == limit:
                break
        return found

    @translate_errors
    def find_readers(self, feed_ids: Iterable[int]) -> dict[int, list[int]]:
        """Return the users who subscribe to these feeds and haven't paused them, by feed."""
        readers: dict[int, dict[int, None]] = {}  # someone who is being moved is in two cells
        query = {"feed_id": {"$in": list(feed_ids)}, "paused": None}

        def _read_cell(subscriptions: Collection[Doc]) -> None:
            for doc in subscriptions.find(query, {"_id": 0, "feed_id": 1, "user_id": 1}):
                readers.setdefault(doc["feed_id"], {})[doc["user_id"]] = None

        self._subscriptions.read_each(_read_cell)
        return {feed_id: list(users) for feed_id, users in readers.items()}

    @translate_errors
    def find_notified(self, feed_ids: Iterable[int], after: int, limit: int) -> list[tuple[int, int]]:
        """Return (feed, user) of the next readers who are notified of new entries, by ascending user id.

        Args:
            after: the user id of the previous batch's last reader, or 0.
            limit: most readers, in all stores together.
        """
        query: Doc = {"feed_id": {"$in": list(feed_ids)}, "notify": True, "paused": None}
        if after:
            query["user_id"] = {"$gt": after}

        def _read_cell(subscriptions: Collection[Doc]) -> list[tuple[int, int]]:
            found = subscriptions.find(query, {"_id": 0, "feed_id": 1, "user_id": 1}).hint("notified_users")
            return [(doc["feed_id"], doc["user_id"]) for doc in found.sort("user_id").limit(limit)]

        found = itertools.chain.from_iterable(self._subscriptions.read_each(_read_cell))
        # Someone who is being moved is in two cells.
        return sorted(set(found), key=lambda pair: (pair[1], pair[0]))[:limit]

    @translate_errors
    def find_full_text_feeds(self, feed_ids: Iterable[int]) -> set[int]:
        """Return the feeds among these of which someone reads the full texts."""
        query = {"feed_id": {"$in": list(feed_ids)}, "full_text": True, "paused": None}

        def _read_cell(subscriptions: Collection[Doc]) -> set[int]:
            found = subscriptions.find(query, {"_id": 0, "feed_id": 1}).hint("full_text")
            return {doc["feed_id"] for doc in found}

        return set[int]().union(*self._subscriptions.read_each(_read_cell))

    # -- rules
    @translate_errors
    def has_rules(self, user_id: int, session: Session) -> bool:
        """Return whether a user has rules that are switched on, or saved searches that notify."""
        query = {"user_id": user_id, "$or": [{"on": True}, {"alerts.0": {"$exists": True}}]}
        found = self._rules.get(user_id, session).find_one(query, {"_id": 1}, session=session)
        return found is not None

    @translate_errors
    def move_rules(
        self, user_id: int, feed_id: int, target_id: int, session: Session
    ) -> dict[int, list[int]]:
        """Let a user's rules that are for a feed be for another one, which takes its place.

        Returns:
            The feeds that these rules had before, by the rule's id.
        """
        other = {"$cond": [{"$eq": ["$$feed", Int64(feed_id)]}, Int64(target_id), "$$feed"]}
        feeds = {"$map": {"input": "$$rule.feeds", "as": "feed", "in": other}}
        rule = {"$mergeObjects": ["$$rule", {"feeds": {"$setUnion": [feeds, []]}}]}  # each feed once
        update: list[Doc] = [
            {
                "$set": {
                    "rules": {"$map": {"input": "$rules", "as": "rule", "in": rule}},
                    "rev": {"$add": ["$rev", Int64(1)]},
                }
            }
        ]
        query = {"user_id": user_id, "rules.feeds": feed_id}
        was = find_and_update(self._rules.get(user_id, session), query, update, session)
        rules = was["rules"] if was else ()
        return {rule["id"]: list(rule["feeds"]) for rule in rules if feed_id in rule["feeds"]}

    @translate_errors
    def restore_rules(
        self,
        user_id: int,
        feed_id: int,
        target_id: int,
        before: Mapping[int, Sequence[int]],
        session: Session,
    ) -> None:
        """Undo :meth:`move_rules` for the rules that it changed, as far as they are still for the other feed.

        Args:
            before: the result of :meth:`move_rules`.
        """
        table = self._rules.get(user_id, session)
        doc = table.find_one({"user_id": user_id}, {"rules": 1}, session=session) if before else None
        changes = dict[str, list[Int64]]()
        for place, rule in enumerate(doc["rules"] if doc else ()):
            if rule["id"] not in before or target_id not in rule["feeds"]:
                continue
            left = {target_id} - set(before[rule["id"]])
            feeds = sorted({*rule["feeds"], feed_id} - left)
            changes[f"rules.{place}.feeds"] = list(map(Int64, feeds))
        if changes:
            update = {"$set": changes, "$inc": {"rev": Int64(1)}}
            table.update_one({"user_id": user_id}, update, session=session)

    @translate_errors
    def has_ruled(self) -> bool:
        """Return whether anyone has rules."""

        def _read_cell(subscriptions: Collection[Doc]) -> bool:
            return subscriptions.find_one(_RULED, {"_id": 1}, hint="ruled") is not None

        return any(self._subscriptions.read_each(_read_cell))

    @translate_errors
    def find_ruled(self, feed_ids: Sequence[int]) -> tuple[list[RuledReader], bool]:
        """Return the readers of these feeds who have rules, and whether all cells are responding."""
        query = {"feed_id": {"$in": list(feed_ids)}, **_RULED}
        flags = ("person", "notify", "muted")
        shown = dict.fromkeys(("user_id", "feed_id", "ruled", "title", "folder_ids", *flags), 1)

        def _read_cell(subscriptions: Collection[Doc]) -> list[RuledReader]:
            found = subscriptions.find(query, {"_id": 0, **shown}, hint="ruled")
            return [
                RuledReader(
                    d["user_id"],
                    d["feed_id"],
                    d["ruled"],
                    d.get("title", ""),
                    tuple(d.get("folder_ids", ())),
                    d.get("person", False),
                    d.get("notify", False),
                    d.get("muted", False),
                )
                for d in found
            ]

        readers = dict[tuple[int, int], RuledReader]()
        # Someone who is being moved is in two cells.
        by_cell = self._subscriptions.read_each(_read_cell)
        for one in itertools.chain.from_iterable(by_cell):
            known = readers.get((one.user_id, one.feed_id))
            if known is None or known.ruled < one.ruled:
                readers[one.user_id, one.feed_id] = one
        return list(readers.values()), self._has_all(by_cell)

    @translate_errors
    def start_rules(self, user_id: int, last_seqs: Mapping[int, int]) -> None:
        """Try a user's rules on entries above these numbers (feed → number), where that hasn't begun yet."""
        writes = [
            UpdateOne(
                {"user_id": user_id, "feed_id": feed_id, "ruled": None}, {"$set": {"ruled": Int64(seq)}}
            )
            for feed_id, seq in last_seqs.items()
        ]
        if writes:
            self._subscriptions.get(user_id).bulk_write(writes, ordered=False)

    @translate_errors
    def stop_rules(self, user_id: int) -> None:
        """Try no rules of a user anymore."""
        self._subscriptions.get(user_id).update_many(
            {"user_id": user_id, "ruled": {"$ne": None}}, {"$unset": {"ruled": ""}}
        )

    @translate_errors
    def pass_ruled(self, passed: Sequence[RuleMarks]) -> set[int]:
        """Record that rules had nothing to do with entries of many users.

        Returns:
            The users whose record may be missing, because they move or their cell isn't responding.
        """

        def _write(subscriptions: Collection[Any], users: list[int]) -> None:
            mine = set(users)
            writes = [UpdateOne(*_build_ruled(one)) for one in passed if one.user_id in mine]
            subscriptions.bulk_write(writes, ordered=False)

        return self._subscriptions.write_groups({one.user_id: None for one in passed}, _write)

    @translate_errors
    def apply_rules(self, marks: RuleMarks, session: Session) -> bool:
        """Set what a user's rules do with entries of a feed, and up to which number they were tried.

        Returns:
            False: they were tried on these entries already, or the subscription is gone; nothing has changed.
        """
        query, update = _build_ruled(marks)
        table = self._subscriptions.get(marks.user_id, session)
        return bool(table.update_one(query, update, session=session).matched_count)

    @translate_errors
    def add_rule_marks(self, marks: RuleMarks) -> None:
        """Set what a rule does with past entries; a repeat changes nothing."""
        query = {"user_id": marks.user_id, "feed_id": marks.feed_id}
        if update := _build_rule_bits(marks):
            self._subscriptions.get(marks.user_id).update_one(query, update)

    @translate_errors
    def remove_rule_marks(self, marks: RuleMarks) -> None:
        """Mark entries as unread, and no longer hide or highlight them; a repeat changes nothing."""
        bits: Doc = {}
        for name, seqs in _group_numbers(marks).items():
            bits |= {f"{name}.{n}": {"and": Int64(~mask)} for n, mask in build_word_masks(seqs).items()}
        if bits:
            query = {"user_id": marks.user_id, "feed_id": marks.feed_id}
            update = {"$bit": bits, "$addToSet": {"unread": {"$each": list(marks.read)}}}
            self._subscriptions.get(marks.user_id).update_one(query, {**update, "$inc": {"rev": Int64(1)}})

    @translate_errors
    def find_readers_in_parts(
        self, feed_ids: Iterable[int], count: int, visit: Callable[[Sequence[tuple[int, int]]], bool]
    ) -> None:
        """Call ``visit`` with (feed, user) of readers of these feeds, ``count`` at a time, until it is false.

        A feed may have very many readers, of whom only some are in memory at a time.
        """
        query = {"feed_id": {"$in": list(feed_ids)}, "paused": None}
        shown = {"_id": 0, "feed_id": 1, "user_id": 1}
        is_over = False

        def _read_cell(subscriptions: Collection[Doc]) -> None:
            nonlocal is_over
            with subscriptions.find(query, shown, batch_size=count) as cursor:
                while not is_over and (
                    found := [(d["feed_id"], d["user_id"]) for d in itertools.islice(cursor, count)]
                ):
                    is_over = not visit(found)

        self._subscriptions.read_each(_read_cell)

    @translate_errors
    def find_feed_ids(self, user_id: int) -> list[int]:
        """Return the feeds a user is subscribed to."""
        if (every := self._peek(user_id)) is not None:
            return list(every)

        def _fetch() -> list[int]:
            found = raw_replies.fetch_documents(
                self._subscriptions.get(user_id), {"user_id": user_id}, {"_id": 0, "feed_id": 1}
            )
            return list(raw_read_states.decode_feed_ids(found))

        return list(identity_map.find_once("subscriptions", "feed ids", user_id, _fetch))

    @translate_errors
    def count(self, user_id: int) -> int:
        """Return how many subscriptions a user has."""
        return self._subscriptions.get(user_id).count_documents({"user_id": user_id})

    @translate_errors
    def update(
        self,
        user_id: int,
        feed_id: int,
        changes: Mapping[str, Any],
        *,
        add: Sequence[int] = (),
        remove: Sequence[int] = (),
        save: PageSave | None = None,
    ) -> bool:
        """Set title or folder_ids, or add folders and remove others, in one write.

        Returns:
            False if there is no such subscription, or a later save of the same page came first.
        """
        fields: Doc = {name: {"$literal": value} for name, value in changes.items()}
        if add or remove:
            fields["folder_ids"] = _change_folders(add, remove)
        query = {"user_id": user_id, "feed_id": feed_id, **match_current(save)}
        update = [{"$set": {**fields, **note_save(save)}}]
        return bool(self._subscriptions.get(user_id).update_one(query, update).matched_count)

    @translate_errors
    def remove_from_folder(self, user_id: int, folder_id: int) -> None:
        """Remove all of a user's subscriptions from a folder."""
        self._subscriptions.get(user_id).update_many(
            {"user_id": user_id, "folder_ids": folder_id}, {"$pull": {"folder_ids": folder_id}}
        )

    @translate_errors
    def remove(
        self, user_id: int, feed_id: int, session: Session, only_id: int | None = None
    ) -> Subscription | None:
        """Delete a subscription and return it as it was; None: there is no such subscription.

        Args:
            only_id: its id; another subscription to the same feed stays.
        """
        query = {"user_id": user_id, "feed_id": feed_id}
        if only_id is not None:
            query["_id"] = only_id
        doc = self._raw.get(user_id, session).find_one_and_delete(query, session=session)
        return raw_read_states.decode_subscription(bytes(doc.raw)) if doc else None

    @translate_errors
    def add_to_folder(self, user_id: int, feed_ids: Sequence[int], folder_id: int) -> None:
        """Add a user's subscriptions to these feeds to a folder."""
        self._subscriptions.get(user_id).update_many(
            {"user_id": user_id, "feed_id": {"$in": list(feed_ids)}}, {"$addToSet": {"folder_ids": folder_id}}
        )

    @translate_errors
    def clear_titles(self, user_id: int, titles: Mapping[int, str]) -> None:
        """Clear a user's own titles of subscriptions, given by feed, where they are still the same."""
        queries = [{"user_id": user_id, "feed_id": feed, "title": title} for feed, title in titles.items()]
        writes = [UpdateOne(query, {"$set": {"title": ""}}) for query in queries]
        if writes:
            self._subscriptions.get(user_id).bulk_write(writes, ordered=False)

    @translate_errors
    def update_folders(
        self,
        user_id: int,
        feed_ids: Sequence[int],
        add: Sequence[int],
        remove: Sequence[int] | None,
        key: tuple[int, str] | None = None,
    ) -> None:
        """Add subscriptions to folders and remove them from others, in one commutative write.

        Args:
            remove: None: from all folders except those in ``add``.
            key: a folder, and the sort key in it.
        """
        changes: Doc = {"folder_ids": _change_folders(add, remove)}
        if key is not None:
            changes[f"orders.{key[0]}"] = {"$literal": key[1]}
        self._subscriptions.get(user_id).update_many(
            {"user_id": user_id, "feed_id": {"$in": list(feed_ids)}}, [{"$set": changes}]
        )

    @translate_errors
    def reorder_feeds(self, user_id: int, folder: int, moves: Sequence[tuple[int, str, str]]) -> None:
        """Set sort keys of feeds in a folder (feed, old key, new key), unless they were moved meanwhile."""
        field = f"orders.{folder}"
        self._subscriptions.get(user_id).bulk_write(
            [
                UpdateOne(
                    {"user_id": user_id, "feed_id": f, field: old or {"$in": ["", None]}},
                    {"$set": {field: new}},
                )
                for f, old, new in moves
            ],
            ordered=False,
        )

    @translate_errors
    def set_private(self, user_id: int, feed_id: int, private: bool, session: Session | None = None) -> bool:
        """Keep a feed private, or not anymore; return False if the user doesn't subscribe to it."""
        update = {"$set": {"private": True}} if private else {"$unset": {"private": ""}}
        query = {"user_id": user_id, "feed_id": feed_id, "person": None}
        return bool(
            self._subscriptions.get(user_id, session).update_one(query, update, session=session).matched_count
        )

    @translate_errors
    def filter_private(self, feed_id: int, user_ids: set[int]) -> set[int]:
        """Return which of these users keep a feed private."""
        private: set[int] = set()
        for subscriptions, people in self._subscriptions.group_by_people(user_ids):
            query = {"user_id": {"$in": people}, "feed_id": feed_id, "private": True}
            private |= {d["user_id"] for d in subscriptions.find(query, {"user_id": 1}).hint("user_feed")}
        return private

    @translate_errors
    def set_paused(self, user_id: int, feed_id: int, paused: bool, session: Session) -> bool:
        """Pause or resume a subscription; return False if that changed nothing."""
        query = {"user_id": user_id, "feed_id": feed_id, "paused": None if paused else True}
        update = {"$set": {"paused": True}} if paused else {"$unset": {"paused": ""}}
        return bool(
            self._subscriptions.get(user_id, session)
            .update_one(query, update, session=session)
            .modified_count
        )

    @translate_errors
    def set_many_paused(
        self, user_id: int, feed_ids: Sequence[int], paused: bool, session: Session
    ) -> list[int]:
        """Pause or resume subscriptions to fetched feeds; return the feeds of those that changed."""
        subscriptions = self._subscriptions.get(user_id, session)
        query: Doc = {"user_id": user_id, "feed_id": {"$in": list(feed_ids)}, "person": None}
        query["paused"] = None if paused else True
        changed = [doc["feed_id"] for doc in subscriptions.find(query, {"feed_id": 1}, session=session)]
        update = {"$set": {"paused": True}} if paused else {"$unset": {"paused": ""}}
        subscriptions.update_many({"user_id": user_id, "feed_id": {"$in": changed}}, update, session=session)
        return changed

    @translate_errors
    def remove_many(self, user_id: int, feed_ids: Sequence[int], session: Session) -> list[Subscription]:
        """Delete subscriptions, and return those that existed."""
        query = {"user_id": user_id, "feed_id": {"$in": list(feed_ids)}}
        found = [
            raw_read_states.decode_subscription(bytes(d.raw))
            for d in self._raw.get(user_id, session).find(query, session=session)
        ]
        self._subscriptions.get(user_id, session).delete_many(query, session=session)
        return found

    @translate_errors
    def set_start(self, starts: Mapping[int, int]) -> None:
        """Set where reading starts (feed → upto) for people who subscribed before a feed had entries."""
        operations = list[UpdateMany]()
        for feed_id, upto in starts.items():
            pending = {"feed_id": feed_id, "pending": True}
            start: Doc = {"$max": {"upto": Int64(upto)}, "$unset": {"pending": ""}, "$inc": {"rev": Int64(1)}}
            # Rules first, because the second update ends what the first one looks for.
            operations += [
                UpdateMany({**pending, **_RULED}, {"$max": {"ruled": Int64(upto)}}),
                UpdateMany(pending, start),
            ]
        if operations:
            done = self._subscriptions.read_each(lambda one: one.bulk_write(operations, ordered=True))
            if not self._has_all(done):
                # A cell isn't responding: the relay does this once it does.
                add_missed_feeds(self._subscriptions.home, list(starts))

    def _has_all(self, by_cell: Sequence[object]) -> bool:
        """Return whether there is a result of each store."""
        return not self._subscriptions.is_spread or len(by_cell) >= self._subscriptions.store_count

    @translate_errors
    def mark(self, user_id: int, feed_id: int, seqs: Sequence[int], *, read: bool) -> StateBefore | None:
        """Mark entries of one feed, atomically, without reading the state.

        Bitmap and kept-unread numbers are both written, regardless of ``upto`` (see :class:`ReadState`), so
        this commutes with a mass mark on another device.

        Returns:
            The state before; None: the user is not subscribed.
        """
        query = {"user_id": user_id, "feed_id": feed_id}
        update = _build_mark(seqs, read=read)
        doc = self._subscriptions.get(user_id).find_one_and_update(query, update, projection=_STATE)
        return _read_state(doc) if doc else None

    def get_election(self, user_id: int) -> object:
        """Return an id that changes with each restart and failover; None: there may be several logs."""
        client = self._subscriptions.get(user_id).database.client
        for server in client.topology_description.server_descriptions().values():
            if server.server_type_name == "RSPrimary":
                return server.election_id, (server.topology_version or {}).get("processId")
        return None

    @translate_errors
    def mark_together(
        self, user_id: int, seqs: Mapping[int, Sequence[int]], *, read: bool
    ) -> dict[int, StateBefore] | None:
        """Mark entries of several feeds as :meth:`mark` does, but wait for the disk only once.

        MongoDB's log is sequential, so the confirmation of the last write includes all writes before it, also
        those of other collections. This isn't true if the server restarts in between and the driver repeats
        the last write. So these writes aren't repeated. The driver may also notice a restart between two
        writes and send the second one to the new server, and the person may have moved to another cell:
        callers compare :meth:`get_election`.

        Returns:
            The states before, by feed; None: the connection broke, and none of the writes is certain.

        Raises:
            MovingError: the person is being moved; some of the writes may be done.
        """
        found = dict[int, StateBefore]()
        for place, (feed_id, numbers) in enumerate(seqs.items(), 1):
            # Each time: a move waits for one command, not for all of them.
            database = self._subscriptions.get_database(user_id, write=True)
            try:
                reply = database.command(
                    "findAndModify",
                    self._subscriptions.name,
                    query={"user_id": user_id, "feed_id": feed_id},
                    update=_build_mark(numbers, read=read),
                    fields=_STATE,
                    writeConcern=_SAFE if place == len(seqs) else _FAST,
                )
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # no time is left to repeat anything
            except AutoReconnect:
                return None
            if "writeConcernError" in reply:
                return None
            if (doc := reply["value"]) is not None:
                found[feed_id] = _read_state(doc)
        return found

    @translate_errors
    def replace_states(self, user_id: int, replacements: Sequence[StateReplacement]) -> int:
        """Replace the read states that have not changed since they were read; return how many.

        One statement handles many subscriptions: the values are in arrays, and each document finds its own
        position in them. A statement per subscription would cost MongoDB three times as much. Statements run
        concurrently: no two affect the same subscription, and MongoDB has more than one core.
        """
        chunks = list(_chunks(replacements))
        if len(chunks) < 2:
            return sum(self._replace(user_id, chunk) for chunk in chunks)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            # In copies of this context, so that the identity map drops the states that the threads write.
            done = [pool.submit(copy_context().run, self._replace, user_id, chunk) for chunk in chunks]
            return sum(future.result() for future in done)

    def _replace(self, user_id: int, replaces: Sequence[StateReplacement]) -> int:
        feeds = [Int64(r.was.feed_id) for r in replaces]
        same = {"$eq": ["$rev", _at_place([Int64(r.was.rev) for r in replaces])]}
        new = [_new_state(replaces), {"rev": {"$add": ["$rev", Int64(1)]}}]
        chosen = {"$cond": [same, {"$mergeObjects": ["$$ROOT", *new]}, "$$ROOT"]}
        place = {"$indexOfArray": [{"$literal": feeds}, "$feed_id"]}
        result = self._subscriptions.get(user_id).update_many(
            {"user_id": user_id, "feed_id": {"$in": feeds}},
            [{"$replaceWith": {"$let": {"vars": {"place": place}, "in": chosen}}}],
        )
        return result.modified_count


def _build_mark(seqs: Sequence[int], *, read: bool) -> Doc:
    masks = build_word_masks(seqs)
    if read:
        bits: Doc = {f"words.{n}": {"or": Int64(mask)} for n, mask in masks.items()}
        update: Doc = {"$bit": bits, "$pull": {"unread": {"$in": list(seqs)}}}
    else:
        bits = {f"words.{n}": {"and": Int64(~mask)} for n, mask in masks.items()}
        update = {"$bit": bits, "$addToSet": {"unread": {"$each": list(seqs)}}}
    return {**update, "$inc": {"rev": Int64(1)}}


def _build_ruled(marks: RuleMarks) -> tuple[Doc, Doc]:
    """Return the query and the update of rules that were tried; a repeat finds nothing to change."""
    query = {"user_id": marks.user_id, "feed_id": marks.feed_id, "ruled": Int64(marks.ruled)}
    update: Doc = {"$set": {"ruled": Int64(marks.upto)}}
    return query, update | _build_rule_bits(marks)


def _group_numbers(marks: RuleMarks) -> dict[str, Sequence[int]]:
    """Return the numbers of marks by the field of their bitmap."""
    by = {f"highlighted_by.{rule}": seqs for rule, seqs in marks.highlighted_by.items()}
    return {"words": marks.read, "hidden": marks.hidden, "highlighted": marks.highlighted, **by}


def _build_rule_bits(marks: RuleMarks) -> Doc:
    # Hidden entries are read, so that no count includes them.
    read = sorted({*marks.read, *marks.hidden})
    bits: Doc = {}
    for name, seqs in {**_group_numbers(marks), "words": read}.items():
        bits |= {f"{name}.{n}": {"or": Int64(mask)} for n, mask in build_word_masks(seqs).items()}
    if not bits:
        return {}
    return {"$bit": bits, "$pull": {"unread": {"$in": read}}, "$inc": {"rev": Int64(1)}}


def encode_rule_marks(subscription: Subscription) -> Doc:
    """Return the stored form of the entries of a subscription that are hidden or highlighted."""
    numbers = {"hidden": subscription.hidden, "highlighted": subscription.highlighted}
    doc: Doc = {name: _encode_numbers(found) for name, found in numbers.items() if found.bits}
    if by := subscription.highlighted_by:
        doc["highlighted_by"] = {str(rule): _encode_numbers(found) for rule, found in by.items()}
    return doc


def _encode_numbers(numbers: RemovedEntries) -> Doc:
    return _encode_words(ReadState(0, numbers.bits, numbers.start))


def encode_orders(orders: Mapping[int, str]) -> Doc:
    """Return the stored form of sort keys in folders."""
    return {str(folder): key for folder, key in orders.items()}


def _new_state(replaces: Sequence[StateReplacement]) -> Doc:
    """Return the expression of a subscription's new state, by its position in ``replaces``."""
    mass = replaces[0].mass
    if any(r.state.bits or r.state.unread or r.mass != mass for r in replaces):
        return _at_place([{**_state(r.state), "mass": r.mass} for r in replaces])
    # Usually everything is read: then only one number differs, and 500 states need not be sent and parsed.
    same: Doc = {"words": {}, "unread": [], "mass": mass}
    return {
        "upto": _at_place([Int64(r.state.upto) for r in replaces]),
        **{name: {"$literal": value} for name, value in same.items()},
    }


def _at_place(values: Sequence[Any]) -> Doc:
    # A literal, because MongoDB would rebuild any other array for each document.
    return {"$arrayElemAt": [{"$literal": values}, "$$place"]}


def _chunks(replaces: Sequence[StateReplacement]) -> Iterator[Sequence[StateReplacement]]:
    """Yield the replacements per statement, with a limited number, and bitmaps far below 16 MiB."""
    start = size = 0
    for end, replace in enumerate(replaces):
        size += replace.state.bits.bit_length()
        if end > start and (end - start == PLACES or size > BITS):
            yield replaces[start:end]
            start, size = end, replace.state.bits.bit_length()
    if start < len(replaces):
        yield replaces[start:]


def _new(new_id: int, subscription: Subscription, *, pending: bool, has_rules: bool) -> Doc:
    doc: Doc = {
        # Order and types as app.mappers.subscriptions.raw_read_states expects them.
        "_id": Int64(new_id),
        "user_id": Int64(subscription.user_id),
        "feed_id": Int64(subscription.feed_id),
        "rev": Int64(0),
        **_state(subscription.state),
        "title": subscription.title,
        "folder_ids": list(subscription.folder_ids),
        "orders": encode_orders(subscription.orders),
    }
    if subscription.read_after:
        doc["read_after"] = subscription.read_after
    if subscription.keep_newest:
        doc["keep_newest"] = subscription.keep_newest
    if subscription.read_after_done:
        doc["read_after_done"] = Int64(subscription.read_after_done)
    for flag in raw_read_states.FLAGS:
        if getattr(subscription, flag):
            doc[flag] = True
    if pending:
        doc["pending"] = True
    doc |= encode_rule_marks(subscription)
    if has_rules:
        # Rules are tried on what is unread from the start.
        doc["ruled"] = Int64(subscription.ruled or subscription.state.upto)
    return doc


def _state(state: ReadState) -> Doc:
    return {
        "upto": Int64(state.upto),
        "words": _encode_words(state),
        "unread": [Int64(seq) for seq in state.unread],
    }


def _encode_words(state: ReadState) -> Doc:
    return {key: Int64(word) for key, word in state.to_words().items()}


def _read_state(doc: Doc) -> StateBefore:
    bits, start = from_words(doc.get("words") or {})
    state = ReadState(doc["upto"], bits, start, tuple(doc.get("unread", ())))
    return StateBefore(state, doc.get("keep_newest", 0))


def _change_folders(add: Sequence[int], remove: Sequence[int] | None) -> Doc:
    """Return the new ``folder_ids``; ``remove``: None: all except those in ``add``."""
    mine, new = {"$ifNull": ["$folder_ids", []]}, [Int64(f) for f in add]
    gone = {"$not": [{"$in": ["$$this", [*map(Int64, remove or ())]]}]}
    kept: Any = {"$filter": {"input": mine, "cond": gone}} if remove is not None else []
    added = {"$filter": {"input": new, "cond": {"$not": [{"$in": ["$$this", kept]}]}}}
    return {"$concatArrays": [kept, added]}
