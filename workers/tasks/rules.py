"""The tasks that try rules on new entries of all users, and on past entries of one; services do the work."""

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


@register_task(Task.RULE_RUN, mode="solo", timeout=300)
def run_rule(ctx: Context, *, user_id: int, run_id: str) -> dict[str, int]:
    """Try a rule on a user's past entries, or undo that."""
    return ctx.services.rule_runs.continue_run(
        user_id, run_id, seconds=240.0, is_stopping=ctx.stopping.is_set
    )
