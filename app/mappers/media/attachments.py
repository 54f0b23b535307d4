"""Attachments inside the documents of shares and comments.

    files: [{id, name, size, type, alt?, w?, h?, color?}]

They are copies of what files and blobs say, which never changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson.int64 import Int64

from app.mappers.mongo.store import Doc
from app.models.media.attachment import Attachment


def build_attachments(attachments: Iterable[Attachment]) -> list[Doc]:
    """Return the documents of attachments, in their order."""
    return [_doc(one) for one in attachments]


def parse_attachments(docs: Any) -> tuple[Attachment, ...]:
    """Return the attachments in a field of a document, which may be missing."""
    return tuple(map(_parse, docs or ()))


def _doc(one: Attachment) -> Doc:
    doc: Doc = {"id": Int64(one.file_id), "name": one.name, "size": Int64(one.size), "type": one.type}
    if one.alt:
        doc["alt"] = one.alt
    if one.is_picture:
        doc |= {"w": one.width, "h": one.height, "color": one.color}
    return doc


def _parse(doc: Doc) -> Attachment:
    return Attachment(
        file_id=doc["id"],
        name=doc["name"],
        size=doc["size"],
        type=doc["type"],
        alt=doc.get("alt", ""),
        width=doc.get("w", 0),
        height=doc.get("h", 0),
        color=doc.get("color", ""),
    )
