"""Browsers that listen: each keeps its stream of events as the page's script does, whatever is killed.

An ear that is told of something asks for its counts, and only then: so its counts are those of a reload
if, and only if, it has missed nothing.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import random
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from app.models.accounts.actor import Actor
from tests.faults.browser import Browser

T = TypeVar("T")

#: What an ear waits before it opens its stream again, seconds.
_PAUSE = (0.1, 1.0)
_AWAY = (OSError, asyncio.IncompleteReadError)


class Ear:
    """One browser's stream.

    Attributes:
        told: new entries by feed, as the events' own numbers add up.
        counts: what it shows; None before its first answer.
        opened, resets: how often its stream began, and how often it was told to ask for everything.
        listens: whether its stream is open.
    """

    def __init__(self, actor: Actor, browser: Browser, seed: int) -> None:
        self.actor, self._browser = actor, browser
        self._rng = random.Random(seed)
        self.told: collections.Counter[int] = collections.Counter()
        self.counts: Any = None
        self.opened = self.resets = 0
        self.listens = False
        self._after = ""
        self._bunch: list[tuple[str, Any]] = []
        self._stale = asyncio.Event()

    async def listen(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        """Open the stream again and again, for ever; ``call`` runs what blocks."""
        while True:
            with contextlib.suppress(*_AWAY):
                await self._stream(call)
            self._bunch.clear()  # what came without its id comes again
            await self._pause()

    async def look(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        """Ask for the counts whenever they have changed, for ever."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            found = await call(self._browser.json, "/api/counts")
            if found is None:
                self._stale.set()
                await self._pause()
            else:
                self.counts = found

    async def _stream(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        found = await call(self._browser.json, "/api/live", {})
        if found is None:
            return
        url = found["url"] + (f"&after={quote(self._after)}" if self._after else "")
        reader, writer = await asyncio.open_connection("127.0.0.1", self._browser.port)
        try:
            # Both ways to say where it was: the script's, and the browser's own.
            last = f"Last-Event-ID: {self._after}\r\n" if self._after else ""
            writer.write(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\n{last}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if head.split(b" ", 2)[1] != b"200":
                return
            self.opened += 1
            self.listens = True
            if not self._after:
                self._stale.set()
            while True:
                self._take((await reader.readuntil(b"\n\n")).decode())
        finally:
            self.listens = False
            writer.close()

    async def _pause(self) -> None:
        """Wait as a browser does before it asks again."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), self._rng.uniform(*_PAUSE))

    def _take(self, message: str) -> None:
        """Take one message; those of a bunch count when its last one has come, which has the id."""
        fields = dict(line.split(": ", 1) for line in message.splitlines() if ": " in line)
        if "event" not in fields:
            return
        self._bunch.append((fields["event"], json.loads(fields["data"])))
        if "id" not in fields:
            return
        for kind, data in self._bunch:
            self.resets += kind == "reset"
            if kind == "new":
                self.told.update({int(feed): count for feed, count in data["feeds"].items()})
            if kind != "beat":
                self._stale.set()
        self._bunch.clear()
        self._after = fields["id"]


class Crowd:
    """Ears, and the one thread in which all of them listen."""

    def __init__(self, ears: Sequence[Ear]) -> None:
        self.ears = ears
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(4) as threads:

            async def call(work: Callable[..., T], *args: Any) -> T:
                return await self._loop.run_in_executor(threads, work, *args)

            async def all_ears() -> None:
                parts = [part for ear in self.ears for part in (ear.listen(call), ear.look(call))]
                await asyncio.gather(*parts)

            self._task = self._loop.create_task(all_ears())
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        self._loop.close()
