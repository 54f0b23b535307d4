"""Tasks that test the engine itself: `eventr doctor` runs one, the tests run all of them."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import mmap
import os
import signal
import time
from typing import Any

import redis

from app.errors import FeedError, InvalidError
from app.models.jobs.jobs import Task
from app.runtime import redis_connections as connections
from workers.context import Context
from workers.registry import register_task

#: list · the effects of EFFECT, for tests that look from outside · none.
EFFECTS = "selftest:effects"
_PAGE = 1 << 20


@functools.cache
def _redis(url: str) -> redis.Redis:
    return connections.connect(url)


@register_task(Task.ECHO)
async def echo_arguments(ctx: Context, **values: Any) -> dict[str, Any]:
    """Return the arguments."""
    ctx.report_progress(step="echo")
    return values


@register_task(Task.SLEEP, timeout=30)
async def sleep_seconds(ctx: Context, *, seconds: float, key: int = 0) -> dict[str, float]:
    """Wait without work; ``key`` distinguishes jobs that are otherwise identical."""
    ctx.report_progress(step="asleep")
    await asyncio.sleep(seconds)
    return {"slept": seconds}


@register_task(Task.NAP, timeout=0.2)
async def sleep_past_timeout(ctx: Context, *, seconds: float) -> None:
    """Sleep under a short time limit."""
    await asyncio.sleep(seconds)


@register_task(Task.EFFECT, split="keys")
async def record_effects(
    ctx: Context, *, keys: list[int], seconds: float = 0.0, poison: int | None = None
) -> int:
    """Append ``key token`` to the Redis list :data:`EFFECTS`; the poisonous key crashes the worker."""
    await asyncio.sleep(seconds)
    for key in keys:
        if key == poison:
            os.kill(os.getpid(), signal.SIGKILL)
        _redis(ctx.settings.redis_url).rpush(EFFECTS, f"{key} {ctx.job.token}")
    return len(keys)


@register_task(Task.CRASH)
async def crash_worker(ctx: Context, *, how: str, key: int = 0) -> None:
    """Fail in a named way."""
    ctx.report_progress(step=how)
    if how not in _WAYS:
        raise InvalidError("This kind of crash doesn't exist.", how=how)
    _WAYS[how]()


def _raise() -> None:
    raise RuntimeError("canary: the text of an error is not kept")


def _feed() -> None:
    raise FeedError("not_a_feed")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault() -> None:
    ctypes.string_at(0)


def _stall() -> None:
    time.sleep(3600)


def _hog() -> None:
    # Shared pages count as resident but escape RLIMIT_DATA: only the manager's RSS check stops this.
    held = []
    while True:
        pages = mmap.mmap(-1, 8 * _PAGE)
        pages.write(b"x" * len(pages))
        held.append(pages)
        time.sleep(0.02)


def _grab() -> None:
    # At once, faster than the manager looks: only the kernel's RLIMIT_DATA stops this.
    bytearray(1 << 32)


_WAYS = {
    "raise": _raise,
    "feed": _feed,
    "kill": _kill,
    "segfault": _segfault,
    "stall": _stall,
    "hog": _hog,
    "grab": _grab,
}
