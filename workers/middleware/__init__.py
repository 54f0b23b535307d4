"""Middleware around each task, one module per concern: log context, splitting of batches, identity map,
time limit.

Each is a function ``(job, ctx, call_next) -> value``; the first of :data:`CHAIN` is the outermost. The
meaning of an attempt's end (retry or not) is decided only in :mod:`workers.outcome`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from workers.context import Context
from workers.job import ClaimedJob
from workers.middleware.log import log
from workers.middleware.read_once import read_once
from workers.middleware.split import split
from workers.middleware.timeout import limit_time

Call = Callable[[ClaimedJob, Context], Awaitable[Any]]
Middleware = Callable[[ClaimedJob, Context, Call], Awaitable[Any]]

CHAIN: tuple[Middleware, ...] = (log, split, read_once, limit_time)


def compose(call: Call) -> Call:
    """Return ``call`` with all of :data:`CHAIN` around it."""
    for middleware in reversed(CHAIN):
        call = partial(_around, middleware, call)
    return call


async def _around(middleware: Middleware, call: Call, job: ClaimedJob, ctx: Context) -> Any:
    return await middleware(job, ctx, call)
