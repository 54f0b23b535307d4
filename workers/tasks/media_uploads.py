"""The tasks of uploads: storing, counting, maintenance; their services do the work."""

from __future__ import annotations

from typing import Any

from app import clock
from app.models.jobs.jobs import Task
from app.models.media.drawn import BODY_SECONDS
from workers.context import Context
from workers.registry import register_task


# Solo: it hashes the whole file, and draws pictures.
@register_task(Task.SEAL, mode="solo", timeout=600)
def seal_upload(ctx: Context, *, upload_id: str) -> dict[str, Any]:
    """Store a complete upload as a file."""
    return ctx.services.sealing.seal_upload(upload_id, ctx.job.harm, ctx.job.compute_age(clock.now()))


@register_task(Task.FLUSH_USAGE, mode="solo", timeout=60)
def flush_usage(ctx: Context, *, user_id: int) -> dict[str, int]:
    """Count what a user's open uploads have received."""
    return {"changed": ctx.services.uploads.flush(user_id)}


@register_task(Task.TEND_UPLOADS, mode="solo", timeout=120)
def tend_uploads(ctx: Context) -> dict[str, int]:
    """End expired uploads, delete what they and old imports left, and count storage again."""
    ctx.services.picture_bodies.delete_old(BODY_SECONDS)
    dropped = ctx.services.archives.drop_files(ctx.stopping.is_set)
    return {"archives": dropped, **ctx.services.upload_upkeep.run(60.0, ctx.stopping.is_set)}
