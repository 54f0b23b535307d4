"""Starter packs that an administrator made or changed: the collection ``packs``."""

from __future__ import annotations

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.imports.imports import Pack


class PackMapper:
    """Document ↔ :class:`Pack`; a document without a body hides a pack that came with Eventr."""

    def __init__(self, database: Database[Doc]) -> None:
        self._packs: Collection[Doc] = database["packs"]

    @translate_errors
    def list_packs(self) -> dict[str, Pack | None]:
        """Return slug → pack; None: there is to be none of this name."""
        return {doc["_id"]: _pack(doc) for doc in self._packs.find({"_id": {"$gte": ""}})}

    @translate_errors
    def put(self, pack: Pack) -> None:
        """Store a pack in place of the one of its name."""
        doc = {"title": pack.title, "about": pack.about, "body": pack.body}
        self._packs.replace_one({"_id": pack.slug}, doc, upsert=True)

    @translate_errors
    def hide_pack(self, slug: str) -> None:
        """Let there be no pack of this name."""
        self._packs.replace_one({"_id": slug}, {"body": None}, upsert=True)


def _pack(doc: Doc) -> Pack | None:
    return Pack(doc["_id"], doc["title"], doc["about"], doc["body"]) if doc["body"] is not None else None
