"""The task that makes a file of all that is somebody's own: a thin door to its service."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from app.services.privacy.export import LONGEST
from workers.context import Context
from workers.registry import register_task


# Solo: it packs and asks the store all the time, and in a loop worker it would hold pulls up.
@register_task(Task.EXPORT, mode="solo", timeout=LONGEST)
def export(ctx: Context, *, user_id: int) -> dict[str, str]:
    """Make the file that a user has asked for."""
    return ctx.services.personal_exports.run(user_id)
