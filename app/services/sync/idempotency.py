"""Idempotency keys: a repeated API request runs once (draft-ietf-httpapi-idempotency-key-header)."""

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
    """Runs a request once per key of a user, and replays the first answer."""

    def __init__(self, idempotency: IdempotencyGateway) -> None:
        self._kept = idempotency

    def run_once(
        self, actor: Actor, key: str, digest: bytes, operation: Callable[[], Answer]
    ) -> tuple[Answer, bool]:
        """Run ``operation`` and return its answer and False, or the earlier answer to this key and True.

        Answers that failed through no fault of the request (5xx, 429) are not stored.

        Args:
            digest: digest of the whole request.

        Raises:
            InvalidError: the key is too long, or not of printable characters.
            KeyReusedError: the key was used for another request.
            KeyBusyError: the first request with this key is still running.
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
