"""Idempotency keys: a repeated API request runs once (draft-ietf-httpapi-idempotency-key-header)."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable

from app import clock, logs
from app.errors import InvalidError, RateLimitedError
from app.gateways.sync.idempotency import IdempotencyGateway
from app.models.accounts.actor import Actor
from app.models.sync.idempotency import Answer

log = logs.get(__name__)

KEY = 64


class IdempotencyService:
    """Runs a request once per key of a user, and replays the first answer.

    Args:
        renewal: seconds between two renewals of the running requests' leases.
        longest: seconds after which a request's lease isn't renewed anymore.
    """

    def __init__(self, idempotency: IdempotencyGateway, *, renewal: float, longest: float) -> None:
        self._kept = idempotency
        self._leases = _Leases(idempotency, renewal, longest)

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
        self._leases.add(actor.user_id, key, begun)
        try:
            answer = operation()
        finally:
            self._leases.remove(begun)
            if answer is None or answer.status >= 500 or answer.status == RateLimitedError.http_status:
                self._kept.release(actor.user_id, key, begun)
            else:
                self._kept.end(actor.user_id, key, begun, answer)
        return answer, False


class _Leases:
    """The running requests of this process: while there are any, a thread renews their leases."""

    def __init__(self, idempotency: IdempotencyGateway, renewal: float, longest: float) -> None:
        self._kept, self._renewal = idempotency, renewal
        self._longest = dt.timedelta(seconds=longest)
        self._lock = threading.Lock()
        self._running: dict[str, tuple[int, str, dt.datetime]] = {}
        self._pid = 0  # of the process that has the thread: a fork hasn't

    def add(self, user_id: int, key: str, run_id: str) -> None:
        with self._lock:
            self._running[run_id] = (user_id, key, clock.now())
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
        try:
            threading.Thread(target=self._renew_all, name="idempotency", daemon=True).start()
        except (
            RuntimeError
        ):  # too many threads: the lease holds for a while, and the next request tries again
            log.warning("lease_not_renewed", user_id=user_id, error="RuntimeError")
            with self._lock:
                self._pid = 0

    def remove(self, run_id: str) -> None:
        with self._lock:
            self._running.pop(run_id, None)

    def _renew_all(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self._renewal)
            if not self.renew_running():
                return

    def renew_running(self) -> bool:
        """Renew the leases of all running requests; return False, to end the thread, if there are none."""
        now = clock.now()
        with self._lock:
            running = list(self._running.items())
            if not running:
                self._pid = 0
                return False
        for run_id, (user_id, key, since) in running:
            if now - since < self._longest:
                self._renew(user_id, key, run_id, now)
        return True

    def _renew(self, user_id: int, key: str, run_id: str, now: dt.datetime) -> None:
        try:
            self._kept.renew(user_id, key, run_id, now)
        except Exception as error:  # noqa: BLE001 — the thread must go on for the other requests
            log.warning("lease_not_renewed", user_id=user_id, error=type(error).__name__)
