"""The task that tries the rules of all users on new entries; its service does the work."""

from __future__ import annotations

from app import clock
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: thousands of entries take seconds of CPU time.
@register_task(Task.RULES, mode="solo", timeout=90)
def try_rules(ctx: Context) -> dict[str, int]:
    """Try rules on the entries that have arrived since the last run."""
    return ctx.services.rule_runner.run(clock.now(), seconds=30.0, is_stopping=ctx.stopping.is_set)
