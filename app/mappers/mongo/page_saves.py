"""The latest saves of open pages, in the document that they write: the field ``saves``.

The update that writes the values also checks the turn, so a late save changes nothing even if two servers
handle two saves at once, and a save that fails before its update hasn't taken its turn.
"""

from __future__ import annotations

from app.mappers.mongo.store import Doc
from app.models.accounts.page_save import PageSave

#: Open pages whose latest saves a document remembers.
SAVING_PAGES = 8


def match_current(save: PageSave | None) -> Doc:
    """Return the query for a document that has no later save of the same page."""
    if save is None:
        return {}
    return {"saves": {"$not": {"$elemMatch": {"page": save.page, "turn": {"$gt": save.turn}}}}}


def note_save(save: PageSave | None) -> Doc:
    """Return the fields of a pipeline's ``$set`` that note a save as the latest of its page."""
    if save is None:
        return {}
    others = {"$filter": {"input": _KNOWN, "cond": {"$ne": ["$$this.page", {"$literal": save.page}]}}}
    noted = {"page": {"$literal": save.page}, "turn": {"$literal": save.turn}}
    return {"saves": {"$slice": [{"$concatArrays": [others, [noted]]}, -SAVING_PAGES]}}


def set_if_current(fields: Doc, save: PageSave) -> Doc:
    """Return a pipeline's ``$set`` that changes nothing in a document with a later save: for upserts."""
    is_page = {"$eq": ["$$this.page", {"$literal": save.page}]}
    later = {"$and": [is_page, {"$gt": ["$$this.turn", {"$literal": save.turn}]}]}
    is_late = {"$gt": [{"$size": {"$filter": {"input": _KNOWN, "cond": later}}}, 0]}
    changes = {**{name: {"$literal": value} for name, value in fields.items()}, **note_save(save)}
    return {name: {"$cond": [is_late, f"${name}", value]} for name, value in changes.items()}


_KNOWN: Doc = {"$ifNull": ["$saves", []]}
