"""One identity map per job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from app.runtime import identity_map
from app.runtime.identity_map import IdentityMap
from workers.context import Context
from workers.job import ClaimedJob

#: Seconds after which a job's map is emptied: a plain function may run for minutes while others write.
MAX_AGE = 1.0


async def read_once(
    job: ClaimedJob, ctx: Context, call: Callable[[ClaimedJob, Context], Awaitable[Any]]
) -> Any:
    """Run the job with an identity map that is emptied after each wait, and after :data:`MAX_AGE`."""
    with identity_map.open_scope(MAX_AGE) as scope:
        return await _EmptiedAfterWaits(call(job, ctx), scope)


class _EmptiedAfterWaits(Awaitable[Any]):
    """Awaits a job, and empties its map each time the job continues after waiting."""

    def __init__(self, running: Awaitable[Any], scope: IdentityMap) -> None:
        self._running, self._scope = running, scope

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._running.__await__()
        error: BaseException | None = None
        try:
            awaited = next(steps)
            while True:
                value = error = None
                try:
                    value = yield awaited
                except GeneratorExit:
                    raise
                except BaseException as e:  # noqa: BLE001 — a cancellation, too, is for the job
                    error = e
                self._scope.drop_all()
                awaited = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as ended:
            return ended.value
        finally:
            steps.close()
            error = None  # its traceback refers to this frame
