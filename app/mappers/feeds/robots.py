"""The robots.txt of sites whose pages are fetched without anyone waiting: the collection ``robots``.

    {_id: origin, rules, expires}

``rules`` is missing while the site doesn't answer: then nothing is fetched there (RFC 9309 §2.3.1.4).
"""

from __future__ import annotations

import datetime as dt

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc


class RobotsMapper:
    """Document ↔ the text of one robots.txt."""

    def __init__(self, database: Database[Doc]) -> None:
        self._robots: Collection[Doc] = database["robots"]

    @translate_errors
    def find(self, origin: str, now: dt.datetime) -> tuple[bool, str | None]:
        """Return whether a site's rules are known, and the rules; None: nothing may be fetched there."""
        doc = self._robots.find_one({"_id": origin, "expires": {"$gt": now}})
        return (True, doc.get("rules")) if doc else (False, None)

    @translate_errors
    def store_rules(self, origin: str, rules: str | None, expires: dt.datetime) -> None:
        """Store a site's rules until they expire."""
        doc: Doc = {"expires": expires} if rules is None else {"rules": rules, "expires": expires}
        self._robots.replace_one({"_id": origin}, doc, upsert=True)
