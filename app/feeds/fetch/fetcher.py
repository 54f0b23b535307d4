"""The fetcher: one engine and its three drivers (one fetch, an iterator, an asyncio stream)."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import certifi

from app import logs
from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.feeds.fetch.curl_loop import Engine
from app.feeds.fetch.resolver import Lookup, Resolver
from app.feeds.fetch.slot import Connector, Proxy, Setup
from app.feeds.fetch.transfer import Transfer
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose

log = logs.get(__name__)

_PROXY_PORTS = {"http": 8080, "socks5h": 1080}
#: Requests read ahead by :meth:`Fetcher.fetch_many`, so that requests to one host meet in its queue.
_AHEAD = 1000


class Fetcher:
    """Fetches feeds and pages under all rules; the only part of Eventr that connects to foreign hosts (S01).

    Faults of the remote side never raise: they are the ``error`` of the :class:`Fetched`. All calls share
    connections, handles and resolved names. Not thread-safe: use one fetcher per thread, in one event loop
    at a time; use it as a context manager or call :meth:`close`.

    Args:
        resolver: replaces the system's resolver; called in a thread. For tests.
        connector: opens each socket instead of libcurl, after the address check. For tests.
        cafile: certificates to trust instead of certifi's. For tests.

    Raises:
        SettingsError: the allow-list can't be read.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        resolver: Lookup | None = None,
        connector: Connector | None = None,
        cafile: str | None = None,
    ) -> None:
        setup = Setup(
            settings,
            {purpose: Policy(settings, purpose) for purpose in Purpose},
            cafile or certifi.where(),
            settings.user_agent or _user_agent(settings.base_url),
            _proxy(settings.fetch_proxy),
            connector,
        )
        if setup.proxy is not None:
            log.warning("fetch_proxy_filters", proxy=f"{setup.proxy.host}:{setup.proxy.port}")
        self._resolver = Resolver(resolver)
        self._engine = Engine(setup, self._resolver)
        self._pump = _Pump(self._engine)
        self._closed = False

    @property
    def running(self) -> int:
        """The number of fetches that hold a slot right now."""
        return self._engine.running

    def fetch(self, request: FetchRequest) -> Fetched:
        """Fetch one address and wait for it."""
        return next(self.fetch_many([request]))

    def fetch_many(self, requests: Iterable[FetchRequest]) -> Iterator[Fetched]:
        """Fetch many addresses and yield each result as it arrives; closing the iterator cancels the rest."""
        ended: deque[Fetched] = deque()
        source = iter(requests)
        calls: dict[int, Transfer] = {}
        numbers = itertools.count()

        def submit(request: FetchRequest) -> None:
            number = next(numbers)

            def collect_fetched(fetched: Fetched) -> None:
                del calls[number]
                ended.append(fetched)

            calls[number] = self._engine.submit(request, collect_fetched)

        try:
            for request in itertools.islice(source, _AHEAD):
                submit(request)
            while calls or ended:
                if not ended:
                    self._engine.run_once(None)
                    for request in itertools.islice(source, max(0, _AHEAD - len(calls))):
                        submit(request)
                while ended:
                    yield ended.popleft()
        finally:
            for transfer in calls.values():
                self._engine.cancel(transfer)

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        """Fetch many addresses in the running event loop and yield each result as it arrives.

        Concurrent streams share connections, slots and the per-host limit. Ending a stream
        early (canceled task, closed generator) frees its slots at once.
        """
        batch = _Batch(asyncio.get_running_loop())
        self._pump.attach()
        try:
            for request in requests:
                batch.add(self._engine, request)
            self._pump.wake_up()
            while await batch.wait_for_more():
                while batch.ended:
                    yield batch.ended.popleft()
        finally:
            batch.cancel(self._engine)
            self._pump.detach()

    def close(self) -> None:
        """Cancel running fetches and close all connections."""
        if not self._closed:
            self._closed = True
            self._pump.stop()
            self._engine.close()
            self._resolver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Batch:
    """The transfers of one stream, and the results that the caller hasn't read yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ended: deque[Fetched] = deque()
        self._running: dict[int, Transfer] = {}
        self._waiter: asyncio.Future[None] | None = None

    def add(self, engine: Engine, request: FetchRequest) -> None:
        number = len(self._running)
        self._running[number] = engine.submit(request, functools.partial(self._end, number))

    def _end(self, number: int, fetched: Fetched) -> None:
        del self._running[number]
        self.ended.append(fetched)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cancel(self, engine: Engine) -> None:
        for transfer in self._running.values():
            engine.cancel(transfer)
        self._running.clear()

    async def wait_for_more(self) -> bool:
        """Wait until a result arrives; return False when all results were read."""
        if self._running and not self.ended:
            self._waiter = self._loop.create_future()
            await self._waiter
        return bool(self.ended)


class _Pump:
    """Runs an engine inside an asyncio loop: one reader for its descriptor, one timer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def attach(self) -> None:
        """Start driving the engine for one more stream of the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._users, self._loop = 0, loop
            loop.add_reader(self._engine.fd, self._turn)
        self._users += 1

    def detach(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.stop()

    def wake_up(self) -> None:
        """Run the engine soon, because a fetch was submitted."""
        self._plan(0.0)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._engine.fd)
        self._loop = None

    def _turn(self) -> None:
        try:
            self._engine.run_once(0.0)
        finally:
            # Keep deadlines even if a turn fails: without a timer nothing would check them again.
            wait = self._engine.get_timeout()
            if wait is not None and self._loop is not None:
                self._plan(wait)

    def _plan(self, wait: float) -> None:
        assert self._loop is not None  # noqa: S101 — attached
        due = self._loop.time() + wait
        if self._timer is not None:
            # An earlier timer may stay: it runs the engine and plans the next one.
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._turn()


def _user_agent(base_url: str) -> str:
    contact = base_url or "self-hosted feed reader"
    return f"Eventr/{importlib.metadata.version('eventr')} (+{contact})"


def _proxy(url: str) -> Proxy | None:
    if not url:
        return None
    parts = urlsplit(url)
    return Proxy(url, parts.hostname or "", parts.port or _PROXY_PORTS[parts.scheme])
