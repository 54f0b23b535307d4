"""MongoDB indexes of all collections whose mappers create none, each with the query that needs it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors

_UP, _DOWN = ASCENDING, DESCENDING
#: Building an index over many documents may take longer than the time limit of statements.
BUILD_SECONDS = 12 * 3600

INDEXES: dict[str, list[IndexModel]] = {
    "feeds": [
        # Subscribing: an address belongs to one feed.
        IndexModel([("url_key", _UP)], name="url_key", unique=True),
        # The updater. Feeds without subscribers are not in the index.
        IndexModel([("next_check_at", _UP)], name="due", partialFilterExpression={"subscribers": {"$gt": 0}}),
        # The search: only feeds with entries that are not indexed yet.
        IndexModel([("index_at", _UP)], name="index", sparse=True),
        # Standby indexes: feeds with news since a time.
        IndexModel([("news_at", _UP)], name="news", sparse=True),
        # Administrators' lists: feeds in error, popular, never fetched, paused.
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
        # Administrators' list of slow feeds: only feeds that ever had a slow fetch.
        IndexModel([("slow_at", _UP)], name="slow", sparse=True),
        # Erasure and export: feeds that only one user may read.
        IndexModel([("private_to", _UP)], name="private", sparse=True),
        # The hub: only streams with changes to deliver.
        IndexModel([("hub_at", _UP)], name="hub", sparse=True),
        # Feeds whose shares wait to be closed or opened; few at any time.
        IndexModel([("secrecy_at", _UP)], name="secrecy", sparse=True),
        # Shared streams by owner.
        IndexModel([("owner", _UP)], name="owner", sparse=True),
        # Collection of orphans: only feeds of sites without subscribers; and feeds that were merged into one.
        IndexModel(
            [("orphan_at", _UP)], name="orphan", partialFilterExpression={"subscribers": 0, "kind": "web"}
        ),
        IndexModel([("merged_into", _UP)], name="merged", sparse=True),
        # Feeds whose icon to look for, as soon as they have entries; and the feeds with a source's icon.
        IndexModel(
            [("icon_next", _UP)],
            name="icon",
            partialFilterExpression={"subscribers": {"$gt": 0}, "kind": "web", "last_seq": {"$gt": 0}},
        ),
        IndexModel([("icon_source", _UP)], name="icon_source", sparse=True),
    ],
    "sources": [
        # Cleaning: sources that nobody has seen for long, and the sources of a blob.
        IndexModel([("used", _UP), ("_id", _UP)], name="seen"),
        IndexModel([("blob", _UP)], name="blob", sparse=True),
        # Pictures that wait to be fetched; few at any time.
        IndexModel([("next_at", _UP)], name="due", partialFilterExpression={"state": "wanted"}),
        # Pictures that wait to be drawn; few, too.
        IndexModel([("next_at", _UP)], name="waiting", partialFilterExpression={"waiting": True}),
    ],
    "entries": [
        # Identity of entries; refuses a second writer.
        IndexModel([("feed_id", _UP), ("guid_hash", _UP)], name="guid", unique=True),
        # Numbering, few-unread streams and retention.
        IndexModel([("feed_id", _UP), ("seq", _UP)], name="seq", unique=True),
        # Streams walk only this covering index. _id before seq gives the order (at, _id), so that MongoDB
        # merges feeds without sorting in memory.
        IndexModel([("feed_id", _UP), ("at", _DOWN), ("_id", _DOWN), ("seq", _UP)], name="stream"),
        # Sync apps: arrivals since a time, in the order of arrival; a covering index too.
        IndexModel([("feed_id", _UP), ("_id", _UP), ("at", _UP), ("seq", _UP)], name="arrival"),
        # Sync apps: changes since a time; most entries never change and are not in the index.
        IndexModel(
            [("feed_id", _UP), ("revised", _UP)],
            name="revised",
            partialFilterExpression={"revised": {"$type": "date"}},
        ),
        # The search index: full texts that were found since a time.
        IndexModel(
            [("feed_id", _UP), ("full.at", _UP)],
            name="full_text",
            partialFilterExpression={"full.cleaned_by": {"$exists": True}},
        ),
    ],
    "subscriptions": [
        IndexModel([("user_id", _UP), ("feed_id", _UP)], name="user_feed", unique=True),
        # The streams of folders.
        IndexModel([("user_id", _UP), ("folder_ids", _UP)], name="user_folder"),
        # All subscribers of a feed: start states, merges.
        IndexModel([("feed_id", _UP)], name="feed"),
        # Readers who are notified of new entries, in batches by user id.
        IndexModel(
            [("feed_id", _UP), ("user_id", _UP)],
            name="notified_users",
            partialFilterExpression={"notify": True},
        ),
        # Feeds of which someone reads the full texts.
        IndexModel([("feed_id", _UP)], name="full_text", partialFilterExpression={"full_text": True}),
        # Readers whose rules are tried on new entries.
        IndexModel([("feed_id", _UP)], name="ruled", partialFilterExpression={"ruled": {"$gte": 0}}),
        # Readers who want changed entries to become unread again.
        IndexModel(
            [("feed_id", _UP), ("user_id", _UP)], name="reopen", partialFilterExpression={"reopen": True}
        ),
        # Feeds whose entries are marked as read after some days, by reader.
        IndexModel([("user_id", _UP)], name="read_after", partialFilterExpression={"read_after": {"$gt": 0}}),
        # People whom a user follows, and followers of a person; without subscriptions to sites.
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
        # One profile per person; the owner of a stream by its feed.
        IndexModel([("user_id", _UP)], name="user", unique=True),
        IndexModel([("feed_id", _UP)], name="feed", unique=True),
        # People who opted in to be found.
        IndexModel(
            [("similar", _UP), ("_id", _DOWN)],
            name="similar",
            partialFilterExpression={"similar": True},
        ),
        # Only people whom administrators have suspended.
        IndexModel([("hidden", _UP)], name="hidden", partialFilterExpression={"hidden": True}),
    ],
    "reports": [
        # One open report per person and thing.
        IndexModel([("user_id", _UP), ("about", _UP), ("thing", _UP)], name="user_thing", unique=True),
        # Reports about a thing that may be gone; reports about a person, for decisions and erasure.
        IndexModel([("thing", _UP)], name="thing"),
        IndexModel([("whom", _UP)], name="whom"),
    ],
    "places": [
        # The people of a cell, and the moves that aren't finished.
        IndexModel([("cell", _UP), ("_id", _UP)], name="cell"),
        IndexModel([("state", _UP), ("_id", _UP)], name="state"),
        # The updater: only moves in progress, and people whose former cell is to be swept.
        IndexModel(
            [("step", _UP), ("due", _UP)], name="moving", partialFilterExpression={"step": {"$gt": ""}}
        ),
        IndexModel([("due", _UP)], name="move_due", partialFilterExpression={"step": {"$gt": ""}}),
        IndexModel([("sweep_at", _UP)], name="sweep", sparse=True),
    ],
    "feed_readers": [
        # How many people of a cell read a feed.
        IndexModel([("feed_id", _UP), ("cell", _UP)], name="feed_cell", unique=True),
        IndexModel([("at", _UP)], name="zero", partialFilterExpression={"n": 0}),
    ],
    "entry_keepers": [
        # How many people of a cell keep an entry.
        IndexModel([("entry_id", _UP), ("cell", _UP)], name="entry_cell", unique=True),
        IndexModel([("at", _UP)], name="zero", partialFilterExpression={"n": 0}),
    ],
    "ties": [
        # Relationships of a user to other people, and of other people to a user.
        IndexModel([("user_id", _UP), ("kind", _UP), ("to", _UP)], name="user_kind_to", unique=True),
        IndexModel([("to", _UP), ("kind", _UP), ("_id", _DOWN)], name="to_kind"),
        # Decisions about subscriptions that aren't done yet.
        IndexModel([("due", _UP)], name="due", sparse=True),
    ],
    "twins": [
        # The job that finds copies: by address key, and by the bands of near-same texts, newest first.
        IndexModel(
            [("keys", _UP), ("_id", _DOWN)], name="keys", partialFilterExpression={"keys": {"$exists": True}}
        ),
        IndexModel(
            [("bands", _UP), ("_id", _DOWN)],
            name="bands",
            partialFilterExpression={"bands": {"$exists": True}},
        ),
        # Lists: only stories with copies.
        IndexModel([("members.entry_id", _UP)], name="member", partialFilterExpression={"many": True}),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "trends": [
        # The most shared entries; entries that have not been shared for long expire.
        IndexModel([("score", _DOWN)], name="score"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "shares": [
        # A person shares an entry once.
        IndexModel(
            [("user_id", _UP), ("of", _UP)],
            name="user_of",
            unique=True,
            partialFilterExpression={"live": True},
        ),
        # A person's stream by audience, merged newest first.
        IndexModel(
            [("user_id", _UP), ("audience", _UP), ("_id", _DOWN)],
            name="user_stream",
            partialFilterExpression={"live": True},
        ),
        # The tree of a root as a nested list; and the shares of a root by some people.
        IndexModel([("of", _UP), ("path", _UP)], name="chain"),
        IndexModel([("of", _UP), ("feed_id", _UP)], name="of_feed", partialFilterExpression={"live": True}),
        # Shares to close when a feed becomes secret.
        IndexModel([("of_feed", _UP)], name="origin_feed", partialFilterExpression={"live": True}),
        # The latest sharers of popular entries.
        IndexModel([("of", _UP), ("_id", _DOWN)], name="of_last", partialFilterExpression={"live": True}),
    ],
    "likes": [
        # One like per person and share. The latest likes of a share, and their number, from this index alone.
        IndexModel([("user_id", _UP), ("share_id", _UP)], name="user_share", unique=True),
        IndexModel([("share_id", _UP), ("_id", _DOWN), ("user_id", _UP)], name="share"),
    ],
    "comments": [
        # The comments on a share as a nested list; and their number, by author.
        IndexModel([("share_id", _UP), ("path", _UP)], name="thread"),
        IndexModel([("share_id", _UP), ("user_id", _UP)], name="share_user"),
        # Erasure; and whether a removed comment has answers.
        IndexModel([("user_id", _UP)], name="user", sparse=True),
        IndexModel([("parent", _UP)], name="parent", sparse=True),
    ],
    "comment_undos": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token", unique=True),
        # Erasure of the author, and of the sharer.
        IndexModel([("comment.user_id", _UP)], name="author"),
        IndexModel([("comment.share_id", _UP)], name="share"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "notifications": [
        # One row per kind and subject.
        IndexModel([("user_id", _UP), ("kind", _UP), ("subject", _UP)], name="subject", unique=True),
        # The list, keyset (at, _id); and the unread rows for each request of counts.
        IndexModel([("user_id", _UP), ("at", _DOWN), ("_id", _DOWN)], name="newest"),
        IndexModel([("user_id", _UP), ("read", _UP)], name="unread", partialFilterExpression={"read": False}),
        # Erasure of the people in rows, and of shares.
        IndexModel([("last.by", _UP)], name="by"),
        IndexModel([("share_id", _UP)], name="share", sparse=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "devices": [
        # An endpoint belongs to one person.
        IndexModel([("endpoint", _UP)], name="endpoint", unique=True),
        # The devices of a user; erasure.
        IndexModel([("user_id", _UP), ("created", _DOWN)], name="user"),
        # Deletion together with the session.
        IndexModel([("session", _UP)], name="session"),
    ],
    "changes": [
        # A user's changes since a time.
        IndexModel([("user_id", _UP), ("at", _DOWN), ("_id", _DOWN)], name="user"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "short_ids": [
        # One number per feed and folder of a user, and the other way round; erasure.
        IndexModel([("user_id", _UP), ("kind", _UP), ("thing", _UP)], name="thing", unique=True),
        IndexModel([("user_id", _UP), ("kind", _UP), ("number", _UP)], name="number", unique=True),
    ],
    "idempotency": [
        # One run per key of a user; erasure.
        IndexModel([("user_id", _UP), ("key", _UP)], name="key", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "tokens": [
        # Each secret of a program belongs to one token.
        IndexModel([("secret", _UP)], name="secret", unique=True),
        IndexModel([("auth", _UP)], name="auth", unique=True, sparse=True),
        IndexModel([("fever", _UP)], name="fever", unique=True, sparse=True),
        # The settings page; erasure.
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
        # The stream of notes, keyset (noted_at, entry_id).
        IndexModel(
            [("user_id", _UP), ("noted_at", _DOWN), ("entry_id", _DOWN), ("feed_id", _UP)],
            name="noted",
            partialFilterExpression={"noted_at": {"$type": "date"}},
        ),
        # The stream of liked entries.
        IndexModel(
            [("user_id", _UP), ("liked_at", _DOWN)],
            name="liked",
            partialFilterExpression={"liked_at": {"$type": "date"}},
        ),
        # Whether someone likes an entry of a feed that nobody reads.
        IndexModel(
            [("feed_id", _UP)], name="liked_feed", partialFilterExpression={"liked_at": {"$type": "date"}}
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
        # The settings of a user that were changed longest ago.
        IndexModel([("user_id", _UP), ("at", _DOWN)], name="user_at"),
    ],
    "targets": [IndexModel([("user_id", _UP), ("_id", _UP)], name="user")],
    "deliveries": [
        IndexModel(
            [("user_id", _UP), ("entry_id", _UP), ("target_id", _UP), ("cause", _UP)],
            name="user_entry",
            unique=True,
        ),
        # The latest of a user.
        IndexModel([("user_id", _UP), ("at", _DOWN)], name="user_at"),
        # What waits: of a user, and of all.
        IndexModel(
            [("user_id", _UP), ("due", _UP), ("tries", _UP)],
            name="user_due",
            partialFilterExpression={"due": {"$type": "date"}},
        ),
        IndexModel([("due", _UP)], name="due", partialFilterExpression={"due": {"$type": "date"}}),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "playback": [
        IndexModel([("user_id", _UP), ("file", _UP)], name="user_file", unique=True),
        # The latest positions of a user, and the oldest.
        IndexModel([("user_id", _UP), ("at", _DOWN)], name="user_at"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "followedlists": [
        IndexModel([("user_id", _UP), ("url", _UP)], name="user_url", unique=True),
        IndexModel([("next_check_at", _UP)], name="due"),
    ],
    "readingdays": [
        IndexModel([("user_id", _UP), ("day", _UP)], name="user_day", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    # One document per user, so that is all these indexes need.
    "recentreads": [IndexModel([("user_id", _UP)], name="user", unique=True)],
    "rules": [
        IndexModel([("user_id", _UP)], name="user", unique=True),
        # Runs over past entries whose job has stopped.
        IndexModel([("run.touched", _UP)], name="running", partialFilterExpression={"run.active": True}),
    ],
    "ruleruns": [
        IndexModel(
            [("user_id", _UP), ("token", _UP), ("feed_id", _UP), ("number", _UP)], name="part", unique=True
        ),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "undos": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token"),
        # Only mass marks whose copies a job marks.
        IndexModel([("copies", _UP)], name="copies", partialFilterExpression={"copies": {"$exists": True}}),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "removals": [
        IndexModel([("user_id", _UP), ("token", _UP)], name="token", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
        # Removals and restorations that are pending; few at any time.
        IndexModel(
            [("pending.since", _UP)],
            name="pending",
            partialFilterExpression={"pending.since": {"$exists": True}},
        ),
    ],
    "imports": [
        IndexModel([("user_id", _UP), ("created", _DOWN)], name="user_created"),
        # Taking turns: only running and queued imports.
        IndexModel(
            [("state", _UP), ("queued", _UP)],
            name="active",
            partialFilterExpression={"state": {"$in": ["queued", "running"]}},
        ),
        # Files that are being read; few at any time.
        IndexModel([("created", _UP)], name="reading", partialFilterExpression={"state": {"$eq": "reading"}}),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "import_parts": [
        IndexModel([("user_id", _UP), ("import_id", _UP), ("part", _UP)], name="part", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "import_marks": [
        # The next marks of an archive to apply; erasure.
        IndexModel([("user_id", _UP), ("import_id", _UP), ("part", _UP)], name="part", unique=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "personal_exports": [
        # One export per user; erasure.
        IndexModel([("user_id", _UP)], name="user", unique=True),
        # The updater: only exports being made, to find those without a live run.
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
    "uploads": [
        # A user's uploads in progress, and their number; erasure.
        IndexModel([("user_id", _UP), ("state", _UP)], name="user_state"),
        # Uploads that expire, or wait to be stored.
        IndexModel([("state", _UP), ("expires", _UP)], name="due"),
        # The result of an upload can be asked for during a day.
        IndexModel([("ended", _UP)], name="ended", expireAfterSeconds=86400),
    ],
    "blobs": [
        # Deletion: only blobs without references, the longest unused first; and those being deleted.
        IndexModel([("n", _UP), ("touched", _UP)], name="idle", partialFilterExpression={"n": {"$lte": 0}}),
        # Only blobs with old generations to delete, that a store lacks, or that lost a file; few at any time.
        IndexModel([("old", _UP)], name="old", sparse=True),
        IndexModel(
            [("want", _UP), ("_id", _UP)],
            name="wanting",
            partialFilterExpression={"want": {"$exists": True}},
        ),
        IndexModel([("lost", _UP)], name="lost", sparse=True),
    ],
    "usage": [
        # Administrators: all users, those who store most first.
        IndexModel([("finished", _DOWN), ("_id", _DOWN)], name="storage"),
    ],
    "files": [
        # The page "Files"; erasure.
        IndexModel([("user_id", _UP), ("_id", _DOWN)], name="user"),
        # What a share, a comment or an entry shows; only files in use.
        IndexModel([("owners", _UP)], name="owners", sparse=True),
        # Deletion of files that nothing uses, the longest first.
        IndexModel([("loose", _UP)], name="loose", sparse=True),
        # A user's file of a known blob; the recount of a blob's references.
        IndexModel([("blob", _UP), ("user_id", _UP)], name="blob_user"),
    ],
    "feedwords": [
        # The search of feeds: the beginning of a word of the title, host or folders; any whole word.
        IndexModel([("starts", _UP), ("score", _DOWN)], name="starts"),
        IndexModel([("words", _UP), ("score", _DOWN)], name="words"),
    ],
    "crawls": [
        # One crawl per site.
        IndexModel([("host", _UP)], name="host", unique=True),
        # The updater: the first crawls that haven't ended; those whose people aren't notified yet.
        IndexModel(
            [("expires", _UP), ("next_at", _UP)],
            name="running",
            partialFilterExpression={"next_at": {"$type": "date"}},
        ),
        IndexModel([("telling", _UP)], name="telling", sparse=True),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "crawl_askers": [
        # The people who are notified of a result, once each.
        IndexModel([("crawl_id", _UP), ("user_id", _UP)], name="crawl_user", unique=True),
        # Erasure.
        IndexModel([("user_id", _UP)], name="user"),
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "pagelists": [IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0)],
    "textrules": [IndexModel([("host", _UP)], name="host", unique=True)],
    "robots": [IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0)],
    "chapters": [IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0)],
    "later_dead": [
        # The newest on the page of jobs; letters expire.
        IndexModel([("at", _UP)], name="expires", expireAfterSeconds=30 * 86400),
    ],
    "hubsubs": [
        # One subscription per callback and topic.
        IndexModel([("topic", _UP), ("callback", _UP)], name="topic_callback", unique=True),
        # The next deliveries of a stream, and the number of its subscribers.
        IndexModel([("feed_id", _UP), ("push_at", _UP)], name="feed_push"),
        # The limit of subscriptions per host.
        IndexModel([("host", _UP)], name="host"),
        # The updater: only subscriptions that are waiting.
        IndexModel([("verify_at", _UP)], name="verify", sparse=True),
        IndexModel([("push_at", _UP)], name="push", sparse=True),
        # Erasure of the stream's owner.
        IndexModel([("user_id", _UP)], name="user"),
        # The end of the lease.
        IndexModel([("expires", _UP)], name="expires", expireAfterSeconds=0),
    ],
    "websubs": [
        # One current subscription per feed.
        IndexModel([("feed_id", _UP)], name="feed", unique=True, partialFilterExpression={"current": True}),
        # The callback.
        IndexModel([("token", _UP)], name="token", unique=True),
        # The updater: only subscriptions that are waiting.
        IndexModel([("tend_at", _UP)], name="tend", sparse=True),
        IndexModel([("pull_at", _UP)], name="pull", sparse=True),
        # Retention: a day after the hub has confirmed the end.
        IndexModel([("gone_at", _UP)], name="gone", expireAfterSeconds=86400),
    ],
}

#: More indexes where there are cells.
CELL_INDEXES: dict[str, list[IndexModel]] = {
    # The relay counts the keepers of an entry in all stores.
    "marks": [IndexModel([("entry_id", _UP)], name="entry")],
    "outbox": [
        # The rows of everyone, and those of each person who moves.
        IndexModel(
            [("user_id", _UP), ("due", _UP), ("_id", _UP)],
            name="rows",
            partialFilterExpression={"feed_id": {"$gt": 0}},
        ),
        # Notifications that wait.
        IndexModel([("due", _UP)], name="waiting", partialFilterExpression={"kind": "notification"}),
        # Retention: entries whose keepers aren't counted yet.
        IndexModel([("feed_id", _UP)], name="unsettled", partialFilterExpression={"entry_id": {"$gt": 0}}),
    ],
}


@translate_errors
def ensure_indexes(database: Database[dict[str, Any]], names: Collection[str] = tuple(INDEXES)) -> None:
    """Create all indexes of these collections; safe to call again."""
    # None would mean the client's own limit for statements.
    with pymongo.timeout(BUILD_SECONDS):
        for name, models in INDEXES.items():
            if name in names:
                database[name].create_indexes(models)


@translate_errors
def ensure_cell_indexes(database: Database[dict[str, Any]], names: Collection[str]) -> None:
    """Create the indexes of these collections in a cell; safe to call again."""
    for name in sorted(names):
        # Without the long limit: while indexes are built, it also holds for the search for a server.
        database.command("ping")
        ensure_indexes(database, (name,))
    with pymongo.timeout(BUILD_SECONDS):
        for name, models in CELL_INDEXES.items():
            database[name].create_indexes(models)


@translate_errors
def find_missing_indexes(database: Database[dict[str, Any]]) -> list[str]:
    """Return ``collection.index`` of each missing index."""
    found = {name: set(database[name].index_information()) for name in INDEXES}
    return [
        f"{name}.{model.document['name']}"
        for name, models in INDEXES.items()
        for model in models
        if model.document["name"] not in found[name]
    ]
