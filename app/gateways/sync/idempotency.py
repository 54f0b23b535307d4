"""Idempotency keys of requests: the first request with a key runs, a repeated one gets its answer."""

from __future__ import annotations

import datetime as dt
import secrets

from app.errors import KeyBusyError, KeyReusedError
from app.mappers.sync.idempotency import IdempotencyMapper
from app.models.sync.idempotency import Answer, IdempotencyRecord
from app.runtime import process_identity


class IdempotencyGateway:
    """Starts and ends runs of requests by key.

    Args:
        ttl: how long an answer is kept.
        lease: time without a renewal after which a run counts as dead.
    """

    def __init__(self, records: IdempotencyMapper, *, ttl: dt.timedelta, lease: dt.timedelta) -> None:
        self._kept, self._ttl, self._lease = records, ttl, lease

    def begin(self, user_id: int, key: str, digest: bytes, now: dt.datetime) -> str | Answer:
        """Return the id of a new run, or the answer of the earlier run.

        Raises:
            KeyReusedError: the key was used for another request.
            KeyBusyError: the first request is still running.
        """
        turn = secrets.token_urlsafe(12)
        record = IdempotencyRecord(digest, turn, owner=process_identity.get_own_identity())
        until, expires = now + self._lease, now + self._ttl
        if self._kept.begin(user_id, key, record, now=now, until=until, expires=expires):
            return turn
        was = self._kept.find(user_id, key)
        if (
            was is not None
            and was.answer is None
            and process_identity.has_ended(was.owner)
            and self._kept.take_over(user_id, key, was.run_id, record, until=until, expires=expires)
        ):
            return turn
        if was is not None and was.digest != digest:
            raise KeyReusedError
        if was is None or was.answer is None:
            raise KeyBusyError
        return was.answer

    def renew(self, user_id: int, key: str, run_id: str, now: dt.datetime) -> None:
        """Keep a run alive for another lease."""
        self._kept.renew(user_id, key, run_id, now + self._lease)

    def end(self, user_id: int, key: str, run_id: str, answer: Answer) -> None:
        """Store a run's answer."""
        self._kept.end(user_id, key, run_id, answer)

    def release(self, user_id: int, key: str, run_id: str) -> None:
        """Release a key without an answer, so that the same request can run again."""
        self._kept.release(user_id, key, run_id)
