"""Where each collection lives, and by which field its documents are spread over servers.

The documentation, ``eventr admin shard`` and the mover of people read this table, and a test compares it
with all collections.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Home(enum.StrEnum):
    """The kind of store that holds a collection."""

    #: The home store: accounts, feeds, and all that people do together.
    HOME = "home"
    #: The home store, spread by MongoDB's own sharding when it is a cluster.
    GIANT = "giant"
    #: The cell of a person: what belongs to one person alone.
    CELL = "cell"
    #: Every store of people's data has its own: what its numbers at home must be settled from.
    EACH = "each"


class Placement(NamedTuple):
    """``key``: the field that says who or what a document belongs to."""

    home: Home
    key: str


def _put(home: Home, key: str, *names: str) -> dict[str, Placement]:
    return {name: Placement(home, key) for name in names}


PLACEMENTS: dict[str, Placement] = {
    # Entries and their old index: by far the most bytes, always read by feed.
    **_put(Home.GIANT, "feed_id", "entries", "searchables"),
    # Subscriptions, read marks and all else that only one person reads.
    **_put(
        Home.CELL, "user_id",
        "changes", "deliveries", "folders", "followedlists", "idempotency", "import_marks", "import_parts",
        "imports", "marks", "notifications", "personal_export_parts", "personal_exports", "playback",
        "readingdays", "recentreads", "removals", "ruleruns", "rules", "searches", "short_ids",
        "snapshots", "streamviews", "subscriptions", "tags", "targets",
        "undos",
    ),
    # Which numbers at home a transaction in this store has changed.
    **_put(Home.EACH, "_id", "outbox"),
    # Which cell the store is, its schema version, and the lock and progress of an upgrade.
    **_put(Home.EACH, "_id", "schema"),
    # Which run of the mover may write a person's documents there, and what it has compared.
    **_put(Home.EACH, "_id", "move_digests", "move_fences"),
    # Where people live, and the numbers of people in other cells.
    **_put(Home.HOME, "_id", "places", "cells"),
    **_put(Home.HOME, "feed_id", "feed_readers"),
    **_put(Home.HOME, "entry_id", "entry_keepers"),
    # Accounts: sessions and tokens are looked up by their secret, before their user is known.
    **_put(Home.HOME, "_id", "users"),
    **_put(Home.HOME, "user_id", "sessions", "tokens", "resets", "devices", "profiles", "ties", "reports",
           "crawl_askers", "shares", "likes", "comments", "comment_undos", "files", "uploads", "hubsubs"),
    **_put(Home.HOME, "_id", "usage"),
    **_put(Home.HOME, "by", "invites"),
    # Feeds and what their fetching leaves.
    **_put(Home.HOME, "_id", "feeds", "discoveries", "chapters", "sources", "blobs", "trends", "orphans",
           "crawls", "feedwords", "packs", "pagelists", "robots", "textrules", "twins",
           "systemkeys", "import_slots", "index_removals", "index_state", "media_cleaning", "later_dead",
           "retention"),
    **_put(Home.HOME, "feed_id", "websubs"),
}  # fmt: skip
