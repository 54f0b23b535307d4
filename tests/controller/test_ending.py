"""Tasks end, even where something on the way takes a cancellation for its own."""

from __future__ import annotations

import asyncio

from controller.cancel import cancel_tasks


def test_a_task_that_swallows_cancellations_ends_all_the_same() -> None:
    swallowed = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if len(swallowed) == 2:
                    raise
                swallowed.append("cancelled")

    async def run() -> bool:
        task, fine = asyncio.create_task(stubborn()), asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        await cancel_tasks([task, fine])
        return task.cancelled() and fine.cancelled()

    assert asyncio.run(run())
    assert len(swallowed) == 2


def test_who_is_cancelled_while_it_ends_others_is_told_when_they_have_ended() -> None:
    async def run() -> tuple[bool, bool]:
        again, ended = asyncio.Event(), asyncio.Event()

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                again.set()
            await ended.wait()

        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        ending = asyncio.create_task(cancel_tasks([task]))
        await again.wait()
        ending.cancel()
        await asyncio.wait({ending})
        return ending.cancelled(), task.done()

    assert asyncio.run(run()) == (True, True)
