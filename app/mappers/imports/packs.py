"""Starter packs that administrators created or changed: the collection ``packs``."""

from __future__ import annotations

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.imports.imports import Pack


class PackMapper:
    """Document ↔ :class:`Pack`; a document without a body hides a pack shipped with Eventr."""

    def __init__(self, database: Database[Doc]) -> None:
        self._packs: Collection[Doc] = database["packs"]

    @translate_errors
    def list_packs(self) -> dict[str, Pack | None]:
        """Return slug → pack; None: the pack is hidden."""
        return {doc["_id"]: _pack(doc) for doc in self._packs.find({"_id": {"$gte": ""}})}

    @translate_errors
    def put(self, pack: Pack) -> None:
        """Store a pack, replacing one with the same slug."""
        doc = {"title": pack.title, "about": pack.about, "body": pack.body}
        self._packs.replace_one({"_id": pack.slug}, doc, upsert=True)

    @translate_errors
    def hide_pack(self, slug: str) -> None:
        """Hide the pack with this slug."""
        self._packs.replace_one({"_id": slug}, {"body": None}, upsert=True)


def _pack(doc: Doc) -> Pack | None:
    return Pack(doc["_id"], doc["title"], doc["about"], doc["body"]) if doc["body"] is not None else None
