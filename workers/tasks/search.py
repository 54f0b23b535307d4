"""The task that updates the search index; its service does the work."""

from __future__ import annotations

from app import clock
from app.models.jobs.jobs import Queue, Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.OLD_INDEX, mode="solo")
def index_later(ctx: Context) -> dict[str, int]:
    """Do nothing: the updater queues the job again, for the worker that may write the index."""
    return {"feeds": 0, "entries": 0}


# Solo, on a queue of its own: one resident worker keeps the index open for writing.
@register_task(Task.INDEX, mode="solo", timeout=90)
def index(ctx: Context) -> dict[str, int]:
    """Index new and changed entries, at most one commit every few seconds."""
    if ctx.settings.search != "local":
        # A crashed job came here. The updater queues it again for the server with the index.
        return {"feeds": 0, "entries": 0}
    indexing = ctx.services.indexing
    ctx.stopping.wait(indexing.get_wait())
    if ctx.stopping.is_set():
        return {"feeds": 0, "entries": 0}
    try:
        return indexing.run(clock.now(), seconds=30.0, is_stopping=ctx.stopping.is_set)
    finally:
        if ctx.job.queue == Queue.SUSPECTS:
            indexing.close()  # this worker has the job once; the index's own worker needs the lock
