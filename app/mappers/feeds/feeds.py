"""Feeds: the collection ``feeds`` and its claims."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.int64 import Int64
from pymongo import ReturnDocument, WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError

from app.errors import ExistsError
from app.mappers.feeds.feed_states import (
    StateWrite,
    build_numbering_update,
    build_postpone_update,
    build_state_update,
    build_unchanged_updates,
)
from app.mappers.feeds.fetch_log import FIELD, WITHOUT_LOG, unpack_log
from app.mappers.mongo import ids, raw_replies
from app.mappers.mongo.cached_writes import CARD_FIELDS
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.outbox_rows import add_feeds_to_outbox, is_foreign
from app.mappers.mongo.shared_cache import SharedCache
from app.mappers.mongo.store import DUPLICATE_KEY, Doc, Session, find_and_update, is_duplicate
from app.models.accounts.user import build_avatar_path
from app.models.cache import CacheKind
from app.models.feeds.feed import (
    DueFeed,
    Feed,
    FeedCard,
    FeedKind,
    FeedPoll,
    NextCheck,
    Position,
    UnchangedPoll,
)
from app.models.feeds.fetch_log import FetchLog
from app.models.feeds.fetched import Validators
from app.models.feeds.hosts import parse_host
from app.models.media.icon import build_icon_path
from app.models.subscriptions.read_state import RemovedEntries, from_words
from app.runtime import identity_map
from app.runtime.version_cache import VersionCache

_DUE = dict.fromkeys(("url", "next_check_at", "subscribers", "slow"), 1)
_POSITION = {"first_seq": 1, "last_seq": 1, "last_entry_at": 1, "claim_token": 1, "stored_bytes": 1}
_CARD = dict.fromkeys(sorted(CARD_FIELDS), 1)
_POLL = dict.fromkeys(
    (
        *("url", "created", "read_at", "next_check_at", "validators", "ttl_minutes", "skip_hours"),
        *("history", "error", "moved_to", "claim_token", "claimed_until", "push_until", "torn"),
        *("other_url", "retry_at", "checked_at", "subscribers", "distrusted_at", "slow"),
        *("private_to", "sealed", "min_minutes", "max_minutes"),
    ),
    1,
)
#: Unset for a new address: another server may answer there, and other validators hold.
_OF_ADDRESS = {"validators": "", "distrusted_at": "", "slow": ""}
#: Unset for a new address, so that its icon is looked for.
_NO_ICON_TIME = {"icon_next": ""}
#: Clocks of several servers may differ by as much.
CLOCK_ERROR = dt.timedelta(minutes=1)
#: Times as milliseconds: converting to datetime cost more than reading the rest of the document.
_MILLISECONDS: CodecOptions[Doc] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
_PLAIN = tuple(f.name for f in dataclasses.fields(Feed) if f.name not in {"id", "kind", "validators", "seen"})

#: Cards that are worth reading the change log; fewer cost as little in MongoDB.
CARDS_MIN = 10
#: Seconds after which a card is read again in any case.
CARD_SECONDS = 600
#: Bytes of decoded cards in the cache. A card takes 1 to 2 KB, so more fit than one user may have feeds.
CARD_BYTES = 24 << 20
#: What a card takes besides its document.
_CARD_SPARE = 700


class FeedMapper:
    """Document ↔ :class:`Feed`."""

    def __init__(self, database: Database[Doc], cache: SharedCache | None = None) -> None:
        self._cache = cache
        self._feeds: Collection[Doc] = database["feeds"]
        # For writes that a crash may lose: claims, polls without news, and read times.
        self._unsafe = self._feeds.with_options(write_concern=WriteConcern(w=1))

    @translate_errors
    def add(self, url: str, url_key: str, title: str, now: dt.datetime) -> Feed:
        """Store a new feed that has not been polled yet.

        Raises:
            ExistsError: there is a feed with this key.
        """
        return self._insert(url, url_key, title, now, {})

    @translate_errors
    def add_private(self, url: str, url_key: str, user_id: int, title: str, now: dt.datetime) -> Feed:
        """Store a new feed that only one user may read; it is due once that user subscribes.

        Raises:
            ExistsError: there is a feed with this key.
        """
        return self._insert(url, url_key, title, now, {"private_to": Int64(user_id)})

    def _insert(self, url: str, url_key: str, title: str, now: dt.datetime, extra: Doc) -> Feed:
        while True:
            doc = _new(ids.reserve_ids(), url, url_key, title, now=now, due=now) | extra
            try:
                self._feeds.insert_one(doc)
                return _feed(doc)
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise ExistsError("This feed already exists.", url_key=url_key) from e

    @translate_errors
    def set_fetch_options(
        self, feed_id: int, user_id: int, sealed: bytes, limits: tuple[int | None, int | None]
    ) -> None:
        """Store how a user has their own feed fetched; the next fetch gets the whole document.

        Args:
            limits: minutes between two checks, at least and at most.
        """
        values: Doc = {"sealed": sealed, "min_minutes": limits[0], "max_minutes": limits[1]}
        change = {"$set": values, "$unset": _OF_ADDRESS}
        self._feeds.update_one({"_id": feed_id, "private_to": user_id}, change)

    @translate_errors
    def find_private(self, user_id: int) -> list[Feed]:
        """Return the feeds that only this user may read."""
        return [_feed(doc) for doc in self._feeds.find({"private_to": user_id}, WITHOUT_LOG).hint("private")]

    @translate_errors
    def add_many(self, urls: Mapping[str, str], now: dt.datetime, due: dt.datetime) -> None:
        """Store new feeds, given as address key → address, without titles; leave out those that exist.

        Very rarely, a feed whose id was taken is left out too.
        """
        first = ids.reserve_ids(len(urls))
        docs = [_new(first + n, url, key, "", now=now, due=due) for n, (key, url) in enumerate(urls.items())]
        try:
            self._feeds.insert_many(docs, ordered=False)
        except BulkWriteError as e:
            refused = any(error["code"] != DUPLICATE_KEY for error in e.details["writeErrors"])
            if refused or e.details.get("writeConcernErrors"):
                raise

    @translate_errors
    def find_by_keys(self, url_keys: Sequence[str]) -> dict[str, Feed]:
        """Return the feeds with these address keys, by key."""
        found = map(_feed, self._feeds.find({"url_key": {"$in": list(url_keys)}}, WITHOUT_LOG))
        return {feed.url_key: feed for feed in found}

    @translate_errors
    def find_icons_by_keys(self, url_keys: Sequence[str]) -> dict[str, str]:
        """Return the paths of the icons that are stored for the feeds with these address keys, by key."""
        query = {"url_key": {"$in": list(url_keys)}, "icon_blob": {"$type": "binData"}}
        found = self._feeds.find(query, {"_id": 0, "url_key": 1, "icon_blob": 1})
        return {doc["url_key"]: build_icon_path(doc["icon_blob"]) for doc in found}

    @translate_errors
    def find_by_key(self, url_key: str) -> Feed | None:
        """Return the feed with this address key."""

        def _fetch() -> Feed | None:
            doc = self._feeds.find_one({"url_key": url_key}, WITHOUT_LOG)
            return _feed(doc) if doc else None

        return identity_map.find_once("feeds", "address", url_key, _fetch)

    @translate_errors
    def find(self, feed_id: int) -> Feed | None:
        """Return a feed by id."""
        doc = self._feeds.find_one({"_id": feed_id}, WITHOUT_LOG)
        return _feed(doc) if doc else None

    @translate_errors
    def find_fetch_log(self, feed_id: int) -> FetchLog:
        """Return a feed's fetch log; an empty one if there is no such feed."""
        return unpack_log(feed_id, self._feeds.find_one({"_id": feed_id}, {FIELD: 1}) or {})

    @translate_errors
    def find_cards(self, feed_ids: Sequence[int]) -> dict[int, FeedCard]:
        """Return the data about these feeds that lists need, by id."""
        return identity_map.find_each("feeds", "card", feed_ids, self._fetch_cards)

    def _fetch_cards(self, feed_ids: Sequence[int]) -> dict[int, FeedCard]:
        cards = self._find_kept_cards(feed_ids)
        return cards | self._find_merged_icons(cards)

    def _find_kept_cards(self, feed_ids: Sequence[int]) -> dict[int, FeedCard]:
        """Return cards, from MongoDB those that this process hasn't read or that have changed.

        Cards of feeds that not everyone may see aren't kept: private ones, and people's streams.
        """
        cache = self._cache
        view = cache.get_view("feeds", worth=len(feed_ids) >= CARDS_MIN) if cache else None
        cards = cache.get_values(view, CacheKind.CARD, feed_ids) if cache and view else {}
        if missing := [i for i in feed_ids if i not in cards] if cards else feed_ids:
            found = raw_replies.fetch_documents(self._feeds, {"_id": {"$in": list(missing)}}, _CARD)
            new = {card.id: card for card in map(card_cache.decode, found)}
            if cache and view:
                kept = {i: card for i, card in new.items() if _is_open(card)}
                cache.keep(view, CacheKind.CARD, kept, CARD_SECONDS)
            cards |= new
        return cards

    def _find_merged_icons(self, cards: Mapping[int, FeedCard]) -> dict[int, FeedCard]:
        """Return the cards of merged feeds with the icons of the feeds that continue them.

        Entries that someone starred stay in the former feed, for whose icon nobody looks anymore.
        """
        bare = {c.id: c.merged_into for c in cards.values() if c.merged_into is not None and c.icon is None}
        into = self.find_cards(list(set(bare.values()))) if bare else {}
        return {i: cards[i]._replace(icon=into[to].icon) for i, to in bare.items() if to in into}

    @translate_errors
    def find_check_times(self, feed_ids: Sequence[int]) -> dict[int, dt.datetime]:
        """Return when these feeds were last checked successfully; leave out feeds that never were."""
        query = {"_id": {"$in": list(feed_ids)}, "checked_at": {"$type": "date"}}
        return {d["_id"]: d["checked_at"] for d in self._feeds.find(query, {"checked_at": 1})}

    @translate_errors
    def count_subscribers(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return how many people subscribe to each of these feeds, by id."""

        def _fetch(missing: Sequence[int]) -> dict[int, int]:
            found = self._feeds.find({"_id": {"$in": list(missing)}}, {"subscribers": 1})
            return {d["_id"]: d["subscribers"] for d in found}

        return identity_map.find_each("feeds", "subscribers", feed_ids, _fetch)

    @translate_errors
    def touch(self, feed_ids: Sequence[int], now: dt.datetime, before: dt.datetime) -> None:
        """Record that someone read these feeds, unless that was recorded after ``before``."""
        old = {"_id": {"$in": list(feed_ids)}, "read_at": {"$not": {"$gt": before}}}
        self._unsafe.update_many(old, {"$set": {"read_at": now}})

    @translate_errors
    def find_without_gain(self, feed_ids: Sequence[int], misses: int) -> set[int]:
        """Return the feeds whose last pages said hardly more than the feed, so many times in a row."""
        query = {"_id": {"$in": list(feed_ids)}, "page_misses": {"$gte": misses}}
        return {doc["_id"] for doc in self._feeds.find(query, {"_id": 1})}

    @translate_errors
    def record_gain(self, feed_id: int, *, has_gain: bool) -> None:
        """Record whether a page said more than its feed."""
        change = {"$unset": {"page_misses": ""}} if has_gain else {"$inc": {"page_misses": 1}}
        self._feeds.update_one({"_id": feed_id}, change)

    @translate_errors
    def mark_texts(self, feed_id: int, now: dt.datetime, session: Session) -> None:
        """Record that the search index needs texts of pages that were found for this feed's entries.

        The times always grow: an indexer of earlier news then can't record that all is indexed.
        """
        times = {name: {"$max": [now, {"$add": [f"${name}", 1]}]} for name in ("index_at", "news_at")}
        self._feeds.update_one({"_id": feed_id}, [{"$set": times}], session=session)

    @translate_errors
    def find_last_news(self, feed_id: int) -> dt.datetime | None:
        """Return the time of a feed's last new text, of its own or of a page; None: it never had one."""
        doc = self._feeds.find_one({"_id": feed_id}, {"news_at": 1})
        return doc.get("news_at") if doc else None

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[DueFeed]:
        """Return feeds that are due and not being polled, longest overdue first."""
        found = raw_replies.fetch_documents(self._feeds, _due(now), _DUE, sort="next_check_at", limit=limit)
        return [
            DueFeed(d["_id"], parse_host(d["url"]), d["next_check_at"], d["subscribers"], bool(d.get("slow")))
            for d in bson.decode_all(b"".join(found), self._feeds.codec_options)
        ]

    @translate_errors
    def count_due(self, now: dt.datetime, limit: int) -> int:
        """Return how many feeds :meth:`find_due` would find, counted up to ``limit``."""
        return self._feeds.count_documents(_due(now), limit=limit)

    @translate_errors
    def find_polls(self, feed_ids: Sequence[int]) -> list[FeedPoll]:
        """Return the data that polling these feeds needs, without claiming them."""
        # Shared streams aren't fetched.
        query = {"_id": {"$in": list(feed_ids)}, "kind": FeedKind.WEB.value}
        batches: Any = self._feeds.find_raw_batches(query, _POLL, batch_size=10_000)
        return [_poll(d) for batch in batches for d in bson.decode_all(batch, _MILLISECONDS)]

    @translate_errors
    def record_unchanged(self, polls: Sequence[UnchangedPoll], now: dt.datetime) -> None:
        """Record that polls at ``now`` found nothing; feeds that another pull claimed don't change."""
        self._unsafe.bulk_write(build_unchanged_updates(polls, now), ordered=False)

    @translate_errors
    def postpone_checks(self, next_checks: Sequence[NextCheck], now: dt.datetime) -> None:
        """Postpone feeds that were not fetched; feeds that are not due yet keep an earlier time."""
        query, pipeline = build_postpone_update(next_checks, now)
        self._unsafe.update_many(query, pipeline)

    @translate_errors
    def claim(
        self,
        feed_ids: Sequence[int],
        token: str,
        now: dt.datetime,
        until: dt.datetime,
        *,
        dead_tokens: Sequence[str] = (),
    ) -> list[Feed]:
        """Claim and return the feeds that are unclaimed, expired, or held by one of ``dead_tokens``."""
        wanted, taken = list(feed_ids), {"claim_token": token, "claimed_until": until}
        unheld = {"_id": {"$in": wanted}, "claim_token": None}
        if self._unsafe.update_many(unheld, {"$set": taken}).matched_count < len(wanted):
            self._take_over(wanted, taken, now, dead_tokens)
        return [
            _feed(d) for d in self._feeds.find({"_id": {"$in": wanted}, "claim_token": token}, WITHOUT_LOG)
        ]

    def _take_over(
        self, feed_ids: list[int], taken: Doc, now: dt.datetime, dead_tokens: Sequence[str]
    ) -> None:
        """Claim feeds whose holder is dead or late, and mark that it may have left entries."""
        late = {"claimed_until": {"$not": {"$gt": now}}}
        held: Doc = {"_id": {"$in": feed_ids}, "claim_token": {"$nin": [None, taken["claim_token"]]}}
        held["$or"] = [late, {"claim_token": {"$in": list(dead_tokens)}}]
        self._unsafe.update_many(held, {"$set": {**taken, "torn": True}})

    @translate_errors
    def release(self, token: str, feed_ids: Sequence[int]) -> None:
        """Release claims without a change."""
        self._feeds.update_many(
            {"_id": {"$in": list(feed_ids)}, "claim_token": token},
            {"$unset": {"claim_token": "", "claimed_until": ""}},
        )

    @translate_errors
    def find_positions(self, claims: Iterable[tuple[int, str]]) -> dict[int, Position]:
        """Return the numbering of the feeds whose claim is still valid."""
        tokens = dict(claims)
        found = self._feeds.find({"_id": {"$in": list(tokens)}}, _POSITION)
        return {d["_id"]: _position(d) for d in found if d.get("claim_token") == tokens[d["_id"]]}

    @translate_errors
    def lock(self, feed_id: int, token: str, session: Session) -> Position | None:
        """Lock a feed for this transaction; return None if another pull has taken over the claim."""
        query = {"_id": feed_id, "claim_token": token}
        doc = find_and_update(self._feeds, query, {"$inc": {"writes": 1}}, session, projection=_POSITION)
        return _position(doc) if doc else None

    @translate_errors
    def write_states(self, writes: Sequence[StateWrite], session: Session | None = None) -> set[int]:
        """Write states and release their claims; return the feeds whose claim was still valid."""
        if not writes:
            return set()
        operations = [build_state_update(write) for write in writes]
        if self._feeds.bulk_write(operations, ordered=False, session=session).matched_count == len(writes):
            return {w.feed_id for w in writes}
        # Documents keep the last writer's token, which shows the feeds that did match.
        query = {
            "_id": {"$in": [w.feed_id for w in writes]},
            "written_by": {"$in": list({w.token for w in writes})},
        }
        found = {
            d["_id"]: d["written_by"] for d in self._feeds.find(query, {"written_by": 1}, session=session)
        }
        return {w.feed_id for w in writes if found.get(w.feed_id) == w.token}

    @translate_errors
    def write_numbering(self, write: StateWrite, session: Session) -> None:
        """Write only the numbering of a feed that this transaction has locked; the claim stays."""
        # Nobody counted the entries that a dead writer left, so their size is measured again.
        update = build_numbering_update(write) | {"$unset": {"stored_bytes": ""}}
        self._feeds.update_one({"_id": write.feed_id, "claim_token": write.token}, update, session=session)

    @translate_errors
    def mark_torn(self, feed_ids: Sequence[int]) -> None:
        """Mark that entries may lie above ``last_seq``; the next claim reconciles the feeds."""
        self._feeds.update_many({"_id": {"$in": list(feed_ids)}}, {"$set": {"torn": True}})

    @translate_errors
    def make_due(self, feed_ids: Sequence[int], now: dt.datetime) -> None:
        """Make unclaimed feeds due now, except those that aren't polled."""
        later = {"_id": {"$in": list(feed_ids)}, "claim_token": None, "next_check_at": {"$gt": now}}
        self._feeds.update_many(later, {"$set": {"next_check_at": now}})

    @translate_errors
    def correct_late_times(self, now: dt.datetime, longest: dt.timedelta, longest_claim: dt.timedelta) -> int:
        """Correct times that are too late because the clock was set back; return how many feeds changed.

        A feed that was checked in the future is due after the same time from now on. No feed is due, and no
        server's own time is, later than ``longest`` from now.
        """
        later, last, claim = now + CLOCK_ERROR, now + longest, now + longest_claim
        latest = last + CLOCK_ERROR
        # One statement, because it reads all feeds.
        query: Doc = {
            "$or": [
                {
                    "next_check_at": {"$gt": now},
                    "checked_at": {"$gt": later},
                    "$expr": {"$gt": ["$next_check_at", "$checked_at"]},
                },
                {"next_check_at": {"$gt": latest}},
                {"retry_at": {"$gt": latest}},
                {"claimed_until": {"$gt": claim + CLOCK_ERROR}},
            ]
        }
        interval = {"$subtract": ["$next_check_at", "$checked_at"]}
        is_ahead = {"$and": [{"$gt": ["$checked_at", later]}, {"$gt": ["$next_check_at", "$checked_at"]}]}
        due = {"$cond": [is_ahead, {"$add": [now, interval]}, "$next_check_at"]}
        change = {
            "next_check_at": {
                "$cond": [{"$gt": ["$next_check_at", now]}, {"$min": [due, last]}, "$next_check_at"]
            },
            "retry_at": {"$cond": [{"$gt": ["$retry_at", latest]}, last, "$retry_at"]},
            "claimed_until": {
                "$cond": [{"$gt": ["$claimed_until", claim + CLOCK_ERROR]}, claim, "$claimed_until"]
            },
        }
        return self._feeds.update_many(query, [{"$set": change}]).modified_count

    @translate_errors
    def force_due(self, feed_ids: Sequence[int], now: dt.datetime) -> None:
        """Make unclaimed feeds due now, even those that aren't polled."""
        # Shared streams aren't fetched, so they would stay due.
        query: Doc = {"_id": {"$in": list(feed_ids)}, "kind": FeedKind.WEB.value, "claim_token": None}
        query |= {"merged_into": None, "next_check_at": {"$not": {"$lte": now}}}
        self._feeds.update_many(query, {"$set": {"next_check_at": now}})

    @translate_errors
    def clear_torn(self, feed_id: int, token: str) -> None:
        """Record that no entries lie above ``last_seq`` anymore."""
        self._feeds.update_one({"_id": feed_id, "claim_token": token}, {"$unset": {"torn": ""}})

    @translate_errors
    def raise_first_seq(self, feed_id: int, keep: int) -> Position | None:
        """Raise a feed's first number so that at most ``keep`` entries remain; return the new range.

        Returns None if there is no such feed.
        """
        border = {"$add": [{"$subtract": ["$last_seq", keep]}, 1]}
        doc = self._feeds.find_one_and_update(
            {"_id": feed_id},
            [{"$set": {"first_seq": {"$max": ["$first_seq", border]}}}],
            projection=_POSITION,
            return_document=ReturnDocument.AFTER,
        )
        return _position(doc) if doc else None

    @translate_errors
    def set_stored_bytes(self, position: Position, first_seq: int, measured: int) -> None:
        """Raise a feed's first number, and correct the estimated size of its entries.

        Args:
            position: the feed as it was before the measurement; what a pull adds meanwhile still counts.
            measured: the size of the entries that remain, in bytes.
        """
        update: Doc = {"$max": {"first_seq": Int64(first_seq)}}
        if position.stored_bytes is None:
            update["$set"] = {"stored_bytes": Int64(measured)}
        else:
            update["$inc"] = {"stored_bytes": Int64(measured - position.stored_bytes)}
        self._feeds.update_one({"_id": position.feed_id}, update)

    @translate_errors
    def change_subscriber_count(
        self, feed_id: int, delta: int, session: Session, *, now: dt.datetime | None = None, due: bool = False
    ) -> Position | None:
        """Change a feed's count of subscribers; 0 for a paused one. Return the position; None: no such feed.

        Args:
            now: the time at which someone new began to read the feed; None: no one did.
            due: make the feed due at ``now`` at the latest.
        """
        query: Doc = {"_id": feed_id}
        update: Doc = {"$inc": {"subscribers": delta}}
        if delta >= 0:
            query["merged_into"] = None  # a new subscriber of a merged feed would wait forever
            update["$unset"] = {"orphan_at": ""}
        if now is not None:
            update["$max"] = {"read_at": now}
        if now is not None and due:
            update["$min"] = {"next_check_at": now}
        if is_foreign(self._feeds.database, session):
            add_feeds_to_outbox(self._feeds.database, [feed_id], session)
            del update["$inc"]
            found = (
                self._feeds.find_one_and_update(query, update, projection=_POSITION)
                if update
                else self._feeds.find_one(query, _POSITION)
            )
            return _position(found) if found else None
        doc = find_and_update(self._feeds, query, update, session, projection=_POSITION)
        return _position(doc) if doc else None

    @translate_errors
    def add_subscriber_to_many(
        self, feed_ids: Sequence[int], rested: Sequence[int], now: dt.datetime, session: Session
    ) -> dict[int, Position]:
        """Count one more subscriber, who begins to read at ``now``, of each of these feeds.

        Args:
            rested: those that are due at ``now`` at the latest.

        Returns:
            The positions of the feeds; those that don't exist or were merged are missing and unchanged.
        """
        update: Doc = {"$inc": {"subscribers": 1}, "$max": {"read_at": now}, "$unset": {"orphan_at": ""}}
        unmerged = {"_id": {"$in": list(feed_ids)}, "merged_into": None}
        own: Session | None = session
        if is_foreign(self._feeds.database, session):
            add_feeds_to_outbox(self._feeds.database, feed_ids, session)
            del update["$inc"]
            own = None
        self._feeds.update_many(unmerged, update, session=own)
        if rested:
            late = {"_id": {"$in": list(rested)}, "merged_into": None}
            self._feeds.update_many(late, {"$min": {"next_check_at": now}}, session=own)
        found = self._feeds.find(unmerged, _POSITION, session=own)
        return {doc["_id"]: _position(doc) for doc in found}

    @translate_errors
    def decrement_subscriber_counts(self, feed_ids: Sequence[int], session: Session) -> None:
        """Reduce the count of subscribers of each of these feeds by one."""
        if is_foreign(self._feeds.database, session):
            add_feeds_to_outbox(self._feeds.database, feed_ids, session)
            return
        self._feeds.update_many(
            {"_id": {"$in": list(feed_ids)}}, {"$inc": {"subscribers": -1}}, session=session
        )

    @translate_errors
    def find_histories(self, feed_ids: Sequence[int]) -> dict[int, bytes | Mapping[str, Any] | None]:
        """Return the packed histories of these feeds, by id."""
        found = self._feeds.find({"_id": {"$in": list(feed_ids)}}, {"history": 1})
        return {d["_id"]: d.get("history") for d in found}

    @translate_errors
    def move(self, feed_id: int, url: str, url_key: str) -> None:
        """Set a feed's new address, from which the next fetch gets the whole document.

        Raises:
            ExistsError: another feed has this address; the two should be merged.
        """
        try:
            change = {"$set": {"url": url, "url_key": url_key}, "$unset": _OF_ADDRESS | _NO_ICON_TIME}
            self._feeds.update_one({"_id": feed_id}, change)
        except DuplicateKeyError as e:
            raise ExistsError("This feed already exists.", feed_id=feed_id) from e

    @translate_errors
    def propose_spelling(self, feed_id: int, url: str, now: dt.datetime) -> None:
        """Let the next pull, due now, try another spelling of a feed's address."""
        self._feeds.update_one({"_id": feed_id}, {"$set": {"other_url": url, "next_check_at": now}})

    @translate_errors
    def settle_spelling(self, feed_id: int, url: str, now: dt.datetime, *, accepted: bool) -> None:
        """Forget a spelling that was tried; an accepted one replaces the address, and the feed is due now."""
        change: Doc = {"$unset": {"other_url": ""}}
        if accepted:
            change["$set"] = {"url": url, "next_check_at": now}
            change["$unset"] |= _OF_ADDRESS
        self._feeds.update_one({"_id": feed_id, "other_url": url}, change)

    @translate_errors
    def record_validator_test(self, feed_id: int, url: str, distrusted_at: dt.datetime | None) -> None:
        """Record when the validators of a feed's address proved wrong; None: they proved right."""
        change: Doc = {"$unset": {"distrusted_at": ""}}  # writes nothing if they were trusted before
        if distrusted_at is not None:
            change = {"$set": {"distrusted_at": distrusted_at}}
        self._feeds.update_one({"_id": feed_id, "url": url}, change)

    @translate_errors
    def release_url_key(self, feed_id: int) -> None:
        """Release the address of a merged feed for another feed."""
        self._feeds.update_one(
            {"_id": feed_id, "merged_into": {"$ne": None}}, {"$set": {"url_key": f"merged/{feed_id}"}}
        )

    @translate_errors
    def set_subscriber_count(self, feed_id: int, count: int, session: Session) -> None:
        """Set a feed's count of subscribers after a recount."""
        self._feeds.update_one({"_id": feed_id}, {"$set": {"subscribers": count}}, session=session)

    @translate_errors
    def find_subscriber_counts(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return the counts of subscribers of these feeds."""
        found = self._feeds.find({"_id": {"$in": list(feed_ids)}}, {"subscribers": 1})
        return {doc["_id"]: doc.get("subscribers", 0) for doc in found}

    @translate_errors
    def list_ids(self, after: int, limit: int) -> list[int]:
        """Return the ids of feeds above ``after``, in order."""
        found = self._feeds.find({"_id": {"$gt": after}}, {"_id": 1}).sort("_id").limit(limit)
        return [doc["_id"] for doc in found]

    @translate_errors
    def retire_merged(self, feed_id: int, into: int, session: Session) -> None:
        """Stop polling a merged feed; its entries stay for people who starred them."""
        self._feeds.update_one(
            {"_id": feed_id},
            {"$set": {"merged_into": into, "subscribers": 0}, "$unset": {"next_check_at": ""}},
            session=session,
        )


def _due(now: dt.datetime) -> Doc:
    return {
        "subscribers": {"$gt": 0},
        "next_check_at": {"$lte": now},
        "claimed_until": {"$not": {"$gt": now}},
        "paused": {"$ne": True},
    }


def _new(feed_id: int, url: str, url_key: str, title: str, *, now: dt.datetime, due: dt.datetime) -> Doc:
    return {
        "_id": Int64(feed_id),
        "kind": FeedKind.WEB.value,
        "url": url,
        "url_key": url_key,
        "title": title,
        "first_seq": Int64(1),
        "last_seq": Int64(0),
        "stored_bytes": Int64(0),
        "errors": 0,
        "subscribers": 0,
        "next_check_at": due,
        "created": now,
    }


def _poll(doc: Doc) -> FeedPoll:
    get = doc.get
    due, claimed = get("next_check_at"), get("claimed_until")
    return FeedPoll(
        doc["_id"],
        doc["url"],
        int(get("read_at") or doc["created"]),
        None if due is None else int(due),
        Validators(**doc["validators"]) if "validators" in doc else Validators(),
        get("ttl_minutes"),
        frozenset(get("skip_hours", ())),
        get("history"),
        get("error"),
        get("moved_to"),
        get("claim_token"),
        0 if claimed is None else int(claimed),
        int(get("push_until") or 0),
        bool(get("torn")),
        get("other_url"),
        int(get("retry_at") or 0),
        int(get("checked_at") or 0),
        get("subscribers", 0),
        int(get("distrusted_at") or 0),
        bool(get("slow")),
        get("private_to"),
        get("sealed"),
        get("min_minutes"),
        get("max_minutes"),
    )


def _card(raw: bytes) -> FeedCard:
    doc = bson.decode(raw, _MILLISECONDS)
    get = doc.get
    return FeedCard(
        doc["_id"],
        get("title", ""),
        doc["url"],
        get("site_url"),
        build_icon_path(icon) if (icon := get("icon_blob")) else None,
        get("error"),
        doc["first_seq"],
        doc["last_seq"],
        int(get("last_entry_at") or 0),
        int(get("read_at") or 0),
        get("language"),
        get("owner"),
        RemovedEntries(*from_words(get("gone") or {})),
        get("hidden", False),
        int(get("shown_at") or 0),
        bool(get("unlisted")),
        build_avatar_path(doc["url"].rpartition("/@")[2], version, "a48")
        if (version := get("avatar", ""))
        else None,
        get("merged_into"),
        get("private_to"),
        get("kind") == FeedKind.SAVED.value,
    )


def _is_open(card: FeedCard) -> bool:
    """Return whether everyone may see a feed, so that its card may be kept."""
    return card.owner is None and card.private_to is None


#: The last versions of cards. A reader's feeds are read by each of their requests, and few have
#: changed. Finding the card of the same bytes takes a tenth of the time of decoding it.
card_cache = VersionCache(_card, bytes_max=CARD_BYTES, spare=_CARD_SPARE)


def _position(doc: Doc) -> Position:
    get = doc.get
    return Position(doc["_id"], doc["first_seq"], doc["last_seq"], get("last_entry_at"), get("stored_bytes"))


def _feed(doc: Doc) -> Feed:
    plain = {name: doc[name] for name in _PLAIN if name in doc}
    plain["skip_hours"] = tuple(doc.get("skip_hours", ()))
    return Feed(
        id=doc["_id"],
        kind=FeedKind(doc["kind"]),
        validators=Validators(**doc["validators"]) if "validators" in doc else Validators(),
        seen=doc.get("seen", b""),
        **plain,
    )
