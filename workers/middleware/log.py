"""Adds job and task to every log line of a task, and logs its failure."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from app import logs
from app.errors import EventrError
from workers.context import Context
from workers.job import ClaimedJob

_log = logs.get(__name__)


async def log(job: ClaimedJob, ctx: Context, call: Callable[[ClaimedJob, Context], Awaitable[Any]]) -> Any:
    """Run with log fields bound; log expected errors in one line, others with traceback."""
    began = time.monotonic()
    with logs.bind(job_id=job.id, task=job.task, attempt=job.attempt):
        try:
            value = await call(job, ctx)
        except EventrError as e:
            _log.warning("job_failed", error=e.word, ms=_ms(began), **e.logged_ids)
            raise
        except Exception:
            _log.error("job_failed", exc_info=True, error="unexpected", ms=_ms(began))
            raise
        _log.debug("job_done", ms=_ms(began))
        return value


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
