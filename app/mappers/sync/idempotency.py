"""Answers to API requests that may be repeated: the collection ``idempotency``.

    {_id, user_id, key, digest, turn, owner?, until, expires, status?, headers?, body?}

Without ``status`` the first request is still running, and its process moves ``until`` on. After ``until`` it
counts as dead.
"""

from __future__ import annotations

import datetime as dt

from bson.binary import Binary
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.sync.idempotency import Answer, IdempotencyRecord


class IdempotencyMapper:
    """Document ↔ :class:`IdempotencyRecord`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._kept = cells.get_table("idempotency")

    @translate_errors
    def begin(
        self,
        user_id: int,
        key: str,
        record: IdempotencyRecord,
        *,
        now: dt.datetime,
        until: dt.datetime,
        expires: dt.datetime,
    ) -> bool:
        """Claim a key for a request; return False if another request has it."""
        fresh = _build_claim(record, until, expires)
        try:
            # MongoDB removes expired documents up to a minute late; a dead run leaves no answer.
            over = [{"expires": {"$lte": now}}, {"status": {"$exists": False}, "until": {"$lte": now}}]
            self._kept.get(user_id).update_one(
                {"user_id": user_id, "key": key, "$or": over},
                {"$set": fresh, "$unset": {"status": "", "headers": "", "body": ""}},
                upsert=True,
            )
        except DuplicateKeyError:
            return False
        return True

    @translate_errors
    def take_over(
        self,
        user_id: int,
        key: str,
        dead_run_id: str,
        record: IdempotencyRecord,
        *,
        until: dt.datetime,
        expires: dt.datetime,
    ) -> bool:
        """Claim the key of a run whose process has ended; return False if another request was first."""
        return bool(
            self._kept.get(user_id)
            .update_one(
                {"user_id": user_id, "key": key, "turn": dead_run_id, "status": {"$exists": False}},
                {"$set": _build_claim(record, until, expires)},
            )
            .matched_count
        )

    @translate_errors
    def renew(self, user_id: int, key: str, run_id: str, until: dt.datetime) -> None:
        """Move the time on after which a run counts as dead."""
        self._kept.get(user_id).update_one(
            {"user_id": user_id, "key": key, "turn": run_id, "status": {"$exists": False}},
            {"$set": {"until": until}},
        )

    @translate_errors
    def find(self, user_id: int, key: str) -> IdempotencyRecord | None:
        """Return the record of a key, or None."""
        doc = self._kept.get(user_id).find_one({"user_id": user_id, "key": key})
        return _kept(doc) if doc else None

    @translate_errors
    def end(self, user_id: int, key: str, run_id: str, answer: Answer) -> None:
        """Store the answer of a run, unless another run has replaced it."""
        found = {
            "status": answer.status,
            "headers": [list(header) for header in answer.headers],
            "body": Binary(answer.body),
        }
        self._kept.get(user_id).update_one({"user_id": user_id, "key": key, "turn": run_id}, {"$set": found})

    @translate_errors
    def release(self, user_id: int, key: str, run_id: str) -> None:
        """Release the key of a run without an answer, so that the same request can run again."""
        self._kept.get(user_id).delete_one({"user_id": user_id, "key": key, "turn": run_id})


def _build_claim(record: IdempotencyRecord, until: dt.datetime, expires: dt.datetime) -> Doc:
    return {
        "digest": Binary(record.digest),
        "turn": record.run_id,
        "owner": record.owner,
        "until": until,
        "expires": expires,
    }


def _kept(doc: Doc) -> IdempotencyRecord:
    answer = None
    if "status" in doc:
        headers = tuple((name, value) for name, value in doc["headers"])
        answer = Answer(doc["status"], headers, bytes(doc["body"]))
    return IdempotencyRecord(bytes(doc["digest"]), doc["turn"], answer, doc.get("owner", ""))
