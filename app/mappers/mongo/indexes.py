"""All indexes of feeds, entries and reading, in one place, each with the query that needs it."""

from __future__ import annotations

from typing import Any

import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors

_UP, _DOWN = ASCENDING, DESCENDING
#: An index over many documents takes longer to build than a statement may.
BUILD_SECONDS = 12 * 3600

INDEXES: dict[str, list[IndexModel]] = {
    "feeds": [
        # Subscribing: an address belongs to one feed.
        IndexModel([("url_key", _UP)], name="url_key", unique=True),
        # The updater. Feeds without subscribers leave the index by themselves.
        IndexModel([("next_check_at", _UP)], name="due", partialFilterExpression={"subscribers": {"$gt": 0}}),
        # The search: feeds with entries that it does not know yet; the others are not in it.
        IndexModel([("index_at", _UP)], name="index", sparse=True),
        # Administrators' lists: those in error, with most readers, never fetched, paused.
        IndexModel(
            [("error", _UP), ("_id", _DOWN)],
            name="error",
            partialFilterExpression={"error": {"$type": "string"}},
        ),
        IndexModel([("subscribers", _DOWN), ("_id", _DOWN)], name="popular"),
        IndexModel(
            [("last_seq", _UP), ("_id", _DOWN)], name="empty", partialFilterExpression={"last_seq": 0}
        ),
        IndexModel([("paused", _UP), ("_id", _DOWN)], name="paused", sparse=True),
        # Streams that changed since the hub has looked; the others are not in it.
        IndexModel([("hub_at", _UP)], name="hub", sparse=True),
        # What people share, by who does.
        IndexModel([("owner", _UP)], name="owner", sparse=True),
    ],
    "entries": [
        # Identity, and what stops a second writer.
        IndexModel([("feed_id", _UP), ("guid_hash", _UP)], name="guid", unique=True),
        # Numbering, few-unread streams and retention.
        IndexModel([("feed_id", _UP), ("seq", _UP)], name="seq", unique=True),
        # Streams walk this and nothing else: it covers. _id comes before seq, so that it is sorted
        # by the stream's whole key (at, _id) and MongoDB can merge feeds without a sort in memory.
        IndexModel([("feed_id", _UP), ("at", _DOWN), ("_id", _DOWN), ("seq", _UP)], name="stream"),
        # What has come since a program last asked, in the order in which it came; covers as well.
        IndexModel([("feed_id", _UP), ("_id", _UP), ("at", _UP), ("seq", _UP)], name="arrival"),
        # What was changed since then; most entries never are, and are not in it.
        IndexModel(
            [("feed_id", _UP), ("revised", _UP)],
            name="revised",
            partialFilterExpression={"revised": {"$type": "date"}},
        ),
    ],
    "searchables": [
        # A word in a time of some feeds, read without documents.
        IndexModel(
            [("words", _UP), ("feed_id", _UP), ("at", _DOWN), ("_id", _DOWN), ("seq", _UP)], name="words"
        ),
        # Retention.
        IndexModel([("feed_id", _UP), ("seq", _UP)], name="seq"),
    ],
    "subscriptions": [
        IndexModel([("user_id", _UP), ("feed_id", _UP)], name="user_feed", unique=True),
        # The streams of folders.
        IndexModel([("user_id", _UP), ("folder_ids", _UP)], name="user_folder"),
        # All subscribers of a feed: start states, merges.
        IndexModel([("feed_id", _UP)], name="feed"),
        # Whom a user follows, and who follows somebody; subscriptions to sites are in neither.
        IndexModel(
            [("user_id", _UP), ("person", _UP)],
            name="user_people",
            partialFilterExpression={"person": True},
        ),
        IndexModel(
            [("feed_id", _UP), ("_id", _DOWN)], name="people", partialFilterExpression={"person": True}
        ),
    ],
    "profiles": [
        # One per person. His feeds tell whose they are.
        IndexModel([("user_id", _UP)], name="user", unique=True),
        IndexModel([("feed_id", _UP)], name="feed", unique=True),
        # Who wants to be found.
        IndexModel(
            [("similar", _UP), ("_id", _DOWN)],
            name="similar",
            partialFilterExpression={"similar": True},
        ),
        # Those whom administrators have suspended; the others are not in it.
        IndexModel([("hidden", _UP)], name="hidden", partialFilterExpression={"hidden": True}),
    ],
    "reports": [
        # One open report per person and thing.
        IndexModel([("user_id", _UP), ("about", _UP), ("thing", _UP)], name="user_thing", unique=True),
        # What is said about a thing that may be gone; about somebody, when it is decided or he leaves.
        IndexModel([("thing", _UP)], name="thing"),
        IndexModel([("whom", _UP)], name="whom"),
    ],
    "ties": [
        # What somebody laid down about others, and others about him.
        IndexModel([("user_id", _UP), ("kind", _UP), ("to", _UP)], name="user_kind_to", unique=True),
        IndexModel([("to", _UP), ("kind", _UP), ("_id", _DOWN)], name="to_kind"),
    ],
    "trends": [
        # What is shared most at the moment; what nobody has shared for long goes by itself.
        IndexModel([("score", _DOWN)], name="score"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "shares": [
        # An entry is shared once per person.
        IndexModel(
            [("user_id", _UP), ("of", _UP)],
            name="user_of",
            unique=True,
            partialFilterExpression={"live": True},
        ),
        # A person's stream, by whom it is for: merged by the newest.
        IndexModel(
            [("user_id", _UP), ("audience", _UP), ("_id", _DOWN)],
            name="user_stream",
            partialFilterExpression={"live": True},
        ),
        # The tree of a root in the order of a nested list; and, with the feeds, who of some people shared it.
        IndexModel([("of", _UP), ("path", _UP)], name="chain"),
        IndexModel([("of", _UP), ("feed_id", _UP)], name="of_feed", partialFilterExpression={"live": True}),
        # Faces beside what is shared much.
        IndexModel([("of", _UP), ("_id", _DOWN)], name="of_last", partialFilterExpression={"live": True}),
    ],
    "likes": [
        # One per person and share. The last ones of a share, and how many there are: by this index alone.
        IndexModel([("user_id", _UP), ("share_id", _UP)], name="user_share", unique=True),
        IndexModel([("share_id", _UP), ("_id", _DOWN), ("user_id", _UP)], name="share"),
    ],
    "comments": [
        # A share's in the order of a nested list; and how many there are, by whom.
        IndexModel([("share_id", _UP), ("path", _UP)], name="thread"),
        IndexModel([("share_id", _UP), ("user_id", _UP)], name="share_user"),
        # Erasure; and whether anything answers one that is removed.
        IndexModel([("user_id", _UP)], name="user", sparse=True),
        IndexModel([("parent", _UP)], name="parent", sparse=True),
    ],
    "comment_undos": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token", unique=True),
        # Erasure of who wrote them, and of whose share they are on.
        IndexModel([("comment.user_id", _UP)], name="author"),
        IndexModel([("comment.share_id", _UP)], name="share"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "notifications": [
        # What is alike is one row.
        IndexModel([("user_id", _UP), ("kind", _UP), ("subject", _UP)], name="subject", unique=True),
        # The list, keyset (at, _id); and what is unread, as often as counts are asked for.
        IndexModel([("user_id", _UP), ("at", _DOWN), ("_id", _DOWN)], name="newest"),
        IndexModel([("user_id", _UP), ("read", _UP)], name="unread", partialFilterExpression={"read": False}),
        # Erasure of those whom they tell of, and of shares.
        IndexModel([("last.by", _UP)], name="by"),
        IndexModel([("share_id", _UP)], name="share", sparse=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "devices": [
        # An endpoint is one person's.
        IndexModel([("endpoint", _UP)], name="endpoint", unique=True),
        # Whom to tell; erasure.
        IndexModel([("user_id", _UP), ("created", _DOWN)], name="user"),
        # They go with their sessions.
        IndexModel([("session", _UP)], name="session"),
    ],
    "changes": [
        # What somebody has changed since a time.
        IndexModel([("user_id", _UP), ("at", _DOWN), ("_id", _DOWN)], name="user"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "idempotency": [
        # One run for each key of a user; erasure.
        IndexModel([("user_id", _UP), ("key", _UP)], name="key", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "tokens": [
        # Whatever a program comes with leads to one token.
        IndexModel([("secret", _UP)], name="secret", unique=True),
        IndexModel([("auth", _UP)], name="auth", unique=True, sparse=True),
        IndexModel([("fever", _UP)], name="fever", unique=True, sparse=True),
        # The settings; erasure.
        IndexModel([("user_id", _UP)], name="user"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "folders": [IndexModel([("user_id", _UP)], name="user")],
    "marks": [
        IndexModel([("user_id", _UP), ("entry_id", _UP)], name="user_entry", unique=True),
        # The starred stream, keyset (starred_at, entry_id).
        IndexModel(
            [("user_id", _UP), ("starred_at", _DOWN), ("entry_id", _DOWN), ("feed_id", _UP)], name="starred"
        ),
        # The stream of what he likes.
        IndexModel(
            [("user_id", _UP), ("liked_at", _DOWN)],
            name="liked",
            partialFilterExpression={"liked_at": {"$type": "date"}},
        ),
        # The stream of a tag, keyset (tagged_at, entry_id).
        IndexModel(
            [
                ("user_id", _UP),
                ("tags", _UP),
                ("tagged_at", _DOWN),
                ("entry_id", _DOWN),
                ("feed_id", _UP),
            ],
            name="tagged",
            partialFilterExpression={"tags": {"$exists": True}},
        ),
    ],
    "tags": [IndexModel([("user_id", _UP), ("key", _UP)], name="user_key", unique=True)],
    "searches": [IndexModel([("user_id", _UP), ("name", _UP)], name="user_name", unique=True)],
    "snapshots": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "streamviews": [
        IndexModel([("user_id", _UP), ("stream", _UP)], name="user_stream", unique=True),
        # Which of a user's were changed longest ago.
        IndexModel([("user_id", _UP), ("at", _DOWN)], name="user_at"),
    ],
    "undos": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "removals": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "imports": [
        IndexModel([("user_id", _UP), ("created", _DOWN)], name="user_created"),
        # Whose turn it is; what has ended leaves the index by itself.
        IndexModel(
            [("state", _UP), ("queued", _UP)],
            name="active",
            partialFilterExpression={"state": {"$in": ["queued", "running"]}},
        ),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "import_parts": [
        IndexModel([("user_id", _UP), ("import_id", _UP), ("part", _UP)], name="part", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "personal_exports": [
        # One per user; erasure.
        IndexModel([("user_id", _UP)], name="user", unique=True),
        # The updater: what nobody works on; what has ended is not in it.
        IndexModel([("touched", _UP)], name="making", partialFilterExpression={"state": "making"}),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "personal_export_parts": [
        # Serving part by part; erasure.
        IndexModel(
            [("user_id", _UP), ("export_id", _UP), ("try", _UP), ("part", _UP)], name="part", unique=True
        ),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "fetches": [
        # The feed page.
        IndexModel([("of.f", _UP), ("at", _DOWN)], name="of_feed"),
        IndexModel([("at", _UP)], name="expires", expireAfterSeconds=14 * 86400),
    ],
    "hubsubs": [
        # A callback has one subscription to a topic.
        IndexModel([("topic", _UP), ("callback", _UP)], name="topic_callback", unique=True),
        # Of one stream: who is told next, and how many there are.
        IndexModel([("feed_id", _UP), ("push_at", _UP)], name="feed_push"),
        # The limit per host of callbacks.
        IndexModel([("host", _UP)], name="host"),
        # The updater's looks; what waits for nothing is in neither.
        IndexModel([("verify_at", _UP)], name="verify", sparse=True),
        IndexModel([("push_at", _UP)], name="push", sparse=True),
        # They go with the account whose stream it is.
        IndexModel([("user_id", _UP)], name="user"),
        # The end of the lease.
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "websubs": [
        # One subscription per feed, whoever hears of its hub first.
        IndexModel([("feed_id", _UP)], name="feed", unique=True, partialFilterExpression={"current": True}),
        # The callback.
        IndexModel([("token", _UP)], name="token", unique=True),
        # The updater's looks; what waits for nothing is in neither.
        IndexModel([("tend_at", _UP)], name="tend", sparse=True),
        IndexModel([("pull_at", _UP)], name="pull", sparse=True),
        # Retention: a day after the hub has let go.
        IndexModel([("gone_at", _UP)], name="gone", expireAfterSeconds=86400),
    ],
}


@translate_errors
def ensure_indexes(database: Database[dict[str, Any]]) -> None:
    """Create all indexes; safe to call again."""
    # None would mean the client's own limit, that of a statement.
    with pymongo.timeout(BUILD_SECONDS):
        for name, models in INDEXES.items():
            database[name].create_indexes(models)


@translate_errors
def find_missing_indexes(database: Database[dict[str, Any]]) -> list[str]:
    """Return ``collection.index`` of each index that is not there."""
    found = {name: set(database[name].index_information()) for name in INDEXES}
    return [
        f"{name}.{model.document['name']}"
        for name, models in INDEXES.items()
        for model in models
        if model.document["name"] not in found[name]
    ]
