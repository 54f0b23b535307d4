"""Tasks that find the article on the page of an entry: pages of strangers, which may take long to read."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: an odd page takes seconds of CPU time. A crash or a time-out ends this process, and counts for it.
@register_task(Task.FULL_TEXT, mode="solo", timeout=40)
async def fetch_full_text(
    ctx: Context, *, feed_id: int, entry_id: int, ahead: bool = False
) -> dict[str, object]:
    """Fetch the page of an entry and store its article; ``ahead``: nobody waits for it."""
    texts = ctx.services.full_texts
    counts = {"attempts": ctx.job.harm, "waits": ctx.job.failures}
    return dict(await texts.fetch(feed_id, entry_id, ctx.fetcher, ahead=ahead, **counts))


@register_task(Task.TRY_TEXT, mode="solo", timeout=40)
async def try_text_rule(ctx: Context, *, rule_id: int) -> dict[str, object]:
    """Try a rule for the full texts of a site on the page that an admin has chosen."""
    return dict(await ctx.services.text_rules.run(rule_id, ctx.fetcher))
