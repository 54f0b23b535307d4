"""Who may do what, and how often."""

from __future__ import annotations

from typing import Protocol

from app.errors import ForbiddenError, RateLimitedError
from app.models.accounts.actor import Actor, Permission


def require_permission(actor: Actor, permission: Permission) -> None:
    """Let the call go on.

    Raises:
        ForbiddenError: the actor's role does not hold the permission.
    """
    if not actor.has_permission(permission):
        raise ForbiddenError(user_id=actor.user_id, permission=permission.value)


class Limiter(Protocol):
    """Counts tries over a window of seconds; made in :mod:`app.adapters.redis.rate_limit`."""

    def count_try(self, key: str, limit: int, window: int) -> int:
        """Count a try; return 0 when it may go on, else the seconds to wait. A refused try is not counted."""

    def reset(self, key: str) -> None:
        """Forget the tries, after a success."""

    def refund(self, key: str, limit: int) -> None:
        """Take one try back, after a success that says nothing about the other tries."""

    def count_left(self, key: str, limit: int, window: int) -> tuple[int, int]:
        """Return how many tries are left, and in how many seconds all are there again; counts nothing."""


def throttle(limiter: Limiter, key: str, *, limit: int, window: int) -> None:
    """Let a try go on or not.

    Raises:
        RateLimitedError: too many; the sentence says when to come back.
    """
    seconds = limiter.count_try(key, limit, window)
    if seconds:
        if seconds < 90:
            raise RateLimitedError(
                "Too many attempts. Try again in %(retry_after)s seconds.", retry_after=seconds
            )
        minutes = -(-seconds // 60)
        raise RateLimitedError(
            "Too many attempts. Try again in %(minutes)s minutes.", retry_after=seconds, minutes=minutes
        )
