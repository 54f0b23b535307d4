"""Tasks that draw pictures: the only place where pictures of strangers are decoded."""

from __future__ import annotations

from typing import Any

from app import clock
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it uses the CPU all the time. A crash or a time-out ends this process, and counts for this picture.
@register_task(Task.DRAW_AVATAR, mode="solo", timeout=20)
def draw_avatar(ctx: Context, *, user_id: int, body: str, home: str | None = None) -> dict[str, Any]:
    """Draw an uploaded picture as a person's avatar."""
    return ctx.services.avatars.draw(user_id, body, ctx.job.harm, home, ctx.job.compute_age(clock.now()))


@register_task(Task.DRAW_ICON, mode="solo", timeout=20)
def draw_icon(ctx: Context, *, feed_id: int, body: str, home: str | None = None) -> dict[str, Any]:
    """Draw an uploaded picture as a feed's icon."""
    return ctx.services.feed_icons.draw(feed_id, body, ctx.job.harm, home, ctx.job.compute_age(clock.now()))


@register_task(Task.DRAW, mode="solo", timeout=20)
def draw_source(ctx: Context, *, source: str) -> dict[str, Any]:
    """Draw the body of a picture that was fetched."""
    return ctx.services.source_drawing.draw(
        source, token=ctx.job.token, parents=ctx.parents, attempts=ctx.job.harm
    )
