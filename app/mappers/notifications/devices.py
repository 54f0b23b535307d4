"""Devices that are told of things: the collection ``devices``; and our key: one document of ``systemkeys``.

    {_id, user_id, session, endpoint, p256dh, auth, agent, language, created, used?, failures?}

``session`` is the key of a session: with it ends what it asked for (see
:mod:`app.mappers.accounts.sessions`).
"""

from __future__ import annotations

import datetime as dt

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import DESCENDING
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ConflictError
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.notifications.push import Device

#: Tries of an upsert, whose document or id another one may take at the same moment.
ROUNDS = 8
_VAPID = "vapid"


class DeviceMapper:
    """Document ↔ :class:`Device`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._devices: Collection[Doc] = database["devices"]
        self._keys: Collection[Doc] = database["systemkeys"]

    # -- our key
    @translate_errors
    def find_key(self) -> bytes | None:
        """Return the private key by which push services know us; None: there is none yet."""
        doc = self._keys.find_one({"_id": _VAPID})
        return bytes(doc["key"]) if doc else None

    @translate_errors
    def add_key(self, key: bytes, now: dt.datetime) -> bytes:
        """Store a key unless there is one; return the one that is there, the same for all who ask."""
        try:
            self._keys.insert_one({"_id": _VAPID, "key": Binary(key), "made": now})
        except DuplicateKeyError:
            return self.find_key() or key
        return key

    # -- devices
    @translate_errors
    def put(self, device: Device) -> Device:
        """Store a device; its id is chosen here.

        An endpoint belongs to whom it was registered for last, and a session has one.
        """
        self._devices.delete_many({"session": Binary(device.session), "endpoint": {"$ne": device.endpoint}})
        # Not changed but made anew: messages on their way to another person's device end with it.
        self._devices.delete_many({"endpoint": device.endpoint, "user_id": {"$ne": device.user_id}})
        change: Doc = {
            "session": Binary(device.session),
            "p256dh": Binary(device.p256dh),
            "auth": Binary(device.auth),
            "agent": device.agent,
            "language": device.language,
            "created": device.created,
        }
        key = {"endpoint": device.endpoint, "user_id": Int64(device.user_id)}
        for _ in range(ROUNDS):
            update = {
                "$set": change,
                "$unset": {"used": "", "failures": ""},
                "$setOnInsert": {"_id": Int64(ids.reserve_ids())},
            }
            try:
                doc = self._devices.find_one_and_update(key, update, upsert=True, return_document=True) or {}
            except DuplicateKeyError:
                # Somebody else at this moment; whoever comes last has it.
                self._devices.delete_many({"endpoint": device.endpoint, "user_id": {"$ne": device.user_id}})
                continue
            return _device(doc)
        raise ConflictError(user_id=device.user_id)

    @translate_errors
    def find(self, device_id: int) -> Device | None:
        """Return a device by id."""
        doc = self._devices.find_one({"_id": device_id})
        return _device(doc) if doc else None

    @translate_errors
    def find_by_user(self, user_id: int) -> list[Device]:
        """Return somebody's devices, the newest first."""
        found = self._devices.find({"user_id": user_id}).sort("created", DESCENDING)
        return [_device(d) for d in found]

    @translate_errors
    def has_devices(self, user_id: int) -> bool:
        """Return whether somebody has a device."""
        return self._devices.find_one({"user_id": user_id}, {"_id": 1}) is not None

    @translate_errors
    def remove(self, device_id: int, user_id: int, session: bytes | None = None) -> bool:
        """Delete somebody's device; False: he has none of this id.

        Args:
            session: only as long as it is that session's: it may be registered anew at this moment.
        """
        query: Doc = {"_id": device_id, "user_id": user_id}
        if session is not None:
            query["session"] = Binary(session)
        return bool(self._devices.delete_one(query).deleted_count)

    @translate_errors
    def mark_used(self, device_id: int, now: dt.datetime) -> None:
        """Note that a message was taken."""
        change = {"$set": {"used": now}, "$unset": {"failures": ""}}
        self._devices.update_one({"_id": device_id}, change)

    @translate_errors
    def count_failure(self, device_id: int, limit: int) -> bool:
        """Count a failure; return whether that was one too many, and the device is deleted."""
        self._devices.update_one({"_id": device_id}, {"$inc": {"failures": 1}})
        return bool(self._devices.delete_one({"_id": device_id, "failures": {"$gte": limit}}).deleted_count)


def _device(doc: Doc) -> Device:
    return Device(
        id=doc["_id"],
        user_id=doc["user_id"],
        session=bytes(doc["session"]),
        endpoint=doc["endpoint"],
        p256dh=bytes(doc["p256dh"]),
        auth=bytes(doc["auth"]),
        created=doc["created"],
        agent=doc["agent"],
        language=doc["language"],
        used=doc.get("used"),
        failures=doc.get("failures", 0),
    )
