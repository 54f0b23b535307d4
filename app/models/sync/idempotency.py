"""Idempotency records: stored responses to repeated requests (draft-ietf-httpapi-idempotency-key-header)."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A response as sent; only the headers that matter to programs."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A request that came with an idempotency key.

    Attributes:
        digest: of the request. answer: None: it is still running, or its process died.
        run_id: identifies the run. owner: the process of the run, see :mod:`app.runtime.process_identity`.
    """

    digest: bytes
    run_id: str
    answer: Answer | None = None
    owner: str = ""
