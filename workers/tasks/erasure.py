"""The task that deletes an account; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task

#: Seconds; a longer run (tens of thousands of feeds) is ended, and the next one continues.
LONGEST = 900.0


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.ERASE, mode="solo", timeout=LONGEST)
def erase(ctx: Context, *, user_id: int) -> dict[str, str]:
    """Delete a closed account with all its data."""
    return ctx.services.erasure.run(user_id)
