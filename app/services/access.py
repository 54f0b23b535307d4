"""Permissions and rate limits of use cases."""

from __future__ import annotations

from typing import Protocol

from app.errors import ForbiddenError, RateLimitedError
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Attempt


def require_permission(actor: Actor, permission: Permission) -> None:
    """Check that the actor's role holds a permission.

    Raises:
        ForbiddenError: the role doesn't hold the permission.
    """
    if not actor.has_permission(permission):
        raise ForbiddenError(user_id=actor.user_id, permission=permission.value)


def require_sending(actor: Actor) -> None:
    """Check that an actor may let entries out of Eventr, as shares do. They learn what is in them.

    Raises:
        ForbiddenError: the role doesn't hold both permissions.
    """
    require_permission(actor, Permission.SHARE_EDIT)
    require_permission(actor, Permission.ENTRY_READ)


class Limiter(Protocol):
    """Counts attempts within a window of seconds; implemented in :mod:`app.adapters.redis.rate_limit`."""

    def count_try(self, key: str, limit: int, window: int) -> int:
        """Count an attempt; return 0 or, if it's refused and not counted, the seconds to wait."""

    def reset(self, key: str) -> None:
        """Reset the count, after a success."""

    def refund(self, key: str, limit: int) -> None:
        """Uncount one attempt, after a success that says nothing about other attempts."""

    def count_request(self, key: str, limit: int, window: int) -> Attempt:
        """Count an attempt as :meth:`count_try` does; also return how many are left."""


def throttle(limiter: Limiter, key: str, *, limit: int, window: int) -> None:
    """Count an attempt, or refuse it if there were too many.

    Raises:
        RateLimitedError: too many attempts; the message says when to try again.
    """
    refuse_after(limiter.count_try(key, limit, window))


def refuse_after(seconds: int) -> None:
    """Refuse an attempt if it must wait for this number of seconds.

    Raises:
        RateLimitedError: it must wait; the message says when to try again.
    """
    if seconds:
        if seconds < 90:
            raise RateLimitedError(
                "Too many attempts. Try again in %(retry_after)s seconds.", retry_after=seconds
            )
        minutes = -(-seconds // 60)
        raise RateLimitedError(
            "Too many attempts. Try again in %(minutes)s minutes.", retry_after=seconds, minutes=minutes
        )
