"""What the tests of stored pictures and files share: contents, and checks of R06."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator

from app.bootstrap.services import Services
from app.gateways.media import cleaning
from app.gateways.media.cleaning import SHARDS
from app.mappers.mongo.store import Session
from app.models.media.blob import ORIGINAL, BlobKind, Content, Purpose, build_key, split_key
from app.models.media.user_file import UserFile

PICTURE_NAMES = ("w640", "w1280")


def make_content(number: int, names: Collection[str] = PICTURE_NAMES) -> Content:
    """Return content of its own; the same number gives the same content."""
    original = b"content %d" % number
    kind = BlobKind.FILE if ORIGINAL in names else BlobKind.PICTURE
    return Content(
        # The shard is known, so that a test needs to look at few of them.
        id=bytes([number % SHARDS]) + hashlib.sha256(original).digest()[1:],
        kind=kind,
        size=len(original),
        type="image/png",
        files={name: original + name.encode() for name in names},
        width=640 if kind is BlobKind.PICTURE else None,
        height=480 if kind is BlobKind.PICTURE else None,
    )


def add_file(
    services: Services, user_id: int, content: Content, owners: Collection[str] = (), name: str = "a.png"
) -> UserFile:
    """Store content, and a user's file of it."""
    gateways = services.gateways

    def record(session: Session, blob_id: bytes) -> UserFile:
        purpose = Purpose.ATTACHMENT if content.kind is BlobKind.FILE else Purpose.PICTURE
        return gateways.files.add(
            session, user_id, blob_id, name, content.size, purpose=purpose, owners=owners
        )

    return gateways.blobs.keep(content, record)


def list_keys(services: Services) -> set[str]:
    """Return the keys of all files in all stores."""
    return {
        file.key
        for store in services.media_stores.stores
        for shard in range(cleaning.SHARDS)
        for file in store.list_files(f"{shard:02x}")
    }


def find_faults(services: Services) -> Iterator[str]:
    """Yield what contradicts R06 at any moment: wrong counts, and documents without files."""
    db = services.store.database
    named = Counter(bytes(doc["blob"]) for doc in db.files.find({}, {"blob": 1}))
    named.update(bytes(doc["blob"]) for doc in db.sources.find({"state": "ready"}, {"blob": 1}))
    rows = {bytes(doc["_id"]): doc for doc in db.blobs.find()}
    keys = list_keys(services)
    for blob_id, doc in rows.items():
        if max(0, doc["n"]) != named[blob_id]:
            yield f"{blob_id.hex()[:6]}: n is {doc['n']}, but {named[blob_id]} name it"
        if doc["n"] >= 0:
            missing = {build_key(blob_id, doc["g"], name) for name in doc["names"]} - keys
            yield from (f"{blob_id.hex()[:6]}: no file {key}" for key in sorted(missing))
    yield from (f"{blob_id.hex()[:6]}: named, but unknown" for blob_id in named if blob_id not in rows)


def find_strays(services: Services) -> set[str]:
    """Return the keys of files that no document names."""
    rows = {bytes(d["_id"]): {d["g"], *d.get("old", ())} for d in services.store.database.blobs.find()}
    strays = set()
    for key in list_keys(services):
        part = split_key(key)
        if part is None or part[1] not in rows.get(part[0], ()):
            strays.add(key)
    return strays
