"""Rows of the outbox: which numbers in the home store a transaction of another store has changed.

    outbox  {kind, feed_id, entry_id?}
            {kind: "notification", …}    for someone whose data couldn't be written, in the home store

The store of a person is the truth, and the home store has the numbers: readers of feeds, keepers of entries.
A transaction can't include both, so it writes a row, and a relay counts again and sets the number. A row that
is settled twice, late or in another order gives the same number.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors

#: The collection; each store has its own.
OUTBOX = "outbox"


class OutboxKind(enum.StrEnum):
    """What a row tells the relay to count again, or to deliver."""

    FEED = "feed"
    ENTRY = "entry"
    NOTIFICATION = "notification"


def is_foreign(home: Database[Any], session: ClientSession) -> bool:
    """Return whether a session belongs to another store than home."""
    return session.client is not home.client


@translate_errors
def add_feeds_to_outbox(home: Database[Any], feed_ids: Collection[int], session: ClientSession) -> None:
    """Write rows for feeds whose readers change in a transaction of another store."""
    rows = [{"kind": OutboxKind.FEED.value, "feed_id": feed_id} for feed_id in feed_ids]
    if rows:
        session.client[home.name][OUTBOX].insert_many(rows, session=session)


@translate_errors
def add_missed_feeds(home: Database[Any], feed_ids: Collection[int]) -> None:
    """Write rows to the home store for feeds whose first pull missed a cell."""
    home[OUTBOX].insert_many([{"kind": OutboxKind.FEED.value, "feed_id": feed_id} for feed_id in feed_ids])


@translate_errors
def add_entries_to_outbox(
    home: Database[Any], entries: Collection[tuple[int, int]], session: ClientSession
) -> None:
    """Write rows for entries (feed, entry) whose keepers change in a transaction of another store."""
    rows = [{"kind": OutboxKind.ENTRY.value, "feed_id": f, "entry_id": e} for f, e in entries]
    if rows:
        session.client[home.name][OUTBOX].insert_many(rows, session=session)
