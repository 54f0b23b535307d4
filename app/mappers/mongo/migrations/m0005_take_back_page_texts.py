"""Shares of saved pages carried the whole text that Eventr had fetched: an excerpt of it remains their own.

The text itself stays as the full text of the page behind these shares. Readers with an account may request
it, as that of any other entry.
"""

from __future__ import annotations

import functools
import html
from typing import Any

import pymongo

from app import clock
from app.mappers.feeds import entry_bodies
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.migrations.run import Run
from app.mappers.mongo.store import Doc, Session
from app.models.media.rewriting import find_lead_picture

#: Entries in one transaction: their texts are long.
_BATCH = 50
_BY_ID = [("_id", pymongo.ASCENDING)]


@translate_errors
def apply(run: Run) -> None:
    """Change the pages feed by feed; a repetition continues behind the last changed batch."""
    feeds = run.database["feeds"]
    # Feeds of kind "saved" of nobody hold the pages behind shares.
    shared: Doc = {"kind": "saved", "private_to": None}
    while True:
        query = {**shared, "_id": {"$gt": run.progress.get("feed", 0)}}
        feed = feeds.find_one(query, {"_id": 1}, sort=_BY_ID)
        if feed is None:
            return
        _change_feed(run, feed["_id"])
        run.commit_batch(lambda _session: None, {"feed": feed["_id"]})


def _change_feed(run: Run, feed_id: int) -> None:
    entries = run.database["entries"]
    while True:
        # A feed that an earlier attempt has begun may be gone: its last entry says nothing about another.
        is_begun = run.progress.get("in") == feed_id
        query = {"feed_id": feed_id, "_id": {"$gt": run.progress["entry"] if is_begun else 0}}
        ids = [doc["_id"] for doc in entries.find(query, {"_id": 1}, sort=_BY_ID, limit=_BATCH)]
        if not ids:
            return
        progress = {**run.progress, "in": feed_id, "entry": ids[-1]}
        run.commit_batch(functools.partial(_change_entries, run, feed_id, ids), progress)


def _change_entries(run: Run, feed_id: int, ids: list[int], session: Session) -> None:
    # Read within the transaction: processes of the previous version may still store texts.
    query = {"feed_id": feed_id, "_id": {"$in": ids}, "full.cleaned_by": {"$exists": False}}
    entries, now, has_changed = run.database["entries"], clock.now(), False
    for doc in list(entries.find(query, session=session)):
        if change := _build_change(doc):
            change["$set"]["revised"] = now
            update = {**change, "$inc": {"revision": 1}}
            entries.update_one({"feed_id": feed_id, "_id": doc["_id"]}, update, session=session)
            has_changed = True
    if has_changed:
        # As after every change of an entry, caches of this feed and the search index are built again.
        fresh = {"index_at": now, "news_at": now, "changed_at": now}
        run.database["feeds"].update_one({"_id": feed_id}, {"$set": fresh}, session=session)


def _build_change(doc: Doc) -> dict[str, Any] | None:
    """Return the update of a page; None: it has no text."""
    said = entry_bodies.read_html(doc)
    if not said.content:
        return None
    excerpt = doc.get("excerpt") or ""
    quote = f"<p>{html.escape(excerpt, quote=False)}</p>" if excerpt else ""
    full: Doc = {
        **(doc.get("full") or {}),
        "at": (doc.get("full") or {}).get("at") or doc["arrived"],
        "body": entry_bodies.pack(said.content, "", said.raw),
        "cleaned_by": doc.get("cleaned_by", 0),
    }
    image = doc.get("image") or find_lead_picture(said.content)
    return {
        "$set": {
            "body": entry_bodies.pack("", quote, b""),
            "length": entry_bodies.count_characters("", quote),
            "full": full,
            **({"image": image} if image else {}),
        },
        "$unset": {"content": "", "summary": "", "raw": ""},
    }
