"""The task that deletes an account: a thin door to its service."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task

#: A run that takes longer (tens of thousands of feeds) is ended, and the next one goes on; seconds.
LONGEST = 900.0


# Solo: the store is asked all the time, and in a loop worker it would hold pulls up.
@register_task(Task.ERASE, mode="solo", timeout=LONGEST)
def erase(ctx: Context, *, user_id: int) -> dict[str, str]:
    """Delete an account that goes, with all that is in it."""
    return ctx.services.erasure.run(user_id)
