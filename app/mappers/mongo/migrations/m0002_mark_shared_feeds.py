"""Feeds may be secret by rules that came after their entries were shared: all shared feeds are checked."""

from __future__ import annotations

import pymongo

from app import clock
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import BUILD_SECONDS
from app.mappers.mongo.migrations.run import Run

#: Feeds per update.
_BATCH = 1000


@translate_errors
def apply(run: Run) -> None:
    """Mark the feeds with shares; a job then closes the shares of those that are secret now."""
    shares, feeds = run.database["shares"], run.database["feeds"]
    with pymongo.timeout(BUILD_SECONDS):
        feed_ids = [doc["_id"] for doc in shares.aggregate([{"$group": {"_id": "$of_feed"}}])]
        for start in range(0, len(feed_ids), _BATCH):
            some = feed_ids[start : start + _BATCH]
            feeds.update_many({"_id": {"$in": some}}, {"$set": {"secrecy_at": clock.now()}})
