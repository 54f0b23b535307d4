"""Requests of programs that may come twice run once (draft-ietf-httpapi-idempotency-key-header)."""

from __future__ import annotations

from collections.abc import Callable

from app import clock, logs
from app.errors import InvalidError, RateLimitedError
from app.gateways.sync.idempotency import IdempotencyGateway
from app.models.accounts.actor import Actor
from app.models.sync.idempotency import Answer

log = logs.get(__name__)

KEY = 64


class IdempotencyService:
    """Keeps the first answer to each key of a user."""

    def __init__(self, idempotency: IdempotencyGateway) -> None:
        self._kept = idempotency

    def run_once(
        self, actor: Actor, key: str, digest: bytes, operation: Callable[[], Answer]
    ) -> tuple[Answer, bool]:
        """Run ``work`` and return its answer, or the one that it gave before and True.

        What came to nothing through no fault of the request (5xx, too often) is not kept.

        Args:
            digest: of the whole request.

        Raises:
            InvalidError: the key is too long, or not of printable characters.
            KeyReusedError: another request came with it.
            KeyBusyError: the first one with it still runs.
        """
        if not (0 < len(key) <= KEY and key.isascii() and key.isprintable()):
            raise InvalidError(
                "An Idempotency-Key must have 1 to %(most)s printable ASCII characters.",
                field="Idempotency-Key",
                most=KEY,
            )
        begun = self._kept.begin(actor.user_id, key, digest, clock.now())
        if isinstance(begun, Answer):
            log.info("request_replayed", user_id=actor.user_id)
            return begun, True
        answer = None
        try:
            answer = operation()
        finally:
            if answer is None or answer.status >= 500 or answer.status == RateLimitedError.http_status:
                self._kept.release(actor.user_id, key, begun)
            else:
                self._kept.end(actor.user_id, key, begun, answer)
        return answer, False
