"""What was answered to a request that may come again (draft-ietf-httpapi-idempotency-key-header)."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it went out; of its headers those that matter to a program."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A request that came with a key.

    Attributes:
        digest: of the request. answer: None: it still runs, or whoever ran it died.
        turn: names the run.
    """

    digest: bytes
    run_id: str
    answer: Answer | None = None
