"""Lists of pages for which someone wants a feed: the collection ``pagelists``, a cache that expires.

{_id, address, expires, result: {title, lists, error}, outline}

The outline is JSON, and only read for pointing at the page.
"""

from __future__ import annotations

import datetime as dt
import json

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.page_lists import FoundLists, PageList, StoredPage


class PageListMapper:
    """Document ↔ :class:`StoredPage`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._pages: Collection[Doc] = database["pagelists"]

    @translate_errors
    def find(self, key: int, now: dt.datetime) -> StoredPage | None:
        """Return a page that has not expired, or None."""
        doc = self._pages.find_one({"_id": key, "expires": {"$gt": now}}, {"outline": 0})
        return _parse(doc) if doc else None

    @translate_errors
    def find_outline(self, key: int, now: dt.datetime) -> str | None:
        """Return the outline of a page that has not expired, as JSON; None: there is none."""
        doc = self._pages.find_one({"_id": key, "expires": {"$gt": now}}, {"outline": 1})
        return doc.get("outline") if doc else None

    @translate_errors
    def store_page(self, page: StoredPage, expires: dt.datetime) -> None:
        """Store a page and its result, if there is one; a page without expires as well."""
        doc: Doc = {"address": page.address, "expires": expires}
        if page.result is not None:
            found = page.result
            doc["result"] = {
                "title": found.title,
                "lists": [one.to_json() for one in found.lists],
                "error": found.error,
            }
            if found.outline is not None:
                doc["outline"] = json.dumps(found.outline, ensure_ascii=False)
        self._pages.replace_one({"_id": Int64(page.key)}, doc, upsert=True)


def _parse(doc: Doc) -> StoredPage:
    found, result = doc.get("result"), None
    if found is not None:
        result = FoundLists(found["title"], tuple(map(PageList.from_json, found["lists"])), found["error"])
    return StoredPage(int(doc["_id"]), doc["address"], result)
