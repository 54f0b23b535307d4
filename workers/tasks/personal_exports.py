"""The task that collects a user's data into a file; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from app.services.privacy.export import LONGEST
from workers.context import Context
from workers.registry import register_task


# Solo: it compresses and queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.EXPORT, mode="solo", timeout=LONGEST)
def export(ctx: Context, *, user_id: int) -> dict[str, str]:
    """Create the file that a user requested."""
    return ctx.services.personal_exports.run(user_id)
