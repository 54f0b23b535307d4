"""The registry of tasks by name. Nothing outside this table is ever called (J01).

    @register_task(Task.PULL, mode="loop", timeout=60)
    async def pull(ctx: Context, *, feed_ids: list[int]) -> dict[str, int]: ...

A task receives the arguments of its job by keyword and returns a JSON value. It may run twice (a queue can
only promise "at least once"), so its effects must be idempotent.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from app.models.jobs.jobs import Task

#: Modules whose import registers tasks.
MODULES = (
    "workers.tasks.erasure",
    "workers.tasks.feed_words",
    "workers.tasks.feeds",
    "workers.tasks.hub",
    "workers.tasks.imports",
    "workers.tasks.media_uploads",
    "workers.tasks.media_cleaning",
    "workers.tasks.media_mend",
    "workers.tasks.media_drawing",
    "workers.tasks.media_icons",
    "workers.tasks.media_pictures",
    "workers.tasks.moves",
    "workers.tasks.notifications",
    "workers.tasks.orphans",
    "workers.tasks.personal_exports",
    "workers.tasks.push",
    "workers.tasks.retention",
    "workers.tasks.hourly_report",
    "workers.tasks.rules",
    "workers.tasks.search",
    "workers.tasks.secrecy",
    "workers.tasks.selftest",
    "workers.tasks.websub",
    "workers.tasks.full_texts",
    "workers.tasks.sending",
)

Body = Callable[..., Any]
B = TypeVar("B", bound=Body)


@dataclasses.dataclass(frozen=True, slots=True)
class TaskSpec:
    """A registered task.

    Attributes:
        body: ``async def`` runs on the loop; a plain function runs in a thread of a loop worker, or in the
            main thread of a solo worker.
        timeout: Longest run, seconds; None: the setting ``job_timeout``.
        split: The list argument by which to split a batch that crashed its worker.
        is_async, signature: Properties of the body, computed once.
    """

    name: Task
    body: Body
    mode: str
    timeout: float | None
    split: str | None
    is_async: bool
    signature: inspect.Signature


_tasks: dict[str, TaskSpec] = {}


def register_task(
    name: Task, *, mode: str = "loop", timeout: float | None = None, split: str | None = None
) -> Callable[[B], B]:
    """Register the decorated function under a name; see :class:`TaskSpec` for the arguments.

    Raises:
        ValueError: The name is taken, or the mode is neither ``loop`` nor ``solo``.
    """
    if name in _tasks or mode not in ("loop", "solo"):
        raise ValueError(f"cannot register {name} with mode {mode}")

    def add_task(body: B) -> B:
        is_async, signature = inspect.iscoroutinefunction(body), inspect.signature(body)
        _tasks[name] = TaskSpec(name, body, mode, timeout, split, is_async, signature)
        return body

    return add_task


def find_task(name: str) -> TaskSpec | None:
    """Return the task of this name, or None."""
    return _tasks.get(name)


def load_tasks() -> None:
    """Import all modules that register tasks."""
    for module in MODULES:
        importlib.import_module(module)
