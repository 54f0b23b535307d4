"""Web push devices: the collection ``devices``; and our VAPID key: one document in ``systemkeys``.

    {_id, user_id, session, endpoint, p256dh, auth, agent, language, created, used?, failures?}

``session`` is the key of a session: the device is deleted when the session ends (see
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

#: Attempts of an upsert that may conflict with a concurrent one.
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
        """Return our private VAPID key; None: there is none yet."""
        doc = self._keys.find_one({"_id": _VAPID})
        return bytes(doc["key"]) if doc else None

    @translate_errors
    def add_key(self, key: bytes, now: dt.datetime) -> bytes:
        """Store a key unless there is one; return the stored key, the same for all processes."""
        try:
            self._keys.insert_one({"_id": _VAPID, "key": Binary(key), "made": now})
        except DuplicateKeyError:
            return self.find_key() or key
        return key

    # -- devices
    @translate_errors
    def put(self, device: Device) -> Device:
        """Store a device; its id is assigned here.

        An endpoint belongs to the user who registered it last, and a session has one endpoint.
        """
        self._devices.delete_many({"session": Binary(device.session), "endpoint": {"$ne": device.endpoint}})
        # Deleted instead of changed, so that queued messages to another user's device aren't sent.
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
                # Another user at the same moment; the last one gets the endpoint.
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
        """Return a user's devices, newest first."""
        found = self._devices.find({"user_id": user_id}).sort("created", DESCENDING)
        return [_device(d) for d in found]

    @translate_errors
    def has_devices(self, user_id: int) -> bool:
        """Return whether a user has any device."""
        return self._devices.find_one({"user_id": user_id}, {"_id": 1}) is not None

    @translate_errors
    def remove(self, device_id: int, user_id: int, session: bytes | None = None) -> bool:
        """Delete a user's device; return False if the user has no such device.

        Args:
            session: only if the device still belongs to this session, since it may just be registered again.
        """
        query: Doc = {"_id": device_id, "user_id": user_id}
        if session is not None:
            query["session"] = Binary(session)
        return bool(self._devices.delete_one(query).deleted_count)

    @translate_errors
    def mark_used(self, device_id: int, now: dt.datetime) -> None:
        """Record that the push service accepted a message."""
        change = {"$set": {"used": now}, "$unset": {"failures": ""}}
        self._devices.update_one({"_id": device_id}, change)

    @translate_errors
    def count_failure(self, device_id: int, limit: int) -> bool:
        """Count a failure; return whether that reached the limit, so that the device was deleted."""
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
