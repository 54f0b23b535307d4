"""The task that closes and opens shares of feeds that are, or were, secret; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.SECRECY, mode="solo", timeout=120)
def update_shares(ctx: Context) -> int:
    """Close or open the shares of feeds that were marked."""
    return ctx.services.secrecy.run(seconds=60.0, is_stopping=ctx.stopping.is_set)
