"""A controller without pages and waiters sleeps until one of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from app.config import Settings
from controller.browsers import Browsers, Stream
from controller.results import AwaitedResults


class _Silent:
    """A Redis whose jobs don't end: each reply is one unfinished job without results."""

    def pipeline(self, **_: Any) -> _Silent:
        return self

    async def __aenter__(self) -> _Silent:
        return self

    async def __aexit__(self, *_: Any) -> None:
        """Nothing to release."""

    def hmget(self, *_: Any) -> None:
        """A command of the pipeline."""

    def xrange(self, *_: Any, **__: Any) -> None:
        """A command of the pipeline."""

    async def execute(self) -> list[Any]:
        return [(b"started", b"1"), []]


def _browsers(occupied: bool) -> Coroutine[Any, Any, None]:
    browsers = Browsers(None, Settings())
    if occupied:
        browsers.add_stream(Stream(browsers))
    return browsers.run()


def _results(occupied: bool) -> Coroutine[Any, Any, None]:
    results = AwaitedResults(_Silent())
    if occupied:
        results.request_results([("job", 1)], lambda _: None)
    return results.run()


@pytest.mark.parametrize("occupied", [False, True])
@pytest.mark.parametrize("build", [_browsers, _results])
def test_part_has_a_timer_only_for_someone(
    build: Callable[[bool], Coroutine[Any, Any, None]], occupied: bool
) -> None:
    async def run() -> bool:
        task = asyncio.create_task(build(occupied))
        for _ in range(20):  # far more turns of the loop than it needs
            await asyncio.sleep(0)
        assert not task.done()
        timers: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        found = any(not timer.cancelled() for timer in timers)
        task.cancel()
        await asyncio.wait({task})
        return found

    assert asyncio.run(run()) is occupied
